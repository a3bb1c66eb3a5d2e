//! Rates, averages and remarks from the counts and sums of a record.

use std::collections::BTreeMap;

use super::recovery::recovery;
use super::{
    CompressionReport, DrainReport, OutageReport, ProcessFigures, Reasons, Reconciled, Reconciliation,
    Report, SegmentReport, SourceEnd, SourceFigures, StreamFigures, StreamReport, Verdict, WindowReport,
    verdict,
};
use crate::store::record::{
    Outage, PartitionRecord, ProcessWindow, RunRecord, SourceRecord, SourceWindow, StreamRecord,
    StreamWindow, Watermarks, Window, tidy,
};

/// A rate over less time says nothing: one wake-up more or less decides it.
const SHORTEST_RATE_SECONDS: f64 = 0.1;

/// CPU time is looked at about once a second, so that the mean of a shorter time would be a matter of chance.
const SHORTEST_CPU_SECONDS: f64 = 3.0;

const ONLY_SECONDS: &str = "the source tells seconds of lag, not records";
const ONLY_RECORDS: &str = "the source tells records of lag, not seconds";
const NO_MARKERS: &str = "no marker became visible, or the source does not look for them";
const NO_OUTPUT: &str = "no record with its intended time was read, or the source reads no output topic";

/// Sums up and judges a run.
#[must_use]
pub fn summarize(record: &RunRecord) -> Report {
    let mut why = Reasons::default();
    let not_begun = "the load never began";
    let not_measured = match record.started_at {
        Some(_) if record.preload.is_some() && record.warm_up.is_none() => {
            "the load ended during the preload"
        }
        Some(_) => "the load ended during the warm-up",
        None => not_begun,
    };
    let not_ended = if record.started_at.is_some() { "the load has not ended" } else { not_begun };
    let measured = record.measured.as_ref().map(window);
    let share = record.measured.as_ref().and_then(generator_limited_share);
    let share_why = if measured.is_some() { "the measured phase has no length" } else { not_measured };
    let mut report = Report {
        format_version: record.format_version,
        soakd_version: record.soakd_version.clone(),
        id: record.run.id.clone(),
        name: record.run.name.clone(),
        tags: record.run.tags.clone(),
        finished: record.finished,
        cause: why.need("cause", record.cause.clone(), "the run was not told to end"),
        started_at: why.need("started_at", record.started_at.clone(), not_begun),
        measuring_at: why.need("measuring_at", record.measuring_at.clone(), not_measured),
        load_ended_at: why.need("load_ended_at", record.load_ended_at.clone(), not_ended),
        finished_at: why.need("finished_at", record.finished_at.clone(), "the run is not finished"),
        verdict: Verdict::Good,
        exit_code: 0,
        remarks: Vec::new(),
        generator_limited_share: why.need("generator_limited_share", share, share_why),
        measured: why.need("measured", measured, not_measured),
        preload: why.need("preload", record.preload.as_ref().map(window), "there was no preload"),
        warm_up: why.need("warm_up", record.warm_up.as_ref().map(window), "there was no warm-up"),
        drain: drain(record),
        segments: record
            .segments
            .iter()
            .map(|segment| SegmentReport {
                phase: segment.phase,
                began_by: segment.began_by.clone(),
                merged: segment.merged,
                figures: window(&segment.window),
            })
            .collect(),
        segments_merged: record.segments_merged,
        streams: record
            .streams
            .iter()
            .map(|(name, found)| (name.clone(), stream(record, name, found)))
            .collect(),
        events: record.events.clone(),
        absent: BTreeMap::new(),
    };
    report.absent = why.0;
    report.remarks = super::remarks::remarks(&report);
    report.verdict = verdict(&report);
    report.exit_code = report.verdict.exit_code();
    report
}

/// The largest share over the streams.
fn generator_limited_share(measured: &Window) -> Option<f64> {
    let limited =
        measured.streams.values().filter_map(|stream| stream.counts.limited_seconds.get("generator"));
    let longest = limited.fold(0.0_f64, |longest, seconds| longest.max(*seconds));
    ratio(longest, measured.active_seconds).map(|share| share.clamp(0.0, 1.0))
}

fn window(found: &Window) -> WindowReport {
    let active = found.active_seconds;
    WindowReport {
        from_seconds: found.from_seconds,
        to_seconds: found.to_seconds,
        active_seconds: active,
        paused_seconds: found.paused_seconds,
        streams: found
            .streams
            .iter()
            .map(|(name, found)| (name.clone(), stream_figures(found, active)))
            .collect(),
        sources: found.sources.iter().map(|(name, found)| (name.clone(), source_figures(found))).collect(),
        processes: found
            .processes
            .iter()
            .map(|(name, found)| (name.clone(), process_figures(found)))
            .collect(),
    }
}

#[allow(clippy::cast_precision_loss)]
fn stream_figures(found: &StreamWindow, active_seconds: f64) -> StreamFigures {
    let mut why = Reasons::default();
    let rate = |amount: f64| {
        if active_seconds < SHORTEST_RATE_SECONDS { None } else { ratio(amount, active_seconds) }
    };
    let no_time =
        if active_seconds > 0.0 { "the time is too short for a rate" } else { "no time without a pause" };
    let open_loop = found.closed_loop_seconds <= 0.0;
    let sustained = (open_loop && found.counts.owed() > 0).then(|| found.counts.sustained());
    let target = rate(found.target_records).filter(|_| open_loop);
    let no_rate = "\"max\" is a closed loop: there is no rate to keep";
    let missed = "no second was missed";
    StreamFigures {
        target_records_per_second: why.need(
            "target_records_per_second",
            target,
            if open_loop { no_time } else { no_rate },
        ),
        closed_loop_seconds: found.closed_loop_seconds,
        achieved_records_per_second: why.need(
            "achieved_records_per_second",
            // Markers come on top of the rate, in the count and here.
            rate(found.counts.acked.saturating_sub(found.counts.markers) as f64),
            no_time,
        ),
        achieved_bytes_per_second: why.need(
            "achieved_bytes_per_second",
            rate(found.counts.bytes_acked as f64),
            no_time,
        ),
        rate_sustained: why.need(
            "rate_sustained",
            sustained,
            if open_loop { "no record was due" } else { no_rate },
        ),
        first_missed_second: why.need("first_missed_second", found.first_missed_second, missed),
        missed_seconds: found.missed_seconds,
        counts: found.counts.clone(),
        in_flight: found.in_flight,
        backlog: found.backlog,
        schedule_delay: why.need("schedule_delay", found.schedule_delay, "no record was sent"),
        ack_from_intended: why.need("ack_from_intended", found.ack_from_intended, "no record was acked"),
        ack_from_sent: why.need("ack_from_sent", found.ack_from_sent, "no record was acked"),
        watched_records_per_second: found.watched_records.and_then(|came| rate(came as f64)),
        absent: why.0,
    }
}

fn source_figures(found: &SourceWindow) -> SourceFigures {
    let mut why = Reasons::default();
    let unknown = found.unknown_reason.as_deref().unwrap_or("the source gave no lag in this time");
    let no_pair = "no two samples without a reset or a gap between them";
    let no_records = if found.lag_seconds.is_some() { ONLY_SECONDS } else { unknown };
    let no_seconds = if found.lag_records.is_some() { ONLY_RECORDS } else { unknown };
    SourceFigures {
        coverage: why.need("coverage", ratio(found.known_seconds, found.seconds), "no time was looked at"),
        partly_known_seconds: found.partly_known_seconds,
        lag_records: why.need("lag_records", found.lag_records, no_records),
        lag_seconds: why.need("lag_seconds", found.lag_seconds, no_seconds),
        lag_at_least: found.lag_at_least,
        ingest_records_per_second: why.need(
            "ingest_records_per_second",
            ratio(found.ingested_records, found.ingest_seconds),
            no_pair,
        ),
        ingest_min_records_per_second: why.need(
            "ingest_min_records_per_second",
            found.ingest_min_records_per_second,
            no_pair,
        ),
        ingest_max_records_per_second: why.need(
            "ingest_max_records_per_second",
            found.ingest_max_records_per_second,
            no_pair,
        ),
        polls: found.polls,
        errors: found.errors,
        resets: found.resets,
        standstills: found.standstills,
        standstill_seconds: found.standstill_seconds,
        freshness: why.need("freshness", found.freshness, NO_MARKERS),
        end_to_end: why.need("end_to_end", found.end_to_end, NO_OUTPUT),
        resolution_seconds: why.need("resolution_seconds", found.resolution_seconds, "no poll was good"),
        absent: why.0,
    }
}

fn process_figures(found: &ProcessWindow) -> ProcessFigures {
    let mut why = Reasons::default();
    let known = found.cpu_known_seconds >= SHORTEST_CPU_SECONDS;
    let short = if found.cpu_known_seconds > 0.0 {
        "CPU time was known for too short a time"
    } else {
        "CPU time was never known"
    };
    let split = known && found.cpu_unsplit_seconds <= 0.0;
    let user = split.then_some(found.cpu_user_seconds);
    let system = split.then_some(found.cpu_system_seconds);
    let total = tidy(found.cpu_user_seconds + found.cpu_system_seconds + found.cpu_unsplit_seconds);
    let sum_only = if known { "only their sum is known" } else { short };
    let mean = if known { ratio(total, found.cpu_known_seconds) } else { None };
    let never = "CPU use was never known";
    let no_memory = match found.memory_cgroup_bytes {
        Some(_) => "only the memory of the cgroup is known",
        None => "memory was never known",
    };
    ProcessFigures {
        coverage: why.need("coverage", ratio(found.up_seconds, found.seconds), "no time was looked at"),
        cpu_user_seconds: why.need("cpu_user_seconds", user, sum_only),
        cpu_system_seconds: why.need("cpu_system_seconds", system, sum_only),
        cpu_seconds: why.need("cpu_seconds", known.then_some(total), short),
        cpu_cores_mean: why.need("cpu_cores_mean", mean, short),
        cpu_cores_p99: why.need("cpu_cores_p99", found.cpu_cores.map(|cores| cores.p99), never),
        cpu_cores_peak: why.need("cpu_cores_peak", found.cpu_cores.map(|cores| cores.max), never),
        memory_rss_bytes: why.need("memory_rss_bytes", found.memory_rss_bytes, no_memory),
        memory_cgroup_bytes: found.memory_cgroup_bytes,
        memory_slope: why.need(
            "memory_slope",
            found.memory_slope,
            "memory was known for less than ten seconds since the beginning or the last restart",
        ),
        restarts: found.restarts,
        absent: why.0,
    }
}

fn drain(record: &RunRecord) -> DrainReport {
    let mut why = Reasons::default();
    let sources: BTreeMap<String, SourceEnd> = record
        .sources
        .iter()
        .map(|(name, found)| {
            let tolerance = record.run.tolerance_records.get(name).copied().unwrap_or(0);
            (name.clone(), source_end(found, tolerance, record.drain.is_some(), is_watched(record, found)))
        })
        .collect();
    let seconds = record.drain.as_ref().map(|drain| tidy(drain.to_seconds - drain.from_seconds));
    let open = if record.drain.is_some() { "" } else { "the drain has not ended" };
    // One source that is behind settles it, whatever is not known of the others.
    let judged = || record.sources.iter().filter(|(_, found)| !is_watched(record, found));
    let drained = |(name, _): (&String, _)| sources.get(name).and_then(|source| source.drained);
    let behind = judged().any(|source| drained(source) == Some(false));
    let unknown = judged().any(|source| drained(source).is_none());
    let (drained, reason) = match () {
        () if !open.is_empty() => (None, open),
        () if sources.is_empty() => (None, "there is no progress source"),
        () if judged().next().is_none() => (None, "others may go on writing to the streams"),
        () if behind => (Some(false), ""),
        () if unknown => (None, "a source did not say"),
        () => (Some(true), ""),
    };
    DrainReport {
        drained: why.need("drained", drained, reason),
        seconds: why.need("seconds", seconds, open),
        timeout_seconds: tidy(record.run.drain_timeout_seconds.max(0.0)),
        undelivered_records: record.undelivered_records,
        sources,
        absent: why.0,
    }
}

/// Whether others write what the source follows: there is no end of it then that could be caught up with.
fn is_watched(record: &RunRecord, source: &SourceRecord) -> bool {
    record.streams.get(&source.stream).is_some_and(|stream| stream.watched_records.is_some())
}

fn source_end(found: &SourceRecord, tolerance_records: u64, ended: bool, watched: bool) -> SourceEnd {
    let mut why = Reasons::default();
    let unknown = found.unknown_reason.as_deref().unwrap_or("the source gave no lag");
    // A source of markers or of a stated lag may tell seconds only.
    let near = match (found.remaining_records, found.remaining_seconds) {
        (Some(remaining), _) => Some(remaining <= tolerance_records),
        (None, Some(_)) => Some(found.caught_up),
        (None, None) => None,
    };
    let drained = near.filter(|_| ended && !watched).and_then(|near| match near {
        // A partition that nobody knows of may hold any number of records.
        true if found.unknown_partitions > 0 => None,
        caught_up => Some(caught_up),
    });
    let never = if drained == Some(true) { "no look saw when" } else { "it had not caught up" };
    SourceEnd {
        kind: found.kind.clone(),
        value: found.value.clone(),
        stream: found.stream.clone(),
        drained: why.need(
            "drained",
            drained,
            match found.unknown_partitions {
                _ if watched => "others may go on writing to the stream".to_owned(),
                _ if !ended => "the drain has not ended".to_owned(),
                partitions if partitions > 0 && near.is_some() => {
                    format!("{partitions} partitions have no figure")
                }
                _ => unknown.to_owned(),
            },
        ),
        remaining_records: why.need("remaining_records", found.remaining_records, unknown),
        remaining_seconds: why.need(
            "remaining_seconds",
            found.remaining_seconds,
            if found.remaining_records.is_some() { ONLY_RECORDS } else { unknown },
        ),
        unknown_partitions: found.unknown_partitions,
        tolerance_records,
        caught_up_after_seconds: why.need("caught_up_after_seconds", found.caught_up_after_seconds, never),
        expired_records: found.expired_records,
        recoveries: found.recoveries.iter().map(recovery).collect(),
        recoveries_total: found.recoveries_total,
        freshness: why.need("freshness", found.freshness, NO_MARKERS),
        end_to_end: why.need("end_to_end", found.end_to_end, NO_OUTPUT),
        absent: why.0,
    }
}

fn stream(record: &RunRecord, name: &str, found: &StreamRecord) -> StreamReport {
    let info = record.run.streams.get(name).cloned().unwrap_or_default();
    StreamReport {
        topic: found.topic.clone(),
        partitioner: info.partitioner,
        limits: info.limits,
        totals: found.totals.clone(),
        in_flight: found.in_flight,
        backlog: found.backlog,
        compression: CompressionReport::new(&found.compression),
        partitions: found.partitions.clone(),
        outages: found.outages.iter().map(outage).collect(),
        outages_total: found.outages_total,
        reconciliation: reconcile(found),
        watched_records: found.watched_records,
    }
}

fn outage(found: &Outage) -> OutageReport {
    let mut why = Reasons::default();
    let seconds = found.end_seconds.map(|end| tidy((end - found.start_seconds).max(0.0)));
    let open = "no ack came any more";
    why.need("end_seconds", found.end_seconds, open);
    why.need("end_at", found.end_at.as_ref(), open);
    OutageReport { outage: found.clone(), seconds: why.need("seconds", seconds, open), absent: why.0 }
}

fn reconcile(found: &StreamRecord) -> Reconciliation {
    let mut why = Reasons::default();
    let add = |sum: u64, more: u64| sum.saturating_add(more);
    let acked = found.partitions.iter().map(|partition| partition.acked).fold(0, add);
    let outcome_unknown = found.totals.failed.get("outcome_unknown").copied().unwrap_or(0);
    let unread = match &found.watermarks {
        _ if found.watched_records.is_some() => "others produce the stream",
        None => "the broker's end offsets could not be read",
        Some(_) => "the broker's end offsets are not of the same partitions as the acks",
    };
    let marks = found.watermarks.as_ref().filter(|_| found.watched_records.is_none());
    let marks = marks.filter(|marks| marks.len() == found.partitions.len());
    let pairs = marks.map(|marks| {
        let grown = |(mark, partition): (&Watermarks, &PartitionRecord)| {
            // All of a log that began again is new.
            let start = if partition.restarts > 0 { mark.start.min(partition.baseline) } else { mark.start };
            (mark.end.saturating_sub(start), partition.acked)
        };
        marks.iter().zip(&found.partitions).map(grown).collect::<Vec<(u64, u64)>>()
    });
    let sum = |pick: fn(&(u64, u64)) -> u64| pairs.as_ref().map(|pairs| pairs.iter().map(pick).fold(0, add));
    let missing = sum(|(grown, acked)| acked.saturating_sub(*grown));
    let surplus = sum(|(grown, acked)| grown.saturating_sub(*acked));
    let surplus = surplus.map(|surplus| surplus.saturating_sub(outcome_unknown));
    let other_failures = found.totals.failed_total().saturating_sub(outcome_unknown);
    let result = match (missing, surplus) {
        (Some(0), Some(0)) => Reconciled::Agrees,
        (Some(0), Some(surplus)) if surplus <= other_failures => Reconciled::SurplusOfFailed,
        (Some(0), Some(_)) => Reconciled::Surplus,
        (Some(_), _) => Reconciled::Missing,
        (None, _) => Reconciled::NotReconciled,
    };
    Reconciliation {
        result,
        acked,
        outcome_unknown,
        in_broker: why.need("in_broker", sum(|(grown, _)| *grown), unread),
        missing_records: why.need("missing_records", missing, unread),
        surplus_records: why.need("surplus_records", surplus, unread),
        absent: why.0,
    }
}

/// `None` instead of a division by nothing.
fn ratio(amount: f64, by: f64) -> Option<f64> {
    let quotient = amount / by;
    (by > 0.0 && quotient.is_finite()).then(|| tidy(quotient))
}
