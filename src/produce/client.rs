//! A lane's Kafka client with what it has in flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::deliveries::{Batches, Deliveries, Found, Handed, Report, refusal};
use super::handles::{LaneError, LaneSettings, QUEUE_RECORDS};
use crate::core::clock::Clock;
use crate::core::counters::FailReason;
use crate::core::stream::Stream;
use crate::core::wire::Wire;
use crate::kafka;
use crate::kafka::client::producer_config;
use crate::kafka::raw::{Producer, Record, SendError};
use crate::record::format::MakeError;
use crate::record::headers::{Headers, MAX_HEADERS};

/// The client waits in whole milliseconds; a shorter wait is slept.
const MIN_POLL_NS: u64 = 2_000_000;

/// What a record may carry must go through the client.
const _: () = assert!(MAX_HEADERS <= kafka::raw::MAX_HEADERS);

/// What became of a record that was offered to the client.
pub(super) enum Offer {
    Sent,
    /// It could not be made.
    Unmade(MakeError),
    /// The client takes no more at the moment.
    Full,
    /// The client refused this record for good.
    Refused(FailReason),
    /// The client itself is dead.
    Dead(String),
}

/// A record as it goes to the client.
pub(super) struct Outgoing<'a> {
    pub(super) key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a Headers,
    /// The record's timestamp.
    pub(super) intended_ms: i64,
}

/// A client of librdkafka. Dropped with its slots: a new client has new ones, so that late reports of a dead one can
/// never be taken for its successor's.
pub(super) struct Client {
    producer: Producer,
    deliveries: Deliveries,
    reports: Vec<Report>,
    rtt_micros: BTreeMap<i32, u64>,
    /// All of them, and those that the lane was told of.
    batches: Batches,
    told_batches: Batches,
    codec: Arc<str>,
    clock: Clock,
    /// Records that its queue holds.
    max_messages: u64,
    /// In flight at the deadline of a stop and given up.
    abandoned: u64,
}

impl Client {
    /// A client with room for what may be in flight at every rate that the stream allows.
    ///
    /// # Errors
    /// When the library refuses a property.
    pub(super) fn new(stream: &Stream, settings: &LaneSettings) -> Result<Self, LaneError> {
        let mut config = producer_config(&settings.kafka);
        let max_messages = settings.queue_records(stream.max_rate);
        config.set(QUEUE_RECORDS, max_messages.to_string());
        Ok(Self {
            producer: Producer::new(&config, &stream.topic)
                .map_err(|error| LaneError::Client(error.into()))?,
            deliveries: Deliveries::default(),
            reports: Vec::new(),
            rtt_micros: BTreeMap::new(),
            batches: Batches::default(),
            told_batches: Batches::default(),
            codec: settings.kafka.codec().into(),
            clock: stream.clock,
            max_messages,
            abandoned: 0,
        })
    }

    /// Offers a record; fills in its size.
    pub(super) fn offer(&mut self, mut handed: Handed, record: &Outgoing<'_>) -> Offer {
        let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        handed.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let slot = self.deliveries.hold(handed);
        let record = Record {
            partition: i32::try_from(handed.partition).unwrap_or(i32::MAX),
            timestamp_ms: record.intended_ms,
            key: record.key,
            value: record.value,
            headers: record.headers.iter(),
        };
        let Err(error) = self.producer.send(record, slot) else {
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
            batches: &mut self.batches,
            reported_ns: 0,
            until_clock: 0,
        };
        self.producer.poll(wait, &mut found);
    }

    /// The reports that were read.
    pub(super) fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Forgets them: they are counted.
    pub(super) fn forget_reports(&mut self) {
        self.reports.clear();
    }

    /// Records that were handed over and not reported.
    pub(super) fn in_flight(&self) -> u64 {
        self.deliveries.in_flight().saturating_sub(self.abandoned)
    }

    /// Gives up what is in flight; returns how much that is. For the end of a client only.
    pub(super) fn abandon(&mut self) -> u64 {
        let lost = self.in_flight();
        self.abandoned += lost;
        lost
    }

    /// Records given up.
    pub(super) const fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// Whether the client, refusing a record, had room for more of them and so must be full by bytes.
    pub(super) fn full_by_bytes(&self) -> bool {
        self.in_flight() < self.max_messages
    }

    /// The client's fatal error, if it has one.
    pub(super) fn fatal_error(&self) -> Option<String> {
        self.producer.fatal_error()
    }

    /// Adds what was put into batches since the last call, by the client's statistics.
    pub(super) fn add_wire(&mut self, into: &mut Wire) {
        if self.batches != self.told_batches || into.codec.is_none() {
            let (all, told) = (self.batches, std::mem::replace(&mut self.told_batches, self.batches));
            into.add(&Wire {
                codec: Some(Arc::clone(&self.codec)),
                payload_bytes: all.payload_bytes.saturating_sub(told.payload_bytes),
                batch_bytes: all.batch_bytes.saturating_sub(told.batch_bytes),
            });
        }
    }

    /// Copies the round trip to each broker in microseconds, from the client's last statistics.
    pub(super) fn copy_rtt(&self, into: &mut BTreeMap<i32, u64>) {
        if self.rtt_micros != *into {
            into.clone_from(&self.rtt_micros);
        }
    }
}
