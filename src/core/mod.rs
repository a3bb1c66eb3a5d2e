//! The pure core: schedule, timeline, lag, status. No tokio, no Kafka client, no HTTP, no metrics library;
//! time comes in as an argument (nanoseconds of a monotonic clock, see [`clock`]).

pub mod arrivals;
pub mod clock;
pub mod control;
pub mod counters;
pub mod event;
pub mod held_back;
pub mod histogram;
pub mod ingest;
pub mod lag;
pub mod lock;
pub mod marker;
pub mod own;
pub mod pace;
pub mod pacer;
pub mod phase;
pub mod profile;
pub mod rate;
pub mod recovery;
pub mod schedule;
pub mod shape;
pub mod standstill;
pub mod status;
pub mod stream;
pub mod timeline;
pub mod walk;
pub mod wire;
