//! The arithmetic for sources that keep counters of their own (a cgroup, a container's statistics, scraped series): what
//! they say at one look in, counters that never fall out. Pure; time and readings are arguments.
//!
//! The first reading of an identity is where its counting begins. Another identity, or CPU time that fell, is another
//! process in its place: a restart, and what the new one used before this look is not counted. A counter whose reading is
//! missing for a while goes on from where it was.

use super::span::Span;
use super::tally::{Change, Moment};
use crate::core::status::ProcessStatus;

/// One value for each counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters<T> {
    /// CPU time in user mode, in nanoseconds.
    pub cpu_user_ns: T,
    /// CPU time in system mode, in nanoseconds.
    pub cpu_system_ns: T,
    /// CPU time of both modes, in nanoseconds, from a source that does not tell them apart.
    pub cpu_unsplit_ns: T,
    /// Time in which the quota held threads back, in nanoseconds.
    pub cpu_throttled_ns: T,
    /// Bytes read from storage.
    pub io_read_bytes: T,
    /// Bytes written to storage.
    pub io_written_bytes: T,
    /// Processes killed for want of memory.
    pub oom_kills: T,
}

impl<T> Counters<T> {
    fn zip<U, R>(self, other: Counters<U>, mut join: impl FnMut(T, U) -> R) -> Counters<R> {
        Counters {
            cpu_user_ns: join(self.cpu_user_ns, other.cpu_user_ns),
            cpu_system_ns: join(self.cpu_system_ns, other.cpu_system_ns),
            cpu_unsplit_ns: join(self.cpu_unsplit_ns, other.cpu_unsplit_ns),
            cpu_throttled_ns: join(self.cpu_throttled_ns, other.cpu_throttled_ns),
            io_read_bytes: join(self.io_read_bytes, other.io_read_bytes),
            io_written_bytes: join(self.io_written_bytes, other.io_written_bytes),
            oom_kills: join(self.oom_kills, other.oom_kills),
        }
    }
}

impl<T: Copy> Counters<T> {
    fn map<R>(self, mut change: impl FnMut(T) -> R) -> Counters<R> {
        self.zip(self, |value, _| change(value))
    }
}

impl Counters<u64> {
    const fn cpu_ns(&self) -> u64 {
        self.cpu_user_ns.saturating_add(self.cpu_system_ns).saturating_add(self.cpu_unsplit_ns)
    }
}

/// What a source says at one look.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// What stays the same for as long as the source's counters go on, such as the process's start in nanoseconds.
    pub identity: u64,
    /// Another process is there although the counters go on.
    pub replaced: bool,
    /// The source's counters, since whenever it counts.
    pub counters: Counters<Option<u64>>,
    /// Everything that is not counted: pid, processes, memory, threads, open files, start time. The rest is not read.
    pub gauges: ProcessStatus,
}

/// One counter: what the source said last, and what was counted; absent until there were two readings.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    last: Option<u64>,
    counted: Option<u64>,
}

impl Count {
    /// Takes a reading, and gives what was gained by it. One that fell gains nothing until it is beyond where it was.
    fn take(&mut self, reading: Option<u64>) -> u64 {
        let Some(reading) = reading else { return 0 };
        let Some(last) = self.last else {
            self.last = Some(reading);
            return 0;
        };
        let gained = reading.saturating_sub(last);
        self.last = Some(reading.max(last));
        self.counted = Some(self.counted.unwrap_or(0).saturating_add(gained));
        gained
    }
}

/// Counters of one watched process, whatever its source.
#[derive(Debug, Default)]
pub struct Carry {
    identity: Option<u64>,
    up: bool,
    restarts: u64,
    counts: Counters<Count>,
    span: Span,
}

impl Carry {
    /// Whether the process was there at the last look.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.up
    }

    /// Takes a look's reading and writes all of the status but the error. `at` is when it was taken, by the clock that the
    /// CPU time goes by; `cores` is how many there are, infinite while unknown.
    pub fn take(&mut self, totals: &Totals, at: Moment, cores: f64, status: &mut ProcessStatus) -> Change {
        let anew = self.identity.is_some_and(|identity| identity != totals.identity || self.fell(totals));
        let change = match self.identity {
            None => Change::Found,
            Some(_) if anew || totals.replaced => Change::Restarted,
            Some(_) if !self.up => Change::Found,
            Some(_) => Change::Same,
        };
        self.restarts += u64::from(change == Change::Restarted);
        if anew {
            self.counts = self.counts.map(|count| Count { last: None, ..count });
            self.span.begin(at);
        }
        (self.identity, self.up) = (Some(totals.identity), true);
        let taken = self.counts.zip(totals.counters, |mut count, reading| {
            let gained = count.take(reading);
            (count, gained)
        });
        self.counts = taken.map(|(count, _)| count);
        self.span.advance(taken.map(|(_, gained)| gained).cpu_ns(), at, cores);
        *status = totals.gauges.clone();
        (status.up, status.cpu_cores) = (true, self.cpu_cores());
        self.publish(status);
        change
    }

    /// Notes that the process cannot be seen, and leaves only what must not fall in the status.
    pub fn lose(&mut self, status: &mut ProcessStatus) -> Change {
        self.span.hide();
        *status = ProcessStatus::default();
        self.publish(status);
        if std::mem::take(&mut self.up) { Change::Lost } else { Change::Same }
    }

    fn publish(&self, status: &mut ProcessStatus) {
        let counts = &self.counts;
        status.cpu_user_ns = counts.cpu_user_ns.counted;
        status.cpu_system_ns = counts.cpu_system_ns.counted;
        status.cpu_unsplit_ns = counts.cpu_unsplit_ns.counted;
        status.cpu_throttled_ns = counts.cpu_throttled_ns.counted;
        status.io_read_bytes = counts.io_read_bytes.counted;
        status.io_written_bytes = counts.io_written_bytes.counted;
        status.oom_kills = counts.oom_kills.counted;
        status.restarts = self.restarts;
    }

    /// Cores are unknown until CPU time was read twice.
    fn cpu_cores(&self) -> Option<f64> {
        let counts = [self.counts.cpu_user_ns, self.counts.cpu_system_ns, self.counts.cpu_unsplit_ns];
        self.span.cores().filter(|_| counts.iter().any(|count| count.counted.is_some()))
    }

    /// Whether all CPU time together fell. One mode may waver by the rounding of its split.
    fn fell(&self, totals: &Totals) -> bool {
        let both = self.counts.zip(totals.counters, |count, reading| count.last.zip(reading));
        let sum = |pick: fn((u64, u64)) -> u64| both.map(|both| both.map_or(0, pick));
        sum(|(_, now)| now).cpu_ns() < sum(|(last, _)| last).cpu_ns()
    }
}

#[cfg(test)]
#[path = "carry_tests.rs"]
mod tests;
