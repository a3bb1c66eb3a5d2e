//! soakd: the map (being written).

pub mod cli;
pub mod config;
pub mod core;
pub mod http;
pub mod kafka;
pub mod metrics;
pub mod process;
pub mod produce;
pub mod progress;
pub mod record;
pub mod report;
pub mod run;
pub mod settings;
pub mod store;
