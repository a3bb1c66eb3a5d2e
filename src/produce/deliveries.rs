//! Where delivery reports land: a slot for every record in flight, and a chain of the slots that were reported.
//!
//! librdkafka calls back on the thread that polls, which is the lane's own, but through a shared reference. So slots
//! are atomics with relaxed order (plain loads and stores on that one thread), and no lock is needed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext};
use serde::Deserialize;

use crate::core::clock::Clock;
use crate::core::status::lock;
use crate::core::stream::FailReason;
use crate::kafka::client::log;

/// Slots are made in chunks of this many, when they are first needed.
const CHUNK: usize = 4096;
/// Room for 16 million records in flight, more than any client queue holds.
const CHUNKS: usize = 4096;
/// End of a chain.
const NONE: u32 = u32::MAX;

/// A record as it was handed to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handed {
    pub(super) sequence: u64,
    pub(super) intended_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) partition: u32,
    /// Key and value.
    pub(super) bytes: u32,
}

/// What the client reported of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) record: Handed,
    pub(super) reported_ns: u64,
    /// The record's offset, or why it failed.
    pub(super) outcome: Result<u64, FailReason>,
}

#[derive(Debug, Default)]
struct Slot {
    sequence: AtomicU64,
    intended_ns: AtomicU64,
    sent_ns: AtomicU64,
    partition: AtomicU32,
    bytes: AtomicU32,
    reported_ns: AtomicU64,
    /// The offset, or -1 - the index of a [`FailReason`].
    outcome: AtomicI64,
    next: AtomicU32,
}

/// The slots of one client. Dropped with it: a new client has new ones, so that late reports of a dead client can
/// never be taken for its successor's.
#[derive(Debug)]
pub(super) struct Deliveries {
    clock: Clock,
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
    first_reported: AtomicU32,
    last_reported: AtomicU32,
    /// Free slots as a chain, and how many slots were ever used.
    first_free: AtomicU32,
    used: AtomicU32,
    occupied: AtomicUsize,
    reports: AtomicU64,
    rtt_micros: Mutex<BTreeMap<i32, u64>>,
}

impl Deliveries {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            first_reported: AtomicU32::new(NONE),
            last_reported: AtomicU32::new(NONE),
            first_free: AtomicU32::new(NONE),
            used: AtomicU32::new(0),
            occupied: AtomicUsize::new(0),
            reports: AtomicU64::new(0),
            rtt_micros: Mutex::default(),
        }
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::default()).collect()).get(index as usize % CHUNK)
    }

    /// Takes a slot for a record; `None` when 16 million are in flight.
    pub(super) fn hold(&self, record: &Handed) -> Option<u32> {
        let free = self.first_free.load(Relaxed);
        let index = if free == NONE { self.used.load(Relaxed) } else { free };
        let slot = self.slot(index)?;
        if free == NONE {
            self.used.store(index + 1, Relaxed);
        } else {
            self.first_free.store(slot.next.load(Relaxed), Relaxed);
        }
        slot.sequence.store(record.sequence, Relaxed);
        slot.intended_ns.store(record.intended_ns, Relaxed);
        slot.sent_ns.store(record.sent_ns, Relaxed);
        slot.partition.store(record.partition, Relaxed);
        slot.bytes.store(record.bytes, Relaxed);
        self.occupied.fetch_add(1, Relaxed);
        Some(index)
    }

    /// Gives a slot back whose record the client did not take, or whose report was read.
    pub(super) fn release(&self, index: u32) {
        if let Some(slot) = self.slot(index) {
            slot.next.store(self.first_free.load(Relaxed), Relaxed);
            self.first_free.store(index, Relaxed);
            self.occupied.fetch_sub(1, Relaxed);
        }
    }

    /// Records in the client: handed over, and their report not read by [`Deliveries::drain`].
    pub(super) fn in_flight(&self) -> u64 {
        self.occupied.load(Relaxed) as u64
    }

    /// Reads all reports that came, oldest first, and frees their slots.
    pub(super) fn drain(&self, mut take: impl FnMut(Report)) {
        let mut index = self.first_reported.swap(NONE, Relaxed);
        self.last_reported.store(NONE, Relaxed);
        while index != NONE {
            let Some(slot) = self.slot(index) else { return };
            let next = slot.next.load(Relaxed);
            take(Report {
                record: Handed {
                    sequence: slot.sequence.load(Relaxed),
                    intended_ns: slot.intended_ns.load(Relaxed),
                    sent_ns: slot.sent_ns.load(Relaxed),
                    partition: slot.partition.load(Relaxed),
                    bytes: slot.bytes.load(Relaxed),
                },
                reported_ns: slot.reported_ns.load(Relaxed),
                outcome: decode(slot.outcome.load(Relaxed)),
            });
            self.release(index);
            index = next;
        }
    }

    /// Notes a report in the slot and appends it to the chain of reported ones.
    fn report(&self, index: u32, reported_ns: u64, outcome: i64) {
        let Some(slot) = self.slot(index) else { return };
        self.reports.fetch_add(1, Relaxed);
        slot.reported_ns.store(reported_ns, Relaxed);
        slot.outcome.store(outcome, Relaxed);
        slot.next.store(NONE, Relaxed);
        let last = self.last_reported.swap(index, Relaxed);
        match self.slot(last).filter(|_| last != NONE) {
            Some(last) => last.next.store(index, Relaxed),
            None => self.first_reported.store(index, Relaxed),
        }
    }

    /// Reports that came so far.
    pub(super) fn reports(&self) -> u64 {
        self.reports.load(Relaxed)
    }

    /// Copies the round trip to each broker in microseconds, from the client's last statistics.
    pub(super) fn copy_rtt(&self, into: &mut BTreeMap<i32, u64>) {
        let rtt_micros = lock(&self.rtt_micros);
        if *rtt_micros != *into {
            into.clone_from(&rtt_micros);
        }
    }
}

fn decode(outcome: i64) -> Result<u64, FailReason> {
    u64::try_from(outcome).map_err(|_| {
        let index = usize::try_from(-1 - outcome).unwrap_or(usize::MAX);
        FailReason::ALL.get(index).map_or(FailReason::Broker, |(reason, _)| *reason)
    })
}

/// Why a record failed, from the client's error.
pub(super) fn fail_reason(error: &KafkaError) -> FailReason {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(Code::MessageTimedOut | Code::RequestTimedOut | Code::OperationTimedOut) => FailReason::TimedOut,
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge) => {
            FailReason::TooLarge
        }
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
            FailReason::UnknownTopic
        }
        Some(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed | Code::Authentication) => {
            FailReason::NotAuthorized
        }
        Some(Code::PurgeQueue | Code::PurgeInflight) => FailReason::OutcomeUnknown,
        _ => FailReason::Broker,
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, log_message: &str) {
        log(level, fac, log_message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(error = %error, reason, "kafka producer error");
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if let Ok(statistics) = serde_json::from_slice::<Statistics>(statistics) {
            let brokers =
                statistics.brokers.values().filter(|broker| broker.nodeid >= 0 && broker.rtt.cnt > 0);
            *lock(&self.rtt_micros) =
                brokers.map(|broker| (broker.nodeid, broker.rtt.avg.max(0) as u64)).collect();
        }
    }
}

impl ProducerContext for Deliveries {
    /// The number of the record's slot.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, slot: usize) {
        let outcome = match result {
            Ok(message) => message.offset().max(0),
            Err((error, _)) => -1 - fail_reason(error) as i64,
        };
        self.report(slot as u32, self.clock.now_ns(), outcome);
    }
}

/// The little that is read of librdkafka's statistics.
#[derive(Deserialize)]
struct Statistics {
    brokers: BTreeMap<String, BrokerStatistics>,
}

#[derive(Deserialize)]
struct BrokerStatistics {
    nodeid: i32,
    rtt: Window,
}

/// A rolling window, in microseconds.
#[derive(Deserialize)]
struct Window {
    avg: i64,
    cnt: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(sequence: u64) -> Handed {
        Handed { sequence, intended_ns: sequence, sent_ns: sequence + 1, partition: 3, bytes: 9 }
    }

    #[test]
    fn reports_come_back_in_order_and_slots_are_used_again() {
        let deliveries = Deliveries::new(Clock::start());
        for round in 0..3 {
            let slots: Vec<u32> = (0..10_000).map(|n| deliveries.hold(&handed(n)).unwrap()).collect();
            assert_eq!(deliveries.in_flight(), 10_000);
            for (n, slot) in slots.iter().enumerate() {
                let outcome = if n % 2 == 0 { n as i64 } else { -1 - FailReason::TooLarge as i64 };
                deliveries.report(*slot, 5, outcome);
            }
            assert_eq!(deliveries.in_flight(), 10_000, "a report that nobody read is still in flight");
            let mut seen = 0;
            deliveries.drain(|report| {
                assert_eq!(report.record, handed(seen));
                assert_eq!(report.outcome, if seen % 2 == 0 { Ok(seen) } else { Err(FailReason::TooLarge) });
                seen += 1;
            });
            assert_eq!((seen, deliveries.in_flight()), (10_000, 0));
            assert_eq!(deliveries.used.load(Relaxed), 10_000, "round {round}");
        }
    }

    #[test]
    fn every_reason_survives_its_code() {
        for (reason, _) in FailReason::ALL {
            assert_eq!(decode(-1 - reason as i64), Err(reason));
        }
        assert_eq!(decode(0), Ok(0));
    }
}
