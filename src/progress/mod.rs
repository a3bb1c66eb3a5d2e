//! Progress: how far the system under test has ingested a stream, by asking it.
//!
//! [`Poller`] is the one loop for sources of every kind. To add a kind, add its settings to [`settings::SourceSettings`], one
//! file with its source, and one line to the table in [`Poller::new`].

mod consumer_group;
mod dsn;
mod number;
mod poll;
mod rows;
pub mod settings;
mod sql;
mod tls;

use std::sync::Arc;

use crate::core::lag::{LagTracker, OnReset, ValueKind};
use crate::core::lock::lock;
use crate::core::status::{Board, SourceStatus};
use crate::kafka::settings::KafkaSettings;

use consumer_group::GroupSource;
use poll::{Source, Wiring};
use settings::{ProgressValue, SourceSettings};
use sql::SqlSource;

pub use consumer_group::GroupError;
pub use poll::{Polled, Poller, ProbeError};
pub use sql::SqlError;
pub use tls::TlsError;

/// A progress source cannot be set up. Found before anything is connected to.
#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    /// The board has no such stream.
    #[error("progress.{source_name} watches the stream {stream:?}, which does not exist")]
    UnknownStream {
        /// The source's name in the settings.
        source_name: String,
        /// The stream it watches.
        stream: String,
    },
    /// The board has no cell for the source.
    #[error("progress.{0} has no place on the status board")]
    NoCell(String),
    /// A source of kind `sql` cannot be set up.
    #[error("progress.{name}: {error}")]
    Sql {
        /// The source's name in the settings.
        name: String,
        /// Why.
        error: SqlError,
    },
    /// A source of kind `consumer_group` cannot be set up.
    #[error("progress.{name}: {error}")]
    Group {
        /// The source's name in the settings.
        name: String,
        /// Why.
        error: GroupError,
    },
}

/// The status of a source before its first poll: what app puts on the board.
#[must_use]
pub fn initial_status(settings: &SourceSettings) -> SourceStatus {
    let (kind, value) = match settings {
        SourceSettings::Sql(sql) => ("sql", sql.value),
        SourceSettings::ConsumerGroup(_) => ("consumer_group", ProgressValue::NextOffset),
    };
    let value = match value {
        ProgressValue::NextOffset => "next_offset",
        ProgressValue::LastOffset => "last_offset",
        ProgressValue::Sequence => "sequence",
        ProgressValue::Count => "count",
    };
    let interval_ns = u64::try_from(settings.interval().as_nanos()).unwrap_or(u64::MAX);
    SourceStatus { kind, value, stream: settings.stream().to_owned(), interval_ns, ..SourceStatus::default() }
}

impl Poller {
    /// A poller for one source. It takes the stream and the source's cell from the board, reads password and certificate
    /// files, and connects to nothing.
    ///
    /// # Errors
    /// When the board lacks stream or cell, a file cannot be read, or a connection text or client property is refused.
    pub fn new(
        name: &str,
        settings: &SourceSettings,
        kafka: &KafkaSettings,
        board: &Board,
    ) -> Result<Self, ProgressError> {
        let stream = board.streams.get(settings.stream()).ok_or_else(|| ProgressError::UnknownStream {
            source_name: name.to_owned(),
            stream: settings.stream().to_owned(),
        })?;
        let cell = board.sources.get(name).ok_or_else(|| ProgressError::NoCell(name.to_owned()))?;
        let (kind, tolerance, on_reset) = match settings {
            SourceSettings::Sql(sql) => (sql.value.into(), sql.tolerance, sql.on_reset.into()),
            SourceSettings::ConsumerGroup(group) => {
                (ValueKind::NextOffset, group.tolerance, group.on_reset.into())
            }
        };
        let source: Box<dyn Source> = match settings {
            SourceSettings::Sql(sql) => Box::new(
                SqlSource::new(sql, kind, stream.partitions)
                    .map_err(|error| ProgressError::Sql { name: name.to_owned(), error })?,
            ),
            SourceSettings::ConsumerGroup(group) => Box::new(
                GroupSource::new(group, kafka, &stream.topic, stream.partitions)
                    .map_err(|error| ProgressError::Group { name: name.to_owned(), error })?,
            ),
        };
        let initial = initial_status(settings);
        let mut status = lock(cell);
        (status.kind, status.value) = (initial.kind, initial.value);
        (status.stream, status.interval_ns) = (initial.stream, initial.interval_ns);
        drop(status);
        let wiring = Wiring {
            name: name.to_owned(),
            interval: settings.interval(),
            timeout: settings.timeout(),
            stream: Arc::clone(stream),
            cell: Arc::clone(cell),
            events: Arc::clone(&board.events),
            clock: board.clock,
            tracker: LagTracker::new(kind, tolerance, on_reset),
        };
        Ok(Self::with(wiring, source))
    }
}

impl From<ProgressValue> for ValueKind {
    fn from(value: ProgressValue) -> Self {
        match value {
            ProgressValue::NextOffset => Self::NextOffset,
            ProgressValue::LastOffset => Self::LastOffset,
            ProgressValue::Sequence => Self::Sequence,
            ProgressValue::Count => Self::Count,
        }
    }
}

impl From<settings::OnReset> for OnReset {
    fn from(on_reset: settings::OnReset) -> Self {
        match on_reset {
            settings::OnReset::True => Self::True,
            settings::OnReset::Rebase => Self::Rebase,
        }
    }
}
