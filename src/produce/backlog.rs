//! What a lane has to hand over: the way through the sequence and what is staged of it, without any client.
//!
//! A record is due, walked (staged when it is the lane's own), and then taken by the client, or it is given up in
//! between. Only what is due and neither taken nor given up is backlog.

use super::staging::{Due, Staging};
use crate::core::arrivals::{Arrivals, Mark};
use crate::core::counters::DropReason;
use crate::core::schedule::Phase;
use crate::core::walk::{GivenUp, Overload, Owner, Pacer};

/// Most records walked at once: so long nobody looks at the schedule, the reports and the clock.
const MAX_WALKED: u64 = 32768;

/// A lane's view of the sequence.
pub(super) trait Sequence: Owner {
    /// The number of a record's key, its partition and its key, when it is the lane's own.
    fn own(&mut self, sequence: u64) -> Option<(u64, u32, &[u8])>;
}

/// How many of the staged records may be handed over now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) records: u64,
    /// There are more that are due, and it is the room in flight that they wait for.
    pub(super) capped: bool,
}

/// A lane's due records.
#[derive(Debug)]
pub(super) struct Backlog {
    pacer: Pacer,
    staging: Staging,
}

impl Backlog {
    /// At record 0 of a stream with so many partitions.
    pub(super) fn new(
        overload: Overload,
        max_records: Option<u64>,
        arrivals: Arrivals,
        partitions: u32,
    ) -> Self {
        Self { pacer: Pacer::new(overload, max_records, arrivals), staging: Staging::new(partitions) }
    }

    /// Takes over a phase; returns how many own records it gives up and why.
    pub(super) fn push(&mut self, phase: Phase, sequence: &mut impl Sequence) -> Option<(DropReason, u64)> {
        let (reason, records) = self.pacer.push(phase, sequence)?;
        // What is staged was due before: nobody walks beyond a change that he has not seen.
        Some((reason, records + self.staging.clear()))
    }

    /// Counts what is due now; returns the own records that became too old and are given up.
    pub(super) fn advance(&mut self, now_ns: u64, sequence: &mut impl Sequence) -> GivenUp {
        let mut given_up = self.pacer.advance(now_ns, sequence);
        if let (Some(oldest_ns), Some(line_ns)) =
            (self.staging.oldest_ns(), self.pacer.too_old_before_ns(now_ns))
        {
            let records = self.staging.drop_before(line_ns);
            if records > 0 {
                given_up.records += records;
                given_up.oldest_ns = now_ns.saturating_sub(oldest_ns);
            }
        }
        given_up
    }

    /// From where the lane may claim records, when it is at "max" and has handed over all that it had.
    pub(super) fn unclaimed(&self, now_ns: u64) -> Option<u64> {
        self.pacer.unclaimed(now_ns).filter(|_| self.staging.len() == 0)
    }

    /// Records up to this one are claimed: due now, unless they belong to others.
    pub(super) fn claim(&mut self, now_ns: u64, upto: u64) {
        self.pacer.claim(now_ns, upto);
    }

    /// Where the arrivals are, as far as they were counted.
    pub(super) const fn reached(&self) -> Mark {
        self.pacer.reached()
    }

    /// Whether the lane is at "max", by the last [`Backlog::advance`]: nothing is late then and nothing held back.
    pub(super) const fn claims(&self) -> bool {
        self.pacer.claims()
    }

    /// Stages what is due and may be handed over, so that no more than `room` is; nothing while something is staged:
    /// that goes first. Takes the tokens; [`Backlog::settle`] gives back those that were not used.
    pub(super) fn allow(&mut self, now_ns: u64, room: u64, sequence: &mut impl Sequence) -> Allowed {
        let tokens = self.pacer.tokens(now_ns);
        let staged = self.staging.len() as u64;
        if staged > 0 {
            let wanted = staged.min(tokens);
            let records = wanted.min(room);
            self.pacer.take(records);
            return Allowed { records, capped: records < wanted };
        }
        let capped = self.stage(tokens, room, sequence);
        Allowed { records: self.staging.len() as u64, capped }
    }

    /// Returns whether there is more than `room`.
    fn stage(&mut self, tokens: u64, room: u64, sequence: &mut impl Sequence) -> bool {
        let to = self.pacer.allowed(tokens).min(self.pacer.next() + MAX_WALKED);
        while self.pacer.next() < to && !self.staging.is_full() {
            let next = self.pacer.next();
            let own = sequence.own(next);
            if let Some((key_id, partition, key)) = own {
                if self.staging.len() as u64 >= room {
                    return true;
                }
                let intended_ns = self.pacer.intended_ns();
                self.staging.push(Due { sequence: next, intended_ns, key_id, partition }, key);
            }
            self.pacer.step(own.is_some());
        }
        false
    }

    /// The record to be handed over next, with its key.
    pub(super) fn next(&mut self) -> Option<(Due, &[u8])> {
        self.staging.next()
    }

    /// That record is not to be handed over any more: it was, or it was dropped.
    pub(super) fn take(&mut self) {
        self.staging.take();
    }

    /// Of what was allowed, so many records were not taken: they count again.
    pub(super) fn settle(&mut self, untaken: u64) {
        self.pacer.put_back(untaken);
    }

    /// Gives up everything that is due, as a flush deadline does.
    pub(super) fn give_up(&mut self, sequence: &mut impl Sequence) -> u64 {
        self.pacer.give_up(sequence) + self.staging.clear()
    }

    /// Own records scheduled so far.
    pub(super) const fn scheduled(&self) -> u64 {
        self.pacer.scheduled()
    }

    /// Own records that are due and neither taken nor given up.
    pub(super) const fn records(&self) -> u64 {
        self.pacer.backlog() + self.staging.len() as u64
    }

    /// Age of the oldest of them, 0 when there is none or at "max". With several lanes it may be another lane's record.
    pub(super) fn oldest_ns(&mut self, now_ns: u64) -> u64 {
        // What is staged comes before what is not walked.
        match self.staging.oldest_ns() {
            Some(intended_ns) if !self.claims() => now_ns.saturating_sub(intended_ns),
            _ => self.pacer.oldest_backlog_ns(now_ns),
        }
    }

    /// When the next record becomes due, if it ever will.
    pub(super) fn next_due_ns(&mut self) -> Option<u64> {
        self.pacer.next_due_ns()
    }

    /// Whether another record could be handed over at once.
    pub(super) const fn has_tokens(&self) -> bool {
        self.pacer.has_tokens()
    }

    /// Whether nothing more will become due and nothing due is left.
    pub(super) fn finished(&mut self, now_ns: u64) -> bool {
        self.staging.len() == 0 && self.pacer.finished(now_ns)
    }
}

#[cfg(test)]
#[path = "backlog_tests.rs"]
mod tests;
