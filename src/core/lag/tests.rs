use proptest::prelude::*;

use super::*;
use crate::core::timeline::{MAX_BYTES, POINT_NS};

mod markers;
mod restart;
mod stated;
mod time;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

impl Records for Vec<Timeline> {
    fn find(&self, partition: u32, key: Key) -> Option<Found> {
        self.get(partition as usize)?.find(key)
    }

    fn timelines(&self) -> Vec<Timeline> {
        self.clone()
    }

    fn markers_after(&self, _: u32, _: Option<u64>) -> Vec<Marker> {
        Vec::new()
    }
}

/// A stream by plain lists: (offset, sequence, intended) of every acked record, by partition.
#[derive(Default)]
struct World {
    records: Vec<Vec<(u64, u64, u64)>>,
    timelines: Vec<Timeline>,
    heads: Vec<Head>,
    sequence: u64,
}

impl World {
    fn new(partitions: usize, baseline: u64) -> Self {
        let head = Head { next_offset: baseline, baseline, ..Head::default() };
        Self {
            records: vec![Vec::new(); partitions],
            timelines: vec![Timeline::default(); partitions],
            heads: vec![head; partitions],
            sequence: 0,
        }
    }

    fn ack(&mut self, partition: usize, intended_ns: u64) {
        let (sequence, head) = (self.sequence, &mut self.heads[partition]);
        self.sequence += 1;
        self.records[partition].push((head.next_offset, sequence, intended_ns));
        self.timelines[partition].acked(head.next_offset, sequence, intended_ns, intended_ns);
        head.next_offset += 1;
        head.acked += 1;
        head.last_sequence = Some(sequence);
    }

    /// Records at even distances, partitions in turn.
    fn load(&mut self, records: u64, from_ns: u64, gap_ns: u64) {
        for record in 0..records {
            let partition = (self.sequence % self.records.len() as u64) as usize;
            self.ack(partition, from_ns + record * gap_ns);
        }
    }

    fn sample(&self, at_ns: u64, progress: Progress) -> Sample {
        Sample {
            asked_ns: at_ns,
            answered_ns: at_ns,
            heads_before: self.heads.clone(),
            heads_after: self.heads.clone(),
            markers_before: Vec::new(),
            progress,
        }
    }

    fn observe(&self, tracker: &mut LagTracker, at_ns: u64, progress: Progress) -> Observation {
        tracker.observe(&self.sample(at_ns, progress), &self.timelines)
    }
}

fn by_partition<const N: usize>(values: [Option<u64>; N]) -> Progress {
    Progress::Partitions((0..).zip(values).collect())
}

#[test]
fn l2_never_committed_is_unknown() {
    let mut world = World::new(4, 0);
    world.load(1000, 0, MS);
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    for progress in [by_partition([None; 4]), Progress::NoData("no commits yet".into())] {
        let seen = world.observe(&mut tracker, S, progress);
        assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (None, None));
        assert_eq!((seen.reading.progress_records, seen.reading.unknown_partitions), (None, 4));
        assert_eq!(seen.unknown_reason.as_deref(), Some("no commits yet"));
        assert!(!seen.reading.caught_up && !seen.moved);
    }
    let nothing = world.observe(&mut tracker, S, Progress::Partitions(BTreeMap::new()));
    assert_eq!(nothing.unknown_reason.as_deref(), Some("no rows"));
    // The first commit, in one partition: that one counts, the others stay unknown.
    let seen = world.observe(&mut tracker, 2 * S, by_partition([Some(200), None, None, None]));
    assert_eq!((seen.reading.lag_records, seen.reading.unknown_partitions), (Some(50), 3));
    assert_eq!((seen.unknown_reason, seen.moved), (None, true));
    // Caught up as far as known is not caught up.
    let seen = world.observe(&mut tracker, 3 * S, by_partition([Some(250), None, None, None]));
    assert_eq!((seen.reading.lag_records, seen.reading.caught_up), (Some(0), false));
}

#[test]
fn an_empty_partition_is_not_unknown() {
    let mut world = World::new(2, 0);
    world.ack(0, 0);
    for kind in [ValueKind::NextOffset, ValueKind::Sequence, ValueKind::Count] {
        let mut tracker = LagTracker::new(kind, 0, OnReset::True);
        let seen = world.observe(&mut tracker, S, Progress::Partitions(BTreeMap::from([(0, Some(1))])));
        assert_eq!((seen.reading.unknown_partitions, seen.reading.caught_up), (0, true), "{kind:?}");
    }
    // A partition with records from before the run is not empty for a reader of offsets.
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    let seen = World::new(2, 7).observe(&mut tracker, S, by_partition([Some(7), None]));
    assert_eq!(seen.reading.unknown_partitions, 1);
}

#[test]
fn l3_a_counter_that_goes_back_is_one_reset_by_either_rule() {
    let rows = [0, 500, 1000, 0, 500, 1000, 1500];
    let expect = |on_reset, lags: [u64; 7]| {
        let mut world = World::new(4, 0);
        let mut tracker = LagTracker::new(ValueKind::Count, 0, on_reset);
        world.observe(&mut tracker, 0, Progress::Total(100_000));
        world.load(500, 0, 2 * MS);
        let (mut resets, mut progress) = (Vec::new(), 0.0);
        for ((second, row), lag) in (1..).zip(rows).zip(lags) {
            let seen = world.observe(&mut tracker, second * S, Progress::Total(100_000 + row - row % 7));
            assert_eq!(seen.reading.lag_records, Some(lag), "{on_reset:?} at {second}");
            let oldest = if lag == 0 { 0 } else { second * S - (second * 500 - lag) * 2 * MS };
            let lag_ns = seen.reading.lag_ns.unwrap();
            assert!((oldest..=oldest + POINT_NS).contains(&lag_ns), "{lag_ns} for {oldest}");
            let now = seen.reading.progress_records.unwrap();
            assert!(on_reset == OnReset::True || now >= progress, "never backwards");
            progress = now;
            resets.extend(seen.reset());
            world.load(500, second * S, 2 * MS);
        }
        assert_eq!((resets, tracker.resets()), (vec![(101_000 - 1000 % 7, 100_000)], 1));
    };
    let rest = |row: u64| row - row % 7;
    let (a, b, c) = (rest(500), rest(1000), rest(1500));
    expect(OnReset::True, [500, 1000 - a, 1500 - b, 2000, 2500 - a, 3000 - b, 3500 - c]);
    expect(OnReset::Rebase, [500, 1000 - a, 1500 - b, 2000 - b, 2500 - b - a, 3000 - 2 * b, 3500 - b - c]);
}

#[test]
fn what_was_there_before_the_run_goes_with_an_output_topic_that_is_made_anew() {
    let lag_after = |on_reset| {
        let mut world = World::new(1, 0);
        let mut tracker = LagTracker::new(ValueKind::Count, 0, on_reset);
        world.observe(&mut tracker, 0, Progress::Total(5000));
        world.load(1000, 0, MS);
        world.observe(&mut tracker, S, Progress::Total(6000));
        let seen = world.observe(&mut tracker, 2 * S, Progress::Total(100));
        assert_eq!(seen.reset(), Some((6000, 100)));
        let now = world.observe(&mut tracker, 3 * S, Progress::Total(300)).reading.lag_records;
        (seen.reading.lag_records, now)
    };
    assert_eq!(lag_after(OnReset::Emptied), (Some(900), Some(700)));
    assert_eq!(lag_after(OnReset::True), (Some(1000), Some(1000)), "a table keeps its baseline");
}

#[test]
fn a_counter_that_begins_anew_at_0_hides_and_invents_nothing() {
    // 1,000 records are acked. The process that counts them ends at 600 and has counted 150 since its new start.
    let after = |on_reset, before: u64, value: u64| {
        let mut world = World::new(1, 0);
        let mut tracker = LagTracker::new(ValueKind::Count, 0, on_reset);
        world.observe(&mut tracker, 0, Progress::Total(0));
        world.load(1000, 0, MS);
        world.observe(&mut tracker, S, Progress::Total(before));
        let seen = world.observe(&mut tracker, 2 * S, Progress::Total(value));
        assert_eq!(tracker.resets(), 1);
        seen.reading.lag_records.unwrap()
    };
    assert_eq!(after(OnReset::Counter, 600, 150), 250);
    assert_eq!(after(OnReset::Counter, 1000, 0), 0);
    assert_eq!(after(OnReset::Rebase, 600, 150), 400);
    // 1,500 were never acked: one of several tasks began anew, or rows were deleted.
    assert_eq!(after(OnReset::Counter, 800, 700), 200);
}

#[test]
fn a_count_far_above_what_was_acked_is_of_something_else() {
    let mut world = World::new(2, 0);
    let mut tracker = LagTracker::new(ValueKind::Count, 0, OnReset::Rebase);
    world.observe(&mut tracker, 0, Progress::Total(0));
    world.load(1000, 0, MS);
    let seen = world.observe(&mut tracker, S, Progress::Total(9_000_000_000_000_000));
    assert_eq!((seen.reading.lag_records, seen.reading.lag_ns, seen.reading.caught_up), (None, None, false));
    assert!(seen.unknown_reason.unwrap().contains("1000 records are acked: does it count something else?"));
    // More than was acked by now is usual for a moment: acks are on their way, records come twice.
    world.observe(&mut tracker, 2 * S, Progress::Total(0));
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(1500));
    assert_eq!(seen.reading.lag_records, Some(0));
}

#[test]
fn partitions_that_fall_together_are_one_reset() {
    let mut world = World::new(3, 0);
    world.load(3000, 0, MS);
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    world.observe(&mut tracker, 3 * S, by_partition([Some(900), Some(950), Some(1000)]));
    let seen = world.observe(&mut tracker, 4 * S, by_partition([Some(10), Some(20), Some(1000)]));
    assert_eq!((&seen.resets[..], seen.reset()), (&[(900, 10), (950, 20)][..], Some((1850, 30))));
    assert_eq!((seen.reading.lag_records, tracker.resets(), seen.moved), (Some(1970), 1, true));
    // Gone for a while and back lower is a reset too.
    world.observe(&mut tracker, 5 * S, by_partition([None, Some(30), Some(1000)]));
    let seen = world.observe(&mut tracker, 6 * S, by_partition([Some(5), Some(30), Some(1000)]));
    assert_eq!((seen.resets, tracker.resets()), (vec![(10, 5)], 2));
}

#[test]
fn l4_stuck_and_idle_grows_one_second_a_second() {
    for kind in [ValueKind::Count, ValueKind::Sequence, ValueKind::LastOffset] {
        let mut world = World::new(1, 0);
        let mut tracker = LagTracker::new(kind, 0, OnReset::True);
        if kind == ValueKind::Count {
            world.observe(&mut tracker, 0, Progress::Total(0));
        }
        world.load(1000, 0, 20 * MS);
        let value = if kind == ValueKind::Count { 900 } else { 899 };
        for second in 20..90 {
            let seen = world.observe(&mut tracker, second * S, Progress::Total(value));
            assert_eq!(seen.reading.lag_records, Some(100), "{kind:?}");
            assert_eq!(seen.reading.lag_ns, Some((second - 18) * S), "{kind:?}");
            assert_eq!((seen.moved, seen.reading.lag_at_least), (second == 20, false), "{kind:?}");
        }
        let caught_up = value + 100;
        let seen = world.observe(&mut tracker, 100 * S, Progress::Total(caught_up));
        assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (Some(0), Some(0)));
        assert!(seen.reading.caught_up && seen.moved);
    }
}

#[test]
fn l6_seconds_are_of_the_sample_not_of_the_poll_interval() {
    let mut world = World::new(4, 0);
    let mut tracker = LagTracker::new(ValueKind::Sequence, 0, OnReset::True);
    let mut now_ns = 0;
    for _ in 0..20 {
        world.load(5000, now_ns, MS);
        now_ns += 5 * S;
        // The system is 300 ms behind; the question takes 40 ms, in which 40 records are acked.
        let heads_before = world.heads.clone();
        let values = world.records.iter().map(|records| records[records.len() - 70].1);
        let progress = Progress::Partitions((0..).zip(values.map(Some)).collect());
        world.load(40, now_ns, MS);
        let heads_after = world.heads.clone();
        let sample = Sample {
            asked_ns: now_ns,
            answered_ns: now_ns + 40 * MS,
            heads_before,
            heads_after,
            markers_before: Vec::new(),
            progress,
        };
        now_ns += 40 * MS;
        let reading = tracker.observe(&sample, &world.timelines).reading;
        assert_eq!((reading.at_ns, reading.uncertainty_records), (now_ns - 20 * MS, 20.0));
        // 69 outstanding a partition before, 5 more at the middle.
        let lag = reading.lag_records.unwrap();
        assert!((4 * 74..=4 * 74 + 8).contains(&lag), "{lag}");
        let lag_ns = reading.lag_ns.unwrap();
        assert!((290 * MS..=310 * MS).contains(&lag_ns), "{lag_ns}");
    }
}

#[test]
fn l7_a_target_at_its_beginning_is_as_old_as_the_oldest_record() {
    let mut world = World::new(1, 0);
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    for second in 0..1800 {
        world.load(100, second * S, 10 * MS);
        if second % 100 == 99 {
            let seen = world.observe(&mut tracker, (second + 1) * S, by_partition([Some(0)]));
            assert_eq!(seen.reading.lag_ns, Some((second + 1) * S));
            assert_eq!(
                (seen.reading.lag_records, seen.reading.lag_at_least),
                (Some((second + 1) * 100), false)
            );
        }
    }
    assert!(world.timelines[0].bytes() <= MAX_BYTES);
    // Records of before the run are older than any that we know: "at least".
    let mut world = World::new(1, 500);
    world.load(100, S, 10 * MS);
    let seen = world.observe(&mut tracker, 3 * S, by_partition([Some(20)]));
    assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (Some(580), Some(2 * S)));
    assert!(seen.reading.lag_at_least);
    assert_eq!(seen.reading.progress_records, Some(0.0));
    let seen = world.observe(&mut tracker, 3 * S, by_partition([Some(500)]));
    assert_eq!((seen.reading.lag_records, seen.reading.lag_at_least), (Some(100), false));
    // Nothing but older records is outstanding: their age is anybody's guess, and 0 would be a lie without the mark.
    let seen = World::new(1, 500).observe(&mut tracker, 4 * S, by_partition([Some(20)]));
    assert_eq!((seen.reading.lag_records, seen.reading.lag_at_least), (Some(480), true));
}

#[test]
fn l8_what_retention_removed_is_expired_not_lag() {
    let mut world = World::new(4, 0);
    world.load(1_000_000, 0, 10_000);
    for (head, log_start) in world.heads.iter_mut().zip([200_000, 0, 100_000, 250_000]) {
        head.log_start = log_start;
    }
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    for second in 10..40 {
        let commits = by_partition([Some(0), Some(50_000), Some(150_000), Some(0)]);
        let seen = world.observe(&mut tracker, second * S, commits);
        assert_eq!(seen.reading.lag_records, Some(50_000 + 200_000 + 100_000));
        assert_eq!(seen.reading.expired_records, 200_000 + 250_000);
        let oldest_ns = second * S - 200_001 * 10_000;
        let lag_ns = seen.reading.lag_ns.unwrap();
        assert!((oldest_ns..=oldest_ns + POINT_NS).contains(&lag_ns), "{lag_ns}");
    }
    // All that is left has expired: no lag that nobody can work off.
    let seen = world.observe(
        &mut tracker,
        40 * S,
        by_partition([Some(250_000), Some(250_000), Some(250_000), Some(0)]),
    );
    assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (Some(0), Some(0)));
}

#[test]
fn l9_a_residual_within_the_tolerance_is_shown_and_caught_up() {
    let mut world = World::new(4, 0);
    world.load(4000, 0, MS);
    for (tolerance, caught_up) in [(3, false), (4, true)] {
        let mut tracker = LagTracker::new(ValueKind::NextOffset, tolerance, OnReset::True);
        for second in 4..64 {
            let seen = world.observe(&mut tracker, second * S, by_partition([Some(999); 4]));
            assert_eq!((seen.reading.lag_records, seen.reading.caught_up), (Some(4), caught_up));
            let age_ns = if caught_up { 0 } else { second * S - 3996 * MS };
            let lag_ns = seen.reading.lag_ns.unwrap();
            assert!((age_ns..=age_ns + if caught_up { 0 } else { POINT_NS }).contains(&lag_ns), "{lag_ns}");
        }
    }
}

#[test]
fn l11_lag_rises_while_the_commit_stands_still() {
    let mut world = World::new(4, 0);
    world.load(400, 0, 10 * MS);
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    for second in 0..30 {
        let seen = world.observe(&mut tracker, (second + 4) * S, by_partition([Some(100); 4]));
        assert_eq!(seen.reading.lag_records, Some(second * 100));
        let lag_ns = seen.reading.lag_ns.unwrap();
        assert!((second * S..=second * S + POINT_NS).contains(&lag_ns), "{lag_ns}");
        world.load(100, (second + 4) * S, 10 * MS);
    }
}

#[test]
fn l13_a_record_intended_after_the_sample_has_no_age() {
    let mut world = World::new(1, 0);
    world.load(10, 5 * S, MS);
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    let seen = world.observe(&mut tracker, S, by_partition([Some(0)]));
    assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (Some(10), Some(0)));
}

#[test]
fn a_surplus_in_one_partition_hides_nothing_in_another() {
    let mut world = World::new(2, 0);
    world.load(2000, 0, MS);
    // The system has read records whose acks are still on their way.
    let mut tracker = LagTracker::new(ValueKind::NextOffset, 0, OnReset::True);
    let seen = world.observe(&mut tracker, 2 * S, by_partition([Some(5000), Some(900)]));
    assert_eq!(seen.reading.lag_records, Some(100));
    let mut tracker = LagTracker::new(ValueKind::Sequence, 0, OnReset::True);
    let seen = world.observe(&mut tracker, 2 * S, by_partition([Some(9999), Some(1799)]));
    assert_eq!(seen.reading.lag_records, Some(100));
}

#[test]
fn rows_from_before_the_run_are_the_baseline() {
    let mut world = World::new(2, 0);
    let mut tracker = LagTracker::new(ValueKind::Count, 0, OnReset::True);
    let seen = world.observe(&mut tracker, 0, Progress::Total(777));
    assert_eq!((seen.reading.lag_records, seen.reading.caught_up), (Some(0), true));
    world.load(100, 0, MS);
    let seen = world.observe(&mut tracker, S, Progress::Total(777 + 60));
    assert_eq!((seen.reading.lag_records, seen.reading.progress_records), (Some(40), Some(60.0)));
    assert_eq!(tracker.baseline(), Some(777));
    // Found in the middle of a run: only what cannot be ours is taken off.
    let mut late = LagTracker::new(ValueKind::Count, 0, OnReset::True);
    assert_eq!(world.observe(&mut late, S, Progress::Total(60)).reading.lag_records, Some(40));
    let mut late = LagTracker::new(ValueKind::Count, 0, OnReset::True);
    assert_eq!(world.observe(&mut late, S, Progress::Total(160)).reading.lag_records, Some(0));
    assert_eq!(late.baseline(), Some(60));
}

#[test]
fn sequences_of_an_earlier_run_are_no_progress() {
    let mut world = World::new(1, 0);
    let mut tracker = LagTracker::new(ValueKind::Sequence, 0, OnReset::True);
    world.observe(&mut tracker, 0, by_partition([Some(1_000_000)]));
    world.load(100, 0, MS);
    let seen = world.observe(&mut tracker, S, by_partition([Some(1_000_000)]));
    assert_eq!((seen.reading.lag_records, seen.reading.unknown_partitions), (None, 1));
    assert!(seen.unknown_reason.is_some_and(|reason| reason.contains("earlier run")));
    // The table was emptied: now it shows ours.
    let seen = world.observe(&mut tracker, 2 * S, by_partition([Some(49)]));
    assert_eq!((seen.reading.lag_records, seen.reading.unknown_partitions), (Some(50), 0));
    // Seen before its ack, which came later: ours all the same.
    let mut world = World::new(1, 0);
    let mut tracker = LagTracker::new(ValueKind::Sequence, 0, OnReset::True);
    world.observe(&mut tracker, 0, by_partition([Some(2)]));
    world.load(3, 0, MS);
    let seen = world.observe(&mut tracker, S, by_partition([Some(2)]));
    assert_eq!((seen.reading.lag_records, seen.reading.caught_up), (Some(0), true));
}

#[test]
fn one_figure_without_partition_is_refused_where_it_needs_one() {
    let mut world = World::new(4, 0);
    world.load(100, 0, MS);
    let mut tracker = LagTracker::new(ValueKind::Sequence, 0, OnReset::True);
    let seen = world.observe(&mut tracker, S, Progress::Total(99));
    assert_eq!(seen.reading.lag_records, None);
    assert_eq!(
        seen.unknown_reason.as_deref(),
        Some("one sequence without its partition, and the stream has 4 partitions")
    );
    let seen = world.observe(&mut tracker, S, Progress::Partitions(BTreeMap::from([(9, Some(1))])));
    assert_eq!(
        seen.unknown_reason.as_deref(),
        Some("values only for partitions that the stream does not have: [9]")
    );
}

const fn tells_records(kind: ValueKind) -> bool {
    !matches!(kind, ValueKind::Marker | ValueKind::LagSeconds)
}

fn kinds() -> impl Strategy<Value = ValueKind> {
    prop::sample::select(&ValueKind::ALL[..])
}

fn any_head() -> impl Strategy<Value = Head> {
    let below = 0_u64..1 << 40;
    (below.clone(), prop::option::of(below.clone()), below.clone(), below.clone(), below).prop_map(
        |(next_offset, last_sequence, acked, baseline, log_start)| Head {
            unseen: 0,
            restarts: 0,
            lost: 0,
            next_offset,
            last_sequence,
            acked,
            baseline,
            log_start,
        },
    )
}

fn any_value() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0_u64..1 << 40, Just(u64::MAX), Just(0)]
}

fn any_progress() -> impl Strategy<Value = Progress> {
    prop_oneof![
        prop::collection::btree_map(0_u32..6, prop::option::of(any_value()), 0..6)
            .prop_map(Progress::Partitions),
        any_value().prop_map(Progress::Total),
        Just(Progress::NoData("no rows".into())),
    ]
}

proptest! {
    /// Random partitions, progress and poll: every figure against the plain lists.
    #[test]
    fn figures_agree_with_the_plain_lists(
        kind in kinds().prop_filter("tells records", |kind| tells_records(*kind)),
        partitions in 1_usize..5,
        baseline in 0_u64..1000,
        acks in prop::collection::vec((0_usize..5, 0_u64..50 * MS), 1..400),
        ingested in prop::collection::vec(any::<prop::sample::Index>(), 5),
        idle_ns in 0..100 * S,
    ) {
        let mut world = World::new(partitions, baseline);
        let mut now_ns = S;
        for (partition, gap_ns) in acks {
            now_ns += gap_ns;
            world.ack(partition % partitions, now_ns);
        }
        now_ns += idle_ns;
        let mut tracker = LagTracker::new(kind, 0, OnReset::True);
        let (mut values, mut outstanding, mut oldest, mut groups) = (BTreeMap::new(), 0, None::<u64>, 0);
        for (partition, records) in world.records.iter().enumerate() {
            let mut done = ingested[partition].index(records.len() + 1);
            let newest_ms = done.checked_sub(1).map(|last| records[last].2 / MS);
            if let Some(ms) = newest_ms.filter(|_| kind == ValueKind::EventTime) {
                // Records of one millisecond are visible together.
                done = records.iter().filter(|record| record.2 / MS <= ms).count();
            }
            let next = records.get(done).map(|record| record.0);
            let value = match kind {
                ValueKind::NextOffset => Some(next.unwrap_or(world.heads[partition].next_offset)),
                ValueKind::LastOffset => (baseline + done as u64).checked_sub(1),
                ValueKind::Sequence => done.checked_sub(1).map(|last| records[last].1),
                ValueKind::Count => Some(done as u64),
                ValueKind::EventTime => newest_ms,
                ValueKind::LagRecords => Some((records.len() - done) as u64),
                ValueKind::Marker | ValueKind::LagSeconds => unreachable!(),
            };
            values.insert(partition as u32, value);
            if value.is_some() {
                outstanding += (records.len() - done) as u64;
                oldest = oldest.into_iter().chain(records.get(done).map(|record| record.2)).min();
                let point = world.timelines[partition].points().find(|point| point.acked_after() > done as u64);
                groups += point.map_or(0, |point| point.records - 1);
            }
        }
        let known = values.values().flatten().count();
        let seen = world.observe(&mut tracker, now_ns, Progress::Partitions(values));
        let shares: Vec<_> = seen.partitions.iter().filter(|one| one.lag_records.is_some()).collect();
        prop_assert_eq!((seen.partitions.len(), shares.len()), (partitions, known));
        let lag: u64 = shares.iter().filter_map(|one| one.lag_records).sum();
        prop_assert_eq!(seen.reading.lag_records.unwrap_or(0), lag, "the shares add up");
        prop_assert_eq!(seen.reading.lag_ns, shares.iter().filter_map(|one| one.lag_ns).max());
        let seen = seen.reading;
        if known == 0 {
            prop_assert_eq!(seen.lag_records, None);
            return Ok(());
        }
        let off = seen.lag_records.unwrap().abs_diff(outstanding);
        prop_assert!(off <= if matches!(kind, ValueKind::Sequence | ValueKind::EventTime) { groups } else { 0 }, "{} off", off);
        let age_ns = oldest.map_or(0, |oldest| now_ns - oldest);
        let lag_ns = seen.lag_ns.unwrap();
        let most_ns = if oldest.is_some() { age_ns + POINT_NS } else { 0 };
        prop_assert!((age_ns..=most_ns).contains(&lag_ns), "{} for {}", lag_ns, age_ns);
        prop_assert_eq!(seen.caught_up, outstanding == 0 && seen.unknown_partitions == 0);
        prop_assert!(!seen.lag_at_least);
    }

    /// No answer, however mad, panics or gives more lag than there are records.
    #[test]
    fn no_sample_panics_or_makes_up_lag(
        kind in kinds(),
        rebase in any::<bool>(),
        tolerance in any_value(),
        samples in prop::collection::vec(
            (
                (any::<u64>(), any::<u64>()),
                prop::collection::vec(any_head(), 0..5),
                prop::collection::vec(any_head(), 0..5),
                any_progress(),
            ),
            1..12,
        ),
        acks in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 40, 0..S), 0..50),
    ) {
        let mut timeline = Timeline::default();
        for (offset, sequence, intended_ns) in acks {
            timeline.acked(offset, sequence, intended_ns, intended_ns);
        }
        let timelines = vec![timeline; 3];
        let on_reset = if rebase { OnReset::Rebase } else { OnReset::True };
        let mut tracker = LagTracker::new(kind, tolerance, on_reset);
        let mut last = 0.0;
        for ((asked_ns, answered_ns), heads_before, heads_after, progress) in samples {
            let most: u64 = heads_before
                .iter()
                .chain(&heads_after)
                .map(|head| head.next_offset.max(head.acked))
                .sum();
            let sample = Sample { asked_ns, answered_ns, heads_before, heads_after, markers_before: Vec::new(), progress };
            let seen = tracker.observe(&sample, &timelines);
            let reading = &seen.reading;
            prop_assert_eq!(reading.lag_ns.is_none(), seen.unknown_reason.is_some());
            prop_assert_eq!(reading.lag_records.is_none(), reading.lag_ns.is_none() || !tells_records(kind));
            prop_assert!(reading.lag_records.is_none_or(|lag| lag <= most || kind.is_stated()));
            prop_assert!(reading.uncertainty_records >= 0.0);
            prop_assert!(reading.lag_ns.is_some() || !reading.caught_up);
            if let (OnReset::Rebase, ValueKind::Count, Progress::Total(_)) = (on_reset, kind, &sample.progress) {
                // Unknown when it counts far more than there is.
                let progress = reading.progress_records.unwrap_or(last);
                prop_assert!(progress >= last, "rebased progress never falls");
                last = progress;
            }
        }
    }
}
