//! What `soakd demo` needs beside soakd itself: a broker and a system under test, both inside this process, on loopback
//! only and in memory only.
//!
//! [`broker`] is the Kafka client library's mock cluster, [`ingestor`] reads a topic into a [`table`] at a [`speed`] that
//! [`http`] changes, so that lag can be made and watched. [`demo`] puts them together.

pub mod broker;
pub mod demo;
pub mod http;
pub mod ingestor;
pub mod speed;
pub mod table;

use std::time::Duration;

pub use broker::EmbeddedBroker;
pub use demo::{Demo, DemoSettings};
pub use ingestor::{Ingestor, IngestorHandle, IngestorSettings};
pub use speed::Speed;

/// Why the embedded broker or ingestor cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The mock cluster did not start.
    #[error("the embedded broker cannot be started: {0}")]
    Broker(String),
    /// The mock cluster did not take a topic.
    #[error(
        "topic {topic:?} with {partitions} partitions cannot be created in the embedded broker: {reason}"
    )]
    Topic {
        /// The topic.
        topic: String,
        /// Its number of partitions.
        partitions: u32,
        /// What the mock cluster said.
        reason: String,
    },
    /// The consumer could not be made or assigned.
    #[error("the embedded ingestor cannot read topic {topic:?}: {reason}")]
    Ingestor {
        /// The topic.
        topic: String,
        /// What the client said.
        reason: String,
    },
    /// The ingestor's thread could not be made, or ended by itself.
    #[error("the embedded ingestor's thread {0}")]
    Thread(String),
    /// The ingestor's HTTP server could not be bound, or failed.
    #[error("the embedded ingestor cannot serve http on {address}: {reason}")]
    Http {
        /// The address that was tried.
        address: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Something did not end in time and was left behind.
    #[error("{what} did not end within {}, and was left behind", humantime::format_duration(*.after))]
    StopTimedOut {
        /// What hangs.
        what: &'static str,
        /// How long was waited.
        after: Duration,
    },
}
