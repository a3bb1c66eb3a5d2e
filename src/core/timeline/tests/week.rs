//! A week of load, known by formula.

use super::*;

/// Load known by formula, pushed as the points that single acks would make.
pub(in crate::core::timeline) struct Week {
    pub(in crate::core::timeline) timeline: Timeline,
    pub(in crate::core::timeline) now_ns: u64,
    acked: u64,
    most_bytes: usize,
    /// (first record, when, nanoseconds between records)
    stretches: Vec<(u64, u64, f64)>,
}

impl Week {
    pub(in crate::core::timeline) fn new() -> Self {
        Self { timeline: Timeline::default(), now_ns: 0, acked: 0, most_bytes: 0, stretches: Vec::new() }
    }

    pub(in crate::core::timeline) fn load(&mut self, rate: f64, for_ns: u64, step_ns: u64) {
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
    pub(in crate::core::timeline) fn check(&self) {
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
fn long_a_week_in_every_point_fits() {
    for rate in [100.0, 1e6] {
        let mut week = Week::new();
        for _ in 0..7 * 24 {
            week.load(rate, HOUR, POINT_NS);
        }
        week.check();
    }
}

/// A week told in lines, with a restart every day that reads all lines so far: the week goes on from what it finds.
#[test]
fn a_week_with_restarts_is_found_again_from_its_lines() {
    let mut week = Week::new();
    let (mut lines, mut told) = (Vec::new(), Cursor::default());
    for day in 0..7 {
        for hour in 0..24 {
            for minute in 0..6 {
                let rate = [0.7, 50.0, 20_000.0, 1e6][(minute + hour + day) % 4];
                week.load(rate, 9 * 60 * S + S / 7, S);
                week.now_ns += [0, 30 * S, S / 3][hour % 3];
                if let Some((line, next)) = Line::since(&week.timeline, told, week.now_ns) {
                    lines.push(line);
                    told = next;
                }
            }
        }
        // Killed and started again a minute later.
        week.load(1000.0, 60 * S, POINT_NS);
        lines.extend(Line::since(&week.timeline, told, week.now_ns).map(|(line, _)| line));
        week.now_ns += 60 * S;
        let mut timeline = Timeline::default();
        for line in &lines {
            timeline.restore(line.points().unwrap(), week.now_ns);
            assert!(timeline.bytes() <= MAX_BYTES);
        }
        assert_eq!((timeline.count(), timeline.last()), (week.timeline.count(), week.timeline.last()));
        told = timeline.told();
        week.timeline = timeline;
        week.check();
    }
    eprintln!("{} lines, {} bytes", lines.len(), serde_json::to_string(&lines).unwrap().len());
}
