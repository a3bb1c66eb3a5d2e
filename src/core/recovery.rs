//! How long a system takes to come back: from the poll that found it away, or its progress fallen, until it answers again
//! and until it has caught up.

/// What was usual is the worst of so long a time, and of up to as long before it.
const USUAL_NS: u64 = 30_000_000_000;

/// The last time that a system was away or lost progress. Every time is known to within one poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// The poll that showed it first (monotonic).
    pub began_ns: u64,
    /// From then until it answered and did not fail again, in nanoseconds; absent while it does not answer.
    pub back_ns: Option<u64>,
    /// From then until it had caught up, in nanoseconds; absent until then.
    pub caught_up_ns: Option<u64>,
}

/// One good sample.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// When it was taken (monotonic).
    pub at_ns: u64,
    /// Progress fell.
    pub fell: bool,
    /// Lag is within the tolerance.
    pub caught_up: bool,
    /// Age of the oldest outstanding record; `None` when unknown or only known to be higher.
    pub lag_ns: Option<u64>,
}

/// Measures the recoveries seen by one progress source.
///
/// While the load goes on there is always something outstanding, so a system has also caught up when it is no further
/// behind, in seconds, than at its worst in the half minute to a minute before, plus one poll interval, below which
/// nothing is told apart. A fall or a failed poll within a recovery belongs to it.
#[derive(Debug, Clone)]
pub struct Recoveries {
    interval_ns: u64,
    last: Option<Recovery>,
    /// Worst lag since `since_ns`.
    worst_ns: u64,
    since_ns: u64,
    /// Worst lag in the stretch before that.
    worst_before_ns: u64,
    seen: bool,
}

impl Recoveries {
    /// For a source that is polled every `interval_ns`.
    #[must_use]
    pub const fn new(interval_ns: u64) -> Self {
        Self { interval_ns, last: None, worst_ns: 0, since_ns: 0, worst_before_ns: 0, seen: false }
    }

    /// The last recovery, running or over.
    #[must_use]
    pub const fn last(&self) -> Option<Recovery> {
        self.last
    }

    /// Takes a failed poll that began at `at_ns`. A system that was never seen cannot come back.
    pub fn failed(&mut self, at_ns: u64) {
        if self.seen {
            self.running(at_ns).back_ns = None;
        }
    }

    /// Takes a good sample. Gives the recovery that it ends.
    pub fn good(&mut self, look: Look) -> Option<Recovery> {
        if look.fell && self.seen {
            self.running(look.at_ns);
        }
        self.seen = true;
        let usual_ns = self.worst_ns.max(self.worst_before_ns).saturating_add(self.interval_ns);
        if let Some(recovery) = self.last.as_mut().filter(|recovery| recovery.caught_up_ns.is_none()) {
            let after_ns = look.at_ns.saturating_sub(recovery.began_ns);
            recovery.back_ns.get_or_insert(after_ns);
            if !look.caught_up && look.lag_ns.is_none_or(|lag_ns| lag_ns > usual_ns) {
                return None;
            }
            recovery.caught_up_ns = Some(after_ns);
            return Some(*recovery);
        }
        if look.at_ns.saturating_sub(self.since_ns) > USUAL_NS {
            self.worst_before_ns = std::mem::take(&mut self.worst_ns);
            self.since_ns = look.at_ns;
        }
        self.worst_ns = self.worst_ns.max(look.lag_ns.unwrap_or(0));
        None
    }

    /// The recovery that is running, begun now if there is none.
    fn running(&mut self, at_ns: u64) -> &mut Recovery {
        let running = self.last.take().filter(|last| last.caught_up_ns.is_none());
        self.last.insert(running.unwrap_or(Recovery { began_ns: at_ns, ..Recovery::default() }))
    }
}

#[cfg(test)]
mod tests;
