//! Drawings as they look, and that they fit whatever is drawn.
#![allow(clippy::float_cmp)] // numbers that are exact

use proptest::prelude::*;

use super::*;
use crate::core::profile::{Course, Segment};
use crate::core::rate::Rate;
use crate::core::shape::Shape;

const SECOND: u64 = 1_000_000_000;

fn per_second(rate: u64) -> Rate {
    Rate::from_micros(rate * 1_000_000)
}

fn segment(shape: Shape, seconds: u64) -> Segment {
    Segment { course: Course::Shape(shape), length_ns: seconds * SECOND }
}

fn profile(segments: Vec<Segment>, times: u64) -> Profile {
    Profile::new(segments, times, serde_json::Value::Null).unwrap()
}

#[test]
fn a_profile_looks_like_its_rate() {
    let segments = vec![
        segment(Shape::Constant(per_second(10_000)), 600),
        segment(
            Shape::Ramp { from: per_second(10_000), to: per_second(50_000), over_ns: 600 * SECOND, at_ns: 0 },
            600,
        ),
        Segment {
            course: Course::Burst {
                rate: per_second(30_000),
                burst_ns: 60 * SECOND,
                idle: Rate::ZERO,
                every_ns: 300 * SECOND,
            },
            length_ns: 900 * SECOND,
        },
    ];
    let around = Around { warmup_ns: 30 * SECOND, preload: 1000, ..Around::default() };
    let drawing = draw("main", &profile(segments, 1), &around);
    assert_eq!(drawing, include_str!("drawing.txt"), "\n{drawing}");
}

#[test]
fn sums_say_what_ends_and_what_does_not() {
    let sine =
        Shape::Sine { mean: per_second(100), amplitude: per_second(100), period_ns: 60 * SECOND, at_ns: 0 };
    let forever = draw("a", &profile(vec![segment(sine, 60)], u64::MAX), &Around::default());
    assert!(forever.contains("  one time    6,000 records in 1min, again and again\n"), "{forever}");
    let around = Around { duration_ns: Some(3600 * SECOND), records: Some(1234), ..Around::default() };
    let thrice = draw("a", &profile(vec![segment(sine, 60)], 3), &around);
    assert!(thrice.contains("  one time    6,000 records in 1min, 3 times\n"), "{thrice}");
    assert!(thrice.contains("  profile     18,000 records in 3min\n"), "{thrice}");
    assert!(thrice.contains("  measured    18,000 records in 1h\n"), "{thrice}");
    assert!(
        thrice.contains("  after it    0 records/s\n") && thrice.contains("  at most     1,234 records\n")
    );
    let open = vec![
        segment(Shape::Max, 5),
        Segment { length_ns: u64::MAX, ..segment(Shape::Constant(per_second(2)), 1) },
    ];
    let open = draw("a", &profile(open, 1), &Around::default());
    assert!(open.contains("^^^"), "{open}");
    assert!(open.contains("110 records, and as many at \"max\" (^)"), "{open}");
    assert!(open.contains("the last part has no end"), "{open}");
    let nothing = draw("a", &profile(vec![segment(Shape::Constant(Rate::ZERO), 5)], 1), &Around::default());
    assert!(nothing.contains("  profile     0 records in 5s\n"), "{nothing}");
}

#[test]
fn numbers_and_lengths_are_short() {
    let numbers = [0.5, 1.0, 12.5, 250.0, 12_500.0, 1e6, 1_250_000.0, 1e9].map(number);
    assert_eq!(numbers, ["0.5", "1", "12.5", "250", "12,500", "1 M", "1.25 M", "1000 M"]);
    let lengths = [0, 250_000_000, SECOND, 90 * SECOND, 3600 * SECOND, 90_061 * SECOND].map(length);
    assert_eq!(lengths, ["0s", "250ms", "1s", "1min 30s", "1h", "1d 1h"]);
    assert_eq!([0.0, 0.7, 1.0, 11.0, 49_000.0].map(round_up), [0.0, 0.8, 1.0, 12.0, 50_000.0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_drawing_fits_eighty_columns(
        rates in prop::collection::vec((0_u64..=1_000_000_000_000_000, 10_000_000_u64..3650 * 86_400 * SECOND), 1..4),
        times in prop_oneof![Just(1_u64), Just(u64::MAX)],
        burst in any::<bool>(),
    ) {
        let segments = rates.into_iter().map(|(micros, length_ns)| {
            let rate = Rate::from_micros(micros);
            let course = if burst {
                Course::Burst { rate, burst_ns: 10_000_000, idle: Rate::ZERO, every_ns: 20_000_000 }
            } else {
                Course::Shape(Shape::Constant(rate))
            };
            Segment { course, length_ns }
        });
        let profile = profile(segments.collect(), times);
        let drawing = draw("main", &profile, &Around::default());
        for line in drawing.lines() {
            prop_assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
