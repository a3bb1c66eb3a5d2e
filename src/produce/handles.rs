//! What a lane is given, and what can be wrong with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::event::EventLog;
use crate::core::pace::Pace;
use crate::core::rate::Rate;
use crate::core::stream::Stream;
use crate::core::walk::Overload;
use crate::kafka::client::Refused;
use crate::kafka::settings::KafkaSettings;
use crate::kafka::watch::TopicHealth;

/// When a lane must end although records are in flight. Set by the run at a stop.
#[derive(Debug)]
pub struct Finish(AtomicU64);

impl Default for Finish {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Finish {
    /// Sets the deadline (monotonic); what is in flight then counts as failed with unknown outcome.
    pub fn set(&self, deadline_ns: u64) {
        self.0.store(deadline_ns, Ordering::Release);
    }

    pub(super) fn passed(&self, now_ns: u64) -> bool {
        now_ns >= self.0.load(Ordering::Acquire)
    }
}

/// How a lane produces.
#[derive(Debug, Clone)]
pub struct LaneSettings {
    /// The Kafka client's settings.
    pub kafka: Arc<KafkaSettings>,
    /// What happens to records that cannot be sent when they are due.
    pub overload: Overload,
    /// Most records in flight of the whole stream; `None`: one second of load beyond the client's linger, at least
    /// 1,000; at "max" what 7 MB hold, 1,000 to 100,000, or the client's queue.
    pub max_in_flight: Option<u64>,
    /// Time from one marker to the next; `None`: no markers.
    pub marker_interval_ns: Option<u64>,
}

/// librdkafka's default of `linger.ms`.
const DEFAULT_LINGER_MS: f64 = 5.0;
/// Fewest records in flight that are allowed by default: at low rates one second of load is next to nothing.
const MIN_IN_FLIGHT: u64 = 1000;
/// Most records in flight by default at "max".
const IN_FLIGHT_AT_MAX: u64 = 100_000;
/// Bytes of records in flight by default at "max", as they go over the wire: a little more than five requests of a full batch
/// (1 MB) each, which is what an idempotent client has under way to a broker. With less the broker waits for the linger; what
/// is more waits in the client's queue, where it leaves the processor's caches, and a client that has full batches and may
/// not send them polls without a pause: at 1 KB that doubled its CPU.
const BYTES_AT_MAX: usize = 7_000_000;
/// What a record takes in a batch beyond key and value, about.
const BATCH_OVERHEAD: usize = 12;
/// Room that the client's queue has at least and at most, in records, when the user does not say.
const ROOM: (u64, u64) = (100_000, 10_000_000);

impl LaneSettings {
    /// How long the client may wait for more records before it sends, in nanoseconds.
    #[must_use]
    pub fn linger_ns(&self) -> u64 {
        let user = |name: &str| self.kafka.client.get(name);
        let linger_ms: f64 = user("linger.ms")
            .or_else(|| user("queue.buffering.max.ms"))
            .and_then(|text| text.parse().ok())
            .unwrap_or(DEFAULT_LINGER_MS);
        (linger_ms * 1e6) as u64
    }

    /// Most records in flight of the whole stream at a pace, for records of up to so many bytes. What a long linger keeps
    /// back on purpose does not count as held back by the broker.
    #[must_use]
    pub fn in_flight_at(&self, pace: Pace, record_bytes: usize) -> u64 {
        self.max_in_flight.unwrap_or_else(|| {
            let Some(rate) = pace.rate() else {
                let queue = self.kafka.client.get(QUEUE_RECORDS).and_then(|text| text.parse().ok());
                let records = (BYTES_AT_MAX / (record_bytes + BATCH_OVERHEAD)) as u64;
                let records = records.clamp(MIN_IN_FLIGHT, IN_FLIGHT_AT_MAX);
                return queue.unwrap_or(records).min(records);
            };
            let ns = 1_000_000_000 + u128::from(self.linger_ns());
            let records = u128::from(rate.micros()) * ns / 1_000_000_000_000_000;
            u64::try_from(records).unwrap_or(u64::MAX).max(MIN_IN_FLIGHT)
        })
    }

    /// Most records that the client's queue takes: what the user says, else so many that the cap on records in flight
    /// is the smaller one at every rate up to `max_rate`.
    #[must_use]
    pub fn queue_records(&self, max_rate: Rate) -> u64 {
        let user = self.kafka.client.get(QUEUE_RECORDS).and_then(|text| text.parse().ok());
        user.unwrap_or_else(|| self.in_flight_at(max_rate.into(), 0).clamp(ROOM.0, ROOM.1))
    }
}

/// The client's limit on records in its queue.
pub(super) const QUEUE_RECORDS: &str = "queue.buffering.max.messages";

/// Things a lane shares with others.
#[derive(Debug, Clone)]
pub struct LaneHandles {
    /// The stream, whose lane state this lane publishes.
    pub stream: Arc<Stream>,
    /// What the second handle knows of the topic.
    pub health: Arc<TopicHealth>,
    /// Where events go.
    pub events: Arc<EventLog>,
    /// When to end at the latest.
    pub finish: Arc<Finish>,
}

/// What a record costs in the protocol beyond key and value, at most.
pub(super) const RECORD_OVERHEAD: usize = 512;

/// Why a lane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The client library refused a property.
    #[error("kafka.client: {0}")]
    Client(#[source] Refused),
    /// A record would never fit.
    #[error(
        "streams.{stream}.value: records of up to {record_bytes} bytes (and {RECORD_OVERHEAD} of the protocol) are larger than message.max.bytes = {max_bytes}: make them smaller, or raise kafka.client.\"message.max.bytes\" (and the topic's max.message.bytes)"
    )]
    TooLarge {
        /// The stream.
        stream: String,
        /// The largest record, key and value.
        record_bytes: usize,
        /// The client's limit.
        max_bytes: usize,
    },
}
