//! What a lane remembers of the records that its client has: a slot for each, by the number that comes back in the
//! client's report.

use std::collections::BTreeMap;

use rdkafka::error::RDKafkaErrorCode;
use serde::Deserialize;

use crate::core::counters::FailReason;
use crate::kafka::raw::{self, Events, Failure};

/// A record as it was handed to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Handed {
    /// Of a marker: its number.
    pub(super) sequence: u64,
    pub(super) intended_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) partition: u32,
    /// Key and value, below 2 GiB.
    pub(super) bytes: u32,
    pub(super) marker: bool,
}

/// What the client reported of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) record: Handed,
    pub(super) reported_ns: u64,
    /// The record's offset, or why it failed.
    pub(super) outcome: Result<u64, FailReason>,
}

/// A record in a slot: half a line of the processor's caches, which is what reading one costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
struct Slot {
    sequence: u64,
    intended_ns: u64,
    sent_ns: u64,
    partition: u32,
    /// The highest bit is set for a marker.
    bytes: u32,
}

const MARKER: u32 = 1 << 31;
const _: () = assert!(size_of::<Slot>() == 32);

impl From<Handed> for Slot {
    fn from(record: Handed) -> Self {
        let Handed { sequence, intended_ns, sent_ns, partition, bytes, marker } = record;
        let bytes = bytes.min(MARKER - 1) | if marker { MARKER } else { 0 };
        Self { sequence, intended_ns, sent_ns, partition, bytes }
    }
}

impl From<Slot> for Handed {
    fn from(slot: Slot) -> Self {
        let Slot { sequence, intended_ns, sent_ns, partition, bytes } = slot;
        Self {
            sequence,
            intended_ns,
            sent_ns,
            partition,
            bytes: bytes & !MARKER,
            marker: bytes & MARKER != 0,
        }
    }
}

/// The records that a client has. Grows to the most that were ever in flight, and no further.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

impl Deliveries {
    /// Takes a slot for a record; its number goes to the client.
    pub(super) fn hold(&mut self, record: Handed) -> usize {
        match self.free.pop().and_then(|index| Some((index, self.slots.get_mut(index)?))) {
            Some((index, slot)) => {
                *slot = record.into();
                index
            }
            None => {
                self.slots.push(record.into());
                self.slots.len() - 1
            }
        }
    }

    /// Gives a slot back: the client did not take the record, or has reported it.
    pub(super) fn release(&mut self, index: usize) -> Option<Handed> {
        let slot = self.slots.get(index).copied()?;
        self.free.push(index);
        Some(slot.into())
    }

    /// Records in the client.
    pub(super) fn in_flight(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }
}

/// Collects what one poll of the client finds.
pub(super) struct Found<'a> {
    /// When the poll began to read: a poll returns as soon as something comes, so that this is when it came.
    pub(super) clock: &'a dyn Fn() -> u64,
    pub(super) deliveries: &'a mut Deliveries,
    pub(super) reports: &'a mut Vec<Report>,
    pub(super) rtt_micros: &'a mut BTreeMap<i32, u64>,
    pub(super) batches: &'a mut Batches,
    /// The clock is read for the first of so many reports.
    pub(super) reported_ns: u64,
    pub(super) until_clock: u32,
}

/// Reports stamped by one reading of the clock: reading it costs as much as a quarter of a report.
const CLOCK_EVERY: u32 = 64;

impl Events for Found<'_> {
    fn report(&mut self, report: raw::Report) {
        if self.until_clock == 0 {
            self.reported_ns = (self.clock)();
            self.until_clock = CLOCK_EVERY;
        }
        self.until_clock -= 1;
        let Some(record) = self.deliveries.release(report.record) else { return };
        let outcome = report.outcome.map_err(fail_reason);
        self.reports.push(Report { record, reported_ns: self.reported_ns, outcome });
    }

    fn statistics(&mut self, json: &[u8]) {
        let Ok(statistics) = serde_json::from_slice::<Statistics>(json) else { return };
        let brokers = statistics.brokers.values().filter(|broker| broker.nodeid >= 0 && broker.rtt.cnt > 0);
        *self.rtt_micros =
            brokers.map(|broker| (broker.nodeid, u64::try_from(broker.rtt.avg).unwrap_or(0))).collect();
        self.batches.count(&statistics);
    }
}

/// Why a record was not acked. What the broker may have kept has an unknown outcome, whatever the error.
fn fail_reason(failure: Failure) -> FailReason {
    if failure.maybe_kept { FailReason::OutcomeUnknown } else { refusal(failure.code) }
}

/// The reason behind an error of the client.
pub(super) fn refusal(code: RDKafkaErrorCode) -> FailReason {
    use RDKafkaErrorCode as Code;
    match code {
        Code::MessageTimedOut | Code::RequestTimedOut | Code::OperationTimedOut => FailReason::TimedOut,
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
            FailReason::TooLarge
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
            FailReason::UnknownTopic
        }
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed | Code::Authentication => {
            FailReason::NotAuthorized
        }
        Code::PurgeQueue | Code::PurgeInflight => FailReason::OutcomeUnknown,
        _ => FailReason::Broker,
    }
}

/// Bytes that a client has put into batches, before and after compression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Batches {
    pub(super) records: u64,
    pub(super) payload_bytes: u64,
    pub(super) batch_bytes: u64,
    ahead: Ahead,
}

/// What the client has said of batches whose other figure is still to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ahead {
    counts: u64,
    sizes: u64,
    records: u64,
    batch_bytes: u64,
}

impl Batches {
    /// The client counts records and their bytes when it begins with a batch, from its start, and the batch when it is
    /// compressed, since the last statistics. Between the two lies the time of the codec, so that the bytes of the batches'
    /// records come from their number and the mean.
    ///
    /// It reads its two figures of batches one after the other: a batch that comes in between is in one of them now and in
    /// the other next time. So they count when they speak of the same number of batches.
    fn count(&mut self, statistics: &Statistics) {
        let ahead = &mut self.ahead;
        for topic in statistics.topics.values() {
            ahead.counts += topic.batchcnt.cnt;
            ahead.sizes += topic.batchsize.cnt;
            ahead.records += topic.batchcnt.sum;
            ahead.batch_bytes += topic.batchsize.sum;
        }
        if ahead.counts != ahead.sizes {
            return;
        }
        let Ahead { records, batch_bytes, .. } = std::mem::take(ahead);
        self.records += records;
        self.batch_bytes += batch_bytes;
        let (bytes, records) = (u128::from(statistics.txmsg_bytes), u128::from(statistics.txmsgs.max(1)));
        let payload = bytes * u128::from(self.records) / records;
        self.payload_bytes = self.payload_bytes.max(u64::try_from(payload).unwrap_or(u64::MAX));
    }
}

/// The little that is read of librdkafka's statistics.
#[derive(Deserialize)]
struct Statistics {
    brokers: BTreeMap<String, BrokerStatistics>,
    /// Records that were put into batches, and the bytes of their keys and values.
    txmsgs: u64,
    txmsg_bytes: u64,
    topics: BTreeMap<String, TopicStatistics>,
}

#[derive(Deserialize)]
struct TopicStatistics {
    /// Records in batches.
    batchcnt: Sum,
    /// Bytes of batches.
    batchsize: Sum,
}

/// A window since the last statistics.
#[derive(Deserialize)]
struct Sum {
    sum: u64,
    cnt: u64,
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
        Handed {
            sequence,
            intended_ns: sequence,
            sent_ns: sequence + 1,
            partition: 3,
            bytes: 9,
            marker: sequence.is_multiple_of(7),
        }
    }

    #[test]
    fn slots_are_used_again_and_hold_what_was_put_in() {
        let mut deliveries = Deliveries::default();
        for round in 0..3 {
            let slots: Vec<usize> = (0..10_000).map(|n| deliveries.hold(handed(n))).collect();
            assert_eq!(deliveries.in_flight(), 10_000);
            for (n, slot) in (0..).zip(slots) {
                assert_eq!(deliveries.release(slot), Some(handed(n)), "round {round}");
            }
            assert_eq!((deliveries.in_flight(), deliveries.slots.len()), (0, 10_000));
        }
        assert_eq!(deliveries.release(10_000), None);
    }

    #[test]
    fn what_the_broker_may_have_kept_is_unknown_whatever_the_error() {
        let failure = |maybe_kept| Failure { code: RDKafkaErrorCode::MessageTimedOut, maybe_kept };
        assert_eq!(fail_reason(failure(true)), FailReason::OutcomeUnknown);
        assert_eq!(fail_reason(failure(false)), FailReason::TimedOut);
    }

    #[test]
    fn round_trips_and_batches_are_read_from_the_statistics() {
        let (mut deliveries, mut reports, mut rtt_micros) =
            (Deliveries::default(), Vec::new(), BTreeMap::new());
        let mut batches = Batches::default();
        let mut found = Found {
            clock: &|| 5,
            deliveries: &mut deliveries,
            reports: &mut reports,
            rtt_micros: &mut rtt_micros,
            batches: &mut batches,
            reported_ns: 0,
            until_clock: 0,
        };
        let brokers = r#""brokers":{"a/1":{"nodeid":1,"rtt":{"avg":250,"cnt":3}},"b":{"nodeid":-1,"rtt":{"avg":9,"cnt":1}}}"#;
        // At the second look two records of ten are not compressed yet; at the third a batch is counted and not measured.
        for (begun, done, counts, batch_bytes, sizes) in
            [(3, 3, 2, 400, 2), (10, 5, 1, 700, 1), (20, 9, 2, 100, 1)]
        {
            let json = format!(
                r#"{{{brokers},"txmsgs":{begun},"txmsg_bytes":{begun}00,"topics":{{"t":{{"batchsize":{{"min":1,"sum":{batch_bytes},"cnt":{sizes}}},"batchcnt":{{"sum":{done},"cnt":{counts}}}}}}}}}"#
            );
            found.statistics(json.as_bytes());
        }
        found.statistics(b"{}");
        assert_eq!(rtt_micros, BTreeMap::from([(1, 250)]));
        let ahead = Ahead { counts: 2, sizes: 1, records: 9, batch_bytes: 100 };
        assert_eq!(batches, Batches { records: 8, payload_bytes: 800, batch_bytes: 1100, ahead });
    }
}
