//! What a reader should know although it does not decide the verdict.

use super::{Reconciled, Report, StreamReport, WindowReport};

/// Below this share of known time, averages of lag say little.
const GOOD_COVERAGE: f64 = 0.95;

/// All remarks on a report, the most important first.
pub(super) fn remarks(report: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    if !report.finished {
        remarks.push("the run is not finished: all figures are of what was seen so far".to_owned());
    }
    if report.measured.is_none() {
        let why = report.absent.get("measured").map_or("", String::as_str);
        remarks.push(format!("there is no measured phase: {why}"));
    }
    if let Some(measured) = &report.measured {
        rate_and_coverage(measured, &mut remarks);
    }
    for (name, stream) in &report.streams {
        records(report.finished, name, stream, &mut remarks);
    }
    if report.drain.timeout_seconds <= 0.0 && !report.drain.sources.is_empty() {
        remarks.push("no drain was asked for: whether the systems catch up was not waited for".to_owned());
    }
    for (name, source) in &report.drain.sources {
        if source.expired_records > 0 {
            let expired = source.expired_records;
            remarks.push(format!(
                "source {name}: retention removed {expired} records before they were ingested"
            ));
        }
    }
    if let Some(steps) = report.events.get("clock_stepped") {
        remarks.push(format!(
            "the machine's clock was set {steps} times: durations and rates do not go by it, and wall times (those of records \
             too) go by what it was at the start"
        ));
    }
    if report.segments_merged > 0 {
        let merged = report.segments_merged;
        remarks.push(format!("{merged} segments are part of another one: there were too many to keep"));
    }
    remarks
}

fn rate_and_coverage(measured: &WindowReport, remarks: &mut Vec<String>) {
    for (name, stream) in &measured.streams {
        if stream.closed_loop_seconds > 0.0 {
            remarks.push(format!(
                "stream {name}: {:.0} s at \"max\", a closed loop: the rate is what the system took, and latencies are not those \
                 of an open load",
                stream.closed_loop_seconds
            ));
        }
        match (stream.rate_sustained, stream.first_missed_second) {
            (Some(false), Some(first)) => remarks.push(format!(
                "stream {name}: the rate was not sustained, first missed {first:.1} s after the load began, {:.0} s in all",
                stream.missed_seconds
            )),
            (Some(false), None) => remarks.push(format!("stream {name}: the rate was not sustained")),
            _ => {}
        }
    }
    for (name, source) in &measured.sources {
        match source.coverage {
            Some(coverage) if coverage < GOOD_COVERAGE => remarks.push(format!(
                "source {name}: lag was known for {:.1} % of the measured phase only",
                coverage * 100.0
            )),
            _ => {}
        }
        if source.partly_known_seconds > 0.0 {
            remarks.push(format!(
                "source {name}: for {:.0} s some partitions had no figure and are in no lag",
                source.partly_known_seconds
            ));
        }
        if source.resets > 0 {
            remarks.push(format!("source {name}: progress fell {} times", source.resets));
        }
    }
    for (name, process) in &measured.processes {
        if process.restarts > 0 {
            remarks.push(format!("process {name}: restarted {} times", process.restarts));
        }
    }
}

fn records(finished: bool, name: &str, stream: &StreamReport, remarks: &mut Vec<String>) {
    let happened = stream.totals.failed.iter().map(|(reason, count)| ("failed", reason, *count));
    let dropped = stream.totals.dropped.iter().map(|(reason, count)| ("dropped", reason, *count));
    for (what, reason, count) in happened.chain(dropped).filter(|(_, _, count)| *count > 0) {
        remarks.push(format!("stream {name}: {count} records {what}: {}", reason.replace('_', " ")));
    }
    if finished && stream.in_flight + stream.backlog > 0 {
        remarks.push(format!(
            "stream {name}: {} records in flight and {} due ones unsent at the end",
            stream.in_flight, stream.backlog
        ));
    }
    let again: Vec<_> = stream.partitions.iter().filter(|partition| partition.restarts > 0).collect();
    if !again.is_empty() {
        let lost = again.iter().fold(0_u64, |sum, partition| sum.saturating_add(partition.lost));
        remarks.push(format!(
            "stream {name}: the offsets of {} of {} partitions began again: the topic was deleted and made anew, or its log was \
             cut short; about {lost} records are gone with it",
            again.len(),
            stream.partitions.len()
        ));
    }
    if stream.watched_records.is_some() {
        return;
    }
    let found = &stream.reconciliation;
    match found.result {
        Reconciled::NotReconciled => {
            let why = found.absent.get("in_broker").map_or("", String::as_str);
            remarks.push(format!("stream {name}: not reconciled with the broker: {why}"));
        }
        Reconciled::SurplusOfFailed => remarks.push(format!(
            "stream {name}: {} records that failed in the client may have been written all the same",
            found.surplus_records.unwrap_or(0)
        )),
        Reconciled::Agrees | Reconciled::Missing | Reconciled::Surplus => {}
    }
    // Two ways of counting that must come to the same: if they do not, neither is to be trusted.
    if finished && !stream.partitions.is_empty() && found.acked != stream.totals.acked {
        remarks.push(format!(
            "stream {name}: the partitions add up to {} acked records, the stream's counter to {}",
            found.acked, stream.totals.acked
        ));
    }
}
