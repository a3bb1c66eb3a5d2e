//! A process of another machine, as the agent there sees it.
//!
//! The agent looks by itself, whoever asks: its counters go on, and several may read them. Here only what grew between two
//! reports is counted, over the agent's own clock; an agent that was started again begins anew, and everything since its first look is
//! counted. What was used while no agent ran is not.

use std::sync::{Arc, Mutex};

use super::error::ProcessError;
use super::remote::{Heard, Remote, web};
use super::remote_tally::{RemoteMachineTally, RemoteTally, Sample, Since};
use super::settings::AgentProcessSettings;
use super::source::Looked;
use super::tally::Change;
use crate::config::suggest;
use crate::core::agent::{AgentReport, PATH};
use crate::core::clock::{Clock, wall_now};
use crate::core::lock::lock;
use crate::core::machine::MachineStatus;
use crate::core::status::ProcessStatus;

/// A report of a hundred processes is some dozens of kilobytes.
const MOST_BYTES: usize = 4 << 20;
/// A figure is of now when the agent looked within so many of its intervals.
const STALE_INTERVALS: u64 = 3;
/// ... and in any case within this time.
const STALE_NS: u64 = 2_000_000_000;
/// The boot time that a start time is counted from is in whole seconds and wavers by one.
const SAME_START_SECONDS: f64 = 2.0;
/// Clocks that are further apart than this are worth a word.
const CLOCK_REMARK_MS: i64 = 1_000;

/// Follows one process of an agent from report to report.
#[derive(Debug)]
pub(super) struct AgentWatch {
    remote: Remote,
    process: String,
    instance: Option<String>,
    carried: RemoteTally,
    machine: RemoteMachineTally,
    cell: Option<Arc<Mutex<MachineStatus>>>,
}

impl AgentWatch {
    pub(super) fn new(name: &str, settings: &AgentProcessSettings, clock: Clock) -> Self {
        let process = settings.process.clone().unwrap_or_else(|| name.to_owned());
        let (timeout, settings) = (settings.timeout.get(), settings.clone());
        let make = move || web(&settings.access(), "application/json", MOST_BYTES);
        Self {
            remote: Remote::new(make, timeout, clock),
            process,
            instance: None,
            carried: RemoteTally::default(),
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
        let heard = self.remote.ask(PATH).await;
        let report = heard.and_then(|heard| {
            let report = AgentReport::read(heard.text()?);
            Ok((report.map_err(|error| ProcessError::Remote(error.to_string()))?, heard))
        });
        match report {
            Ok((report, heard)) => self.take(&report, &heard, status),
            Err(error) => {
                if let Some(cell) = &self.cell {
                    lock(cell).lose(error.to_string());
                }
                (self.carried.miss(self.remote.missed(), status), Err(error))
            }
        }
    }

    fn take(
        &mut self,
        report: &AgentReport,
        heard: &Heard,
        status: &mut ProcessStatus,
    ) -> (Change, Result<Looked, ProcessError>) {
        let since = match self.instance.replace(report.instance.clone()) {
            Some(before) if before != report.instance => Since::Anew,
            _ => Since::Same,
        };
        if let Some(cell) = &self.cell {
            self.machine.take(&report.machine, since, true, &mut lock(cell));
        }
        let seen = match self.seen(report) {
            Ok(seen) => seen,
            Err(error) => return (self.carried.miss(self.remote.missed(), status), Err(error)),
        };
        self.remote.heard();
        let replaced = since == Since::Anew && self.carried.last().is_some_and(|last| is_another(last, seen));
        let sample = Sample {
            status: seen,
            at_ns: seen.looked_ns.unwrap_or(report.now_ns),
            // How sharp its looks are the agent says by giving cores, or none.
            blur_ns: if seen.cpu_cores.is_some() { 0 } else { u64::MAX },
            since,
            absent_is_zero: true,
            replaced,
        };
        let change = self.carried.take(&sample, status);
        if let Some(cpus) = report.machine.cpus.filter(|cpus| *cpus > 0) {
            status.cpu_cores = status.cpu_cores.map(|cores| cores.min(f64::from(cpus)));
        }
        if !seen.up {
            let why = seen.error.as_deref().unwrap_or("it has not looked yet");
            let error = ProcessError::Remote(format!("the agent cannot see it: {why}"));
            *status = status.only_counters();
            return (change, Err(error));
        }
        let mut looked = Looked::default();
        if change == Change::Found {
            looked.remarks.extend(remarks(report, heard));
        }
        (change, Ok(looked))
    }

    /// The process in the report, when what stands there is of now.
    fn seen<'r>(&self, report: &'r AgentReport) -> Result<&'r ProcessStatus, ProcessError> {
        let seen = report.processes.get(&self.process).ok_or_else(|| {
            let hint = suggest(&self.process, report.processes.keys().map(String::as_str));
            ProcessError::Remote(format!("the agent watches no process {:?}{hint}", self.process))
        })?;
        let interval_ns = report.interval_ns.get(&self.process).copied().unwrap_or(0);
        let age_ns = seen.looked_ns.map_or(0, |at_ns| report.now_ns.saturating_sub(at_ns));
        if age_ns > interval_ns.saturating_mul(STALE_INTERVALS).max(STALE_NS) {
            return Err(ProcessError::Remote(format!(
                "the agent answers and has not looked at the process for {:.1} s",
                age_ns as f64 / 1e9
            )));
        }
        Ok(seen)
    }
}

/// Whether the process of a new agent is another than the one before it told of.
fn is_another(before: &ProcessStatus, now: &ProcessStatus) -> bool {
    let moved = |before: f64, now: f64| (before - now).abs() > SAME_START_SECONDS;
    let differs = before.pid != now.pid
        || before.start_time_seconds.zip(now.start_time_seconds).is_some_and(|(then, now)| moved(then, now));
    before.up && now.up && differs
}

/// What the user should know about the agent.
fn remarks(report: &AgentReport, heard: &Heard) -> Vec<String> {
    let mut remarks = Vec::new();
    let own = env!("CARGO_PKG_VERSION");
    if report.version != own {
        remarks.push(format!(
            "the agent is version {:?} and this soakd {own:?}: what only one of them knows is absent",
            report.version
        ));
    }
    let asked_ms = i64::try_from(heard.to_ns.saturating_sub(heard.from_ns) / 1_000_000).unwrap_or(i64::MAX);
    let own_ms = i64::try_from(wall_now().as_millis()).unwrap_or(i64::MAX);
    let ahead_ms = report.wall_ms.map_or(0, |theirs| theirs.saturating_sub(own_ms));
    // The answer was made some time within the question.
    if ahead_ms.abs() > CLOCK_REMARK_MS.saturating_add(asked_ms) {
        let (seconds, where_to) =
            (ahead_ms.unsigned_abs() as f64 / 1e3, if ahead_ms > 0 { "ahead of" } else { "behind" });
        remarks.push(format!(
            "the clock of the agent's machine is {seconds:.1} s {where_to} ours: only the start time is by it"
        ));
    }
    remarks
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
