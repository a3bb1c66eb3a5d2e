//! The broker inside this process: the Kafka client library's mock cluster.
//!
//! It is no real broker: it keeps the newest [`KEPT_BYTES_PER_PARTITION`] (or [`KEPT_BATCHES_PER_PARTITION`]) of each
//! partition in memory and silently drops what is older, has no admin calls, no log start by time and no compaction, and
//! lets a consumer group that joins wait three seconds.

use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::message::DeliveryResult;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};

use super::EmbeddedError;
use crate::kafka::client::Quiet;

/// What the mock cluster keeps of a partition before it drops the oldest batches: bytes as they were sent.
pub const KEPT_BYTES_PER_PARTITION: u64 = 5 * 1024 * 1024;
/// What the mock cluster keeps of a partition before it drops the oldest batches: batches.
pub const KEPT_BATCHES_PER_PARTITION: u64 = 100_000;

/// A one-broker cluster on a free loopback port, alive as long as this value.
pub struct EmbeddedBroker {
    // A client that owns the cluster instead of a bare `MockCluster`, which cannot move between threads.
    owner: BaseProducer<Quiet>,
    bootstrap: String,
}

impl fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBroker").field("bootstrap", &self.bootstrap).finish_non_exhaustive()
    }
}

impl EmbeddedBroker {
    /// Starts the cluster with these topics, each a name and a number of partitions. Blocks for some milliseconds.
    ///
    /// # Errors
    /// When the cluster does not start or a topic cannot be created.
    pub fn start(topics: &[(&str, u32)]) -> Result<Self, EmbeddedError> {
        let mut config = ClientConfig::new();
        config.set("test.mock.num.brokers", "1");
        let owner = BaseProducer::from_config_and_context(&config, Quiet::default())
            .map_err(|error| EmbeddedError::Broker(error.to_string()))?;
        let bootstrap = cluster(&owner)?.bootstrap_servers();
        let broker = Self { owner, bootstrap };
        for (topic, partitions) in topics {
            broker.create_topic(topic, *partitions)?;
        }
        Ok(broker)
    }

    /// Where clients of any process on this machine find the cluster, as `host:port`.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Creates a topic; the mock cluster cannot do it for admin clients.
    ///
    /// # Errors
    /// When there is a topic of this name, or the cluster takes no such topic.
    pub fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), EmbeddedError> {
        let refused = |reason: String| EmbeddedError::Topic { topic: topic.to_owned(), partitions, reason };
        let count = i32::try_from(partitions).map_err(|error| refused(error.to_string()))?;
        if count == 0 {
            return Err(refused("a topic has at least one partition".to_owned()));
        }
        cluster(&self.owner)?.create_topic(topic, count, 1).map_err(|error| refused(error.to_string()))
    }
}

/// The cluster's owner never sends a record.
impl ProducerContext for Quiet {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

fn cluster(owner: &BaseProducer<Quiet>) -> Result<MockCluster<'_, Quiet>, EmbeddedError> {
    owner
        .client()
        .mock_cluster()
        .ok_or_else(|| EmbeddedError::Broker("the client library made no mock cluster".to_owned()))
}

/// How many seconds of load the broker remembers, by the limit that bites first.
///
/// `partitions` share `records_per_second` evenly; `bytes_per_record` is as sent, with the batch's share of its header
/// and after compression; `records_per_batch` is at least 1. Infinite for a rate of 0.
#[must_use]
pub fn remembered_seconds(
    partitions: u32,
    records_per_second: f64,
    bytes_per_record: f64,
    records_per_batch: f64,
) -> f64 {
    let records_per_second_and_partition = records_per_second / f64::from(partitions.max(1));
    #[allow(clippy::cast_precision_loss)]
    let (bytes, batches) = (KEPT_BYTES_PER_PARTITION as f64, KEPT_BATCHES_PER_PARTITION as f64);
    let by_bytes = bytes / (records_per_second_and_partition * bytes_per_record);
    let by_batches = batches * records_per_batch.max(1.0) / records_per_second_and_partition;
    by_bytes.min(by_batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_falls_with_the_rate() {
        let at = |rate| remembered_seconds(8, rate, 100.0, 100.0);
        assert!((at(1_000.0) - 419.0).abs() < 1.0, "{}", at(1_000.0));
        assert!((at(100_000.0) - 4.19).abs() < 0.01, "{}", at(100_000.0));
        assert!(at(0.0).is_infinite());
        // One record a batch: the number of batches bites first.
        assert!((remembered_seconds(1, 1_000.0, 10.0, 1.0) - 100.0).abs() < 1e-9);
    }
}
