//! A process, container or machine by the series of an exporter, read off its /metrics or asked of a Prometheus server.
//!
//! CPU is taken over the time between two samples of the exporter: by the samples' own timestamps where they have them (cAdvisor's have,
//! and a server knows them), else by when the target was asked. A CPU counter that fell began anew at 0, so all of it is
//! new; what the process before used after its last sample is lost.

mod figures;

use std::sync::{Arc, Mutex};

use super::error::ProcessError;
use super::remote::{Heard, Remote, web};
use super::remote_tally::{RemoteMachineTally, RemoteTally, Sample, Since};
use super::settings::{ProcessSeries, PrometheusProcessSettings};
use super::source::Looked;
use super::tally::Change;
use crate::core::clock::Clock;
use crate::core::lock::lock;
use crate::core::machine::MachineStatus;
use crate::core::status::ProcessStatus;
use crate::net::prometheus::{ACCEPT, NAME, Selector, Series, answered, is_openmetrics, listed};
use crate::net::web::{AskError, as_part};
use figures::{Figures, Found, PART, names};

/// A kubelet's cAdvisor lists every container of the machine.
const MOST_BYTES: usize = 16 << 20;
/// As long as a Prometheus server goes on with a sample: what has not changed since is of no process that lives.
const STALE_NS: u64 = 300_000_000_000;
/// A start time is the boot time plus something, and the boot time wavers by a second.
const SAME_START_SECONDS: f64 = 2.0;
/// Sums of floating point numbers waver too.
const WAVER_NS: u64 = 20_000_000;

/// How a sample's time is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timed {
    /// By the sample itself, in nanoseconds since 1970 of the exporter's clock.
    Itself(u64),
    /// By when it was asked for.
    Asked,
}

/// Follows one process of an exporter from look to look.
#[derive(Debug)]
pub(super) struct PrometheusWatch {
    remote: Remote,
    series: ProcessSeries,
    selectors: Result<Vec<(&'static str, Selector)>, String>,
    /// The path of the question to a server; empty for a target.
    path: String,
    labels: String,
    mountpoint: String,
    carried: RemoteTally,
    timed: Option<Timed>,
    /// When the samples' own time last moved (monotonic).
    moved_ns: u64,
    machine: RemoteMachineTally,
    cell: Option<Arc<Mutex<MachineStatus>>>,
}

impl PrometheusWatch {
    pub(super) fn new(settings: &PrometheusProcessSettings, clock: Clock) -> Self {
        let (series, labels) = (settings.series, settings.labels.trim().to_owned());
        let select = |name: &&'static str| Ok((*name, Selector::parse(&format!("{name}{{{labels}}}"))?));
        let selectors = names(series).iter().map(select).collect();
        let path = match settings.server {
            true => format!("/api/v1/query?query={}", as_part(&query(series, &labels))),
            false => String::new(),
        };
        let (timeout, mountpoint) = (settings.timeout.get(), settings.mountpoint.clone());
        let accept = if settings.server { "application/json" } else { ACCEPT };
        let settings = settings.clone();
        let make = move || web(&settings.access(), accept, MOST_BYTES);
        Self {
            remote: Remote::new(make, timeout, clock),
            series,
            selectors,
            path,
            labels,
            mountpoint,
            carried: RemoteTally::default(),
            timed: None,
            moved_ns: 0,
            machine: RemoteMachineTally::default(),
            cell: None,
        }
    }

    /// Writes the machine's figures too.
    pub(super) fn with_machine(&mut self, cell: Arc<Mutex<MachineStatus>>) {
        self.cell = Some(cell);
    }

    pub(super) async fn look(
        &mut self,
        status: &mut ProcessStatus,
    ) -> (Change, Result<Looked, ProcessError>) {
        let found = match self.remote.ask(&self.path).await {
            Ok(heard) => self.find(&heard).map(|(found, asked_ns)| (found, asked_ns, heard)),
            Err(error) => Err(error),
        };
        let (given_up, error) = match found {
            Ok((found, asked_ns, heard)) if !found.is_empty() => {
                match self.time(&found, asked_ns, heard.to_ns) {
                    Ok(timed) => return (self.take(&found, timed, &heard, status), Ok(Looked::default())),
                    // Whoever answers with old figures says nothing about now.
                    Err(error) => (true, error),
                }
            }
            // It answers, and there is no such process.
            Ok(_) => (true, self.absent()),
            Err(error) => (self.remote.missed(), error),
        };
        if let Some(cell) = &self.cell {
            lock(cell).lose(error.to_string());
        }
        (self.carried.miss(given_up, status), Err(error))
    }

    fn absent(&self) -> ProcessError {
        let (who, name) = (if self.path.is_empty() { "target" } else { "server" }, names(self.series));
        let name = name.first().copied().unwrap_or_default();
        ProcessError::Remote(format!("the {who} has no series {name}{{{}}} and none beside it", self.labels))
    }

    /// The series of the answer, and when a server's were taken.
    fn find(&self, heard: &Heard) -> Result<(Found, Option<u64>), ProcessError> {
        let told = |error: AskError| ProcessError::Remote(error.text);
        let mut found = Found::default();
        if self.path.is_empty() {
            let selectors = self.selectors.as_ref().map_err(|why| ProcessError::Remote(why.clone()))?;
            for (name, selector) in selectors {
                let series = listed(&heard.answer, selector).map_err(told)?;
                found.add(name, series).map_err(ProcessError::Remote)?;
            }
            let at = found.timestamp(self.series).and_then(|at| at.parse::<f64>().ok());
            let unit_ns = if is_openmetrics(&heard.answer) { 1e9 } else { 1e6 };
            return Ok((found, at.map(|at| as_ns(at * unit_ns))));
        }
        let all = answered(&heard.answer).map_err(told)?;
        let (times, values): (Vec<Series>, Vec<Series>) =
            all.into_iter().partition(|one| one.labels.get(PART).is_some_and(|part| part == "time"));
        for name in names(self.series) {
            let of_name = |one: &&Series| one.labels.get(NAME).is_some_and(|label| label == name);
            found
                .add(name, values.iter().filter(of_name).cloned().collect())
                .map_err(ProcessError::Remote)?;
        }
        let newest = times
            .iter()
            .filter_map(|one| one.value.parse::<f64>().ok())
            .fold(None, |newest, at| Some(newest.map_or(at, |newest: f64| newest.max(at))));
        Ok((found, newest.map(|at| as_ns(at * 1e9))))
    }

    /// How the samples are timed.
    fn time(&mut self, found: &Found, at_ns: Option<u64>, now_ns: u64) -> Result<Timed, ProcessError> {
        let timed = at_ns.map_or(Timed::Asked, Timed::Itself);
        let stands = timed != Timed::Asked && self.timed == Some(timed);
        if !stands {
            self.moved_ns = now_ns;
        }
        let still_ns = now_ns.saturating_sub(self.moved_ns);
        if stands && still_ns > STALE_NS && !found.is_empty() {
            return Err(ProcessError::Remote(format!(
                "the exporter has taken no new sample for {:.0} s",
                still_ns as f64 / 1e9
            )));
        }
        Ok(timed)
    }

    fn take(&mut self, found: &Found, timed: Timed, heard: &Heard, status: &mut ProcessStatus) -> Change {
        self.remote.heard();
        let Figures { process, machine } = found.figures(self.series, &self.mountpoint);
        let (since, replaced) = self.carried.last().map_or((Since::Same, false), |last| told(last, &process));
        let (at_ns, blur_ns) = match timed {
            Timed::Itself(at_ns) => (at_ns, 0),
            Timed::Asked => {
                (u64::midpoint(heard.from_ns, heard.to_ns), heard.to_ns.saturating_sub(heard.from_ns))
            }
        };
        // Two clocks have no difference.
        let same_clock = self.timed.is_none_or(|before| (before == Timed::Asked) == (timed == Timed::Asked));
        self.timed = Some(timed);
        if let (Some(cell), Some(machine)) = (&self.cell, &machine) {
            self.machine.take(machine, since, false, &mut lock(cell));
        }
        let sample = Sample {
            status: &process,
            at_ns,
            blur_ns: if same_clock { blur_ns } else { u64::MAX },
            since,
            absent_is_zero: false,
            replaced,
        };
        self.carried.take(&sample, status)
    }
}

/// Whether counters began anew, and whether another process is there than before.
fn told(before: &ProcessStatus, now: &ProcessStatus) -> (Since, bool) {
    let starts = before.start_time_seconds.zip(now.start_time_seconds);
    let moved = starts.map(|(then, now)| (now - then).abs() > SAME_START_SECONDS);
    let fell =
        before.cpu_ns().zip(now.cpu_ns()).is_some_and(|(then, now)| now.saturating_add(WAVER_NS) < then);
    match (fell, moved) {
        // CPUs that went offline make a machine's sum fall; a start time that stands says that nothing began anew.
        (true, Some(false)) => (Since::Same, false),
        (true, _) => (Since::Anew, true),
        // As much as the one before had used, or its machine's clock was set.
        (false, Some(true)) => (Since::Same, true),
        (false, _) => (Since::Same, false),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates; below 0 is 0
fn as_ns(ns: f64) -> u64 {
    ns.round() as u64
}

/// One question for all values and for the time of the sample that they are of. Two questions could be answered of two samples.
fn query(series: ProcessSeries, labels: &str) -> String {
    let names = names(series);
    let comma = if labels.is_empty() { "" } else { "," };
    let all = format!("{{__name__=~\"{}\"{comma}{labels}}}", names.join("|"));
    let first = names.first().copied().unwrap_or_default();
    let mark =
        |vector: String, part: &str| format!("label_replace({vector},\"{PART}\",\"{part}\",\"\",\"\")");
    let time = mark(format!("timestamp({first}{{{labels}}})"), "time");
    format!("{} or {time}", mark(all, "value"))
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
