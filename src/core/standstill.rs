//! Standstills: lag above the tolerance, and progress does not move.

/// An episode began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Progress has stood still for longer than the threshold.
    Began,
    /// It moves again, or has caught up.
    Ended {
        /// How long it stood still, in nanoseconds.
        ns: u64,
    },
}

/// Counts the standstills of one progress source.
///
/// Time counts from the sample after which nothing moved, between two good samples in a row that both had lag. A failed
/// poll is neither movement nor standstill: the time around it is unknown and not counted, and a running episode
/// goes on after it unless progress has moved meanwhile. An episode begins once max(two polls, 1 s) have counted,
/// because a system that ingests in batches shows the same figure twice without standing still; all its time counts then.
#[derive(Debug, Clone)]
pub struct Standstill {
    threshold_ns: u64,
    /// When the last sample was taken and whether it had lag; `None` when the last poll failed.
    last: Option<(u64, bool)>,
    /// Time without movement, not yet in the totals.
    still_ns: u64,
    running: bool,
    count: u64,
    ended_ns: u64,
    ended_longest_ns: u64,
}

impl Standstill {
    /// For a source that is polled every `interval_ns`.
    #[must_use]
    pub fn new(interval_ns: u64) -> Self {
        Self {
            threshold_ns: interval_ns.saturating_mul(2).max(1_000_000_000),
            last: None,
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
            self.last = None;
            return None;
        };
        let lagging = lag_records > 0 && !caught_up;
        let previous = self.last.replace((at_ns, lagging));
        if moved || !lagging {
            return self.end();
        }
        if let Some((previous_ns, true)) = previous {
            self.still_ns = self.still_ns.saturating_add(at_ns.saturating_sub(previous_ns));
        }
        if self.running || self.still_ns < self.threshold_ns {
            return None;
        }
        self.running = true;
        self.count += 1;
        Some(Change::Began)
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

    fn end(&mut self) -> Option<Change> {
        let ns = std::mem::take(&mut self.still_ns);
        if !std::mem::take(&mut self.running) {
            return None;
        }
        self.ended_ns = self.ended_ns.saturating_add(ns);
        self.ended_longest_ns = self.ended_longest_ns.max(ns);
        Some(Change::Ended { ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn an_episode_is_counted_once_and_its_time_in_full() {
        let mut standstill = Standstill::new(S);
        assert_eq!(standstill.observe(0, Some((100, true, false))), None);
        assert_eq!(standstill.observe(S, Some((100, false, false))), None);
        assert_eq!((standstill.count(), standstill.total_ns()), (0, 0));
        assert_eq!(standstill.observe(2 * S, Some((200, false, false))), Some(Change::Began));
        assert_eq!((standstill.count(), standstill.total_ns(), standstill.longest_ns()), (1, 2 * S, 2 * S));
        assert_eq!(standstill.observe(3 * S, Some((300, false, false))), None);
        assert_eq!((standstill.count(), standstill.total_ns(), standstill.longest_ns()), (1, 3 * S, 3 * S));
        assert_eq!(standstill.observe(4 * S, Some((300, true, false))), Some(Change::Ended { ns: 3 * S }));
        assert_eq!((standstill.count(), standstill.total_ns(), standstill.longest_ns()), (1, 3 * S, 3 * S));
    }

    #[test]
    fn idle_caught_up_tolerated_or_batched_is_no_standstill() {
        let mut standstill = Standstill::new(S);
        for second in 0..100 {
            // Nothing to do; a residual that counts as caught up; a figure that moves every other poll.
            assert_eq!(standstill.observe(second * S, Some((0, false, true))), None);
        }
        for second in 100..200 {
            assert_eq!(standstill.observe(second * S, Some((4, false, true))), None);
        }
        for second in 200..300 {
            assert_eq!(standstill.observe(second * S, Some((50, second % 2 == 0, false))), None);
        }
        assert_eq!((standstill.count(), standstill.total_ns()), (0, 0));
    }

    #[test]
    fn time_begins_when_there_is_something_to_ingest() {
        let mut standstill = Standstill::new(10 * S);
        standstill.observe(0, Some((0, false, true)));
        standstill.observe(100 * S, Some((5, false, false)));
        standstill.observe(110 * S, Some((5, false, false)));
        assert_eq!(standstill.observe(120 * S, Some((5, false, false))), Some(Change::Began));
        assert_eq!(standstill.total_ns(), 20 * S);
    }

    #[test]
    fn unknown_time_is_not_counted_and_ends_nothing() {
        let mut standstill = Standstill::new(S);
        for second in 0..4 {
            standstill.observe(second * S, Some((9, second == 0, false)));
        }
        assert_eq!((standstill.count(), standstill.total_ns()), (1, 3 * S));
        for second in 4..60 {
            assert_eq!(standstill.observe(second * S, None), None);
        }
        assert_eq!(standstill.total_ns(), 3 * S);
        assert_eq!(standstill.observe(60 * S, Some((9, false, false))), None);
        assert_eq!(standstill.observe(61 * S, Some((9, false, false))), None);
        assert_eq!((standstill.count(), standstill.total_ns()), (1, 4 * S));
        standstill.observe(62 * S, None);
        assert_eq!(standstill.observe(63 * S, Some((9, true, false))), Some(Change::Ended { ns: 4 * S }));
    }
}
