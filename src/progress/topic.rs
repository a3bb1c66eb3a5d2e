//! Progress by the topic that the system under test writes to: its end, and what its records hold.
//!
//! For the count of its records its end offsets are enough, and nothing is read. What its records hold is read as they
//! come, by a client of its own that joins no group and commits nothing; it begins at the end that the topic has at the first
//! poll, which is before the load. A poll then reads on to the end that the topic has when it is asked, so that the answer
//! holds all of it. A reader that is too far behind leaves records out, and counts them: latencies are a sample then.

mod extract;
mod read;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use crate::core::clock::Clock;
use crate::core::histogram::Latency;
use crate::core::lag::Progress;
use crate::core::lock::lock;
use crate::core::stream::Stream;
use crate::kafka::client::{Refused, reader_config};
use crate::kafka::settings::KafkaSettings;

use super::ProgressError;
use super::poll::{Answering, ProbeError, Source};
use super::settings::{ProgressValue, TopicSettings};
use super::worker::Worker;
use read::{Reader, Shared, Target};

/// A source of kind `topic` cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TopicSourceError {
    /// The client library refuses a property.
    #[error("the kafka client refuses its settings: {0}")]
    Client(#[from] Refused),
    /// The records do not say which partition they are of.
    #[error(
        "partition is missing: the stream {stream:?} has {partitions} partitions, and a {value} is one partition's; say where a \
         record holds its own, like partition = \"/partition\""
    )]
    NoPartition {
        /// The stream.
        stream: String,
        /// Its number of partitions.
        partitions: u32,
        /// What the source tells.
        value: &'static str,
    },
}

/// Reads the output topic.
pub(super) struct TopicSource {
    worker: Worker<Reader>,
    shared: Arc<Shared>,
    is_timed: bool,
    late: String,
}

impl TopicSource {
    /// A source for a stream. Connects to nothing.
    ///
    /// # Errors
    /// When the client library refuses a property, or the records of several partitions cannot be told apart.
    pub(super) fn new(
        name: &str,
        settings: &TopicSettings,
        kafka: &KafkaSettings,
        stream: &Stream,
        clock: Clock,
    ) -> Result<Self, ProgressError> {
        let refused = |error| ProgressError::Topic { name: name.to_owned(), error };
        let by_partition = matches!(settings.value, ProgressValue::Sequence | ProgressValue::Marker);
        if by_partition && settings.partition.is_none() && stream.partitions > 1 {
            let value = crate::core::lag::ValueKind::from(settings.value).name();
            let (stream, partitions) = (stream.name.clone(), stream.partitions);
            return Err(refused(TopicSourceError::NoPartition { stream, partitions, value }));
        }
        let mut kafka = kafka.clone();
        if !settings.brokers.is_empty() {
            kafka.brokers.clone_from(&settings.brokers);
        }
        let mut config = reader_config(&kafka);
        // Never joined: the library wants one from whoever takes partitions.
        config.set("group.id", format!("soakd-{}", stream.topic));
        config.set("enable.auto.offset.store", "false");
        config.set("enable.partition.eof", "true");
        // What retention removed is jumped over.
        config.set("auto.offset.reset", "earliest");
        for (name, value) in READER_DEFAULTS {
            if kafka.client.get(name).is_none() {
                config.set(name, value);
            }
        }
        // Refused properties should be an error at start, not at the first poll.
        config.create_native_config().map_err(|error| refused(TopicSourceError::Client(error.into())))?;
        let target = Target {
            config,
            clock,
            settings: settings.clone(),
            partitions: stream.partitions,
            shared: Arc::default(),
        };
        let late = format!("the end of the topic {:?} was not reached in time", settings.topic);
        let (shared, is_timed) = (Arc::clone(&target.shared), target.is_timed());
        Ok(Self { worker: Worker::new(format!("topic-{name}"), target), shared, is_timed, late })
    }
}

/// Bounds what the client holds; 16 MiB are enough for any rate that one thread can take apart.
const READER_DEFAULTS: [(&str, &str); 3] =
    [("queued.max.messages.kbytes", "16384"), ("fetch.wait.max.ms", "100"), ("socket.nagle.disable", "true")];

impl Source for TopicSource {
    fn ready(&mut self, _deadline: Instant) -> Answering<'_, ()> {
        Box::pin(std::future::ready(self.worker.ready()))
    }

    fn ask(&mut self, deadline: Instant) -> Answering<'_, Progress> {
        Box::pin(async move { self.worker.ask(deadline, &self.late).await })
    }

    fn take_end_to_end(&mut self) -> Option<Latency> {
        self.is_timed.then(|| std::mem::take(&mut *lock(&self.shared.end_to_end)))
    }

    fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    fn close(&mut self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.worker.close()
    }
}

impl ProbeError {
    /// Of what the broker said.
    fn of_broker(what: &str, heard: &str, error: &rdkafka::error::KafkaError) -> Self {
        use crate::core::status::ProgressErrorKind as Kind;
        use rdkafka::error::RDKafkaErrorCode as Code;
        let kind = match error.rdkafka_error_code() {
            Some(
                Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::Resolve
                | Code::Authentication
                | Code::SSL,
            ) => Kind::Connect,
            Some(Code::OperationTimedOut | Code::RequestTimedOut) if heard.is_empty() => Kind::Timeout,
            Some(Code::OperationTimedOut | Code::RequestTimedOut) => Kind::Connect,
            _ => Kind::Query,
        };
        let said = error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string());
        Self::new(kind, format!("{what}: {said}{heard}"))
    }
}
