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
//! Instructions for a record of 8 + 100 bytes at full speed, by `benches/instructions` (3,972 in all; `rdkafka_performance`,
//! which sends the same bytes again and again to one partition, takes 3,060):
//!
//! | where | instructions |
//! | --- | --- |
//! | the client's broker thread: batching, checksum, sending | 1,355 |
//! | the client's calls that take a record: `rd_kafka_produceva`, the copy, `malloc`, locks | 1,010 |
//! | its calls that give reports back | 407 |
//! | value | 290 |
//! | key, its partition | 187 |
//! | three latencies | 189 |
//! | schedule, timeline | 112 |
//! | the rest of the lane: staging, hand-over, slots, clock, counters | 410 |
//!
//! What is left is the client's own, and its time is mostly memory: a record in flight has left the processor's caches when
//! it is batched and when its report comes, so that few in flight (see `handles`), half a cache line for what is kept of a record
//! (see `deliveries`) and long runs of one partition (see `staging`) count for more than instructions. Values that the client
//! reads where they were made, without a copy, were tried and cost more, at 100 bytes and at 1 KB: the copies lie one after the
//! other in the client's memory, as the processor likes to read ahead. From 512 bytes on the client sends its copy as it is
//! (see `kafka::client`), and the allocator is one that has such pieces at hand (see `main`): both together took a tenth to a
//! fifth off the cost of a record of 1 KB. Still a value that is really made costs more than the same bytes sent again.
//! Headers double the client's part.

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
