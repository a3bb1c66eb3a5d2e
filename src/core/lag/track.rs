//! One progress value over time: its baseline, its resets.

use super::{OnReset, ValueKind};
use crate::core::counters::Head;

/// A value that is followed. Progress is `carried + (value - zero)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(super) struct Track {
    last: Option<u64>,
    highest: Option<u64>,
    /// The value that counts as nothing: the baseline, or the last value that fell.
    zero: Option<u64>,
    /// Progress when the value last fell.
    carried: u64,
    baseline: Option<u64>,
    shown_before_first_ack: bool,
}

/// A value put in its place.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) progress: u64,
    pub(super) fell_from: Option<u64>,
    pub(super) moved: bool,
}

impl Track {
    /// The last value.
    pub(super) const fn last(&self) -> Option<u64> {
        self.last
    }

    /// The highest value so far.
    pub(super) const fn highest(&self) -> Option<u64> {
        self.highest
    }

    pub(super) const fn baseline(&self) -> Option<u64> {
        self.baseline
    }

    pub(super) const fn set_baseline(&mut self, baseline: u64) {
        self.baseline = Some(baseline);
        self.zero = Some(baseline);
    }

    /// Takes the next value; `acked` is how many records were acked when it was there.
    pub(super) fn take(&mut self, value: u64, acked: u64, kind: ValueKind, on_reset: OnReset) -> Taken {
        if kind == ValueKind::Count && self.baseline.is_none() {
            self.set_baseline(value.saturating_sub(acked));
        }
        if self.last.is_none() {
            self.shown_before_first_ack = acked == 0;
        }
        let fell_from = self.last.filter(|last| value < *last);
        if fell_from.is_some() && on_reset == OnReset::Emptied {
            self.set_baseline(0);
        } else if let Some(last) = fell_from
            && on_reset != OnReset::True
        {
            self.carried = self.progress(last);
            let from_zero = on_reset == OnReset::Counter && self.carried.saturating_add(value) <= acked;
            self.zero = Some(if from_zero { 0 } else { value });
        }
        self.highest = self.highest.max(Some(value));
        let moved = self.last.replace(value) != Some(value);
        Taken { progress: self.progress(value), fell_from, moved }
    }

    /// Whether a sequence is an earlier run's: seen before this run's first ack, and never yet one that it acked.
    pub(super) fn shows_earlier_run(&mut self, value: u64, head: &Head) -> bool {
        self.shown_before_first_ack &= head.last_sequence.is_none_or(|last| value > last);
        self.shown_before_first_ack
    }

    /// The progress that a value which does not fall shows.
    pub(super) fn progress(&self, value: u64) -> u64 {
        self.carried.saturating_add(value.saturating_sub(self.zero.unwrap_or(0)))
    }
}
