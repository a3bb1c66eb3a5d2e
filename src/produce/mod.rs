//! The load: one thread a lane, each with a Kafka client of its own.
//!
//! ```text
//! Schedule --phases--> Pacer --numbers--> Maker --records--> kafka::raw --reports--> Deliveries
//!                                                                                          |
//!                         LaneState (counters, latencies, heads, timelines)  <-------------+
//! ```
//!
//! A lane wakes up when its next record is due (at most once a millisecond, at least every 20 ms), hands over what is
//! due, serves the delivery reports, and publishes one state under an uncontended lock. Per record it takes no lock and
//! allocates nothing.

mod client;
mod deliveries;
pub mod lane;
mod limit;
pub mod settings;
