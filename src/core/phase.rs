//! A stretch of a schedule, as the schedule makes it and every lane follows it.

use super::arrivals::Mark;
use super::counters::DropReason;
use super::shape::Shape;

/// A stretch of time in which the rate follows one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// First instant of the phase (monotonic).
    pub start_ns: u64,
    /// `A(start)` in 10^-15 records.
    pub base: u128,
    /// How many records were due before the phase.
    pub first: u64,
    /// How the rate moves.
    pub shape: Shape,
    /// The instant at which the next phase takes over, which the schedule makes when that time has come; `u64::MAX` when
    /// only a change can end the phase.
    pub end_ns: u64,
    /// From here on nothing more becomes due: the planned end of the load, `u64::MAX` when there is none.
    pub until_ns: u64,
    /// What was due before the phase and not sent yet is given up for this reason.
    pub cut: Option<DropReason>,
    /// From where the arrivals are counted.
    pub origin: Mark,
}

impl Phase {
    /// `A(t)` for an instant of this phase.
    #[must_use]
    pub fn accrued(&self, at_ns: u64) -> u128 {
        let elapsed_ns = at_ns.min(self.end_ns).min(self.until_ns).saturating_sub(self.start_ns);
        self.base + self.shape.accrued(elapsed_ns)
    }

    /// Whether records are claimed at this instant instead of becoming due with time.
    #[must_use]
    pub fn claims_at(&self, at_ns: u64) -> bool {
        self.shape.is_max() && (self.start_ns..self.end_ns.min(self.until_ns)).contains(&at_ns)
    }
}
