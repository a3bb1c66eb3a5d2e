//! How a rate moves over a stretch of time, and its integral as an exact integer.
//!
//! `A(t) = ∫ rate dt` in units of 10^-15 record is what everything else is derived from. It is made so that it never
//! falls, and so that a stretch that is cut in two has the same integral as the whole: each shape has one function F
//! from its own beginning, and any part of it is a difference of F.
//!
//! - Constant: `r·t`.
//! - Ramp over D: `F(x) = r0·x ± ⌊|r1 − r0|·x² / 2D⌋`, all in integers.
//! - Sine: counted from the trough, where it is `(mean − amplitude)·x + amplitude·(P/2π)·(ψ − sin ψ)` with ψ = 2πx/P. Whole
//!   periods are `mean·P` exactly; the rest is a floating number rounded down. From the trough ψ − sin ψ is accurate to its last
//!   digits, so that its rounding is far below what a nanosecond adds; the falling half is the rising one mirrored.

use std::f64::consts::PI;

use super::pace::Pace;
use super::rate::Rate;

/// How a rate moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// It does not.
    Constant(Rate),
    /// In a line from one rate to another. `at_ns` is how far into the ramp the stretch begins.
    Ramp {
        /// Where the ramp begins.
        from: Rate,
        /// Where it ends; it stays there.
        to: Rate,
        /// How long it takes.
        over_ns: u64,
        /// Position in the ramp.
        at_ns: u64,
    },
    /// Around a mean. `at_ns` is the position counted from a trough.
    Sine {
        /// The middle.
        mean: Rate,
        /// How far above and below it the rate goes; at most the mean.
        amplitude: Rate,
        /// Length of a period.
        period_ns: u64,
        /// Position from a trough.
        at_ns: u64,
    },
    /// No rate at all: records are due when a lane claims them.
    Max,
}

/// No rate.
pub const NOTHING: Shape = Shape::Constant(Rate::ZERO);

impl Shape {
    /// The same shape from a later moment on.
    #[must_use]
    pub const fn later(self, by_ns: u64) -> Self {
        match self {
            Self::Ramp { from, to, over_ns, at_ns } => {
                Self::Ramp { from, to, over_ns, at_ns: at_ns.saturating_add(by_ns) }
            }
            Self::Sine { mean, amplitude, period_ns, at_ns } => {
                Self::Sine { mean, amplitude, period_ns, at_ns: at_ns.saturating_add(by_ns) }
            }
            Self::Constant(_) | Self::Max => self,
        }
    }

    /// Whether this is [`Shape::Max`].
    #[must_use]
    pub const fn is_max(self) -> bool {
        matches!(self, Self::Max)
    }

    /// The integral over the first `elapsed_ns`, in 10^-15 records; nothing for [`Shape::Max`]. Never falls.
    #[must_use]
    pub fn accrued(&self, elapsed_ns: u64) -> u128 {
        match *self {
            Self::Constant(rate) => u128::from(rate.micros()) * u128::from(elapsed_ns),
            Self::Ramp { from, to, over_ns, at_ns } => {
                let upto = |at_ns| ramp(from.micros(), to.micros(), over_ns, at_ns);
                upto(at_ns.saturating_add(elapsed_ns)).saturating_sub(upto(at_ns))
            }
            Self::Sine { mean, amplitude, period_ns, at_ns } => {
                let upto = |at_ns| sine(mean.micros(), amplitude.micros(), period_ns, at_ns);
                upto(at_ns.saturating_add(elapsed_ns)).saturating_sub(upto(at_ns))
            }
            Self::Max => 0,
        }
    }

    /// The rate after `elapsed_ns`, rounded to a millionth of a record a second.
    #[must_use]
    pub fn pace(&self, elapsed_ns: u64) -> Pace {
        match *self {
            Self::Constant(rate) => rate.into(),
            Self::Ramp { from, to, over_ns, at_ns } => {
                let at_ns = u128::from(at_ns.saturating_add(elapsed_ns).min(over_ns));
                let moved =
                    u128::from(from.micros().abs_diff(to.micros())) * at_ns / u128::from(over_ns.max(1));
                let moved = u64::try_from(moved).unwrap_or(u64::MAX);
                let micros = if to >= from { from.micros() + moved } else { from.micros() - moved };
                Rate::from_micros(micros).into()
            }
            Self::Sine { mean, amplitude, period_ns, at_ns } => {
                let part =
                    (at_ns.saturating_add(elapsed_ns) % period_ns.max(1)) as f64 / period_ns.max(1) as f64;
                let micros = mean.micros() as f64 - amplitude.micros() as f64 * libm::cos(2.0 * PI * part);
                Rate::from_micros(micros.round() as u64).into()
            }
            Self::Max => Pace::Max,
        }
    }

    /// The highest rate that the shape ever has, in millionths of a record a second; no limit for [`Shape::Max`].
    #[must_use]
    pub fn peak_micros(&self) -> u64 {
        match *self {
            Self::Constant(rate) => rate.micros(),
            Self::Ramp { from, to, .. } => from.max(to).micros(),
            Self::Sine { mean, amplitude, .. } => mean.micros().saturating_add(amplitude.micros()),
            Self::Max => u64::MAX,
        }
    }

    /// The last moment at which no more than `ahead` has accrued, in nanoseconds from the start of the stretch; the next
    /// nanosecond goes above it. `None` when that never happens. `from_ns` is a moment that is known not to be too late.
    #[must_use]
    pub fn moment(&self, ahead: u128, from_ns: u64) -> Option<u64> {
        if let Self::Constant(rate) = *self {
            return u64::try_from(ahead.checked_div(u128::from(rate.micros()))?).ok();
        }
        if self.is_max() {
            return None;
        }
        // `low` is early enough, `high` too late. The rate of the early end leads next to the right moment; halves and doublings
        // help where it does not.
        let (mut low, mut reached, mut high) = (from_ns, self.accrued(from_ns), None);
        let mut micros = self.micros(low);
        for tries in 0_u32.. {
            let step = u64::try_from(ahead.saturating_sub(reached) / micros).unwrap_or(u64::MAX).max(1);
            let at = match high {
                Some(high) if high - low <= 1 => return Some(low),
                Some(high) if tries % 3 == 2 => low + (high - low) / 2,
                Some(high) => low.saturating_add(step).clamp(low + 1, high - 1),
                None if low == u64::MAX => return None,
                None => low.saturating_add(step.max(1_u64 << (tries / 4).min(63))),
            };
            let accrued = self.accrued(at);
            if accrued > ahead {
                high = Some(at);
            } else {
                // At a small step the rate is still good.
                if tries > 0 && at - low > 1 {
                    micros = self.micros(at);
                }
                (low, reached) = (at, accrued);
            }
        }
        None
    }

    /// The rate at a moment, for a division: never 0.
    fn micros(&self, at_ns: u64) -> u128 {
        self.pace(at_ns).rate().map_or(1, |rate| u128::from(rate.micros()).max(1))
    }
}

/// The integral of a ramp from its beginning. Exact up to a ramp of 2^62 ns (146 years).
fn ramp(from: u64, to: u64, over_ns: u64, at_ns: u64) -> u128 {
    let inside_ns = at_ns.min(over_ns);
    let after_ns = at_ns - inside_ns;
    let (x, twice) = (u128::from(inside_ns), 2 * u128::from(over_ns.max(1)));
    // ⌊q·x / 2D⌋ with q = |r1 − r0|·x, in two parts, because q·x may not fit.
    let q = u128::from(from.abs_diff(to)) * x;
    let bend = (q / twice) * x + (q % twice) * x / twice;
    let line = u128::from(from) * x;
    // Rounded down either way. Falling it stays monotone, since `from` is whole: a nanosecond never takes back more.
    let inside = if to >= from { line + bend } else { line - bend };
    inside + u128::from(to) * u128::from(after_ns)
}

/// The integral of a sine from a trough.
fn sine(mean: u64, amplitude: u64, period_ns: u64, at_ns: u64) -> u128 {
    let period_ns = period_ns.max(1);
    let (periods, rest_ns) = (at_ns / period_ns, at_ns % period_ns);
    let floor = u128::from(mean.saturating_sub(amplitude)) * u128::from(at_ns);
    let whole = u128::from(amplitude) * u128::from(period_ns);
    let half = whole / 2;
    let part = |ns: u64| rising(amplitude as f64, period_ns as f64, ns as f64).min(half);
    let rest = if rest_ns <= period_ns / 2 { part(rest_ns) } else { whole - part(period_ns - rest_ns) };
    floor + whole * u128::from(periods) + rest
}

/// `amplitude·(P/2π)·(ψ − sin ψ)` for ψ from 0 to π, rounded down.
fn rising(amplitude: f64, period_ns: f64, at_ns: f64) -> u128 {
    let angle = 2.0 * PI * (at_ns / period_ns);
    let square = angle * angle;
    let lag = if angle < 1.0 {
        // The series, because the difference of two near numbers would lose its digits.
        let terms = [342.0, 272.0, 210.0, 156.0, 110.0, 72.0, 42.0, 20.0];
        let bracket = terms.into_iter().fold(1.0, |inner, term| 1.0 - square / term * inner);
        angle * square / 6.0 * bracket
    } else {
        angle - libm::sin(angle)
    };
    (amplitude * (period_ns / (2.0 * PI)) * lag) as u128
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
