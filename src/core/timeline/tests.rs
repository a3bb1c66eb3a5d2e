use proptest::prelude::*;

use super::*;

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
        let rebuilt = Timeline::from_points(truth.timeline.points(), now_ns);
        prop_assert!(rebuilt.points().eq(truth.timeline.points()));
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

/// Record lines hold a point several times while it fills; lines may be missing.
#[test]
fn points_of_several_lines_make_one_timeline() {
    let mut timeline = Timeline::default();
    let mut lines = Vec::new();
    for record in 0..1000 {
        timeline.acked(record, record, record * 3_000_000, record * 3_000_000);
        if record % 7 == 0 || record == 999 {
            lines.extend(timeline.points().skip(timeline.points().count().saturating_sub(3)));
        }
    }
    assert!(Timeline::from_points(lines.clone(), 3 * S).points().eq(timeline.points()));
    lines.retain(|point| !(300..600).contains(&point.acked_before));
    let holed = Timeline::from_points(lines, 3 * S);
    assert_eq!((holed.count(), holed.last()), (1000, timeline.last()));
    assert_eq!(holed.find(Key::Count(700)), timeline.find(Key::Count(700)));
    // Without its beginning, a look-up before it is a lower bound.
    let cut = Timeline::from_points(timeline.points().filter(|point| point.acked_before >= 500), 3 * S);
    let found = cut.find(Key::Count(3)).expect("outstanding");
    assert!(found.at_least && found.acked_before >= 500);
    assert!(cut.find(Key::Sequence(3)).is_some_and(|found| found.at_least));
    assert!(find_count(&[cut], 3).is_some_and(|found| found.at_least));
}

/// Load known by formula, pushed as the points that single acks would make.
struct Week {
    timeline: Timeline,
    now_ns: u64,
    acked: u64,
    most_bytes: usize,
    /// (first record, when, nanoseconds between records)
    stretches: Vec<(u64, u64, f64)>,
}

impl Week {
    fn new() -> Self {
        Self { timeline: Timeline::default(), now_ns: 0, acked: 0, most_bytes: 0, stretches: Vec::new() }
    }

    fn load(&mut self, rate: f64, for_ns: u64, step_ns: u64) {
        let (first, from_ns) = (self.acked, self.now_ns);
        self.stretches.push((first, from_ns, 1e9 / rate));
        let end_ns = from_ns + for_ns;
        while self.intended_ns(self.acked) < end_ns {
            let begin_ns = self.intended_ns(self.acked);
            let mut records = ((rate * step_ns as f64 / 1e9) as u64).max(1);
            while self.intended_ns(self.acked + records - 1) - begin_ns >= step_ns {
                records -= 1;
            }
            let mark =
                |record: u64, intended_ns| Mark { offset: record + 9, sequence: record * 3 + 1, intended_ns };
            let last = self.acked + records - 1;
            let point = Point {
                acked_before: self.acked,
                records,
                first: mark(self.acked, begin_ns),
                last: mark(last, self.intended_ns(last)),
            };
            self.timeline.push(point, begin_ns + step_ns);
            self.acked += records;
            self.most_bytes = self.most_bytes.max(self.timeline.bytes());
        }
        self.now_ns = end_ns.max(self.intended_ns(self.acked));
    }

    fn intended_ns(&self, record: u64) -> u64 {
        let stretch = self.stretches.iter().rev().find(|stretch| stretch.0 <= record).expect("a stretch");
        stretch.1 + ((record - stretch.0) as f64 * stretch.2) as u64
    }

    /// Asks for records of every age.
    fn check(&self) {
        assert!(self.most_bytes <= MAX_BYTES, "{} bytes", self.most_bytes);
        let mut worst = 0.0_f64;
        for tenth in 0..400 {
            let behind = (1.07_f64.powi(tenth) * 3.7) as u64;
            let Some(record) = self.acked.checked_sub(behind.max(1)) else { break };
            let (truth_ns, age_ns) = (self.intended_ns(record), self.now_ns - self.intended_ns(record));
            for key in [Key::Count(record), Key::Offset(record + 9), Key::Sequence(record * 3)] {
                let found = self.timeline.find(key).expect("outstanding");
                assert!(found.intended_ns <= truth_ns, "{key:?} errs to the younger side");
                let error_ns = truth_ns - found.intended_ns;
                assert!(error_ns <= allowed(age_ns), "{key:?}: {error_ns} ns at {age_ns} ns");
                if error_ns > POINT_NS {
                    worst = worst.max(error_ns as f64 / age_ns as f64);
                }
                // Records at even distances are interpolated exactly.
                assert!(found.acked_before.abs_diff(record) <= 1 + behind / 1000, "{key:?}: {found:?}");
            }
        }
        eprintln!(
            "{} records: {} points, {} bytes (most {}), worst {worst:.4}",
            self.acked,
            self.timeline.points().count(),
            self.timeline.closed.len(),
            self.most_bytes
        );
    }
}

const HOUR: u64 = 3600 * S;

#[test]
fn l7_a_week_at_any_rate_fits_and_stays_within_one_percent() {
    for rate in [0.01, 1.0, 333.0, 1e6] {
        let mut week = Week::new();
        // Coarse steps at first, so that the test is quick; the last hours as a lane makes them.
        week.load(rate, 7 * 24 * HOUR - HOUR / 2, S.max(POINT_NS));
        week.load(rate, HOUR / 2, POINT_NS);
        week.check();
    }
}

#[test]
fn a_week_of_pauses_bursts_and_rate_changes_fits() {
    let mut week = Week::new();
    for day in 0..7 {
        for burst in 0..400 {
            week.load([0.7, 50.0, 20_000.0, 1e6][(burst + day) % 4], 30 * S, S / 5);
            week.now_ns += [S / 3, 20 * S, 170 * S, 500 * S][burst / 3 % 4];
        }
        week.check();
    }
}

#[test]
#[ignore = "long: every point of a week, 60 million"]
fn a_week_in_every_point_fits() {
    for rate in [100.0, 1e6] {
        let mut week = Week::new();
        for _ in 0..7 * 24 {
            week.load(rate, HOUR, POINT_NS);
        }
        week.check();
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
