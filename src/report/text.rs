//! The report on a terminal, at most 100 columns where names are not longer than usual.

use std::fmt::Write;

mod source;

use super::units::{bytes, count, growth, length, number, percent, seconds};
use super::{ProcessFigures, Reconciled, Report, SegmentReport, StreamFigures, StreamReport, WindowReport};
use crate::core::histogram::LatencySummary;
use crate::store::record::{Counts, MemorySlope};
use source::{recoveries, source, times};

/// Columns for the names of rows.
const LABEL: usize = 22;
/// Rows of tables and lists that are printed; the JSON has all.
const MAX_ROWS: usize = 20;
/// Where long lists of numbers break.
const WIDTH: usize = 96;

/// The whole report, with a line break at its end.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = Page(String::new());
    head(report, &mut out);
    match &report.measured {
        Some(measured) => window("MEASURED PHASE", measured, &mut out),
        None => {
            out.title("MEASURED PHASE");
            out.row("none", report.absent.get("measured").map_or("", String::as_str));
        }
    }
    if let Some(warm_up) = report.warm_up.as_ref().filter(|window| window.to_seconds > window.from_seconds) {
        window("WARM-UP (in no figure above)", warm_up, &mut out);
    }
    if let Some(preload) = &report.preload {
        window("PRELOAD (in no figure above)", preload, &mut out);
    }
    segments(report, &mut out);
    for (name, found) in &report.streams {
        stream_totals(name, found, &mut out);
    }
    recoveries(report, &mut out);
    drain(report, &mut out);
    out.0
}

/// Text that grows by rows.
struct Page(String);

impl Page {
    fn line(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    fn title(&mut self, title: &str) {
        self.line("");
        self.line(title);
    }

    fn row(&mut self, label: &str, value: &str) {
        self.line(&format!("  {label:<LABEL$}{value}"));
    }

    /// A sentence over as many rows as it takes.
    fn paragraph(&mut self, label: &str, sentence: &str) {
        let (mut label, mut row) = (label, "-".to_owned());
        for word in sentence.split(' ') {
            if 2 + LABEL + row.chars().count() + 1 + word.chars().count() > WIDTH {
                self.row(label, &row);
                label = "";
                " ".clone_into(&mut row);
            }
            row.push(' ');
            row.push_str(word);
        }
        self.row(label, &row);
    }
}

fn head(report: &Report, out: &mut Page) {
    out.line(&format!("soakd report of run {}", report.id));
    let verdict = match report.verdict.name() {
        "good" => "GOOD",
        "failed" => "FAILED",
        _ => "THE GENERATOR WAS THE LIMIT",
    };
    let unfinished = if report.finished { "" } else { ", NOT FINISHED" };
    out.row("verdict", &format!("{verdict}{unfinished} (exit code {})", report.exit_code));
    for reason in report.verdict.reasons() {
        out.paragraph("", reason);
    }
    for (index, remark) in report.remarks.iter().enumerate() {
        out.paragraph(if index == 0 { "remarks" } else { "" }, remark);
    }
    let when = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
    out.row("load", &format!("{} to {}", when(&report.started_at), when(&report.load_ended_at)));
    if let Some(cause) = &report.cause {
        out.row("ended by", cause);
    }
    if !report.tags.is_empty() {
        let tags: Vec<String> = report.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        out.row("tags", &tags.join(" "));
    }
    if let Some(share) = report.generator_limited_share {
        out.row("limited by soakd", &format!("{} of the measured phase", percent(share)));
    }
}

fn window(title: &str, found: &WindowReport, out: &mut Page) {
    let paused = match found.paused_seconds {
        paused if paused > 0.0 => format!(", and {} of pauses", length(paused)),
        _ => String::new(),
    };
    out.title(&format!("{title}: {}{paused}", length(found.active_seconds)));
    for (name, found) in &found.streams {
        stream(name, found, out);
    }
    for (name, found) in &found.sources {
        source(name, found, out);
    }
    for (name, found) in &found.processes {
        process(name, found, out);
    }
}

fn stream(name: &str, found: &StreamFigures, out: &mut Page) {
    out.line(&format!(" stream {name}"));
    if let Some(came) = found.watched_records_per_second {
        return out.row("rate", &format!("{}/s by others: only watched", number(came)));
    }
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", number(rate)));
    let sustained = match found.rate_sustained {
        _ if found.closed_loop_seconds > 0.0 => {
            format!("a closed loop for {}", length(found.closed_loop_seconds))
        }
        Some(true) => "sustained".to_owned(),
        Some(false) => "NOT SUSTAINED".to_owned(),
        None => "-".to_owned(),
    };
    let size =
        found.achieved_bytes_per_second.map_or_else(String::new, |rate| format!(" ({}/s)", bytes(rate)));
    out.row(
        "rate",
        &format!(
            "target {}, achieved {}{size}: {sustained}",
            if found.closed_loop_seconds > 0.0 {
                "max".to_owned()
            } else {
                rate(found.target_records_per_second)
            },
            rate(found.achieved_records_per_second)
        ),
    );
    let counts = &found.counts;
    out.row("records", &records(counts));
    let lost = format!("{} failed, {} dropped", count(counts.failed_total()), count(counts.dropped_total()));
    let open =
        format!("{} in flight and {} waiting at the end", count(found.in_flight), count(found.backlog));
    out.row("", &format!("{lost}, {open}"));
    let limited = counts.limited_seconds.iter().filter(|(_, seconds)| **seconds > 0.0);
    let limited: Vec<String> =
        limited.map(|(by, seconds)| format!("{} by the {by}", length(*seconds))).collect();
    if !limited.is_empty() {
        out.row("limited", &limited.join(", "));
    }
    if counts.stalls + counts.rebuilds > 0 {
        out.row("", &format!("{} stalls, {} client rebuilds", count(counts.stalls), count(counts.rebuilds)));
    }
    columns("latency", ["mean", "p50", "p99", "p99.9", "max"], out);
    latency("schedule delay", found.schedule_delay.as_ref(), out);
    latency("ack, from intended", found.ack_from_intended.as_ref(), out);
    latency("ack, from sending", found.ack_from_sent.as_ref(), out);
}

fn records(counts: &Counts) -> String {
    let markers = match counts.markers {
        0 => String::new(),
        markers => format!(" ({} of them markers)", count(markers)),
    };
    format!(
        "{} due, {} sent{markers}, {} acked",
        count(counts.scheduled),
        count(counts.sent),
        count(counts.acked)
    )
}

fn columns(label: &str, names: [&str; 5], out: &mut Page) {
    let cells: String = names.iter().fold(String::new(), |mut cells, name| {
        let _ = write!(cells, "{name:>13}");
        cells
    });
    out.row(label, &cells);
}

fn latency(label: &str, found: Option<&LatencySummary>, out: &mut Page) {
    let Some(found) = found else {
        out.row(label, &format!("{:>13}", "-"));
        return;
    };
    let cells =
        [found.mean_seconds, found.p50_seconds, found.p99_seconds, found.p999_seconds, found.max_seconds];
    let cells = cells.map(seconds);
    columns(label, cells.each_ref().map(String::as_str), out);
}

fn process(name: &str, found: &ProcessFigures, out: &mut Page) {
    out.line(&format!(" process {name}"));
    let cores = |cores: Option<f64>| cores.map_or_else(|| "-".to_owned(), number);
    match found.absent.get("cpu_cores_mean") {
        Some(why) if found.cpu_cores_peak.is_none() => out.row("CPU", &format!("- ({why})")),
        _ => out.row(
            "CPU",
            &format!(
                "{} cores in the mean, p99 {}, peak {}",
                cores(found.cpu_cores_mean),
                cores(found.cpu_cores_p99),
                cores(found.cpu_cores_peak)
            ),
        ),
    }
    if let (Some(user), Some(system)) = (found.cpu_user_seconds, found.cpu_system_seconds) {
        out.row("", &format!("{} s user, {} s system", number(user), number(system)));
    } else if let Some(all) = found.cpu_seconds {
        out.row("", &format!("{} s in all", number(all)));
    }
    let (label, memory) = match (&found.memory_rss_bytes, &found.memory_cgroup_bytes) {
        (None, Some(memory)) => ("memory (cgroup)", Some(memory)),
        (memory, _) => ("memory (RSS)", memory.as_ref()),
    };
    match memory {
        Some(memory) => out.row(
            label,
            &format!(
                "{} in the mean, peak {}, last {}",
                bytes(memory.mean),
                bytes(memory.max),
                bytes(memory.last)
            ),
        ),
        None => {
            let why = found.absent.get("memory_rss_bytes").map_or("", String::as_str);
            out.row(label, &format!("- ({why})"));
        }
    }
    if let Some(slope) = &found.memory_slope {
        out.row("", &slope_text(slope));
    }
    let up = found.coverage.map_or_else(|| "-".to_owned(), percent);
    out.row("there", &format!("{up} of the time, {} restarts", count(found.restarts)));
}

/// `grows 12 MiB/h (±2)`, or that one cannot tell; and over what time.
fn slope_text(slope: &MemorySlope) -> String {
    let (size, error) = (slope.bytes_per_hour.abs(), slope.error_bytes_per_hour);
    let over = length(slope.over_seconds);
    match slope.flat {
        true => format!("flat: {}, over {over}", growth(slope.bytes_per_hour, error)),
        false if size <= error => {
            format!("cannot tell yet: {}, over {over}", growth(slope.bytes_per_hour, error))
        }
        false if slope.bytes_per_hour > 0.0 => format!("grows {}, over {over}", growth(size, error)),
        false => format!("shrinks {}, over {over}", growth(size, error)),
    }
}

/// One segment is the measured phase again.
fn segments(report: &Report, out: &mut Page) {
    if report.segments.len() < 2 {
        return;
    }
    out.title("SEGMENTS OF THE LOAD");
    out.line(&format!(
        "  {:>9} {:>9}  {:<13} {:<12} {:>9} {:>9} {:>10} {:>13}",
        "from", "length", "began by", "stream", "target/s", "acked/s", "ack p99", "lag p99"
    ));
    for segment in report.segments.iter().take(MAX_ROWS) {
        for (name, stream) in &segment.figures.streams {
            segment_row(segment, name, stream, report, out);
        }
    }
    let left = report.segments.len().saturating_sub(MAX_ROWS);
    if left > 0 {
        out.line(&format!("  ... and {left} more in the JSON"));
    }
}

fn segment_row(segment: &SegmentReport, name: &str, stream: &StreamFigures, report: &Report, out: &mut Page) {
    let figure = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), number);
    let p99 = stream.ack_from_intended.map_or_else(|| "-".to_owned(), |ack| seconds(ack.p99_seconds));
    // Of several sources of a stream, the one that is furthest behind.
    let watches = |source: &str| report.drain.sources.get(source).is_some_and(|source| source.stream == name);
    let sources = segment.figures.sources.iter().filter(|(source, _)| watches(source));
    let lags = sources.filter_map(|(_, source)| source.lag_records.map(|lag| lag.p99));
    let lag = figure(lags.reduce(f64::max));
    out.line(&format!(
        "  {:>9} {:>9}  {:<13} {:<12} {:>9} {:>9} {p99:>10} {lag:>13}",
        format!("{:.1} s", segment.figures.from_seconds),
        format!("{:.1} s", segment.figures.to_seconds - segment.figures.from_seconds),
        segment.began_by,
        name,
        if stream.closed_loop_seconds > 0.0 {
            "max".to_owned()
        } else {
            figure(stream.target_records_per_second)
        },
        figure(stream.achieved_records_per_second),
    ));
}

fn stream_totals(name: &str, found: &StreamReport, out: &mut Page) {
    out.title(&format!("STREAM {name}, WHOLE RUN: topic {}", found.topic));
    if let Some(came) = found.watched_records {
        out.row("records", &format!("{} by others: only watched", count(came)));
        let came: Vec<String> = found.partitions.iter().map(|partition| count(partition.acked)).collect();
        return wrapped("by partition", &came, out);
    }
    let totals = &found.totals;
    out.row("records", &records(totals));
    if let Some(words) = found.compression.words() {
        out.row("compression", &words);
    }
    let reconciliation = &found.reconciliation;
    let figure = |figure: Option<u64>| figure.map_or_else(|| "?".to_owned(), count);
    let broker = match reconciliation.result {
        Reconciled::Agrees => format!("has {} new records: agrees", figure(reconciliation.in_broker)),
        Reconciled::Missing => format!("LACKS {} acked records", figure(reconciliation.missing_records)),
        Reconciled::Surplus => format!("has {} RECORDS TOO MANY", figure(reconciliation.surplus_records)),
        Reconciled::SurplusOfFailed => {
            format!("has {} of the failed records, maybe", figure(reconciliation.surplus_records))
        }
        Reconciled::NotReconciled => {
            format!("not reconciled: {}", reconciliation.absent.get("in_broker").map_or("", String::as_str))
        }
    };
    out.row("broker", &broker);
    let acked: Vec<String> = found.partitions.iter().map(|partition| count(partition.acked)).collect();
    wrapped("acked by partition", &acked, out);
    if !found.partitioner.is_empty() {
        out.row("partitioner", &found.partitioner);
    }
    for (index, limit) in found.limits.iter().enumerate() {
        out.row(if index == 0 { "limits at the start" } else { "" }, limit);
    }
    for (index, outage) in found.outages.iter().take(MAX_ROWS).enumerate() {
        let long = outage.seconds.map_or_else(|| "no ack came any more".to_owned(), length);
        let from = format!("{:.1} s ({})", outage.outage.start_seconds, outage.outage.start_at);
        out.row(if index == 0 { "acks stopped" } else { "" }, &format!("from {from}, {long}"));
    }
    let left = found.outages_total.saturating_sub(MAX_ROWS as u64);
    if left > 0 {
        out.row("", &format!("... and {} more", count(left)));
    }
}

/// A list over as many rows as it takes, up to a limit.
fn wrapped(label: &str, items: &[String], out: &mut Page) {
    let (mut label, mut row, mut rows) = (label, String::new(), 0);
    for (index, item) in items.iter().enumerate() {
        if !row.is_empty() && 2 + LABEL + row.len() + 2 + item.len() > WIDTH {
            out.row(label, &row);
            (label, rows) = ("", rows + 1);
            row.clear();
            if rows == MAX_ROWS {
                out.row("", &format!("... and {} more in the JSON", items.len() - index));
                return;
            }
        }
        if !row.is_empty() {
            row.push_str("  ");
        }
        row.push_str(item);
    }
    if !row.is_empty() {
        out.row(label, &row);
    }
}

fn drain(report: &Report, out: &mut Page) {
    let drain = &report.drain;
    out.title("DRAIN");
    let waited = drain.seconds.map_or_else(|| "-".to_owned(), length);
    let result = match drain.drained {
        Some(true) => "drained".to_owned(),
        Some(false) => "NOT DRAINED".to_owned(),
        None => drain.absent.get("drained").cloned().unwrap_or_default(),
    };
    out.row("after the load", &format!("{waited} (at most {}): {result}", length(drain.timeout_seconds)));
    if drain.undelivered_records > 0 {
        out.row("undelivered", &format!("{} records", count(drain.undelivered_records)));
    }
    for (name, source) in &drain.sources {
        let remaining = match (source.remaining_records, source.remaining_seconds) {
            (Some(remaining), _) => format!("{} records remain", count(remaining)),
            (None, Some(age)) if age > 0.0 => format!("behind by {}", seconds(age)),
            (None, Some(_)) => "nothing is missing".to_owned(),
            (None, None) => {
                format!("not known: {}", source.absent.get("remaining_records").map_or("", String::as_str))
            }
        };
        let after = source
            .caught_up_after_seconds
            .map_or_else(String::new, |after| format!(", caught up after {}", length(after)));
        out.row(&format!("source {name}"), &format!("{remaining}{after}"));
        times(source.freshness.as_ref(), source.end_to_end.as_ref(), out);
    }
}
