//! What a lane does with the records that are due: which to hand over now and which to give up.
//!
//! A token bucket bounds how fast a backlog is worked off, a policy how old a record may get. Neither concerns records at "max",
//! which are due because the lane asked for them.

use super::arrivals::{Arrivals, Mark};
use super::counters::DropReason;
use super::phase::Phase;
use super::rate::RECORD;
use super::walk::Walk;

/// How old a due record may get before it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overload {
    /// Records older than this are dropped; `None`: nothing is ever dropped.
    pub max_debt_ns: Option<u64>,
    /// How much faster than the rate a backlog is worked off, in thousandths (2.0 → 2000).
    pub max_catch_up_milli: u64,
}

/// Bounds hand-over: filled at `max_catch_up` × rate, holds 10 ms of it (and at least one record).
#[derive(Debug, Default)]
struct Bucket {
    /// In the unit of [`RECORD`] × 1000.
    level: u128,
    filled_ns: u64,
    /// Records that it holds at least, however low the rate.
    least: u128,
}

const TOKEN: u128 = RECORD * 1000;
const BUCKET_NS: u128 = 10_000_000;
/// A hundred records a second, however low the rate: a bucket that fills in two seconds would make the one record that is
/// due wait for it.
const MIN_SPEED: u128 = TOKEN / BUCKET_NS;

impl Bucket {
    fn fill(&mut self, now_ns: u64, rate_micros: u64, catch_up_milli: u64) -> u64 {
        // Saturating: no factor is too large to be set, and a full bucket is a full bucket.
        let speed = (u128::from(rate_micros) * u128::from(catch_up_milli)).max(MIN_SPEED);
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.filled_ns));
        let capacity = speed.saturating_mul(BUCKET_NS).max(TOKEN * self.least);
        self.level = self.level.saturating_add(speed.saturating_mul(elapsed_ns)).min(capacity);
        self.filled_ns = now_ns;
        u64::try_from(self.level / TOKEN).unwrap_or(u64::MAX)
    }

    fn take(&mut self, records: u64) {
        self.level = self.level.saturating_sub(TOKEN * u128::from(records));
    }

    /// What is too much is cut at the next filling.
    fn put_back(&mut self, records: u64) {
        self.level = self.level.saturating_add(TOKEN * u128::from(records));
    }
}

/// Even arrivals come one by one. Poisson's come in clusters, which are on time and must not wait for tokens: more than so
/// many at once are as good as never.
const fn least_tokens(arrivals: Arrivals) -> u128 {
    match arrivals {
        Arrivals::Even => 1,
        Arrivals::Poisson { .. } => 32,
    }
}

/// What a lane owns of the sequence.
pub trait Owner {
    /// How many of these records are the lane's own.
    fn count(&mut self, from: u64, to: u64) -> u64;
}

/// Records that were given up because they were too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GivenUp {
    /// The lane's own ones.
    pub records: u64,
    /// Age of the oldest of them; 0 when there are none.
    pub oldest_ns: u64,
}

/// Decides, at each wake-up, what a lane does with the records that are due.
///
/// `next` is the first record that was neither handed over nor given up; everything before `counted` is in
/// `scheduled`. Both only move forward.
#[derive(Debug)]
pub struct Pacer {
    walk: Walk,
    bucket: Bucket,
    overload: Overload,
    next: u64,
    counted: u64,
    due: u64,
    /// Whether records are claimed.
    claims: bool,
    /// Own records in `scheduled`.
    scheduled: u64,
    /// Own records between `next` and `counted`.
    backlog: u64,
}

impl Pacer {
    /// A pacer at record 0.
    #[must_use]
    pub fn new(overload: Overload, max_records: Option<u64>, arrivals: Arrivals) -> Self {
        let walk = Walk::new(max_records, arrivals);
        Self {
            walk,
            bucket: Bucket { least: least_tokens(arrivals), ..Bucket::default() },
            overload,
            next: 0,
            counted: 0,
            due: 0,
            claims: false,
            scheduled: 0,
            backlog: 0,
        }
    }

    #[cfg(test)]
    pub(super) const fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Takes over a phase; returns how many own records it gives up and why.
    pub fn push(&mut self, phase: Phase, owner: &mut impl Owner) -> Option<(DropReason, u64)> {
        let due = phase.first.min(self.walk.max_records());
        self.walk.push(phase);
        self.walk.forget_before(self.next);
        let reason = phase.cut?;
        self.count_to(due, owner);
        Some((reason, self.drop_to(due, owner)))
    }

    /// Counts what is due now; returns the own records that became too old and are given up.
    pub fn advance(&mut self, now_ns: u64, owner: &mut impl Owner) -> GivenUp {
        // A phase that was taken over may begin a moment after the lane's own clock; what it counted stays counted.
        self.due = self.walk.due(now_ns).max(self.due).max(self.next);
        self.count_to(self.due, owner);
        self.claims = self.walk.claims(now_ns);
        let too_old = self.too_old_before_ns(now_ns).map_or(0, |oldest_ns| self.walk.due_before(oldest_ns));
        if too_old <= self.next {
            return GivenUp::default();
        }
        let oldest_ns = self.oldest_backlog_ns(now_ns);
        match self.drop_to(too_old, owner) {
            0 => GivenUp::default(),
            records => GivenUp { records, oldest_ns },
        }
    }

    /// Where the arrivals are, as far as this pacer has counted them: for [`super::schedule::Schedule::walked`].
    #[must_use]
    pub const fn reached(&self) -> Mark {
        self.walk.reached()
    }

    /// How many records may be handed over now, by the bound on catching up.
    pub fn tokens(&mut self, now_ns: u64) -> u64 {
        self.bucket.fill(now_ns, self.walk.rate_micros(self.next), self.overload.max_catch_up_milli)
    }

    /// How far the sequence may be walked with so many tokens: records before the returned number.
    #[must_use]
    pub fn allowed(&self, tokens: u64) -> u64 {
        self.due.min(self.next.saturating_add(tokens))
    }

    /// Takes tokens for records that were walked before.
    pub fn take(&mut self, records: u64) {
        self.bucket.take(records);
    }

    /// Gives tokens back for records that were walked and could not be handed over.
    pub fn put_back(&mut self, records: u64) {
        self.bucket.put_back(records);
    }

    /// Records that were intended before this instant are too old to be handed over; none are at "max".
    #[must_use]
    pub fn too_old_before_ns(&self, now_ns: u64) -> Option<u64> {
        let max_debt_ns = self.overload.max_debt_ns.filter(|_| !self.claims)?;
        now_ns.checked_sub(max_debt_ns)
    }

    /// From where the lane may claim records, when it is at "max" and has handed over all that it had.
    #[must_use]
    pub fn unclaimed(&self, now_ns: u64) -> Option<u64> {
        self.walk.unclaimed(now_ns, self.next)
    }

    /// Records up to this one are claimed: due now, unless they belong to others.
    pub fn claim(&mut self, now_ns: u64, upto: u64) {
        self.walk.claim(now_ns, upto);
    }

    /// Whether the lane is at "max", by the last [`Pacer::advance`]: nothing is late then and nothing held back.
    #[must_use]
    pub const fn claims(&self) -> bool {
        self.claims
    }

    /// The next record of the sequence (any lane's).
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The intended time of the next record.
    pub fn intended_ns(&mut self) -> u64 {
        self.walk.intended_ns(self.next)
    }

    /// The next record was handed over (`own`), or is another lane's.
    pub fn step(&mut self, own: bool) {
        self.next += 1;
        self.bucket.take(1);
        self.backlog -= u64::from(own);
    }

    /// Own records scheduled so far.
    #[must_use]
    pub const fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// Own records that are due and neither handed over nor dropped.
    #[must_use]
    pub const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Age of the next record, 0 when nothing is due or at "max". With several lanes it may be another lane's record.
    pub fn oldest_backlog_ns(&mut self, now_ns: u64) -> u64 {
        if self.next < self.due && !self.claims {
            now_ns.saturating_sub(self.walk.intended_ns(self.next))
        } else {
            0
        }
    }

    /// When the next record becomes due, if it ever will.
    #[must_use]
    pub fn next_due_ns(&mut self) -> Option<u64> {
        self.walk.next_due_ns(self.next)
    }

    /// Whether another record could be handed over at once.
    #[must_use]
    pub const fn has_tokens(&self) -> bool {
        self.bucket.level >= TOKEN
    }

    /// Whether nothing more will become due and nothing due is left.
    #[must_use]
    pub fn finished(&mut self, now_ns: u64) -> bool {
        self.walk.ended(now_ns) && self.next >= self.walk.due(now_ns)
    }

    /// Whether nothing more will become due.
    #[must_use]
    pub fn ended(&mut self, now_ns: u64) -> bool {
        self.walk.ended(now_ns)
    }

    /// Gives up everything that is due, as a flush deadline does.
    pub fn give_up(&mut self, owner: &mut impl Owner) -> u64 {
        let due = self.due;
        self.drop_to(due, owner)
    }

    fn count_to(&mut self, due: u64, owner: &mut impl Owner) {
        if due > self.counted {
            let own = owner.count(self.counted, due);
            self.scheduled += own;
            self.backlog += own;
            self.counted = due;
        }
    }

    fn drop_to(&mut self, to: u64, owner: &mut impl Owner) -> u64 {
        if to <= self.next {
            return 0;
        }
        let own = owner.count(self.next, to);
        self.next = to;
        self.backlog -= own;
        own
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
