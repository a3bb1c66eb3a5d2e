//! A stream over one window: counters and distributions that began at the window's start, and whether it kept up
//! with its schedule second by second.

use std::collections::BTreeMap;

use crate::core::counters::{Counters, DropReason, FailReason, Head, LimitedBy};
use crate::core::histogram::{Latency, LatencySummary};
use crate::core::stream::{Latencies, StreamSnapshot};
use crate::store::record::{Counts, PartitionRecord, StreamWindow, seconds, tidy};

/// A second is judged when about a second has passed: ticks are not exact, and boundaries come in between.
const SECOND_NS: u64 = 950_000_000;

/// Collects the figures of a stream.
#[derive(Debug, Clone)]
pub(super) struct StreamCollector {
    begin: Counters,
    end: Counters,
    begin_watched: Option<u64>,
    end_watched: Option<u64>,
    begin_latencies: Option<Latencies>,
    target_records: f64,
    closed_loop_ns: u64,
    second_from_ns: u64,
    second_begin: Counters,
    missed_ns: u64,
    first_missed_ns: Option<u64>,
}

impl StreamCollector {
    pub(super) fn new(now_ns: u64, seen: &StreamSnapshot, latencies: Option<&Latencies>) -> Self {
        let begin = seen.counters;
        Self {
            begin_watched: seen.watched_records,
            end_watched: seen.watched_records,
            begin,
            end: begin,
            begin_latencies: latencies.cloned(),
            target_records: 0.0,
            closed_loop_ns: 0,
            second_from_ns: now_ns,
            second_begin: begin,
            missed_ns: 0,
            first_missed_ns: None,
        }
    }

    /// The stream followed `before.target` until now, or what was planned in between where the rate moves all the time.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn advance(
        &mut self,
        before: Option<&StreamSnapshot>,
        seen: &StreamSnapshot,
        now_ns: u64,
        dt_ns: u64,
    ) {
        let now = &seen.counters;
        self.end = *now;
        self.end_watched = seen.watched_records;
        if let Some(before) = before {
            match before.target.per_second() {
                None => self.closed_loop_ns = self.closed_loop_ns.saturating_add(dt_ns),
                Some(rate) => {
                    self.target_records += planned(before, seen).unwrap_or(rate) * (dt_ns as f64 / 1e9)
                }
            }
        }
        let passed_ns = now_ns.saturating_sub(self.second_from_ns);
        if passed_ns < SECOND_NS {
            return;
        }
        if missed(&self.second_begin, now) {
            self.missed_ns = self.missed_ns.saturating_add(passed_ns);
            self.first_missed_ns = self.first_missed_ns.or(Some(self.second_from_ns));
        }
        self.second_from_ns = now_ns;
        self.second_begin = *now;
    }

    /// `origin_ns` is when the load began, `latencies` the stream's distributions at the end of the window.
    pub(super) fn close(&self, origin_ns: u64, latencies: Option<&Latencies>) -> StreamWindow {
        let fresh = Latencies::default();
        let begin = self.begin_latencies.as_ref().unwrap_or(&fresh);
        let rest = |pick: fn(&Latencies) -> &Latency| {
            latencies.and_then(|now| pick(now).since(pick(begin)).summary()).map(tidy_latency)
        };
        StreamWindow {
            target_records: tidy(self.target_records),
            closed_loop_seconds: seconds(self.closed_loop_ns),
            counts: counts_between(&self.begin, &self.end),
            in_flight: self.end.in_flight,
            backlog: self.end.backlog,
            missed_seconds: seconds(self.missed_ns),
            first_missed_second: self.first_missed_ns.map(|ns| seconds(ns.saturating_sub(origin_ns))),
            schedule_delay: rest(|all| &all.schedule_delay),
            ack_from_intended: rest(|all| &all.ack_from_intended),
            ack_from_sent: rest(|all| &all.ack_from_sent),
            watched_records: self.end_watched.map(|end| end.saturating_sub(self.begin_watched.unwrap_or(0))),
        }
    }
}

/// The mean rate that was planned between two looks, where the rate moves all the time: that of the first look says little.
#[allow(clippy::cast_precision_loss)]
fn planned(before: &StreamSnapshot, now: &StreamSnapshot) -> Option<f64> {
    let (from, to) = (before.planned, now.planned);
    let passed_ns = to.at_ns.saturating_sub(from.at_ns);
    let moving = (from.moving || to.moving) && passed_ns > 0 && !now.target.is_max();
    moving.then(|| (to.records - from.records).max(0.0) / (passed_ns as f64 / 1e9))
}

/// Whether the rate was missed between two states.
fn missed(from: &Counters, to: &Counters) -> bool {
    !counts_between(from, to).sustained()
}

/// What was counted between two states of the same counters.
pub(super) fn counts_between(from: &Counters, to: &Counters) -> Counts {
    let grown = |pick: fn(&Counters) -> u64| pick(to).saturating_sub(pick(from));
    let failed = FailReason::ALL
        .iter()
        .map(|(reason, name)| {
            ((*name).to_owned(), to.failed_for(*reason).saturating_sub(from.failed_for(*reason)))
        })
        .collect();
    let dropped = DropReason::ALL
        .iter()
        .map(|(reason, name)| {
            ((*name).to_owned(), to.dropped_for(*reason).saturating_sub(from.dropped_for(*reason)))
        })
        .collect();
    let limited_seconds: BTreeMap<String, f64> = LimitedBy::ALL
        .iter()
        .zip(to.limited_ns.iter().zip(from.limited_ns))
        .map(|((_, name), (to, from))| ((*name).to_owned(), seconds(to.saturating_sub(from))))
        .collect();
    Counts {
        scheduled: grown(|counters| counters.scheduled),
        sent: grown(|counters| counters.sent),
        acked: grown(|counters| counters.acked),
        failed,
        dropped,
        bytes_acked: grown(|counters| counters.bytes_acked),
        markers: grown(|counters| counters.markers),
        stalls: grown(|counters| counters.stalls),
        rebuilds: grown(|counters| counters.rebuilds),
        limited_seconds,
    }
}

pub(super) fn tidy_latency(summary: LatencySummary) -> LatencySummary {
    LatencySummary {
        count: summary.count,
        mean_seconds: tidy(summary.mean_seconds),
        p50_seconds: tidy(summary.p50_seconds),
        p90_seconds: tidy(summary.p90_seconds),
        p99_seconds: tidy(summary.p99_seconds),
        p999_seconds: tidy(summary.p999_seconds),
        p9999_seconds: tidy(summary.p9999_seconds),
        max_seconds: tidy(summary.max_seconds),
        clipped: summary.clipped,
    }
}

/// A partition over the whole run.
pub(super) const fn partition(head: &Head) -> PartitionRecord {
    PartitionRecord {
        acked: head.acked,
        next_offset: head.next_offset,
        baseline: head.baseline,
        log_start: head.log_start,
        restarts: head.restarts,
        lost: head.lost,
    }
}
