//! The load: one thread a lane, each with a Kafka client of its own.
//!
//! ```text
//! Schedule --phases--> Backlog --partition by partition--> Maker --records--> kafka::raw --reports--> Deliveries
//!                                                                                                         |
//!                                        LaneState (counters, latencies, heads, timelines)  <-------------+
//! ```
//!
//! A lane wakes up when its next record is due (at most once a millisecond, at least every 20 ms), hands over what is
//! due, serves the delivery reports, and publishes one state under an uncontended lock. Per record soakd's own code takes
//! no lock and allocates nothing; the client copies key and value.

mod backlog;
mod client;
mod deliveries;
mod handles;
pub mod lane;
mod limit;
pub mod profile;
pub mod settings;
mod share;
mod silence;
mod staging;
mod ticks;
