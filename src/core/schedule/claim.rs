//! At "max": which lane has claimed up to where.

use super::{Schedule, Stage, WINDOW};
use crate::core::phase::Phase;

impl Schedule {
    /// Up to where any lane has claimed.
    pub(super) fn furthest(&self, last: &Phase) -> u64 {
        self.claimed.iter().copied().max().unwrap_or(last.first).max(last.first)
    }

    /// At "max": gives a lane that has handed over everything before `from` up to so many more records of the sequence to
    /// look through for its own. Returns where they end; `from` when there is nothing to claim.
    pub fn claim(&mut self, lane: usize, walked_ns: u64, from: u64, records: u64) -> u64 {
        let Some(last) = self.phases.back().copied().filter(|last| last.claims_at(walked_ns)) else {
            return from;
        };
        let slowest = self.claimed.iter().copied().min().unwrap_or(last.first);
        let most = if self.stage == Stage::Preload { Some(self.preload) } else { self.max_records };
        let upto =
            from.saturating_add(records).min(slowest.saturating_add(WINDOW)).min(most.unwrap_or(u64::MAX));
        match self.claimed.get_mut(lane) {
            Some(claimed) if upto > *claimed => {
                *claimed = upto;
                upto
            }
            _ => from,
        }
    }
}
