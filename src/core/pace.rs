//! What a stream is to follow: a rate, or whatever the client takes.

use std::fmt;

use serde::{Serialize, Serializer};

use super::rate::Rate;

/// The word for [`Pace::Max`] wherever it is written or read.
pub const MAX: &str = "max";

/// A rate (open loop: nothing that happens to the records changes it), or "max" (the one closed loop: a record is due
/// when a lane can hand it over).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// So many records a second.
    Steady(Rate),
    /// As many as the client takes.
    Max,
}

impl Default for Pace {
    fn default() -> Self {
        Self::Steady(Rate::ZERO)
    }
}

impl From<Rate> for Pace {
    fn from(rate: Rate) -> Self {
        Self::Steady(rate)
    }
}

impl Pace {
    /// The rate; none for "max".
    #[must_use]
    pub const fn rate(self) -> Option<Rate> {
        match self {
            Self::Steady(rate) => Some(rate),
            Self::Max => None,
        }
    }

    /// Records a second; none for "max".
    #[must_use]
    pub fn per_second(self) -> Option<f64> {
        self.rate().map(Rate::per_second)
    }

    /// Whether this is "max".
    #[must_use]
    pub const fn is_max(self) -> bool {
        matches!(self, Self::Max)
    }

    /// Whether this is a rate of 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Steady(rate) if rate.is_zero())
    }

    /// Several streams together: one "max" makes the total "max".
    #[must_use]
    pub fn total(paces: impl IntoIterator<Item = Self>) -> Self {
        let sum =
            paces.into_iter().try_fold(0_u64, |sum, pace| Some(sum.saturating_add(pace.rate()?.micros())));
        sum.map_or(Self::Max, |micros| Self::Steady(Rate::from_micros(micros)))
    }
}

/// The number without a unit, or the word.
impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steady(rate) => rate.per_second().fmt(f),
            Self::Max => f.write_str(MAX),
        }
    }
}

/// As JSON a number of records a second, or `"max"`.
impl Serialize for Pace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Steady(rate) => serializer.serialize_f64(rate.per_second()),
            Self::Max => serializer.serialize_str(MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_with_max_in_it_is_max_and_is_said_so() {
        let steady = |micros| Pace::Steady(Rate::from_micros(micros));
        assert_eq!(Pace::total([steady(1_500_000), steady(500_000)]), steady(2_000_000));
        let total = Pace::total([steady(1), Pace::Max]);
        assert_eq!((total, total.rate(), total.per_second()), (Pace::Max, None, None));
        assert_eq!((Pace::Max.to_string(), steady(2_500_000).to_string()), ("max".into(), "2.5".into()));
        assert_eq!(serde_json::to_string(&[Pace::Max, steady(2_500_000)]).unwrap(), "[\"max\",2.5]");
    }
}
