//! A lane's way through the one sequence of a stream: which records are due, and since when.
//!
//! Every lane walks the whole sequence and skips what is not its own, so that totals do not depend on the number of
//! lanes. What it does with the records that are due is decided by [`super::pacer`].
//!
//! A walk may hold phases that begin after its own clock, because another lane was at the schedule with a later one. So
//! every question is answered by the phase of the instant or of the record that is asked about.

use std::collections::VecDeque;

use super::arrivals::{Arrivals, Mark};
use super::shape::Shape;

pub use super::pacer::{GivenUp, Overload, Owner, Pacer};
pub use super::phase::Phase;
pub use super::rate::RECORD;

/// Follows the phases of a schedule.
#[derive(Debug)]
pub struct Walk {
    pub(super) phases: VecDeque<Phase>,
    max_records: u64,
    arrivals: Arrivals,
    /// Up to where records are due now.
    due: Mark,
    /// Up to where they were due at the age at which they are given up.
    old: Mark,
    /// The record whose intended time was asked for last.
    next: Mark,
    /// The due instant of that record.
    step: Option<Step>,
    claim: Option<Claim>,
}

/// At a constant rate kept as quotient and remainder, so that a later record costs an addition, not a 128-bit division.
#[derive(Debug, Clone, Copy)]
struct Step {
    record: u64,
    at_ns: u64,
    remainder: u64,
}

impl Step {
    /// By division. The rate is not 0.
    fn first(phase: &Phase, record: u64, rate: u64) -> Self {
        let ahead = (u128::from(record) * RECORD).saturating_sub(phase.base);
        let (whole, rest) = (ahead / u128::from(rate), ahead % u128::from(rate));
        Self { record, at_ns: phase.start_ns + whole as u64, remainder: rest as u64 }
    }

    /// By addition, no more than [`MAX_STEP`] records further.
    fn further(self, record: u64, rate: u64) -> Self {
        let by = record - self.record;
        let (whole, rest) = (RECORD as u64 / rate, RECORD as u64 % rate);
        // Rate, rest and remainder are at most 10^15, so that the sum fits.
        let sum = self.remainder + by * rest;
        let (carry, remainder) = match sum {
            sum if sum < rate => (0, sum),
            sum if sum - rate < rate => (1, sum - rate),
            sum => (sum / rate, sum % rate),
        };
        Self { record, at_ns: self.at_ns + by * whole + carry, remainder }
    }
}

/// Records that are due because the lane claimed them.
#[derive(Debug, Clone, Copy)]
struct Claim {
    /// Start of the phase it belongs to.
    phase_ns: u64,
    upto: u64,
    at_ns: u64,
}

/// A walk takes the short way over at most so many records: products stay within 64 bits.
const MAX_STEP: u64 = 4096;

impl Walk {
    /// A walk that has seen no phase yet.
    #[must_use]
    pub fn new(max_records: Option<u64>, arrivals: Arrivals) -> Self {
        Self {
            phases: VecDeque::new(),
            max_records: max_records.unwrap_or(u64::MAX),
            arrivals,
            due: Mark::default(),
            old: Mark::default(),
            next: Mark::default(),
            step: None,
            claim: None,
        }
    }

    /// Takes over the next phase of the schedule.
    pub fn push(&mut self, phase: Phase) {
        self.phases.push_back(phase);
    }

    /// Where the arrivals are, as far as they were walked.
    #[must_use]
    pub(super) const fn reached(&self) -> Mark {
        self.due
    }

    /// The number of records after which nothing is due.
    #[must_use]
    pub const fn max_records(&self) -> u64 {
        self.max_records
    }

    /// Forgets the phases that have no record left from this one on, so that changes of a rate at which nothing becomes
    /// due do not pile up.
    pub(super) fn forget_before(&mut self, record: u64) {
        while let Some(next) = self.phases.get(1)
            && record >= next.first
        {
            self.phases.pop_front();
            self.step = None;
        }
    }

    /// The phase of an instant: the last one that has begun.
    fn at(&self, at_ns: u64) -> Option<Phase> {
        self.phases.iter().rev().find(|phase| phase.start_ns <= at_ns).copied()
    }

    /// The lane's claim in a phase.
    fn claimed(&self, phase: &Phase) -> Option<Claim> {
        self.claim.filter(|claim| claim.phase_ns == phase.start_ns)
    }

    /// How many records are due before now.
    #[must_use]
    pub fn due(&mut self, now_ns: u64) -> u64 {
        let due = match self.at(now_ns) {
            // What was forgotten was handed over, so it was due.
            None => self.phases.front().map_or(0, |phase| phase.first),
            Some(phase) if phase.shape.is_max() => {
                self.claimed(&phase).map_or(phase.first, |claim| claim.upto.max(phase.first))
            }
            Some(phase) => {
                let accrued = phase.accrued(now_ns);
                self.arrivals.due(phase.origin, &mut self.due, accrued).max(phase.first)
            }
        };
        due.min(self.max_records)
    }

    /// How many records were due before an instant in the past; 0 for instants before everything that is still open.
    /// Ask in ascending order.
    #[must_use]
    pub fn due_before(&mut self, at_ns: u64) -> u64 {
        let due = match self.at(at_ns) {
            None => 0,
            Some(phase) if phase.shape.is_max() => phase.first,
            Some(phase) => {
                let accrued = phase.accrued(at_ns);
                self.arrivals.due(phase.origin, &mut self.old, accrued).max(phase.first)
            }
        };
        due.min(self.max_records)
    }

    /// Whether nothing more will become due.
    #[must_use]
    pub fn ended(&mut self, now_ns: u64) -> bool {
        self.phases.back().is_some_and(|last| now_ns >= last.until_ns)
            || (self.max_records < u64::MAX && self.due(now_ns) >= self.max_records)
    }

    /// The rate that a backlog from this record on is worked off at: the highest at which anything of it became due,
    /// or the current one. A few records that were due at 1,000/s must not become late because the rate is 1/s now. Kept
    /// after the planned end.
    #[must_use]
    pub fn rate_micros(&self, record: u64) -> u64 {
        let firsts = self.phases.iter().skip(1).map(|phase| phase.first).chain([u64::MAX]);
        let open = self.phases.iter().zip(firsts).filter(|(_, next)| record < *next);
        open.map(|(phase, _)| phase.shape.peak_micros()).max().unwrap_or(0)
    }

    /// Whether records are claimed now instead of becoming due with time.
    #[must_use]
    pub fn claims(&self, now_ns: u64) -> bool {
        self.at(now_ns).is_some_and(|phase| phase.shape.is_max())
    }

    /// From where the lane may claim more, when it has handed over everything before `next`.
    #[must_use]
    pub fn unclaimed(&self, now_ns: u64, next: u64) -> Option<u64> {
        let last = self.phases.back().filter(|last| last.claims_at(now_ns))?;
        let upto = self.claimed(last).map_or(last.first, |claim| claim.upto.max(last.first));
        (next >= upto && next < self.max_records).then_some(next)
    }

    /// Records before `upto` are claimed, and due now.
    pub fn claim(&mut self, now_ns: u64, upto: u64) {
        if let Some(last) = self.phases.back() {
            self.claim = Some(Claim { phase_ns: last.start_ns, upto, at_ns: now_ns });
        }
    }

    /// The intended time of a due record: the instant it was due, rounded down to the nanosecond. Records must be
    /// asked for in ascending order.
    pub fn intended_ns(&mut self, record: u64) -> u64 {
        self.forget_before(record);
        let Some(phase) = self.phases.front() else { return 0 };
        match (phase.shape, self.arrivals) {
            (Shape::Max, _) => match self.claimed(phase).filter(|claim| record < claim.upto) {
                Some(claim) => claim.at_ns,
                // Claimed by another lane: due when claiming ended.
                None => self.phases.get(1).map_or(phase.start_ns, |next| next.start_ns),
            },
            (Shape::Constant(rate), Arrivals::Even) if !rate.is_zero() => {
                let step = match self.step {
                    Some(step) if record == step.record => return step.at_ns,
                    Some(step) if record > step.record && record - step.record <= MAX_STEP => {
                        step.further(record, rate.micros())
                    }
                    _ => Step::first(phase, record, rate.micros()),
                };
                self.step = Some(step);
                step.at_ns
            }
            _ => {
                let phase = *phase;
                let near_ns = self.step.map_or(phase.start_ns, |step| step.at_ns);
                let at_ns = self.moment(&phase, record, near_ns).unwrap_or(phase.start_ns);
                self.step = Some(Step { record, at_ns, remainder: 0 });
                at_ns
            }
        }
    }

    /// The instant at which a record of a phase is due, rounded down; `None` when the shape never comes to it.
    fn moment(&mut self, phase: &Phase, record: u64, near_ns: u64) -> Option<u64> {
        let mark = self.arrivals.mark(phase.origin, &mut self.next, record);
        let elapsed_ns =
            phase.shape.moment(mark.saturating_sub(phase.base), near_ns.saturating_sub(phase.start_ns))?;
        phase.start_ns.checked_add(elapsed_ns)
    }

    /// When a record that is not due yet will be due, or the schedule is to be asked for its next phase; `None` when neither
    /// is known.
    #[must_use]
    pub fn next_due_ns(&mut self, record: u64) -> Option<u64> {
        if record >= self.max_records {
            return None;
        }
        let firsts = self.phases.iter().skip(1).map(|phase| phase.first).chain([u64::MAX]);
        let phase =
            self.phases.iter().zip(firsts).find(|(_, next)| record < *next).map(|(phase, _)| *phase)?;
        if phase.shape.is_max() {
            // As soon as it is claimed.
            return Some(phase.start_ns);
        }
        let over_ns = (phase.end_ns < phase.until_ns).then_some(phase.end_ns);
        // Due *before* an instant counts, so the first instant at which it counts is one later.
        let due_ns = self.moment(&phase, record, phase.start_ns).map(|at_ns| at_ns.saturating_add(1));
        let due_ns = due_ns.filter(|due_ns| *due_ns <= phase.end_ns.min(phase.until_ns));
        due_ns.or(over_ns)
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
