//! A lane's backlog against a client that takes what it likes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::core::rate::Rate;
use crate::core::schedule::Schedule;

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
const PARTITIONS: u32 = 5;

/// A lane of a stream whose record n goes to a partition by a hash, as keys do.
struct Lane {
    index: u32,
    lanes: u32,
    key: Vec<u8>,
}

impl Lane {
    fn partition(record: u64) -> u32 {
        ((record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % u64::from(PARTITIONS)) as u32
    }

    fn owns(&self, record: u64) -> bool {
        Self::partition(record) % self.lanes == self.index
    }
}

impl Owner for Lane {
    fn count(&mut self, from: u64, to: u64) -> u64 {
        (from..to).filter(|record| self.owns(*record)).count() as u64
    }
}

impl Sequence for Lane {
    fn own(&mut self, sequence: u64) -> Option<(u64, u32, &[u8])> {
        self.key = sequence.to_be_bytes().to_vec();
        self.owns(sequence).then_some((sequence + 7, Self::partition(sequence), &self.key))
    }
}

/// A lane with its backlog and what became of its records.
struct Worker {
    lane: Lane,
    backlog: Backlog,
    sent: Vec<Due>,
    dropped: u64,
}

impl Worker {
    fn new(index: u32, lanes: u32, overload: Overload) -> Self {
        let lane = Lane { index, lanes, key: Vec::new() };
        Self {
            lane,
            backlog: Backlog::new(overload, None, Arrivals::Even, PARTITIONS),
            sent: Vec::new(),
            dropped: 0,
        }
    }

    /// One wake-up with a client that has room for so many and takes so many of them at most.
    fn wake(&mut self, schedule: &mut Schedule, now_ns: u64, room: u64, takes: u64) -> Allowed {
        let (backlog, lane) = (&mut self.backlog, &mut self.lane);
        schedule.catch_up(lane.index as usize, now_ns, |phase| {
            self.dropped += backlog.push(phase, lane).map_or(0, |(_, records)| records);
        });
        self.dropped += backlog.advance(now_ns, lane).records;
        let allowed = backlog.allow(now_ns, room, lane);
        assert!(allowed.records <= room);
        let taken = takes.min(allowed.records);
        for _ in 0..taken {
            let (due, key) = backlog.next().unwrap();
            assert_eq!(key, due.sequence.to_be_bytes());
            assert_eq!(due.key_id, due.sequence + 7);
            self.sent.push(due);
            backlog.take();
        }
        backlog.settle(allowed.records - taken);
        assert_eq!(backlog.scheduled(), self.sent.len() as u64 + self.dropped + backlog.records());
        allowed
    }
}

fn rate(records_per_second: u64) -> Rate {
    Rate::from_micros(records_per_second * 1_000_000)
}

proptest! {
    /// Whatever the client takes and whenever: every record that is due is sent once or dropped, the counts tie out at
    /// every wake-up, each partition keeps the order of the sequence, and at its end the load is what the schedule says.
    #[test]
    fn every_record_is_sent_once_or_dropped_whatever_the_client_takes(
        lanes in 1_u32..4,
        first in 1_u64..200_000,
        debt_ms in prop::option::of(1_u64..80),
        wakes in prop::collection::vec(
            (1_u64..40, prop_oneof![Just(u64::MAX), 0_u64..300], prop_oneof![Just(u64::MAX), 0_u64..200], 0_u32..12),
            1..60,
        ),
    ) {
        let overload = Overload { max_debt_ns: debt_ms.map(|ms| ms * MILLI), max_catch_up_milli: 2000 };
        let mut schedule = Schedule::new(rate(first), lanes as usize, None, None);
        schedule.start(0);
        let mut workers: Vec<Worker> = (0..lanes).map(|index| Worker::new(index, lanes, overload)).collect();
        let mut now = 0;
        for (ms, room, takes, change) in wakes {
            now += ms * MILLI;
            match change {
                0 => { schedule.set_rate(now, rate(first / 2 + 1)); }
                1 => { schedule.set_rate(now, rate(first)); }
                2 => { schedule.set_paused(now, true); }
                3 => { schedule.set_paused(now, false); }
                _ => {}
            }
            for worker in &mut workers {
                worker.wake(&mut schedule, now, room, takes);
            }
        }
        schedule.stop(now);
        let mut sent: Vec<u64> = Vec::new();
        let mut dropped = 0;
        for worker in &mut workers {
            worker.wake(&mut schedule, now, u64::MAX, u64::MAX);
            prop_assert!(worker.backlog.finished(now));
            let mut last = BTreeMap::new();
            for due in &worker.sent {
                prop_assert!(last.insert(due.partition, due.sequence) < Some(due.sequence));
                prop_assert_eq!((Lane::partition(due.sequence), due.partition % lanes), (due.partition, worker.lane.index));
            }
            sent.extend(worker.sent.iter().map(|due| due.sequence));
            dropped += worker.dropped;
        }
        let total = sent.len() as u64 + dropped;
        prop_assert_eq!(total, schedule.due(now));
        sent.sort_unstable();
        prop_assert!(sent.windows(2).all(|pair| pair[0] < pair[1]), "a record was sent twice");
    }

    /// The bound on catching up counts what is handed over, not what is staged: a client that was blocked for long gets
    /// no more at once than ten milliseconds of it.
    #[test]
    fn a_blocked_client_gets_no_burst_beyond_the_bucket(
        per_second in 1000_u64..1_000_000,
        blocked in prop::collection::vec((1_u64..20, 0_u64..30), 1..50),
    ) {
        let overload = Overload { max_debt_ns: None, max_catch_up_milli: 2000 };
        let mut schedule = Schedule::new(rate(per_second), 1, None, None);
        schedule.start(0);
        let mut worker = Worker::new(0, 1, overload);
        let mut now = 0;
        for (ms, takes) in blocked {
            now += ms * MILLI;
            worker.wake(&mut schedule, now, u64::MAX, takes);
        }
        let before = worker.sent.len();
        while worker.backlog.records() > 0 && worker.backlog.has_tokens() {
            worker.wake(&mut schedule, now, u64::MAX, u64::MAX);
        }
        let burst = (worker.sent.len() - before) as u64;
        prop_assert!(burst <= (2 * per_second / 100).max(1), "{burst} at {per_second}/s");
    }
}

#[test]
fn what_the_client_did_not_take_goes_first_and_counts_as_backlog() {
    let overload = Overload { max_debt_ns: Some(SECOND), max_catch_up_milli: 2000 };
    let mut schedule = Schedule::new(rate(10_000), 1, None, None);
    schedule.start(0);
    let mut worker = Worker::new(0, 1, overload);
    worker.wake(&mut schedule, 10 * MILLI, u64::MAX, 30);
    assert_eq!((worker.sent.len(), worker.backlog.records()), (30, 70));
    let oldest =
        (0..100).filter(|record| worker.sent.iter().all(|due| due.sequence != *record)).min().unwrap();
    assert_eq!(worker.backlog.oldest_ns(10 * MILLI), 10 * MILLI - oldest * 100_000);
    worker.wake(&mut schedule, 11 * MILLI, u64::MAX, u64::MAX);
    let mut first: Vec<u64> = worker.sent.iter().map(|due| due.sequence).collect();
    first.sort_unstable();
    assert_eq!(first, (0..100).collect::<Vec<u64>>());
    worker.wake(&mut schedule, 11 * MILLI, u64::MAX, u64::MAX);
    assert_eq!((worker.sent.len(), worker.backlog.records()), (110, 0));
}

#[test]
fn what_is_staged_grows_old_and_is_given_up_with_its_age() {
    let overload = Overload { max_debt_ns: Some(50 * MILLI), max_catch_up_milli: 2000 };
    let mut schedule = Schedule::new(rate(1000), 1, None, None);
    schedule.start(0);
    let mut worker = Worker::new(0, 1, overload);
    worker.wake(&mut schedule, 10 * MILLI, u64::MAX, 0);
    assert_eq!(worker.backlog.records(), 10);
    let given_up = worker.backlog.advance(55 * MILLI, &mut worker.lane);
    // Those of 0 to 4 ms: what is as old as the bound is not older.
    assert_eq!(given_up, GivenUp { records: 5, oldest_ns: 55 * MILLI });
    assert_eq!((worker.backlog.records(), worker.backlog.oldest_ns(55 * MILLI)), (50, 50 * MILLI));
}

#[test]
fn the_room_in_flight_is_kept_and_named() {
    let overload = Overload { max_debt_ns: None, max_catch_up_milli: 2000 };
    let mut schedule = Schedule::new(rate(10_000), 1, None, None);
    schedule.start(0);
    let mut worker = Worker::new(0, 1, overload);
    assert_eq!(worker.wake(&mut schedule, 5 * MILLI, 20, 10), Allowed { records: 20, capped: true });
    assert_eq!(worker.wake(&mut schedule, 6 * MILLI, 4, 4), Allowed { records: 4, capped: true });
    assert_eq!(worker.wake(&mut schedule, 7 * MILLI, 6, 6), Allowed { records: 6, capped: false });
    assert_eq!(worker.wake(&mut schedule, 8 * MILLI, 60, 60), Allowed { records: 60, capped: false });
    assert_eq!(worker.backlog.records(), 0);
}
