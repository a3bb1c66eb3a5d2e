//! A stream's counters over some time, and whether its schedule was kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Record counters of a stream over some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Records that became due.
    pub scheduled: u64,
    /// Records handed to the Kafka client.
    pub sent: u64,
    /// Records that the broker acknowledged.
    pub acked: u64,
    /// Records with an error instead, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Records given up before they were sent, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Keys and values of acked records.
    pub bytes_acked: u64,
    /// Markers among the sent records.
    #[serde(default)]
    pub markers: u64,
    /// Times that the broker held the load back.
    pub stalls: u64,
    /// Times that the Kafka client was rebuilt.
    pub rebuilds: u64,
    /// Seconds in which the load was not what the schedule says, by who limited it.
    pub limited_seconds: BTreeMap<String, f64>,
}

/// Part of the due records that must be sent and not fail for a second, a segment or a run to count as sustained.
pub const SUSTAINED_SHARE: f64 = 0.99;

impl Counts {
    /// Records that were due and not given up by an operator (pause, stop).
    #[must_use]
    pub fn owed(&self) -> u64 {
        let given_up = |reason| self.dropped.get(reason).copied().unwrap_or(0);
        self.scheduled.saturating_sub(given_up("paused")).saturating_sub(given_up("stopped"))
    }

    /// Whether the schedule was kept: of the records that were due, at least [`SUSTAINED_SHARE`] were sent and did not
    /// fail. Sent, not acked, because acks come later by the linger and the round trip; in flight is capped, so that
    /// a broker that is too slow shows all the same. One record is the resolution.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn sustained(&self) -> bool {
        let good = self.sent.saturating_sub(self.failed_total()).saturating_add(1);
        good as f64 >= self.owed() as f64 * SUSTAINED_SHARE
    }

    /// Failed records of all reasons.
    #[must_use]
    pub fn failed_total(&self) -> u64 {
        self.failed.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Dropped records of all reasons.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}
