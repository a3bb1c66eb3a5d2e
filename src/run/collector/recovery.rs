//! The times that a system needed to come back, found from snapshots: each source shows its last one.

use crate::core::clock::Clock;
use crate::core::recovery::Recovery;
use crate::core::status::SourceStatus;
use crate::store::record::{RecoveryRecord, seconds};

/// A system that is restarted every minute for a day fits.
const MAX_KEPT: usize = 1_000;

/// Collects the recoveries that one source saw.
#[derive(Debug, Clone, Default)]
pub(super) struct RecoveryCollector {
    /// When the last one began, or one from before the load that is none of its.
    last_ns: Option<u64>,
    kept: Vec<Recovery>,
    total: u64,
}

impl RecoveryCollector {
    /// At the start of the load: what is over by then is not the load's.
    pub(super) fn new(source: &SourceStatus) -> Self {
        let over = source.recovery.filter(|recovery| recovery.caught_up_ns.is_some());
        Self { last_ns: over.map(|recovery| recovery.began_ns), ..Self::default() }
    }

    /// Looks at the source once more.
    pub(super) fn advance(&mut self, source: &SourceStatus) {
        let Some(recovery) = source.recovery else { return };
        if self.last_ns != Some(recovery.began_ns) {
            self.last_ns = Some(recovery.began_ns);
            self.total += 1;
            if self.kept.len() < MAX_KEPT {
                self.kept.push(recovery);
            }
        }
        if let Some(last) = self.kept.last_mut().filter(|last| last.began_ns == recovery.began_ns) {
            *last = recovery;
        }
    }

    /// The recoveries that were kept, and how many there were.
    pub(super) fn found(&self, clock: Clock, origin_ns: u64) -> (Vec<RecoveryRecord>, u64) {
        let kept = self.kept.iter().map(|recovery| RecoveryRecord {
            trouble: recovery.trouble,
            start_seconds: seconds(recovery.began_ns.saturating_sub(origin_ns)),
            start_at: clock.rfc3339(recovery.began_ns),
            back_seconds: recovery.back_ns.map(seconds),
            caught_up_seconds: recovery.caught_up_ns.map(seconds),
        });
        (kept.collect(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::recovery::Trouble;

    const S: u64 = 1_000_000_000;

    fn with(began_s: u64, back_s: Option<u64>, caught_up_s: Option<u64>) -> SourceStatus {
        let ns = |seconds: u64| seconds * S;
        let recovery = Recovery {
            trouble: Trouble::Fell,
            began_ns: ns(began_s),
            back_ns: back_s.map(ns),
            caught_up_ns: caught_up_s.map(ns),
        };
        SourceStatus { recovery: Some(recovery), ..SourceStatus::default() }
    }

    #[test]
    fn each_is_kept_once_with_its_last_state_and_none_from_before_the_load() {
        let mut collector = RecoveryCollector::new(&with(5, Some(1), Some(2)));
        for source in [
            with(5, Some(1), Some(2)),
            with(20, None, None),
            with(20, Some(3), None),
            // It failed once more before it had caught up.
            with(20, None, None),
            with(20, Some(6), Some(9)),
            with(20, Some(6), Some(9)),
            with(60, Some(0), None),
        ] {
            collector.advance(&source);
        }
        let (found, total) = collector.found(Clock::start(), 10 * S);
        let figures = |one: &RecoveryRecord| (one.start_seconds, one.back_seconds, one.caught_up_seconds);
        let expected = [(10.0, Some(6.0), Some(9.0)), (50.0, Some(0.0), None)];
        assert_eq!(found.iter().map(figures).collect::<Vec<_>>(), expected);
        assert_eq!((total, found[0].trouble), (2, Trouble::Fell));
    }

    #[test]
    fn one_that_runs_when_the_load_begins_counts_and_many_are_bounded() {
        let mut collector = RecoveryCollector::new(&with(5, None, None));
        for second in 0..5_000 {
            collector.advance(&with(5 + second, Some(0), Some(0)));
        }
        let (found, total) = collector.found(Clock::start(), 7 * S);
        assert_eq!((found.len(), total), (MAX_KEPT, 5_000));
        let ends = (found[0].start_seconds, found[MAX_KEPT - 1].start_seconds);
        assert_eq!(ends, (0.0, 997.0));
    }
}
