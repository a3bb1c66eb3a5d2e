use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const MIB: f64 = 1_048_576.0;

/// A reading a second; `value` of the second.
fn slope(seconds: u64, value: impl Fn(u64) -> f64) -> Slope {
    let mut slope = Slope::default();
    (0..seconds).for_each(|second| slope.add(5 * SECOND + second * SECOND, value(second)));
    slope
}

fn growth(seconds: u64, value: impl Fn(u64) -> f64) -> Growth {
    slope(seconds, value).growth().unwrap()
}

/// A number from 0 to 1 for each second, of a sequence.
fn random(seed: u64, second: u64) -> f64 {
    let mut x = seed.wrapping_add(second.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Noise around 0 of a width.
fn noise(seed: u64, second: u64) -> f64 {
    (0..4).map(|n| random(seed ^ (n << 40), second) - 0.5).sum()
}

#[test]
fn a_line_is_found_exactly_and_what_does_not_move_is_flat() {
    let line = growth(3600, |second| 500.0 * MIB + second as f64 * MIB / 300.0);
    assert!((line.per_hour / MIB - 12.0).abs() < 1e-6 && line.error_per_hour / MIB < 1e-6, "{line:?}");
    assert!(!line.is_flat() && line.over_ns == 3599 * SECOND);
    let still = growth(600, |_| 7.0 * MIB);
    assert_eq!((still.per_hour, still.error_per_hour, still.is_flat()), (0.0, 0.0, true));
}

#[test]
fn too_little_is_no_slope_and_faster_readings_are_no_more() {
    assert_eq!(slope(10, |second| second as f64).growth(), None);
    assert!(slope(11, |second| second as f64).growth().is_some());
    let mut fast = Slope::default();
    (0..95).for_each(|tenth| fast.add(tenth * SECOND / 10, tenth as f64));
    assert_eq!(fast.growth(), None, "ten seconds have not passed");
    let mut sparse = Slope::default();
    (0..9).for_each(|hour| sparse.add(hour * 3600 * SECOND, hour as f64));
    assert_eq!(sparse.growth(), None, "nine readings");
    sparse.add(9 * 3600 * SECOND, f64::NAN);
    assert_eq!(sparse.growth(), None, "no reading");
}

#[test]
fn a_restart_begins_anew() {
    let mut slope = slope(600, |second| second as f64 * MIB);
    slope.restart();
    assert_eq!(slope.growth(), None);
    (0..60).for_each(|second| slope.add((1000 + second) * SECOND, 3.0));
    let growth = slope.growth().unwrap();
    assert_eq!((growth.per_hour, growth.restarts, growth.over_ns), (0.0, 1, 59 * SECOND));
}

#[test]
fn one_wild_reading_in_thirty_does_not_move_it() {
    let value = |second: u64| 100.0 + second as f64 + if second % 30 == 7 { 1e6 } else { 0.0 };
    let found = growth(120, value);
    assert!((found.per_hour - 3600.0).abs() < 36.0, "{found:?}");
}

#[test]
fn memory_is_bounded_for_a_year_of_readings() {
    let mut slope = Slope::default();
    for n in 0..1_000_000_u64 {
        slope.add(n * 30 * SECOND, n as f64);
        assert!(slope.bins.len() < MOST_BINS);
    }
    let growth = slope.growth().unwrap();
    assert!((growth.per_hour - 120.0).abs() < 1e-6, "{growth:?}");
}

#[test]
fn students_t_is_that_of_the_tables() {
    for (freedom, wanted) in
        [(1.0, 12.706), (2.0, 4.303), (5.0, 2.571), (10.0, 2.228), (15.0, 2.131), (30.0, 2.042), (1e6, 1.960)]
    {
        let found = student_975(freedom);
        assert!((found / wanted - 1.0).abs() < 0.003, "{freedom}: {found}");
    }
    assert!((student_975(0.5) - 12.706).abs() < 1e-9);
}

/// A leak below the saw of a garbage collector, in noise. In MiB and seconds.
#[derive(Debug, Clone, Copy)]
struct Leak {
    seconds: u64,
    mib_per_hour: f64,
    saw_mib: f64,
    teeth: f64,
    phase: f64,
    noise_mib: f64,
    seed: u64,
}

impl Leak {
    fn found(&self) -> Growth {
        let period = (self.seconds as f64 / self.teeth).max(4.3);
        growth(self.seconds, |second| {
            let at = second as f64;
            let saw = (at / period + self.phase).fract() * self.saw_mib;
            let leak = self.mib_per_hour * at / 3600.0;
            (500.0 + leak + saw + noise(self.seed, second) * self.noise_mib) * MIB
        })
    }

    /// How far off it is, in errors.
    fn off(&self) -> f64 {
        let found = self.found();
        (found.per_hour / MIB - self.mib_per_hour).abs() / (found.error_per_hour / MIB).max(1e-6)
    }
}

prop_compose! {
    fn leak()(seconds in 30_u64..7200, mib_per_hour in -100.0..200.0_f64, saw_mib in 0.0..200.0_f64, teeth in 2.5..60.0_f64,
              phase in 0.0..1.0_f64, noise_mib in 0.01..20.0_f64, seed in any::<u64>()) -> Leak {
        Leak { seconds, mib_per_hour, saw_mib, teeth, phase, noise_mib, seed }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_known_slope_below_a_saw_and_noise_is_found_and_nothing_is_claimed_that_is_not_known(leak in leak()) {
        prop_assert!(leak.off() < 4.0, "{:?}: {:?}", leak, leak.found());
    }

    #[test]
    fn a_shift_and_a_scale_do_what_they_must(leak in leak(), by in 1.0..1000.0_f64) {
        let value = |second: u64| noise(leak.seed, second) + second as f64 * leak.mib_per_hour;
        let (plain, other) = (growth(leak.seconds, value), growth(leak.seconds, |second| value(second) * by + by));
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (a.abs() + b.abs() + by);
        prop_assert!(near(other.per_hour, plain.per_hour * by), "{:?} {:?}", plain, other);
        prop_assert!(near(other.error_per_hour, plain.error_per_hour * by), "{:?} {:?}", plain, other);
    }
}

/// An interval of 95 % holds the truth about so often; and it is no wider than it must be to tell a real leak.
#[test]
fn the_error_is_honest_and_of_use() {
    let cases = 300_u64;
    let leaks = (0..cases).map(|n| {
        let of = |what: u64| random(n * 7 + what, 3);
        Leak {
            seconds: [60, 300, 1800][n as usize % 3],
            mib_per_hour: of(1) * 100.0,
            saw_mib: if n % 2 == 0 { 0.0 } else { of(2) * 100.0 },
            teeth: 3.0 + of(3) * 40.0,
            phase: of(4),
            noise_mib: 0.1 + of(5) * 5.0,
            seed: n,
        }
    });
    let held = leaks.filter(|leak| leak.off() <= 1.0).count() as f64 / cases as f64;
    assert!(held >= 0.93, "{held} of the intervals hold the truth");
    // 12 MiB an hour below a saw of 60 MiB with a tooth every four minutes, over four hours.
    let real = Leak {
        seconds: 14_400,
        mib_per_hour: 12.0,
        saw_mib: 60.0,
        teeth: 60.0,
        phase: 0.3,
        noise_mib: 2.0,
        seed: 1,
    };
    let found = real.found();
    assert!(!found.is_flat() && found.error_per_hour / MIB < 6.0, "{found:?}");
    let none = Leak { mib_per_hour: 0.0, ..real }.found();
    assert!(none.is_flat(), "{none:?}");
}
