//! Properties of the shapes: integrals that are exact, never fall, and do not care where they are cut.

use proptest::prelude::*;

use super::*;
use crate::core::rate::RECORD;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![
        Just(0_u64),
        1_u64..1_000_000,
        1_000_000_u64..=1_000_000_000,
        1_000_000_000_u64..=1_000_000_000_000_000
    ]
    .prop_map(Rate::from_micros)
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![10_000_000_u64..SECOND, SECOND..DAY, DAY..31 * DAY]
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        rate().prop_map(Shape::Constant),
        (rate(), rate(), length()).prop_map(|(from, to, over_ns)| Shape::Ramp {
            from,
            to,
            over_ns,
            at_ns: 0
        }),
        (rate(), 0.0..=1.0_f64, length(), length()).prop_map(|(mean, part, period_ns, at_ns)| {
            let amplitude = Rate::from_micros((mean.micros() as f64 * part) as u64).min(mean);
            Shape::Sine { mean, amplitude, period_ns, at_ns: at_ns % period_ns }
        }),
    ]
}

/// A moment near something that matters: anywhere, or within some nanoseconds of a fraction of a long time.
fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..31 * DAY,
        (0_u64..64, 0_u64..5).prop_map(|(part, ns)| (31 * DAY / 64 * part).saturating_sub(ns))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_integral_never_falls(shape in shape(), at in moment(), by in prop_oneof![Just(1_u64), 1_u64..DAY]) {
        prop_assert!(shape.accrued(at) <= shape.accrued(at + by));
    }

    /// Around the trough and the crest of a sine, where rounding and mirror meet.
    #[test]
    fn a_sine_never_falls_at_its_turning_points(
        mean in 1_u64..=1_000_000_000_000_000,
        part in prop_oneof![Just(1.0), 0.0..=1.0_f64],
        period_ns in length(),
        turn in 0_u64..8,
        near in 0_u64..2000,
    ) {
        let amplitude = Rate::from_micros((mean as f64 * part) as u64).min(Rate::from_micros(mean));
        let shape = Shape::Sine { mean: Rate::from_micros(mean), amplitude, period_ns, at_ns: 0 };
        let at = (period_ns / 4 * turn + 1000).saturating_sub(near);
        prop_assert!(shape.accrued(at) <= shape.accrued(at + 1), "{at}");
        // Where the series takes over from the sine.
        let at = (period_ns as f64 / (2.0 * PI)) as u64 + 1000 - near.min(1000);
        prop_assert!(shape.accrued(at) <= shape.accrued(at + 1), "{at}");
    }

    #[test]
    fn a_cut_moves_nothing(shape in shape(), first in moment(), then in moment()) {
        let whole = shape.accrued(first + then);
        prop_assert_eq!(shape.accrued(first) + shape.later(first).accrued(then), whole);
    }

    #[test]
    fn a_ramp_is_the_mean_of_its_ends_rounded_down_or_up(from in rate(), to in rate(), over_ns in length()) {
        let shape = Shape::Ramp { from, to, over_ns, at_ns: 0 };
        let twice = u128::from(from.micros() + to.micros()) * u128::from(over_ns);
        let exact = if to >= from { twice / 2 } else { twice.div_ceil(2) };
        prop_assert_eq!(shape.accrued(over_ns), exact);
        let after = shape.accrued(over_ns + SECOND) - shape.accrued(over_ns);
        prop_assert_eq!(after, u128::from(to.micros()) * u128::from(SECOND));
    }

    #[test]
    fn whole_periods_are_exact(mean in rate(), part in 0.0..=1.0_f64, period_ns in length(), at_ns in length(), n in 0_u64..20) {
        let amplitude = Rate::from_micros((mean.micros() as f64 * part) as u64).min(mean);
        let shape = Shape::Sine { mean, amplitude, period_ns, at_ns: at_ns % period_ns };
        let exact = u128::from(mean.micros()) * u128::from(n * period_ns);
        prop_assert_eq!(shape.accrued(n * period_ns), exact);
    }

    /// Against a sum that shares nothing with the closed form.
    #[test]
    fn a_sine_is_near_its_sum(mean in 1_000_u64..100_000, part in 0.0..=1.0_f64, phase in 0.0..1.0_f64, until in 0.0..3.0_f64) {
        let (period_ns, steps) = (60 * SECOND, 20_000);
        let micros = mean * 1_000_000;
        let amplitude = Rate::from_micros((micros as f64 * part) as u64);
        let at_ns = (period_ns as f64 * phase) as u64;
        let shape = Shape::Sine { mean: Rate::from_micros(micros), amplitude, period_ns, at_ns };
        let end_ns = (period_ns as f64 * until) as u64;
        let width = end_ns as f64 / steps as f64;
        let sum: f64 = (0..steps).map(|step| {
            let position = (at_ns as f64 + (step as f64 + 0.5) * width) / period_ns as f64;
            (micros as f64 - amplitude.micros() as f64 * (2.0 * PI * position).cos()) * width
        }).sum();
        let found = shape.accrued(end_ns) as f64;
        prop_assert!((found - sum).abs() <= 1e-6 * sum + RECORD as f64, "{found} and {sum}");
    }

    /// The moment of an amount is the last nanosecond at which it is not exceeded.
    #[test]
    fn a_moment_is_exact(shape in shape(), at in moment(), from in 0.0..=1.0_f64) {
        let ahead = shape.accrued(at);
        let early = (at as f64 * from) as u64;
        let early = if shape.accrued(early) <= ahead { early } else { 0 };
        if let Some(found) = shape.moment(ahead, early) {
            prop_assert!(shape.accrued(found) <= ahead && shape.accrued(found + 1) > ahead, "{found} for {at}");
        }
    }
}

#[test]
fn the_numbers_of_known_shapes() {
    let per_second = |rate| Rate::from_per_second(rate).unwrap();
    let ramp = Shape::Ramp { from: Rate::ZERO, to: per_second(1000.0), over_ns: 60 * SECOND, at_ns: 0 };
    assert_eq!(ramp.accrued(60 * SECOND), 30_000 * RECORD);
    assert_eq!(ramp.accrued(30 * SECOND), 7_500 * RECORD);
    assert_eq!(ramp.pace(15 * SECOND), per_second(250.0).into());
    assert_eq!(ramp.pace(90 * SECOND), per_second(1000.0).into());
    assert_eq!(ramp.moment(7_500 * RECORD, 0), Some(30 * SECOND));
    let sine = Shape::Sine {
        mean: per_second(500.0),
        amplitude: per_second(500.0),
        period_ns: 60 * SECOND,
        at_ns: 15 * SECOND,
    };
    assert_eq!((sine.pace(0), sine.pace(15 * SECOND)), (per_second(500.0).into(), per_second(1000.0).into()));
    assert_eq!(sine.pace(45 * SECOND), Rate::ZERO.into());
    // Golden: the same bits on every machine.
    assert_eq!(sine.accrued(SECOND), 526_156_022_927_416_832);
    assert_eq!(Shape::Max.accrued(SECOND), 0);
    assert_eq!((Shape::Max.moment(0, 0), NOTHING.moment(5, 0)), (None, None));
}
