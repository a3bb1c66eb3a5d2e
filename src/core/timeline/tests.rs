use proptest::prelude::*;

use super::*;

mod week;

const S: u64 = 1_000_000_000;

/// How far an answer may be to the older side.
fn allowed(age_ns: u64) -> u64 {
    POINT_NS.max(age_ns / 100)
}

/// The plain truth: every acked record is kept.
#[derive(Default)]
struct Truth {
    records: Vec<Mark>,
    timeline: Timeline,
}

impl Truth {
    fn ack(&mut self, offset: u64, sequence: u64, intended_ns: u64) {
        self.records.push(Mark { offset, sequence, intended_ns });
        self.timeline.acked(offset, sequence, intended_ns, intended_ns);
    }

    fn check(&self, key: Key, now_ns: u64) {
        let ingested = self
            .records
            .iter()
            .enumerate()
            .filter(|(index, record)| match key {
                Key::Offset(next) => record.offset < next,
                Key::Sequence(sequence) => record.sequence <= sequence,
                Key::Count(count) => (*index as u64) < count,
                Key::Intended(limit_ns) => record.intended_ns < limit_ns,
            })
            .count();
        let found = self.timeline.find(key);
        let Some(oldest) = self.records.get(ingested) else {
            assert_eq!(found, None, "{key:?}: nothing is outstanding");
            return;
        };
        let found = found.unwrap_or_else(|| panic!("{key:?}: {oldest:?} is outstanding"));
        let error_ns = i128::from(oldest.intended_ns) - i128::from(found.intended_ns);
        let allowed_ns = allowed(now_ns - oldest.intended_ns);
        assert!((0..=i128::from(allowed_ns)).contains(&error_ns), "{key:?}: {error_ns} of {allowed_ns} ns");
        let point =
            self.timeline.points().find(|point| point.acked_after() > ingested as u64).expect("its point");
        assert!(
            (point.acked_before..point.acked_after()).contains(&found.acked_before),
            "{key:?}: {found:?} of {point:?}"
        );
        if point.acked_before == ingested as u64 || matches!(key, Key::Count(_)) {
            assert_eq!(found.acked_before, ingested as u64, "{key:?} is exact");
        }
        let first = self.records[0];
        let early = matches!(key, Key::Offset(next) if next < first.offset);
        assert_eq!(found.at_least, early, "{key:?}");
    }
}

fn restored(points: impl IntoIterator<Item = Point>, now_ns: u64) -> Timeline {
    let mut timeline = Timeline::default();
    timeline.restore(points, now_ns);
    timeline
}

/// A stretch of load: nanoseconds between records, how many, then a pause.
fn stretches() -> impl Strategy<Value = Vec<(u64, usize, u64)>> {
    let gap = prop_oneof![1_u64..100_000, 1_000_000_u64..40_000_000, S..200 * S];
    prop::collection::vec((gap, 1_usize..2_500, prop_oneof![Just(0), 0..3600 * S]), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any load, foreign offsets and other partitions' sequences between ours: every answer within the bound.
    #[test]
    fn answers_err_to_the_older_side_within_the_bound(
        stretches in stretches(),
        start in (0_u64..1_000_000, 0_u64..1_000_000, 0..S),
        steps in prop::collection::vec((1_u64..4, 1_u64..9), 1..20),
        asked in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..3), 40),
        idle_ns in 0..100 * S,
    ) {
        let mut truth = Truth::default();
        let (mut offset, mut sequence, mut now_ns) = start;
        let mut steps = steps.iter().cycle();
        for (gap_ns, records, pause_ns) in stretches {
            for _ in 0..records {
                truth.ack(offset, sequence, now_ns);
                let (offsets, sequences) = steps.next().unwrap();
                offset += offsets;
                sequence += sequences;
                now_ns += gap_ns;
            }
            now_ns += pause_ns;
        }
        now_ns += idle_ns;
        for (index, off) in asked {
            let index = index.index(truth.records.len());
            let record = truth.records[index];
            truth.check(Key::Offset(record.offset + off), now_ns);
            truth.check(Key::Sequence(record.sequence + off), now_ns);
            truth.check(Key::Count(index as u64 + off), now_ns);
            truth.check(Key::Intended(record.intended_ns + off), now_ns);
        }
        truth.check(Key::Offset(0), now_ns);
        prop_assert!(truth.timeline.bytes() <= MAX_BYTES);
        prop_assert_eq!(truth.timeline.count(), truth.records.len() as u64);
        prop_assert_eq!(truth.timeline.last(), truth.records.last().copied());
        // What the record keeps is the timeline.
        prop_assert!(restored(truth.timeline.points(), now_ns).points().eq(truth.timeline.points()));
    }

    /// Whatever comes in, nothing panics, the count is true, points stay in order and memory is bounded.
    #[test]
    fn any_acks_leave_an_ordered_bounded_timeline(
        acks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..3000),
        keys in prop::collection::vec(any::<u64>(), 5),
    ) {
        let mut timeline = Timeline::default();
        for (shift, (offset, sequence, intended_ns, now_ns)) in acks.iter().enumerate() {
            // Growing magnitudes, so that not all but the first few are "late".
            let shift = 63 - shift * 64 / acks.len().max(1) % 64;
            timeline.acked(offset >> shift, sequence >> shift, intended_ns >> shift, *now_ns);
        }
        prop_assert_eq!(timeline.count(), acks.len() as u64);
        prop_assert!(timeline.bytes() <= MAX_BYTES);
        let points: Vec<Point> = timeline.points().collect();
        for pair in points.windows(2) {
            prop_assert!(pair[0].last.offset < pair[1].first.offset);
            prop_assert!(pair[0].last.sequence <= pair[1].first.sequence);
            prop_assert!(pair[0].first.intended_ns <= pair[1].first.intended_ns);
            prop_assert_eq!(pair[0].acked_after(), pair[1].acked_before);
        }
        for key in keys {
            for key in [Key::Offset(key), Key::Sequence(key), Key::Count(key), Key::Intended(key)] {
                if let Some(found) = timeline.find(key) {
                    prop_assert!(found.acked_before < timeline.count());
                }
            }
        }
    }

    /// The total over partitions, against every record sorted by intended time.
    #[test]
    fn a_total_finds_the_next_record_in_intended_order(
        partitions in prop::collection::vec((1_u64..200_000_000, 0..S, 1_usize..400), 1..5),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) {
        let (mut all, mut timelines) = (Vec::new(), Vec::new());
        for (gap_ns, start_ns, records) in partitions {
            let mut timeline = Timeline::default();
            for record in 0..records as u64 {
                let intended_ns = start_ns + record * gap_ns;
                timeline.acked(record, record, intended_ns, intended_ns);
                all.push(intended_ns);
            }
            timelines.push(timeline);
        }
        all.sort_unstable();
        for index in asked {
            let count = index.index(all.len());
            let found = find_count(&timelines, count as u64).expect("outstanding");
            prop_assert!(found.intended_ns <= all[count] && all[count] - found.intended_ns <= POINT_NS);
            prop_assert_eq!((found.acked_before, found.at_least), (count as u64, false));
        }
        prop_assert_eq!(find_count(&timelines, all.len() as u64), None);
    }
}

#[test]
fn nothing_acked_or_all_ingested_finds_nothing() {
    let mut timeline = Timeline::default();
    assert_eq!(timeline.find(Key::Offset(0)), None);
    assert_eq!((timeline.count(), timeline.last()), (0, None));
    timeline.acked(100, 7, 5 * S, 5 * S);
    assert_eq!(timeline.find(Key::Offset(101)), None);
    assert_eq!(timeline.find(Key::Sequence(7)), None);
    assert_eq!(timeline.find(Key::Count(1)), None);
    let found = Found { intended_ns: 5 * S, acked_before: 0, at_least: false };
    for key in [Key::Offset(100), Key::Sequence(6), Key::Count(0)] {
        assert_eq!(timeline.find(key), Some(found), "{key:?}");
    }
    assert!(timeline.find(Key::Offset(99)).is_some_and(|found| found.at_least));
}

/// Caught up before a pause, a transaction marker behind the last record, other partitions' sequences in between: the
/// first record after the pause is the oldest outstanding, not the last one before it.
#[test]
fn a_pause_is_not_lag_of_those_who_had_caught_up() {
    let mut timeline = Timeline::default();
    for record in 0..10 {
        timeline.acked(record, record * 4 + 1, record * 1_000_000, record * 1_000_000);
    }
    timeline.acked(12, 61, 3600 * S, 3600 * S);
    let after = Some(Found { intended_ns: 3600 * S, acked_before: 10, at_least: false });
    for key in [Key::Offset(10), Key::Offset(12), Key::Sequence(37), Key::Sequence(60), Key::Count(10)] {
        assert_eq!(timeline.find(key), after, "{key:?}");
    }
    assert_eq!(timeline.find(Key::Offset(9)).map(|found| found.acked_before), Some(9));
}

/// A retried batch without idempotence, an ack twice, and a marker that has no sequence of the stream's and is due
/// now while the records around it are eight seconds late.
#[test]
fn late_double_and_foreign_acks_keep_count_and_order() {
    let mut timeline = Timeline::default();
    timeline.acked(5, 50, 10 * S, 18 * S);
    timeline.acked(5, 50, 10 * S, 18 * S);
    timeline.acked(3, 30, 10 * S - 5, 18 * S);
    assert_eq!((timeline.count(), timeline.last().map(|last| last.offset)), (3, Some(5)));
    timeline.acked(6, 0, 18 * S, 18 * S);
    timeline.acked(7, 60, 10 * S + 20_000_000, 18 * S);
    timeline.acked(8, 70, 10 * S + 40_000_000, 18 * S);
    assert_eq!(timeline.find(Key::Offset(7)).map(|found| found.intended_ns), Some(10 * S + 20_000_000));
    assert_eq!(timeline.find(Key::Sequence(60)).map(|found| found.intended_ns), Some(10 * S + 40_000_000));
    assert_eq!(timeline.count(), 6);
    assert_eq!(timeline.find(Key::Offset(9)), None);
}

/// Points told several times while they filled; some missing.
#[test]
fn points_of_several_times_make_one_timeline() {
    let mut timeline = Timeline::default();
    let mut told = Vec::new();
    for record in 0..1000 {
        timeline.acked(record, record, record * 3_000_000, record * 3_000_000);
        if record % 7 == 0 || record == 999 {
            told.extend(timeline.points().skip(timeline.points().count().saturating_sub(3)));
        }
    }
    assert!(restored(told.clone(), 3 * S).points().eq(timeline.points()));
    told.retain(|point| !(300..600).contains(&point.acked_before));
    let holed = restored(told, 3 * S);
    assert_eq!((holed.count(), holed.last()), (1000, timeline.last()));
    assert_eq!(holed.find(Key::Count(700)), timeline.find(Key::Count(700)));
    // What is in the hole is as old as what comes before it.
    assert!(holed.find(Key::Count(450)).unwrap().intended_ns <= 300 * 3_000_000);
    // Without its beginning, a look-up before it is a lower bound.
    let cut = restored(timeline.points().filter(|point| point.acked_before >= 500), 3 * S);
    let found = cut.find(Key::Count(3)).expect("outstanding");
    assert!(found.at_least && found.acked_before >= 500);
    assert!(cut.find(Key::Sequence(3)).is_some_and(|found| found.at_least));
    assert!(find_count(&[cut], 3).is_some_and(|found| found.at_least));
}

/// Records are late and a marker is on time, thousands of points before those that are looked for: the search by time
/// finds what the plain list does, whichever stops lie between.
#[test]
fn a_marker_ahead_of_late_records_misleads_no_search_by_time() {
    let mut timeline = Timeline::default();
    let mut list = Vec::new();
    for record in 0..6000_u64 {
        let late_ns = record * 11_000_000;
        // One marker in a thousand, eight seconds ahead of the records around it.
        let intended_ns = if record % 1000 == 500 { late_ns + 8 * S } else { late_ns };
        timeline.acked(record, record, intended_ns, late_ns + 8 * S);
        list.push(intended_ns);
    }
    assert!(timeline.stops.len() > 20);
    for limit_ns in (0..70).map(|second| second * S + 3) {
        // A system that reads in order shows a marker's time as soon as it has read it.
        let ingested = list.iter().position(|intended_ns| *intended_ns >= limit_ns);
        let found = timeline.find(Key::Intended(limit_ns));
        assert_eq!(found.is_some(), ingested.is_some(), "at {limit_ns}");
        let (Some(found), Some(ingested)) = (found, ingested) else { continue };
        // The record of a marker's point that comes after it.
        assert!(found.acked_before.abs_diff(ingested as u64) <= 1, "{found:?} for {ingested} at {limit_ns}");
        assert!(found.intended_ns >= limit_ns && found.intended_ns <= list[ingested]);
    }
}

/// More than a week fits only more coarsely: memory stays bounded and answers err to the older side.
#[test]
fn what_does_not_fit_becomes_coarser_not_larger() {
    let mut timeline = Timeline::default();
    let mut now_ns = 0;
    for record in 0..70_000_u64 {
        // Foreign writers and a growing gap: the longest encoding there is, far beyond a week.
        now_ns += POINT_NS + now_ns / 5000;
        timeline.acked(record * 1_000_000_007, record * 1_000_000_009, now_ns, now_ns);
        assert!(timeline.bytes() <= MAX_BYTES);
    }
    for record in (0..70_000).step_by(9973) {
        let found = timeline.find(Key::Count(record)).expect("outstanding");
        assert_eq!(found.acked_before, record);
    }
}

#[test]
fn a_time_within_a_point_is_answered_exactly() {
    let mut timeline = Timeline::default();
    for record in 0..9_u64 {
        timeline.acked(record, record, S + record * 1_000_000, 2 * S);
    }
    assert_eq!(timeline.points().count(), 1);
    let found = timeline.find(Key::Intended(S + 5_000_000)).expect("outstanding");
    assert_eq!((found.intended_ns, found.acked_before, found.at_least), (S + 5_000_000, 5, false));
    assert_eq!(timeline.find(Key::Intended(S)).map(|found| found.acked_before), Some(0));
    assert_eq!(timeline.find(Key::Intended(S + 8_000_001)), None);
}
