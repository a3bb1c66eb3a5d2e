//! One file a command.

pub mod config;
pub mod metrics;
