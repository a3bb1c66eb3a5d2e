//! How long a system takes to come back: from the poll that found it away, its progress fallen or at a standstill, until it
//! answers, or moves, again and until it has caught up.

/// What was usual is the worst of so long a time, and of up to as long before it.
const USUAL_NS: u64 = 30_000_000_000;

/// What a system comes back from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// It did not answer.
    #[default]
    Away,
    /// Its progress fell.
    Fell,
    /// It answered, and its progress stood still.
    StoodStill,
}

impl Trouble {
    /// The name in status, record and report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Fell => "fell",
            Self::StoodStill => "stood_still",
        }
    }
}

/// The last time that a system was away, lost progress or stood still. Every time is known to within one poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// What it began with.
    pub trouble: Trouble,
    /// The poll that showed it first, or the last one before a standstill that showed progress (monotonic).
    pub began_ns: u64,
    /// From then until it answered (after a standstill: moved) and did not fail again, in nanoseconds; absent until then.
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
    /// Progress is not what it was in the last good sample.
    pub moved: bool,
    /// Lag is within the tolerance.
    pub caught_up: bool,
    /// Age of the oldest outstanding record; `None` when unknown or only known to be higher.
    pub lag_ns: Option<u64>,
}

/// Measures the recoveries seen by one progress source.
///
/// While the load goes on there is always something outstanding, so a system has also caught up when it is no further
/// behind, in seconds, than at its worst in the half minute to a minute before, plus one poll interval, below which
/// nothing is told apart. How far it fell behind in a standstill is not what was usual. A fall, a failed poll or a standstill
/// within a recovery belongs to it.
#[derive(Debug, Clone)]
pub struct Recoveries {
    interval_ns: u64,
    last: Option<Recovery>,
    /// Worst lag since `since_ns`, up to the last movement.
    worst_ns: u64,
    /// Worst lag since then: usual once it moves again.
    still_worst_ns: u64,
    since_ns: u64,
    /// Worst lag in the stretch before that.
    worst_before_ns: u64,
    seen: bool,
}

impl Recoveries {
    /// For a source that is polled every `interval_ns`.
    #[must_use]
    pub const fn new(interval_ns: u64) -> Self {
        Self {
            interval_ns,
            last: None,
            worst_ns: 0,
            still_worst_ns: 0,
            since_ns: 0,
            worst_before_ns: 0,
            seen: false,
        }
    }

    /// The last recovery, running or over.
    #[must_use]
    pub const fn last(&self) -> Option<Recovery> {
        self.last
    }

    /// Takes a failed poll that began at `at_ns`. A system that was never seen cannot come back.
    pub fn failed(&mut self, at_ns: u64) {
        if self.seen {
            self.usual();
            self.running(Trouble::Away, at_ns).back_ns = None;
        }
    }

    /// Takes a standstill that has lasted for `still_ns` at the good sample that is taken next.
    pub fn stood_still(&mut self, at_ns: u64, still_ns: u64) {
        self.still_worst_ns = 0;
        self.running(Trouble::StoodStill, at_ns.saturating_sub(still_ns));
    }

    /// Takes a good sample. Gives the recovery that it ends.
    pub fn good(&mut self, look: Look) -> Option<Recovery> {
        if look.fell && self.seen {
            self.usual();
            self.running(Trouble::Fell, look.at_ns);
        }
        self.seen = true;
        let usual_ns = self.worst_ns.max(self.worst_before_ns).saturating_add(self.interval_ns);
        if let Some(recovery) = self.last.as_mut().filter(|recovery| recovery.caught_up_ns.is_none()) {
            if recovery.trouble == Trouble::StoodStill && !look.moved && !look.caught_up {
                return None;
            }
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
        self.still_worst_ns = self.still_worst_ns.max(look.lag_ns.unwrap_or(0));
        if look.moved || look.caught_up {
            self.usual();
        }
        None
    }

    /// What lag there was has been usual.
    fn usual(&mut self) {
        self.worst_ns = self.worst_ns.max(std::mem::take(&mut self.still_worst_ns));
    }

    /// The recovery that is running, begun now if there is none.
    fn running(&mut self, trouble: Trouble, at_ns: u64) -> &mut Recovery {
        let running = self.last.take().filter(|last| last.caught_up_ns.is_none());
        self.last.insert(running.unwrap_or(Recovery { trouble, began_ns: at_ns, ..Recovery::default() }))
    }
}

#[cfg(test)]
mod tests;
