//! Progress: how far the system under test has ingested a stream, by asking it.
//!
//! [`Poller`] is the one loop for sources of every kind. To add a kind, add its settings to [`settings::SourceSettings`], one
//! file with its source, and one line to the table in `source`. To add a preset, add one file to [`preset`] and one line to
//! its table.

mod consumer_group;
mod dsn;
mod http;
mod number;
mod poll;
pub mod preset;
mod prometheus;
mod question;
mod rows;
pub mod settings;
mod sql;
mod tls;
mod topic;
mod web;
mod when;
mod worker;

use std::sync::Arc;

use crate::core::lag::{LagTracker, ValueKind};
use crate::core::lock::lock;
use crate::core::status::{Board, Freshness, SourceStatus};
use crate::core::stream::Stream;
use crate::kafka::settings::KafkaSettings;

use consumer_group::GroupSource;
use http::HttpSource;
use poll::{Source, Wiring};
use prometheus::PrometheusSource;
use settings::{ProgressValue, SourceSettings};
use sql::SqlSource;
use topic::TopicSource;

pub use consumer_group::GroupError;
pub use poll::{Polled, Poller, ProbeError};
pub use sql::SqlError;
pub use tls::TlsError;
pub use topic::TopicSourceError;
pub use web::WebError;

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
    /// A source of kind `http` or `prometheus` cannot be set up.
    #[error("progress.{name}: {error}")]
    Web {
        /// The source's name in the settings.
        name: String,
        /// Why.
        error: WebError,
    },
    /// A source of kind `topic` cannot be set up.
    #[error("progress.{name}.{error}")]
    Topic {
        /// The source's name in the settings.
        name: String,
        /// Why.
        error: TopicSourceError,
    },
}

/// The status of a source before its first poll: what app puts on the board.
#[must_use]
pub fn initial_status(settings: &SourceSettings) -> SourceStatus {
    let common = settings.common();
    let interval_ns = u64::try_from(common.interval.as_nanos()).unwrap_or(u64::MAX);
    SourceStatus {
        kind: common.kind,
        value: ValueKind::from(common.value).name(),
        stream: common.stream.to_owned(),
        interval_ns,
        freshness: (common.value == ProgressValue::Marker).then(Freshness::default),
        end_to_end: settings.is_timed().then(Arc::default),
        ..SourceStatus::default()
    }
}

/// The table of kinds: what asks.
fn source(
    name: &str,
    settings: &SourceSettings,
    kafka: &KafkaSettings,
    stream: &Arc<Stream>,
    run: &str,
) -> Result<Box<dyn Source>, ProgressError> {
    let name = || name.to_owned();
    let kind = settings.common().value.into();
    Ok(match settings {
        SourceSettings::Sql(sql) => Box::new(
            SqlSource::new(sql, kind, stream.partitions, run)
                .map_err(|error| ProgressError::Sql { name: name(), error })?,
        ),
        SourceSettings::ConsumerGroup(group) => Box::new(
            GroupSource::new(group, kafka, stream)
                .map_err(|error| ProgressError::Group { name: name(), error })?,
        ),
        SourceSettings::Http(http) => Box::new(
            HttpSource::new(http, kind, stream)
                .map_err(|error| ProgressError::Web { name: name(), error })?,
        ),
        SourceSettings::Prometheus(prometheus) => {
            let source = PrometheusSource::new(prometheus, kind, stream);
            Box::new(source.map_err(|error| ProgressError::Web { name: name(), error })?)
        }
        SourceSettings::Topic(topic) => {
            Box::new(TopicSource::new(&name(), topic, kafka, stream, stream.clock)?)
        }
    })
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
        let common = settings.common();
        let kind = common.value.into();
        let run = lock(&board.run).id.clone();
        let source = source(name, settings, kafka, stream, &run)?;
        let initial = initial_status(settings);
        let mut status = lock(cell);
        (status.kind, status.value) = (initial.kind, initial.value);
        (status.stream, status.interval_ns) = (initial.stream, initial.interval_ns);
        (status.freshness, status.end_to_end) = (initial.freshness, initial.end_to_end);
        drop(status);
        let wiring = Wiring {
            name: name.to_owned(),
            interval: common.interval,
            timeout: common.timeout,
            standstill_after: common.standstill_after,
            stream: Arc::clone(stream),
            cell: Arc::clone(cell),
            events: Arc::clone(&board.events),
            clock: board.clock,
            tracker: LagTracker::new(kind, common.tolerance, settings.on_reset()).with_clock(board.clock),
        };
        Ok(Self::with(wiring, source))
    }
}

#[cfg(test)]
mod tests;
