//! The rows of progress sources.

use super::super::units::{count, length, number, percent, seconds};
use super::super::{RecoveryReport, Report, SourceFigures};
use super::{MAX_ROWS, Page, columns, latency};
use crate::core::histogram::LatencySummary;
use crate::core::recovery::Trouble;
use crate::store::record::Spread;

/// A source over one window.
pub(super) fn source(name: &str, found: &SourceFigures, out: &mut Page) {
    out.line(&format!(" source {name}"));
    let coverage = found.coverage.map_or_else(|| "-".to_owned(), percent);
    let polls =
        format!("{} polls, {} failed", count(found.polls.saturating_add(found.errors)), count(found.errors));
    out.row("lag known", &format!("{coverage} of the time, {polls}"));
    if found.lag_records.is_none() && found.lag_seconds.is_none() {
        let why = found.absent.get("lag_records").map_or("", String::as_str);
        out.row("lag", &format!("not known: {why}"));
    } else {
        columns("lag", ["mean", "p50", "p99", "max", "last"], out);
    }
    if let Some(records) = &found.lag_records {
        spread("records", records, number, out);
    }
    if let Some(ages) = &found.lag_seconds {
        spread(if found.lag_at_least { "age, at least" } else { "age" }, ages, seconds, out);
    }
    times(found.freshness.as_ref(), found.end_to_end.as_ref(), out);
    if let (Some(apart), Some(_)) = (found.resolution_seconds, &found.freshness) {
        out.row("", &format!("looked at every {}: no finer than that", seconds(apart)));
    }
    match found.ingest_records_per_second {
        Some(mean) => {
            let range = match (found.ingest_min_records_per_second, found.ingest_max_records_per_second) {
                (Some(min), Some(max)) => format!(", from {}/s to {}/s", number(min), number(max)),
                _ => String::new(),
            };
            out.row("ingested", &format!("{}/s{range}", number(mean)));
        }
        None => out.row("ingested", "-"),
    }
    if found.standstills + found.resets > 0 {
        let still = length(found.standstill_seconds);
        out.row(
            "",
            &format!("{} standstills ({still}), {} resets", count(found.standstills), count(found.resets)),
        );
    }
}

/// What a system came back from, and how long that took, by source.
pub(super) fn recoveries(report: &Report, out: &mut Page) {
    let all = report.drain.sources.iter().filter(|(_, source)| source.recoveries_total > 0);
    for (index, (name, source)) in all.enumerate() {
        if index == 0 {
            out.title("RECOVERIES (to within a poll)");
        }
        let mut label = format!("source {name}");
        for found in source.recoveries.iter().take(MAX_ROWS) {
            let RecoveryReport { recovery, absent } = found;
            let (trouble, back) = match recovery.trouble {
                Trouble::Away => ("away", "back"),
                Trouble::Fell => ("progress fell", "back"),
                Trouble::StoodStill => ("stood still", "moved"),
            };
            let after = |field: &str, what: &str, seconds: Option<f64>| match (seconds, absent.get(field)) {
                (Some(seconds), _) => format!("{what} after {}", length(seconds)),
                (None, why) => why.map_or("-", String::as_str).to_owned(),
            };
            let back = after("back_seconds", back, recovery.back_seconds);
            let caught_up = after("caught_up_seconds", "caught up", recovery.caught_up_seconds);
            let at = format!("{:.1} s ({})", recovery.start_seconds, recovery.start_at);
            out.paragraph(&label, &format!("{trouble} from {at}: {back}, {caught_up}"));
            label.clear();
        }
        let left = source.recoveries_total.saturating_sub(MAX_ROWS as u64);
        if left > 0 {
            out.row("", &format!("... and {} more", count(left)));
        }
    }
}

/// Freshness and end-to-end latency, where there are any.
pub(super) fn times(freshness: Option<&LatencySummary>, end_to_end: Option<&LatencySummary>, out: &mut Page) {
    if freshness.is_none() && end_to_end.is_none() {
        return;
    }
    columns("latency", ["mean", "p50", "p99", "p99.9", "max"], out);
    for (label, found) in [("freshness of markers", freshness), ("end to end", end_to_end)] {
        if let Some(found) = found {
            latency(label, Some(found), out);
        }
    }
}

fn spread(label: &str, found: &Spread, unit: fn(f64) -> String, out: &mut Page) {
    let cells = [found.mean, found.p50, found.p99, found.max, found.last].map(unit);
    columns(label, cells.each_ref().map(String::as_str), out);
}
