//! The two status lines: the classic one for logs, and a live one for a terminal. Pure: what a line needs besides
//! the snapshot is kept in a [`LineState`] that is shown every snapshot.

use std::collections::VecDeque;

use super::units::{length, number, seconds};
use crate::core::histogram::{BOUNDS_MICROS, Buckets};
use crate::core::pace::Pace;
use crate::core::status::{RunState, Snapshot, SourceStatus};

/// The live line shows the rate and the p99 of about this many seconds.
const RECENT_NS: u64 = 10_000_000_000;

/// Looks that are kept for it, should somebody look more often than once a second.
const MAX_RECENT: usize = 64;

/// What the lines remember from one snapshot to the next.
#[derive(Debug, Clone, Default)]
pub struct LineState {
    max_lag_records: Option<u64>,
    max_lag_ns: Option<u64>,
    measured_ns: u64,
    last: Option<(u64, RunState)>,
    recent: VecDeque<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at_ns: u64,
    acked: u64,
    acks: Buckets,
}

/// The lag of all streams together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lag {
    ingested: Option<u64>,
    records: Option<u64>,
    age_ns: Option<u64>,
    at_least: bool,
}

impl LineState {
    /// Takes in the lag of a snapshot; call it with each that the report's figures are taken from, so that the highest lag of a
    /// source that is asked more often than once a second is the same here and there.
    pub fn sample(&mut self, snapshot: &Snapshot) {
        let lag = lag(snapshot);
        self.max_lag_records = self.max_lag_records.max(lag.records);
        self.max_lag_ns = self.max_lag_ns.max(lag.age_ns);
    }

    /// Takes in a snapshot; call it once a second.
    pub fn observe(&mut self, snapshot: &Snapshot) {
        self.sample(snapshot);
        if let Some((at_ns, RunState::Measuring)) = self.last {
            let passed_ns = snapshot.now_ns.saturating_sub(at_ns);
            self.measured_ns = self.measured_ns.saturating_add(passed_ns);
        }
        self.last = Some((snapshot.now_ns, snapshot.run.state));
        let mut acks = Buckets::default();
        for stream in snapshot.streams.values() {
            acks.add(&stream.ack_from_intended);
        }
        self.recent.push_back(Look { at_ns: snapshot.now_ns, acked: acked(snapshot), acks });
        let old = |look: &Look| snapshot.now_ns.saturating_sub(look.at_ns) > RECENT_NS;
        while self.recent.len() > MAX_RECENT || self.recent.front().is_some_and(old) {
            self.recent.pop_front();
        }
    }

    /// Records acked a second over the last ten seconds or so.
    #[allow(clippy::cast_precision_loss)]
    fn achieved(&self) -> Option<f64> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        let passed_ns = last.at_ns.saturating_sub(first.at_ns);
        (passed_ns > 0).then(|| last.acked.saturating_sub(first.acked) as f64 / (passed_ns as f64 / 1e9))
    }

    /// An upper bound of the p99 from intended time to the ack, in seconds: the bound of its bucket. `None` without
    /// acks, infinite above the highest bound.
    #[allow(clippy::cast_precision_loss)]
    fn p99(&self) -> Option<f64> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        let counts =
            last.acks.counts.iter().zip(first.acks.counts).map(|(now, then)| now.saturating_sub(then));
        let total: u64 = counts.clone().sum();
        let rank = total - total / 100;
        let bounds = BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let mut seen = 0;
        counts.zip(bounds).find_map(|(count, bound)| {
            seen += count;
            (total > 0 && seen >= rank).then_some(bound)
        })
    }

    /// What is left of the measured phase. `None` when the run goes on until it is stopped, or its load has ended.
    fn left_seconds(&self, snapshot: &Snapshot) -> Option<f64> {
        let run = &snapshot.run;
        let duration_ns = run.duration_ns?;
        let left_ns = match run.state {
            RunState::Draining | RunState::Finished => return None,
            RunState::Starting | RunState::Preloading => run.warmup_ns.saturating_add(duration_ns),
            RunState::WarmUp => {
                let passed_ns = run.clock_began_ns.map_or(0, |began| snapshot.now_ns.saturating_sub(began));
                run.warmup_ns.saturating_sub(passed_ns).saturating_add(duration_ns)
            }
            RunState::Measuring | RunState::Paused => duration_ns.saturating_sub(self.measured_ns),
        };
        Some(crate::store::record::seconds(left_ns))
    }
}

/// The classic line. `sent`, `ingested` and `lag` are over all streams; of several sources of a stream the one that
/// is furthest behind counts. What is not known is `?`, an age that is only a lower bound begins with `>`.
#[must_use]
pub fn classic(snapshot: &Snapshot, state: &LineState) -> String {
    let run = &snapshot.run;
    let now_ns = run.finished_ns.unwrap_or(snapshot.now_ns);
    let after_ns = run.started_ns.map_or(0, |started| now_ns.saturating_sub(started));
    let sent = sum(snapshot.streams.values().map(|stream| stream.counters.sent));
    let lag = lag(snapshot);
    let whole = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let at_least = if lag.at_least { ">" } else { "" };
    format!(
        "after {:.1}s sent {sent} records, ingested {}, lag {} ({at_least}{} s), max lag {} ({} s)",
        tenths(after_ns),
        whole(lag.ingested),
        whole(lag.records),
        age(lag.age_ns),
        whole(state.max_lag_records),
        age(state.max_lag_ns),
    )
}

/// The live line, no longer than `width` columns: what does not fit is left out, the least important first.
#[must_use]
pub fn live(snapshot: &Snapshot, state: &LineState, width: usize) -> String {
    let target = Pace::total(snapshot.streams.values().map(|stream| stream.target));
    let target = target.per_second().map_or_else(|| target.to_string(), |rate| format!("{}/s", number(rate)));
    let lag = lag(snapshot);
    let lag = match (lag.records, lag.age_ns) {
        (Some(records), Some(age_ns)) => {
            let at_least = if lag.at_least { ">" } else { "" };
            format!("lag {} ({at_least}{} s)", super::units::count(records), age(Some(age_ns)))
        }
        (Some(records), None) => format!("lag {} (? s)", super::units::count(records)),
        (None, Some(age_ns)) => format!("lag ? ({} s)", age(Some(age_ns))),
        (None, None) => "lag ?".to_owned(),
    };
    let achieved = state.achieved().map_or_else(|| "?".to_owned(), number);
    let p99 = match state.p99() {
        Some(bound) if bound.is_finite() => format!("p99 <= {}", seconds(bound)),
        Some(_) => "p99 > 11 min".to_owned(),
        None => "p99 ?".to_owned(),
    };
    let left = match (state.left_seconds(snapshot), snapshot.run.state) {
        (Some(left), _) => format!("{} left", length(left)),
        (None, RunState::Draining | RunState::Finished) => String::new(),
        (None, _) => "until stopped".to_owned(),
    };
    let parts = [
        snapshot.run.state.name().replace('_', "-"),
        format!("target {target}"),
        format!("achieved {achieved}/s"),
        lag,
        p99,
        left,
    ];
    fit(parts, width)
}

/// Leaves parts out until the line fits: lag and achieved rate stay longest.
fn fit(parts: [String; 6], width: usize) -> String {
    const LEAST_FIRST: [usize; 5] = [4, 5, 1, 0, 2];
    let mut parts = parts.map(Some);
    let join = |parts: &[Option<String>; 6]| {
        let shown = parts.iter().flatten().filter(|part| !part.is_empty());
        shown.map(String::as_str).collect::<Vec<_>>().join("  ")
    };
    for index in LEAST_FIRST {
        if join(&parts).chars().count() <= width {
            break;
        }
        if let Some(part) = parts.get_mut(index) {
            *part = None;
        }
    }
    join(&parts).chars().take(width).collect()
}

fn lag(snapshot: &Snapshot) -> Lag {
    let watched = snapshot.streams.keys().filter_map(|name| {
        let sources = snapshot.sources.values().filter(|source| source.stream == *name);
        sources.map(of_source).reduce(worse)
    });
    // Unknown beats every number: the oldest record may be in the stream that nobody knows of.
    let add = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    let together = watched.reduce(|one, other| Lag {
        ingested: add(one.ingested, other.ingested),
        records: add(one.records, other.records),
        age_ns: one.age_ns.zip(other.age_ns).map(|(one, other)| one.max(other)),
        at_least: one.at_least || other.at_least,
    });
    together.unwrap_or_default()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn of_source(source: &SourceStatus) -> Lag {
    let Some(reading) = source.reading.as_ref().filter(|_| source.up) else { return Lag::default() };
    let progress = reading.progress_records.filter(|progress| progress.is_finite());
    Lag {
        ingested: progress.map(|progress| progress.max(0.0) as u64),
        records: reading.lag_records,
        age_ns: reading.lag_ns,
        at_least: reading.lag_at_least,
    }
}

/// Of two sources of one stream the one that is further behind; one that knows nothing yields.
fn worse(one: Lag, other: Lag) -> Lag {
    if other.records > one.records { other } else { one }
}

fn acked(snapshot: &Snapshot) -> u64 {
    sum(snapshot.streams.values().map(|stream| stream.counters.without_markers(stream.counters.acked)))
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn age(age_ns: Option<u64>) -> String {
    age_ns.map_or_else(|| "?".to_owned(), |age_ns| format!("{:.1}", tenths(age_ns)))
}

#[allow(clippy::cast_precision_loss)]
fn tenths(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests;
