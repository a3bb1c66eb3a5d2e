//! The progress sources in the status.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{by_label, seconds};
use crate::core::clock::Clock;
use crate::core::histogram::LatencySummary;
use crate::core::lag::PartitionLag;
use crate::core::status::{ProgressErrorKind, SourceStatus};

#[derive(Debug, Serialize)]
pub(super) struct SourceBody {
    kind: &'static str,
    value: &'static str,
    stream: String,
    up: bool,
    error: Option<String>,
    unknown_reason: Option<String>,
    interval_seconds: f64,
    polls: u64,
    missed_polls: u32,
    errors_by_kind: BTreeMap<&'static str, u64>,
    last_success: Option<String>,
    last_success_age_seconds: Option<f64>,
    progress_records: Option<f64>,
    lag_records: Option<u64>,
    lag_seconds: Option<f64>,
    lag_at_least: Option<bool>,
    lag_uncertainty_records: Option<f64>,
    caught_up: Option<bool>,
    expired_records: Option<u64>,
    unknown_partitions: Option<u32>,
    resets: u64,
    standstills: u64,
    standstill_seconds: f64,
    standstill_longest_seconds: f64,
    /// The system states its lag itself.
    lag_stated: Option<bool>,
    resolution_seconds: Option<f64>,
    ingest_records_per_second: Option<f64>,
    catch_up_seconds: Option<f64>,
    /// The last time that the system was away, lost progress or stood still; null when it never did.
    recovery: Option<RecoveryBody>,
    clock_ahead: u64,
    /// Good polls in which the system stated a lag below zero.
    lag_below_zero: u64,
    /// Null for a source that does not look for markers.
    freshness: Option<FreshnessBody>,
    /// Null for a source that reads no output topic, and before the first record.
    end_to_end: Option<LatencySummary>,
    /// Records of the output topic that were left out because there are more than can be read.
    skipped_records: u64,
    /// Only when asked for by `?partitions=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<PartitionLagBody>>,
}

#[derive(Debug, Serialize)]
struct FreshnessBody {
    /// Null before the first marker is seen.
    seconds: Option<LatencySummary>,
    oldest_unseen_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct RecoveryBody {
    /// `away`, `fell` or `stood_still`.
    trouble: &'static str,
    began: String,
    /// Null while it does not answer, or stands still.
    back_after_seconds: Option<f64>,
    /// Null until it has caught up.
    caught_up_after_seconds: Option<f64>,
}

/// A partition as the source sees it; what is not known is null.
#[derive(Debug, Serialize)]
struct PartitionLagBody {
    partition: u32,
    value: Option<u64>,
    lag_records: Option<u64>,
    lag_seconds: Option<f64>,
    lag_at_least: bool,
    expired_records: u64,
}

/// The source at `now_ns`.
pub(super) fn body(seen: SourceStatus, now_ns: u64, clock: Clock, by_partitions: bool) -> SourceBody {
    let reading = seen.reading.as_ref();
    let lag_ns = reading.and_then(|reading| reading.lag_ns);
    let lag_records = reading.and_then(|reading| reading.lag_records);
    SourceBody {
        kind: seen.kind,
        value: seen.value,
        stream: seen.stream,
        up: seen.up,
        error: seen.error,
        unknown_reason: seen.unknown_reason,
        interval_seconds: seconds(seen.interval_ns),
        polls: seen.polls_total,
        missed_polls: seen.missed_polls,
        errors_by_kind: by_label(ProgressErrorKind::ALL, seen.errors),
        last_success: seen.last_success_ns.map(|at_ns| clock.rfc3339(at_ns)),
        last_success_age_seconds: seen.last_success_ns.map(|at_ns| seconds(now_ns.saturating_sub(at_ns))),
        progress_records: reading.and_then(|reading| reading.progress_records),
        lag_records,
        lag_seconds: lag_ns.map(seconds),
        lag_at_least: reading.filter(|_| lag_ns.is_some()).map(|reading| reading.lag_at_least),
        lag_uncertainty_records: reading
            .filter(|_| lag_records.is_some())
            .map(|reading| reading.uncertainty_records),
        caught_up: reading.filter(|_| lag_records.or(lag_ns).is_some()).map(|reading| reading.caught_up),
        expired_records: reading.map(|reading| reading.expired_records),
        unknown_partitions: reading.map(|reading| reading.unknown_partitions),
        resets: seen.resets,
        standstills: seen.standstills,
        standstill_seconds: seconds(seen.standstill_ns),
        standstill_longest_seconds: seconds(seen.standstill_longest_ns),
        lag_stated: reading.filter(|_| lag_ns.is_some()).map(|reading| reading.stated),
        resolution_seconds: seen.resolution_ns.map(seconds),
        ingest_records_per_second: seen.ingest_records_per_second,
        catch_up_seconds: seen.catch_up_ns.map(seconds),
        recovery: seen.recovery.map(|recovery| RecoveryBody {
            trouble: recovery.trouble.name(),
            began: clock.rfc3339(recovery.began_ns),
            back_after_seconds: recovery.back_ns.map(seconds),
            caught_up_after_seconds: recovery.caught_up_ns.map(seconds),
        }),
        clock_ahead: seen.clock_ahead,
        lag_below_zero: seen.below_zero,
        freshness: seen.freshness.map(|freshness| FreshnessBody {
            seconds: freshness.latency.summary(),
            oldest_unseen_seconds: freshness.oldest_unseen_ns.map(seconds),
        }),
        end_to_end: seen.end_to_end.and_then(|latency| latency.summary()),
        skipped_records: seen.skipped_records,
        partitions: by_partitions.then(|| seen.partitions.iter().map(by_partition).collect()),
    }
}

fn by_partition(lag: &PartitionLag) -> PartitionLagBody {
    PartitionLagBody {
        partition: lag.partition,
        value: lag.value,
        lag_records: lag.lag_records,
        lag_seconds: lag.lag_ns.map(seconds),
        lag_at_least: lag.lag_at_least,
        expired_records: lag.expired_records,
    }
}
