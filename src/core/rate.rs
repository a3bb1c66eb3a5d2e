//! A rate as an exact integer, so that the schedule is exact to the record over months.

use std::fmt;

/// One record in the unit in which schedules count: a [`Rate`] in its millionths for a nanosecond.
pub const RECORD: u128 = 1_000_000_000_000_000;

/// Records a second in millionths: exact for every rate with at most six decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// A rate that cannot be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{} is not a rate: it must be 0 or between 0.000001 and 1000000000 records a second", plain(*.0))]
pub struct RateError(pub f64);

/// As people write it; hundreds of zeros tell nobody anything.
fn plain(number: f64) -> String {
    let digits = |number: f64| number == 0.0 || (1e-9..1e15).contains(&number.abs()) || !number.is_finite();
    if digits(number) { number.to_string() } else { format!("{number:e}") }
}

impl Rate {
    /// No records at all.
    pub const ZERO: Self = Self(0);

    /// A rate in records a second, rounded to six decimals.
    ///
    /// # Errors
    /// When the number is negative, not finite, above 10^9, or so small that it would round to 0.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn from_per_second(records_per_second: f64) -> Result<Self, RateError> {
        if !records_per_second.is_finite() || !(0.0..=1e9).contains(&records_per_second) {
            return Err(RateError(records_per_second));
        }
        let micros = (records_per_second * 1e6).round() as u64;
        if micros == 0 && records_per_second > 0.0 {
            return Err(RateError(records_per_second));
        }
        Ok(Self(micros))
    }

    /// A rate from millionths of a record a second.
    #[must_use]
    pub const fn from_micros(micro_records_per_second: u64) -> Self {
        Self(micro_records_per_second)
    }

    /// Millionths of a record a second.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Records a second.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn per_second(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// True for a rate of 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.per_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_decimals_are_exact_and_nonsense_is_refused() {
        assert_eq!(Rate::from_per_second(0.5).unwrap().micros(), 500_000);
        assert_eq!(Rate::from_per_second(1e6).unwrap().micros(), 1_000_000_000_000);
        assert_eq!(Rate::from_per_second(0.0).unwrap(), Rate::ZERO);
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e10, 1e-9] {
            assert!(Rate::from_per_second(bad).is_err(), "{bad}");
        }
        for (bad, shown) in [(1e300, "1e300 "), (5e-324, "5e-324 "), (1e10, "10000000000 "), (-0.5, "-0.5 ")]
        {
            assert!(RateError(bad).to_string().starts_with(shown), "{}", RateError(bad));
        }
    }
}
