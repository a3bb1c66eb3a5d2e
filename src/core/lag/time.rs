//! Lag by the newest intended time visible.

use super::sum::middle;
use super::{LagTracker, Observation, Progress, Records, Sample, Share, Sum, heads};
use crate::core::counters::Head;
use crate::core::timeline::{Found, Key};

/// Milliseconds since 1970 are cut off, so a record of the millisecond's end is visible with its beginning.
const RESOLUTION_NS: u64 = 1_000_000;

/// An event time on the monotonic clock.
pub(super) struct Limit {
    /// What was intended before this is ingested.
    pub(super) limit_ns: u64,
    /// How far the time lies in the future.
    pub(super) ahead_ns: Option<u64>,
}

/// No clock is so wrong: microseconds are taken for milliseconds, a local time for UTC, or a time of the future is stored.
const FAR_AHEAD_NS: u64 = 300_000_000_000;

impl LagTracker {
    /// How far the newest of these times lies in the future, when that is too far for a clock that is ahead.
    pub(super) fn far_ahead_ns(&self, sample: &Sample, progress: &Progress) -> Option<u64> {
        let newest = match progress {
            Progress::Total(time_ms) => Some(*time_ms),
            Progress::Partitions(times) => times.values().copied().flatten().max(),
            Progress::NoData(_) => None,
        };
        self.limit(newest?, sample.answered_ns).ahead_ns.filter(|ahead_ns| *ahead_ns > FAR_AHEAD_NS)
    }

    /// Turns a time in milliseconds since 1970 into the limit that it says.
    pub(super) fn limit(&self, time_ms: u64, now_ns: u64) -> Limit {
        let at_ns = self
            .clock
            .map_or_else(|| time_ms.saturating_mul(RESOLUTION_NS), |clock| clock.at_wall_ms(time_ms));
        let ahead_ns = at_ns.checked_sub(now_ns).filter(|ahead_ns| *ahead_ns > 0);
        let limit_ns = at_ns.saturating_add(RESOLUTION_NS);
        Limit { limit_ns, ahead_ns }
    }

    /// One time over all partitions.
    pub(super) fn observe_time(
        &mut self,
        sample: &Sample,
        time_ms: u64,
        records: &dyn Records,
    ) -> Observation {
        let taken = self.total.take(time_ms, 0, self.kind, self.on_reset);
        let time = self.limit(time_ms, sample.answered_ns);
        let mut sum = Sum::new(sample);
        for (partition, before, after) in heads(sample) {
            let find = |key| records.find(partition, key);
            sum.add(&share(time.limit_ns, before, after, &find), before.acked, after.acked);
        }
        Observation {
            reading: sum.reading(0, self.tolerance),
            resets: taken.fell_from.map(|from| (from, time_ms)).into_iter().collect(),
            moved: taken.moved,
            ahead_ns: time.ahead_ns,
            ..Observation::default()
        }
    }
}

/// The share of a partition whose records intended before the limit are ingested.
pub(super) fn share(
    limit_ns: u64,
    before: &Head,
    after: &Head,
    find: &dyn Fn(Key) -> Option<Found>,
) -> Share {
    let oldest = find(Key::Intended(limit_ns));
    let progress = oldest.map_or(after.acked, |found| found.acked_before);
    Share { progress, lag: middle(before.acked, after.acked).saturating_sub(progress), expired: 0, oldest }
}
