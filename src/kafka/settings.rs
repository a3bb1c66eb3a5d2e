//! Settings of the Kafka clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Problem, Properties, key};

/// Where a broker listens on a developer's machine.
const DEFAULT_BROKER: &str = "localhost:9092";

/// How Kafka is reached, for all streams and sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaSettings {
    /// Brokers to begin with, each `host:port`; in the environment and `--set` separated by commas.
    #[schemars(extend("x-soakd-commas" = true))]
    pub brokers: Vec<String>,
    /// Any librdkafka property by its own name, with its own unit. In the environment `_` stands for `.`:
    /// `SOAKD__KAFKA__CLIENT__LINGER_MS` is `linger.ms` (no property that can be set has a real `_`).
    pub client: Properties,
}

impl Default for KafkaSettings {
    fn default() -> Self {
        KafkaSettings { brokers: vec![DEFAULT_BROKER.into()], client: Properties::default() }
    }
}

/// Properties that are soakd's own business, and why.
const OWNED: [(&str, &str); 16] = [
    ("bootstrap.servers", "the brokers are set by kafka.brokers"),
    ("metadata.broker.list", "the brokers are set by kafka.brokers"),
    ("partitioner", PARTITION),
    ("partitioner_cb", PARTITION),
    ("msg_order_cmp", CALLBACK),
    ("dr_cb", CALLBACK),
    ("dr_msg_cb", CALLBACK),
    ("error_cb", CALLBACK),
    ("stats_cb", CALLBACK),
    ("log_cb", CALLBACK),
    ("opaque", CALLBACK),
    ("delivery.report.only.error", "soakd counts every acknowledgement"),
    ("transactional.id", "soakd produces without transactions"),
    ("group.id", "the group is set by a progress source of kind consumer_group"),
    ("enable.auto.commit", "soakd only reads a group's offsets and never commits"),
    ("enable.auto.offset.store", "soakd only reads a group's offsets and never commits"),
];
const PARTITION: &str = "soakd computes each record's partition itself, as the Java client does";
const CALLBACK: &str = "it is a hook of the client library that soakd uses itself";

impl KafkaSettings {
    /// The codec that producers are told to use.
    #[must_use]
    pub fn codec(&self) -> &str {
        let user = |name| self.client.get(name);
        user("compression.type").or_else(|| user("compression.codec")).unwrap_or("none")
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.brokers.is_empty() {
            problems.push(Problem::new(
                key(at, "brokers"),
                "is empty; name at least one broker as \"host:port\"",
            ));
        }
        if let Some(broker) =
            self.brokers.iter().find(|broker| broker.trim().is_empty() || broker.contains(','))
        {
            problems.push(Problem::new(
                key(at, "brokers"),
                format!("{broker:?} is not a broker; give each one as its own \"host:port\""),
            ));
        }
        for name in ["acks", "request.required.acks"] {
            if self.client.get(name).is_some_and(|acks| acks.trim() == "0") {
                problems.push(Problem::new(
                    key(&key(at, "client"), name),
                    "0 cannot be set: nothing would be acknowledged, and every figure of soakd begins with acks; use 1 or all",
                ));
            }
        }
        let owned = self.client.iter().filter_map(|(name, _)| OWNED.iter().find(|(owned, _)| *owned == name));
        problems.extend(owned.map(|(name, reason)| {
            Problem::new(key(&key(at, "client"), name), format!("cannot be set: {reason}; take it out"))
        }));
        problems
    }
}
