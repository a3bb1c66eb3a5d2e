//! The judgement of a run, and the exit code that belongs to it.
//!
//! A run fails when acked records are missing in the broker or more are there than can be explained, when a system
//! has not caught up by the end of the drain (not known counts as not), when records were without a delivery report at
//! the flush deadline, when nothing at all was acked, or when records failed for a reason that no waiting cures
//! (`too_large`, `unknown_topic`, `not_authorized`): such records never were a load. Records that timed out, were
//! refused by the broker or have an unknown outcome do not fail a run by themselves: an outage is part of a soak test,
//! every such record is counted, and the reconciliation says whether one is lost. They are remarks.
//!
//! When soakd itself was the limit for more than 1 % of the measured phase, that goes first: the other answers are
//! void.

use serde::{Deserialize, Serialize};

use super::{Reconciled, Report, StreamReport};

/// Share of the measured phase that soakd may be the limit for.
const GENERATOR_LIMITED_SHARE: f64 = 0.01;

/// Failures that are a matter of settings, not of the broker's health.
const PERMANENT: [&str; 3] = ["too_large", "unknown_topic", "not_authorized"];

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", content = "reasons", rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing speaks against the run.
    Good,
    /// The run failed.
    Failed(Vec<String>),
    /// soakd could not make the load; what else failed is among the reasons.
    GeneratorLimited(Vec<String>),
}

impl Verdict {
    /// The exit code of `soakd run`.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Failed(_) => 1,
            Self::GeneratorLimited(_) => 4,
        }
    }

    /// One word for events and status.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Failed(_) => "failed",
            Self::GeneratorLimited(_) => "generator_limited",
        }
    }

    /// Why it is not good.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        match self {
            Self::Good => &[],
            Self::Failed(reasons) | Self::GeneratorLimited(reasons) => reasons,
        }
    }
}

/// Judges a report. Its own `verdict` is not looked at.
#[must_use]
pub fn verdict(report: &Report) -> Verdict {
    let mut failures = Vec::new();
    for (name, stream) in &report.streams {
        judge_stream(name, stream, &mut failures);
    }
    let drain = &report.drain;
    if drain.undelivered_records > 0 {
        failures.push(format!(
            "{} records had no delivery report at the flush deadline",
            drain.undelivered_records
        ));
    }
    if report.finished && drain.timeout_seconds > 0.0 {
        judge_drain(report, &mut failures);
    }
    match report.generator_limited_share.filter(|share| *share > GENERATOR_LIMITED_SHARE) {
        Some(share) => {
            let limited =
                format!("soakd itself limited the load for {:.1} % of the measured phase", share * 100.0);
            Verdict::GeneratorLimited([vec![limited], failures].concat())
        }
        None if failures.is_empty() => Verdict::Good,
        None => Verdict::Failed(failures),
    }
}

fn judge_stream(name: &str, stream: &StreamReport, failures: &mut Vec<String>) {
    let found = &stream.reconciliation;
    let figure = |figure: Option<u64>| figure.map_or_else(|| "?".to_owned(), |figure| figure.to_string());
    match found.result {
        Reconciled::Missing => failures.push(format!(
            "stream {name}: the broker lacks {} of {} acked records{}",
            figure(found.missing_records),
            found.acked,
            if stream.partitions.iter().any(|partition| partition.restarts > 0) {
                ": its offsets began again (the topic was deleted and made anew, or its log was cut short)"
            } else {
                ""
            }
        )),
        Reconciled::Surplus => failures.push(format!(
            "stream {name}: the broker has {} records more than were acked or have an unknown outcome: another writer, or duplicates",
            figure(found.surplus_records)
        )),
        Reconciled::Agrees | Reconciled::SurplusOfFailed | Reconciled::NotReconciled => {}
    }
    if stream.totals.acked == 0 && stream.totals.owed() > 0 {
        failures.push(format!("stream {name}: none of {} due records was acked", stream.totals.owed()));
    }
    for reason in PERMANENT {
        let count = stream.totals.failed.get(reason).copied().unwrap_or(0);
        if count > 0 {
            failures.push(format!("stream {name}: {count} records failed: {}", reason.replace('_', " ")));
        }
    }
}

fn judge_drain(report: &Report, failures: &mut Vec<String>) {
    let drain = &report.drain;
    let after = drain.seconds.map_or_else(String::new, |waited| format!(" {:.1} s after the load", waited));
    let produced = |stream: &str| report.streams.get(stream).is_none_or(|of| of.watched_records.is_none());
    for (name, source) in drain.sources.iter().filter(|(_, source)| produced(&source.stream)) {
        match (source.drained, source.remaining_records, source.remaining_seconds) {
            (Some(true), ..) => {}
            (Some(false), Some(remaining), _) => failures.push(format!(
                "source {name}: not drained{after}, {remaining} records remain (tolerance {})",
                source.tolerance_records
            )),
            (Some(false), None, Some(age)) => failures.push(format!(
                "source {name}: not drained{after}, the oldest that is not visible is {age:.1} s old"
            )),
            _ => {
                let why = source.absent.get("drained").map_or("no lag", String::as_str);
                failures.push(format!("source {name}: not known whether drained{after}: {why}"));
            }
        }
    }
}
