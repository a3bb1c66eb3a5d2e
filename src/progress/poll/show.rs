//! A good sample on the board, and what of it is worth a line in the log: once each.

use std::sync::Arc;
use std::time::Duration;

use super::seconds;
use crate::core::histogram::Latency;
use crate::core::lag::Observation;
use crate::core::status::SourceStatus;

/// What is worth a line in the log.
#[derive(Default)]
pub(super) struct Change {
    unknown: Option<String>,
    ahead_ns: Option<u64>,
    /// Records of an output topic are left out.
    pub(super) skips: bool,
    /// A stated lag was below zero.
    pub(super) below_zero: bool,
}

impl Change {
    pub(super) fn log(self, source: &str) {
        if let Some(reason) = self.unknown {
            tracing::warn!(source, reason, "the source answers without a figure: lag is not known");
        }
        if self.skips {
            tracing::warn!(
                source,
                "the source leaves records of the output topic out: there are more than it can read, or they were in a partition \
                 before it was found, so that end-to-end latency is a sample"
            );
        }
        if self.below_zero {
            tracing::warn!(
                source,
                "the source states a lag below zero, which is taken as 0: its clocks differ, or its figures are not of one moment"
            );
        }
        if let Some(ahead_ns) = self.ahead_ns {
            let ahead_seconds = seconds(ahead_ns);
            tracing::warn!(
                source,
                ahead_seconds,
                "the source's newest time lies in the future: another clock is ahead"
            );
        }
    }
}

/// Puts a good sample on the board.
pub(super) fn show(cell: &mut SourceStatus, seen: &Observation, end_to_end: Option<Latency>) -> Change {
    let mut change = Change::default();
    cell.reading = Some(seen.reading.clone());
    cell.partitions = seen.partitions.as_slice().into();
    if seen.unknown_reason != cell.unknown_reason {
        change.unknown.clone_from(&seen.unknown_reason);
        cell.unknown_reason.clone_from(&seen.unknown_reason);
    }
    if seen.ahead_ns.is_some() {
        change.ahead_ns = seen.ahead_ns.filter(|_| cell.clock_ahead == 0);
        cell.clock_ahead += 1;
    }
    if let Some(freshness) = &mut cell.freshness {
        freshness.oldest_unseen_ns = seen.oldest_unseen_ns;
        if !seen.freshness_ns.is_empty() {
            let latency = Arc::make_mut(&mut freshness.latency);
            seen.freshness_ns.iter().for_each(|ns| latency.record(*ns));
        }
    }
    if let Some(read) = end_to_end {
        Arc::make_mut(cell.end_to_end.get_or_insert_default()).add(&read);
    }
    change
}

/// Says that a poll takes longer than a figure may stay.
pub(super) fn no_answer_yet(cell: &mut SourceStatus, patience: Duration) {
    cell.up = false;
    cell.error = Some(format!("no answer for {} s so far", patience.as_secs_f64()));
    without_figure(cell);
}

/// Takes the figure off the board: nobody knows it any more.
pub(super) fn without_figure(cell: &mut SourceStatus) {
    cell.reading = None;
    cell.unknown_reason = None;
    cell.partitions = Arc::default();
    (cell.ingest_records_per_second, cell.catch_up_ns) = (None, None);
    if let Some(freshness) = &mut cell.freshness {
        freshness.oldest_unseen_ns = None;
    }
}
