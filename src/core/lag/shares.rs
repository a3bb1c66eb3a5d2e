//! What each kind of value makes of one partition.

use super::sum::{Share, middle};
use super::{LagTracker, Sample, ValueKind, stated, time};
use crate::core::counters::Head;
use crate::core::timeline::{Found, Key};

/// One partition of a sample.
pub(super) struct Partition<'a> {
    pub(super) sample: &'a Sample,
    pub(super) before: &'a Head,
    pub(super) after: &'a Head,
    pub(super) find: &'a dyn Fn(Key) -> Option<Found>,
}

/// The share of one partition.
pub(super) struct Shared {
    pub(super) share: Share,
    /// The heads that the lag is measured from, before and after.
    pub(super) heads: (u64, u64),
    /// How far an event time lies in the future.
    pub(super) ahead_ns: Option<u64>,
}

impl LagTracker {
    /// The share of a partition that shows `value`, which is `progress` when resets and baseline are taken off.
    pub(super) fn share(&self, of: &Partition<'_>, value: u64, progress: u64) -> Shared {
        let Partition { sample, before, after, find } = *of;
        let (offsets, counts) = ((before.next_offset, after.next_offset), (before.acked, after.acked));
        let (share, heads, ahead_ns) = match self.kind {
            ValueKind::NextOffset => (by_offset(progress, before, after, find), offsets, None),
            ValueKind::LastOffset => {
                (by_offset(progress.saturating_add(1), before, after, find), offsets, None)
            }
            ValueKind::Sequence => (by_sequence(progress, before, after, find), counts, None),
            ValueKind::EventTime => {
                let time = self.limit(value, sample.answered_ns);
                (time::share(time.limit_ns, before, after, find), counts, time.ahead_ns)
            }
            ValueKind::LagRecords => (stated::share(value, before, after, find), counts, None),
            // The last two are not shared out.
            ValueKind::Count | ValueKind::Marker | ValueKind::LagSeconds => {
                (by_count(progress, before, after, find), counts, None)
            }
        };
        Shared { share, heads, ahead_ns }
    }
}

fn by_offset(next: u64, before: &Head, after: &Head, find: &dyn Fn(Key) -> Option<Found>) -> Share {
    // What retention removed can never be ingested: waiting for it would be lag that nobody can work off.
    let reachable = next.max(after.log_start);
    let lag = middle(before.next_offset, after.next_offset).saturating_sub(reachable);
    let mut oldest = if lag > 0 { find(Key::Offset(reachable)) } else { None };
    if let Some(found) = &mut oldest {
        // From the baseline on all records are ours, and known.
        found.at_least &= reachable < after.baseline || found.acked_before > 0;
    }
    Share {
        progress: next.saturating_sub(after.baseline),
        lag,
        expired: after.log_start.saturating_sub(next),
        oldest,
    }
}

fn by_sequence(sequence: u64, before: &Head, after: &Head, find: &dyn Fn(Key) -> Option<Found>) -> Share {
    let ahead = after.last_sequence.is_none_or(|last| sequence >= last);
    let oldest = if ahead { None } else { find(Key::Sequence(sequence)) };
    let progress = oldest.map_or(after.acked, |found| found.acked_before);
    Share { progress, lag: middle(before.acked, after.acked).saturating_sub(progress), expired: 0, oldest }
}

fn by_count(count: u64, before: &Head, after: &Head, find: &dyn Fn(Key) -> Option<Found>) -> Share {
    let lag = middle(before.acked, after.acked).saturating_sub(count);
    Share { progress: count, lag, expired: 0, oldest: if lag > 0 { find(Key::Count(count)) } else { None } }
}
