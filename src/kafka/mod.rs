//! Kafka as soakd uses it: clients from settings, topics, watermarks and the watch over them.

pub mod client;
pub mod raw;
pub mod settings;
pub mod topic;
pub mod watch;
