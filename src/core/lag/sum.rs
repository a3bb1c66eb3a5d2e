//! The shares of a sample's partitions, and their sum.

use super::{PartitionLag, Reading, Sample};
use crate::core::timeline::Found;

/// One partition's (or the total's) share of a reading.
#[derive(Debug, Default)]
pub(super) struct Share {
    pub(super) progress: u64,
    pub(super) lag: u64,
    pub(super) expired: u64,
    pub(super) oldest: Option<Found>,
}

impl Share {
    /// The share of one partition as it is shown.
    pub(super) fn of_partition(&self, partition: u32, value: u64, sample: &Sample) -> PartitionLag {
        let (lag_ns, at_least) = self.age(at_ns(sample));
        PartitionLag {
            partition,
            value: Some(value),
            lag_records: Some(self.lag),
            lag_ns: Some(lag_ns),
            lag_at_least: at_least,
            expired_records: self.expired,
        }
    }

    /// Age of the oldest outstanding record, and whether it may be older.
    fn age(&self, at_ns: u64) -> (u64, bool) {
        if self.lag == 0 {
            return (0, false);
        }
        // A record intended after the sample was acked since and is not part of it. Without a record all that is
        // outstanding was there before the run, and nobody knows how old it is.
        let age_ns = self.oldest.map_or(0, |oldest| at_ns.saturating_sub(oldest.intended_ns));
        (age_ns, self.oldest.is_none_or(|oldest| oldest.at_least))
    }
}

/// Adds up the partitions of a sample.
#[derive(Debug)]
pub(super) struct Sum {
    at_ns: u64,
    pub(super) shares: u32,
    progress: u64,
    lag: u64,
    lag_ns: u64,
    at_least: bool,
    /// Records acked during the poll.
    drift: u64,
    expired: u64,
}

impl Sum {
    pub(super) fn new(sample: &Sample) -> Self {
        Self {
            at_ns: at_ns(sample),
            shares: 0,
            progress: 0,
            lag: 0,
            lag_ns: 0,
            at_least: false,
            drift: 0,
            expired: 0,
        }
    }

    pub(super) fn add(&mut self, share: &Share, head_before: u64, head_after: u64) {
        self.shares = self.shares.saturating_add(1);
        self.progress = self.progress.saturating_add(share.progress);
        self.lag = self.lag.saturating_add(share.lag);
        self.expired = self.expired.saturating_add(share.expired);
        self.drift = self.drift.saturating_add(head_after.saturating_sub(head_before));
        let (lag_ns, at_least) = share.age(self.at_ns);
        self.lag_ns = self.lag_ns.max(lag_ns);
        self.at_least |= at_least;
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn reading(&self, unknown_partitions: u32, tolerance: u64) -> Reading {
        let tolerated = self.lag <= tolerance;
        Reading {
            at_ns: self.at_ns,
            progress_records: Some(self.progress as f64),
            lag_records: Some(self.lag),
            lag_ns: Some(if tolerated { 0 } else { self.lag_ns }),
            lag_at_least: self.at_least && !tolerated,
            uncertainty_records: self.drift as f64 / 2.0,
            expired_records: self.expired,
            unknown_partitions,
            caught_up: tolerated && unknown_partitions == 0,
            stated: false,
        }
    }
}

pub(super) const fn middle(before: u64, after: u64) -> u64 {
    before.saturating_add(after.saturating_sub(before) / 2)
}

pub(super) fn at_ns(sample: &Sample) -> u64 {
    middle(sample.asked_ns, sample.answered_ns)
}
