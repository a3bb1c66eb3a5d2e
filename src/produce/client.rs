//! A lane's Kafka client with what it has in flight.

use std::collections::BTreeMap;
use std::time::Duration;

use super::deliveries::{Deliveries, Found, Handed, Report, refusal};
use super::lane::{LaneError, LaneHandles, LaneSettings};
use crate::core::clock::Clock;
use crate::core::stream::FailReason;
use crate::kafka::client::producer_config;
use crate::kafka::raw::{Producer, SendError};

/// librdkafka's default of `linger.ms`.
const DEFAULT_LINGER_MS: f64 = 5.0;
/// The client waits in whole milliseconds; a shorter wait is slept.
const MIN_POLL_NS: u64 = 2_000_000;

/// What became of a record that was offered to the client.
pub(super) enum Offer {
    Sent,
    /// The client takes no more at the moment.
    Full,
    /// The client refused this record for good.
    Refused(FailReason),
    /// The client itself is dead.
    Dead(String),
}

/// A client of librdkafka. Dropped with its slots: a new client has new ones, so that late reports of a dead one can
/// never be taken for its successor's.
pub(super) struct Client {
    producer: Producer,
    deliveries: Deliveries,
    reports: Vec<Report>,
    rtt_micros: BTreeMap<i32, u64>,
    clock: Clock,
    /// How long the client may keep a record before it sends it.
    pub(super) linger_ns: u64,
    /// Records that its queue holds.
    pub(super) max_messages: u64,
    /// In flight at the deadline of a stop and given up.
    pub(super) abandoned: u64,
}

impl Client {
    pub(super) fn new(handles: &LaneHandles, settings: &LaneSettings) -> Result<Self, LaneError> {
        let mut config = producer_config(&settings.kafka);
        let user = |name: &str| settings.kafka.client.get(name);
        let max_messages = user("queue.buffering.max.messages").and_then(|text| text.parse().ok());
        // The cap on records in flight is ours; the client's own limit must not be the smaller one by accident.
        let max_rate = handles.stream.max_rate.micros() / 1_000_000;
        let room = settings.max_in_flight.unwrap_or(0).max(max_rate).clamp(100_000, 10_000_000);
        if max_messages.is_none() {
            config.set("queue.buffering.max.messages", room.to_string());
        }
        let linger_ms = user("linger.ms")
            .or_else(|| user("queue.buffering.max.ms"))
            .and_then(|text| text.parse().ok())
            .unwrap_or(DEFAULT_LINGER_MS);
        Ok(Self {
            producer: Producer::new(&config, &handles.stream.topic).map_err(LaneError::Client)?,
            deliveries: Deliveries::default(),
            reports: Vec::new(),
            rtt_micros: BTreeMap::new(),
            clock: handles.stream.clock,
            linger_ns: (linger_ms * 1e6) as u64,
            max_messages: max_messages.unwrap_or(room),
            abandoned: 0,
        })
    }

    /// Offers a record.
    pub(super) fn offer(
        &mut self,
        record: Handed,
        key: Option<&[u8]>,
        value: &[u8],
        intended_ms: i64,
    ) -> Offer {
        let slot = self.deliveries.hold(record);
        let partition = i32::try_from(record.partition).unwrap_or(i32::MAX);
        let Err(error) = self.producer.send(partition, intended_ms, key, value, slot) else {
            return Offer::Sent;
        };
        self.deliveries.release(slot);
        match error {
            SendError::QueueFull => Offer::Full,
            SendError::Fatal(reason) => Offer::Dead(reason),
            SendError::Refused(code) => Offer::Refused(refusal(code)),
        }
    }

    /// Waits for so long, or until reports come where that can be told, and reads what is there.
    pub(super) fn wait(&mut self, wait_ns: u64) {
        let wait = if wait_ns < MIN_POLL_NS {
            std::thread::sleep(Duration::from_nanos(wait_ns));
            Duration::ZERO
        } else {
            Duration::from_nanos(wait_ns)
        };
        let clock = self.clock;
        let mut found = Found {
            clock: &|| clock.now_ns(),
            deliveries: &mut self.deliveries,
            reports: &mut self.reports,
            rtt_micros: &mut self.rtt_micros,
            reported_ns: 0,
            until_clock: 0,
        };
        self.producer.poll(wait, &mut found);
    }

    /// Hands out the reports that were read.
    pub(super) fn drain(&mut self, take: impl FnMut(Report)) {
        self.reports.drain(..).for_each(take);
    }

    /// Records that were handed over and not reported.
    pub(super) fn in_flight(&self) -> u64 {
        self.deliveries.in_flight() - self.abandoned
    }

    /// The client's fatal error, if it has one.
    pub(super) fn fatal_error(&self) -> Option<String> {
        self.producer.fatal_error()
    }

    /// Copies the round trip to each broker in microseconds, from the client's last statistics.
    pub(super) fn copy_rtt(&self, into: &mut BTreeMap<i32, u64>) {
        if self.rtt_micros != *into {
            into.clone_from(&self.rtt_micros);
        }
    }
}
