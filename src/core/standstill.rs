//! Standstills: lag above the tolerance, and progress does not move.

/// An episode began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Progress has stood still for the threshold.
    Began {
        /// How long it has by now, in nanoseconds.
        ns: u64,
    },
    /// It moves again, or has caught up.
    Ended {
        /// How long it stood still, in nanoseconds.
        ns: u64,
    },
}

/// Counts the standstills of one progress source.
///
/// Time counts from the last good sample that showed progress, or all ingested, to the first that shows one of them again:
/// what really happened began and ended within the poll before each of them, so that the figure is true to within one
/// poll either way. A failed poll is neither movement nor standstill: the time around it is unknown and not counted, and a
/// running episode goes on after it unless progress has moved meanwhile. An episode begins once progress was seen to
/// stand still for the threshold, because a system that ingests in blocks shows the same figure many times without standing
/// still; all its time counts then.
#[derive(Debug, Clone)]
pub struct Standstill {
    threshold_ns: u64,
    /// When the last sample was taken; `None` when the last poll failed.
    last_ns: Option<u64>,
    /// Time without movement, not yet in the totals.
    still_ns: u64,
    running: bool,
    count: u64,
    ended_ns: u64,
    ended_longest_ns: u64,
}

impl Standstill {
    /// Time without movement below `threshold_ns` is no standstill.
    #[must_use]
    pub const fn new(threshold_ns: u64) -> Self {
        Self {
            threshold_ns,
            last_ns: None,
            still_ns: 0,
            running: false,
            count: 0,
            ended_ns: 0,
            ended_longest_ns: 0,
        }
    }

    /// Takes one poll: `None` when it failed or gave no lag, else (lag in records, progress moved since the last good
    /// sample, caught up).
    pub fn observe(&mut self, at_ns: u64, look: Option<(u64, bool, bool)>) -> Option<Change> {
        let Some((lag_records, moved, caught_up)) = look else {
            self.last_ns = None;
            return None;
        };
        let since_ns = self.last_ns.replace(at_ns).map_or(0, |last_ns| at_ns.saturating_sub(last_ns));
        if moved || lag_records == 0 || caught_up {
            return self.end(since_ns);
        }
        self.still_ns = self.still_ns.saturating_add(since_ns);
        if self.running || self.still_ns < self.threshold_ns {
            return None;
        }
        self.running = true;
        self.count += 1;
        Some(Change::Began { ns: self.still_ns })
    }

    /// Episodes, the running one included.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Time of all episodes, the running one included, in nanoseconds. Never falls.
    #[must_use]
    pub const fn total_ns(&self) -> u64 {
        self.ended_ns.saturating_add(self.running_ns())
    }

    /// Time of the longest episode, the running one included, in nanoseconds.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.ended_longest_ns.max(self.running_ns())
    }

    /// Whether an episode is running.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running
    }

    const fn running_ns(&self) -> u64 {
        if self.running { self.still_ns } else { 0 }
    }

    /// Progress moved, or all is ingested, for the first time in so long.
    fn end(&mut self, since_ns: u64) -> Option<Change> {
        let ns = std::mem::take(&mut self.still_ns).saturating_add(since_ns);
        if !std::mem::take(&mut self.running) {
            return None;
        }
        self.ended_ns = self.ended_ns.saturating_add(ns);
        self.ended_longest_ns = self.ended_longest_ns.max(ns);
        Some(Change::Ended { ns })
    }
}

#[cfg(test)]
mod tests;
