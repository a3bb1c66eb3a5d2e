//! The arithmetic of processes that somebody else reads: an agent, an exporter. Absolute counters in, counters that begin at 0
//! with the first reading and never fall out. Pure; readings and their times are arguments.

use crate::core::machine::{CpuTimes, MachineStatus};
use crate::core::status::ProcessStatus;

use super::tally::Change;

/// Over a shorter span cores say little: counters may be written in ticks of 10 ms.
const MIN_SPAN_NS: u64 = 50_000_000;

/// What a reading's counters have to do with those of the reading before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// They went on.
    Same,
    /// They began at 0 after the last reading: an agent that was started again, a process whose counters died with it.
    Anew,
}

/// A reading of one process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    /// Gauges, and counters as the reader counts them.
    pub(super) status: &'a ProcessStatus,
    /// When the figures were taken, by the clock of whoever took them.
    pub(super) at_ns: u64,
    /// How far that instant may be off, to either side together.
    pub(super) blur_ns: u64,
    /// Whether the reader's counters went on.
    pub(super) since: Since,
    /// Whether a counter that was absent at the last reading stood at 0 then.
    pub(super) absent_is_zero: bool,
    /// Whether another process has taken the place of the one before, as far as the reader does not count that itself.
    pub(super) replaced: bool,
}

/// Where the span began that cores are measured over.
#[derive(Debug, Clone, Copy)]
struct Span {
    at_ns: u64,
    blur_ns: u64,
    /// CPU time counted until then.
    cpu_ns: u64,
}

/// Carries the counters of one process.
#[derive(Debug, Default)]
pub(super) struct RemoteTally {
    last: Option<ProcessStatus>,
    /// Counters since the first reading, and the cores of the last span.
    sums: ProcessStatus,
    span: Option<Span>,
    /// Whether the process was there at the last reading, and was not given up since.
    up: bool,
}

impl RemoteTally {
    /// Takes a reading and writes what is known.
    pub(super) fn take(&mut self, sample: &Sample<'_>, out: &mut ProcessStatus) -> Change {
        let now = sample.status;
        let restarts_before = self.sums.restarts;
        if let Some(last) = self.last.take() {
            self.add(&last, sample);
        }
        self.measure(sample);
        self.last = Some(now.clone());
        *out = ProcessStatus {
            cpu_user_ns: self.sums.cpu_user_ns,
            cpu_system_ns: self.sums.cpu_system_ns,
            cpu_unsplit_ns: self.sums.cpu_unsplit_ns,
            cpu_throttled_ns: self.sums.cpu_throttled_ns,
            cpu_cores: self.sums.cpu_cores,
            io_read_bytes: self.sums.io_read_bytes,
            io_written_bytes: self.sums.io_written_bytes,
            oom_kills: self.sums.oom_kills,
            restarts: self.sums.restarts,
            ..now.clone()
        };
        let was_up = std::mem::replace(&mut self.up, now.up);
        match (was_up, now.up) {
            (_, true) if self.sums.restarts > restarts_before => Change::Restarted,
            (false, true) => Change::Found,
            (true, false) => Change::Lost,
            _ => Change::Same,
        }
    }

    /// There was no reading; `given_up` when it is time to say that the process is lost.
    pub(super) fn miss(&mut self, given_up: bool, out: &mut ProcessStatus) -> Change {
        *out = out.only_counters();
        if given_up && std::mem::replace(&mut self.up, false) { Change::Lost } else { Change::Same }
    }

    /// The reading before, when there was one.
    pub(super) fn last(&self) -> Option<&ProcessStatus> {
        self.last.as_ref()
    }

    fn add(&mut self, before: &ProcessStatus, sample: &Sample<'_>) {
        let (now, sums) = (sample.status, &mut self.sums);
        let rule = Rule { since: sample.since, absent_is_zero: sample.absent_is_zero };
        rule.carry(&mut sums.cpu_user_ns, before.cpu_user_ns, now.cpu_user_ns);
        rule.carry(&mut sums.cpu_system_ns, before.cpu_system_ns, now.cpu_system_ns);
        rule.carry(&mut sums.cpu_unsplit_ns, before.cpu_unsplit_ns, now.cpu_unsplit_ns);
        rule.carry(&mut sums.cpu_throttled_ns, before.cpu_throttled_ns, now.cpu_throttled_ns);
        rule.carry(&mut sums.io_read_bytes, before.io_read_bytes, now.io_read_bytes);
        rule.carry(&mut sums.io_written_bytes, before.io_written_bytes, now.io_written_bytes);
        rule.carry(&mut sums.oom_kills, before.oom_kills, now.oom_kills);
        let told = match sample.since {
            Since::Same => now.restarts.saturating_sub(before.restarts),
            Since::Anew => now.restarts,
        };
        sums.restarts = sums.restarts.saturating_add(told).saturating_add(u64::from(sample.replaced));
    }

    /// Cores over the time that went by for whoever took the figures.
    fn measure(&mut self, sample: &Sample<'_>) {
        let cpu_ns = self.sums.cpu_ns().unwrap_or(0);
        let begins = Span { at_ns: sample.at_ns, blur_ns: sample.blur_ns, cpu_ns };
        let Some(span) = self.span.filter(|_| sample.status.up && sample.since == Since::Same) else {
            self.sums.cpu_cores = None;
            self.span = sample.status.up.then_some(begins);
            return;
        };
        let elapsed_ns = sample.at_ns.saturating_sub(span.at_ns);
        if elapsed_ns < MIN_SPAN_NS {
            return;
        }
        // Which instant the figures stand for is not known to a tenth: neither is the quotient.
        let blur_ns = u64::midpoint(span.blur_ns, sample.blur_ns);
        let known = blur_ns.saturating_mul(10) <= elapsed_ns && self.sums.cpu_ns().is_some();
        self.sums.cpu_cores = known.then(|| cpu_ns.saturating_sub(span.cpu_ns) as f64 / elapsed_ns as f64);
        self.span = Some(begins);
    }
}

/// How a counter goes on from one reading to the next.
#[derive(Debug, Clone, Copy)]
struct Rule {
    since: Since,
    absent_is_zero: bool,
}

impl Rule {
    /// The sum stays absent until there were two readings with the counter, and never falls.
    fn carry(self, sum: &mut Option<u64>, before: Option<u64>, now: Option<u64>) {
        let Some(now) = now else { return };
        let base = match (self.since, before) {
            (Since::Anew, _) => 0,
            (Since::Same, Some(before)) => before,
            (Since::Same, None) if self.absent_is_zero => 0,
            (Since::Same, None) => now,
        };
        *sum = Some(sum.unwrap_or(0).saturating_add(now.saturating_sub(base)));
    }
}

/// Carries the counters of a machine.
#[derive(Debug, Default)]
pub(super) struct RemoteMachineTally {
    last: Option<MachineStatus>,
    cpu: Option<CpuTimes>,
    received_bytes: Option<u64>,
    sent_bytes: Option<u64>,
}

impl RemoteMachineTally {
    /// Takes a reading and writes what is known.
    pub(super) fn take(
        &mut self,
        now: &MachineStatus,
        since: Since,
        absent_is_zero: bool,
        out: &mut MachineStatus,
    ) {
        let rule = Rule { since, absent_is_zero };
        if let Some(before) = self.last.replace(now.clone()) {
            rule.carry(&mut self.received_bytes, before.network_received_bytes, now.network_received_bytes);
            rule.carry(&mut self.sent_bytes, before.network_sent_bytes, now.network_sent_bytes);
            let base = match (since, before.cpu) {
                (Since::Same, Some(before)) => Some(before),
                (Since::Same, None) if !absent_is_zero => None,
                _ => Some(CpuTimes::default()),
            };
            if let (Some(now), Some(base)) = (now.cpu, base) {
                let grown = now.with(base, u64::saturating_sub);
                self.cpu = Some(self.cpu.unwrap_or_default().with(grown, u64::saturating_add));
            }
        }
        *out = MachineStatus {
            cpu: self.cpu,
            network_received_bytes: self.received_bytes,
            network_sent_bytes: self.sent_bytes,
            ..now.clone()
        };
    }
}

#[cfg(test)]
#[path = "remote_tally_tests.rs"]
mod tests;
