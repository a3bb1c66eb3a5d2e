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
//!
//! # What a record costs
//!
//! Instructions for a record of 8 + 100 bytes at full speed, by `benches/instructions` (3,959 in all; `rdkafka_performance`,
//! which sends the same bytes again and again to one partition, takes 2,980):
//!
//! | where | instructions |
//! | --- | --- |
//! | the client's broker thread: batching, checksum, sending | 1,363 |
//! | the client's calls that take a record: `rd_kafka_produceva`, the copy, `malloc`, locks | 1,011 |
//! | its calls that give reports back | 388 |
//! | value | 366 |
//! | key, its partition | 187 |
//! | three latencies | 189 |
//! | schedule, timeline | 112 |
//! | the rest of the lane: staging, hand-over, slots, clock, counters | 345 |
//!
//! What is left is the client's own. Its time is mostly memory: records that are in flight by the hundred thousand have left
//! the processor's caches when they are batched and when their reports come (see `handles`), which is why at 1,000 bytes a
//! value that is really made costs more than the same bytes sent again. Headers double the client's part.

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
