//! soakd: a load daemon for systems that ingest from Kafka. Start here to find your way.
//!
//! Config makes values, app makes tasks, tasks move state through the pure core, http and metrics only show or set
//! state.
//!
//! ```text
//!                 settings (files, environment, --set)
//!                     |
//!   main -> cli ---> app --spawns--> lanes (threads)      produce/   record/   kafka/
//!                     |               | publish counters, latencies, heads, timelines
//!                     |               v
//!                     |            core::status::Board  <--- progress/  (asks the system how far it is)
//!                     |               |                 <--- process/   (CPU and memory of its processes)
//!                     |               | one Snapshot
//!                     |               +-----> metrics/, http/  (/metrics, /api/v1/status)
//!                     |               +-----> run/ -> store/ -> report/
//!                     |                         ^
//!   curl PUT rate -> http -> core::control -> core::schedule -> lanes
//! ```
//!
//! The way of a record: [`core::schedule`] says when number n is due; each lane walks the one sequence with a
//! [`core::walk`]; [`record`] makes key and value from (seed, stream, n); `produce::lane` hands it to its Kafka
//! client; the delivery report moves the partition's head and its [`core::timeline`].
//!
//! The way of a lag: a source in [`progress`] reads the heads, asks, reads the heads again; [`core::lag`] turns the
//! answer into records and seconds by looking it up in the timeline; the figure stands on the board until the next.
//!
//! # The rooms, and who may know whom
//!
//! Arrows point down only; `tests/it/house.rs` holds the rule.
//!
//! | room | imports |
//! | --- | --- |
//! | `cli` | `app`, `settings` and the parts' settings and presets, `report`, `store`, `metrics`, `embedded` |
//! | `app` | `settings`, `run`, `produce`, `progress`, `process`, `http`, `kafka`, `record`, `store` |
//! | `settings` | the settings of each part, and the presets of sources |
//! | `http` | `metrics` |
//! | `run`, `report` | `store` |
//! | `produce`, `progress`, `embedded` | `record`, `kafka` |
//! | `record`, `progress`, `process` | `net` (HTTP requests and TLS, shared) |
//! | all | `config`, `core` |
//!
//! `core` is pure: no tokio, no Kafka client, no HTTP, no metrics library; time comes in as an argument. Each part
//! has one shape: settings, an error enum, the type, `new(settings, handles)`, `run(self, stop)`. Only `app` spawns what
//! lives as long as the daemon.

pub mod app;
pub mod cli;
pub mod config;
pub mod core;
pub mod embedded;
pub mod http;
pub mod kafka;
pub mod metrics;
pub mod net;
pub mod process;
pub mod produce;
pub mod progress;
pub mod record;
pub mod report;
pub mod run;
pub mod settings;
pub mod store;
