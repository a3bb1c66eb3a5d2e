//! The arithmetic: readings of one process or tree in, counters that never fall out. Pure; time and readings are
//! arguments.
//!
//! **CPU of a tree without counting twice.** Every process's own time is counted by its growth since the last look,
//! by (pid, start time). What a child used after its last look, and all of a child that lived and died between two
//! looks, is seen in its parent's `cutime`/`cstime`, to which the kernel adds a child's whole time when the child is
//! reaped and before it leaves /proc. So of the growth of all `cutime`/`cstime` that is taken off which was already
//! counted of the processes that vanished: `owed`. Readings are taken parents first, so a child that is read was not
//! in its parent's sum; one that was reaped between its parent's reading and its own shows up there at the next look,
//! hence what is owed lives for exactly one look more. Children that nobody reaps (SIGCHLD ignored) or that another
//! process than a member of the tree reaps lose their last interval; nothing is ever counted twice.

use std::collections::BTreeMap;

use super::io_tally::{IoBytes, IoTally};
use super::span::Span;
use crate::core::status::ProcessStatus;

/// Which process, for as long as it lives: pids are used again, a pid with its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcId {
    /// Process id.
    pub pid: u32,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
}

/// What `/proc/<pid>/stat` said of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcReading {
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub ppid: u32,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
    /// Own CPU time in user mode, in clock ticks, all threads.
    pub utime_ticks: u64,
    /// Own CPU time in system mode, likewise.
    pub stime_ticks: u64,
    /// CPU time in user mode of children that ended and were waited for, theirs included, in clock ticks.
    pub cutime_ticks: u64,
    /// CPU time in system mode of those children.
    pub cstime_ticks: u64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Open file descriptors; absent where they may not be read.
    pub open_fds: Option<u64>,
    /// Bytes from and to storage, those of children that were waited for included; absent where they may not be read.
    pub io: Option<IoBytes>,
    /// State letter: `R`, `S`, `Z`, ...
    pub state: char,
}

#[cfg(test)]
impl ProcReading {
    /// A process that sleeps and has used nothing.
    pub(super) fn sleeping(pid: u32, ppid: u32, start_ticks: u64) -> Self {
        Self {
            pid,
            ppid,
            start_ticks,
            utime_ticks: 0,
            stime_ticks: 0,
            cutime_ticks: 0,
            cstime_ticks: 0,
            rss_bytes: 0,
            threads: 1,
            open_fds: None,
            io: None,
            state: 'S',
        }
    }
}

impl ProcReading {
    /// Which process this is.
    #[must_use]
    pub const fn id(&self) -> ProcId {
        ProcId { pid: self.pid, start_ticks: self.start_ticks }
    }

    /// Whether the process has ended and only waits to be reaped. A main thread that ended before the others is a
    /// zombie too, but its process lives on.
    #[must_use]
    pub const fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }

    const fn own(&self) -> Ticks {
        Ticks { user: self.utime_ticks, system: self.stime_ticks }
    }

    const fn reaped(&self) -> Ticks {
        Ticks { user: self.cutime_ticks, system: self.cstime_ticks }
    }
}

/// CPU time by mode, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
}

impl Ticks {
    const fn plus(self, other: Self) -> Self {
        Self { user: self.user.saturating_add(other.user), system: self.system.saturating_add(other.system) }
    }

    const fn minus(self, other: Self) -> Self {
        Self { user: self.user.saturating_sub(other.user), system: self.system.saturating_sub(other.system) }
    }

    /// A reading never goes back, whatever the kernel's rounding does.
    fn highest(self, other: Self) -> Self {
        Self { user: self.user.max(other.user), system: self.system.max(other.system) }
    }

    const fn sum(self) -> u64 {
        self.user.saturating_add(self.system)
    }
}

/// When readings were taken: from just before the first to just after the last (monotonic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Before the first reading.
    pub from_ns: u64,
    /// After the last reading.
    pub to_ns: u64,
}

impl Moment {
    pub(super) const fn width_ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    pub(super) const fn middle_ns(self) -> u64 {
        self.from_ns + self.width_ns() / 2
    }
}

/// What a look changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Still there, or still away.
    Same,
    /// Seen for the first time, or the same process again after it could not be seen.
    Found,
    /// Another process is in its place.
    Restarted,
    /// Not there any more.
    Lost,
}

/// What the machine is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Clock ticks a second of the readings.
    pub ticks_per_second: u64,
    /// CPUs that are online: no process can use more cores.
    pub cores: f64,
    /// Start of the clock ticks in seconds since 1970.
    pub boot_seconds: u64,
}

impl Machine {
    /// Clock ticks in nanoseconds.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Clock ticks since boot in seconds since 1970.
    #[must_use]
    pub fn start_seconds(&self, ticks: u64) -> f64 {
        self.boot_seconds as f64 + ticks as f64 / self.ticks_per_second.max(1) as f64
    }
}

/// Counters of one watched process or tree.
#[derive(Debug)]
pub struct Tally {
    tree: bool,
    up: bool,
    /// The watched process; kept while it is away, to tell its return from a restart.
    root: Option<ProcId>,
    restarts: u64,
    /// Own and reaped time at the last look.
    seen: BTreeMap<ProcId, (Ticks, Ticks)>,
    /// Time of vanished processes that may still come in by a parent's reaped time.
    owed: Ticks,
    counted: Ticks,
    /// Whether there ever were two looks at one process.
    published: bool,
    span: Span,
    io: IoTally,
    living: Living,
}

/// Sums over the living processes of the last look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Living {
    pub(super) processes: u32,
    pub(super) rss_bytes: u64,
    pub(super) threads: u64,
    /// Absent when one of them may not be read.
    pub(super) open_fds: Option<u64>,
}

impl Living {
    /// The sums over those of the readings that have not ended.
    pub(super) fn of(readings: &[ProcReading]) -> Self {
        let mut sum = Self { open_fds: Some(0), ..Self::default() };
        for one in readings.iter().filter(|one| !one.ended()) {
            sum.processes += 1;
            sum.rss_bytes = sum.rss_bytes.saturating_add(one.rss_bytes);
            sum.threads = sum.threads.saturating_add(one.threads);
            sum.open_fds = sum.open_fds.zip(one.open_fds).map(|(all, own)| all.saturating_add(own));
        }
        sum
    }
}

impl Tally {
    /// Nothing seen yet; with `tree`, the readings' children that were reaped are counted too.
    #[must_use]
    pub fn new(tree: bool) -> Self {
        Self {
            tree,
            up: false,
            root: None,
            restarts: 0,
            seen: BTreeMap::new(),
            owed: Ticks::default(),
            counted: Ticks::default(),
            published: false,
            span: Span::default(),
            io: IoTally::default(),
            living: Living::default(),
        }
    }

    /// The watched process, also when it is away.
    #[must_use]
    pub const fn root(&self) -> Option<ProcId> {
        self.root
    }

    /// Whether the process was there at the last look.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.up
    }

    /// Takes a look's readings: the root first, every parent before its children. The first look at a process is
    /// where its counting begins: what it used before is not counted.
    pub fn take(&mut self, readings: &[ProcReading], at: Moment, machine: &Machine) -> Change {
        let Some(root) = readings.first().filter(|root| !root.ended()) else {
            self.finish(readings);
            return self.lose();
        };
        let change = match self.root {
            None => Change::Found,
            Some(id) if id != root.id() => Change::Restarted,
            Some(_) if !self.up => Change::Found,
            Some(_) => Change::Same,
        };
        self.up = true;
        if self.root == Some(root.id()) {
            let gained = self.settle(readings);
            self.published = true;
            self.span.advance(machine.nanos(gained), at, machine.cores);
        } else {
            self.restarts += u64::from(self.root.is_some());
            self.root = Some(root.id());
            self.seen = readings.iter().map(|one| (one.id(), (one.own(), one.reaped()))).collect();
            self.owed = Ticks::default();
            self.span.begin(at);
            self.io.begin(readings);
        }
        self.living = Living::of(readings);
        change
    }

    /// Counts the last readings of a tree whose root has ended, before another takes its place: a zombie still says
    /// how much it used.
    pub fn finish(&mut self, readings: &[ProcReading]) {
        // Once only: a zombie may stay for long.
        if self.up {
            self.settle(readings);
        }
    }

    /// Notes that the process cannot be seen.
    pub fn lose(&mut self) -> Change {
        self.span.hide();
        self.living = Living::default();
        if std::mem::take(&mut self.up) { Change::Lost } else { Change::Same }
    }

    /// Adds what was used since the last look to the counters and returns the CPU time in ticks.
    fn settle(&mut self, readings: &[ProcReading]) -> u64 {
        self.io.settle(readings);
        let mut gained = Ticks::default();
        let mut reaped = Ticks::default();
        let mut now = BTreeMap::new();
        for one in readings {
            // A process that was not there at the last look was born since: all its time is new.
            let (own, children) = self.seen.remove(&one.id()).unwrap_or_default();
            gained = gained.plus(one.own().minus(own));
            reaped = reaped.plus(one.reaped().minus(children));
            now.insert(one.id(), (one.own().highest(own), one.reaped().highest(children)));
        }
        let vanished = std::mem::replace(&mut self.seen, now)
            .into_values()
            .fold(Ticks::default(), |sum, (own, children)| sum.plus(own).plus(children));
        if self.tree {
            let rest = reaped.minus(self.owed);
            self.owed = vanished.minus(rest);
            gained = gained.plus(rest.minus(vanished));
        }
        self.counted = self.counted.plus(gained);
        gained.sum()
    }

    /// Writes everything but the error into the process's cell.
    pub fn publish(&self, machine: &Machine, status: &mut ProcessStatus) {
        let nanos = |ticks: u64| self.published.then(|| machine.nanos(ticks));
        let root = self.root.filter(|_| self.up);
        status.up = self.up;
        status.pid = root.map(|root| root.pid);
        status.processes = self.living.processes;
        status.cpu_user_ns = nanos(self.counted.user);
        status.cpu_system_ns = nanos(self.counted.system);
        status.cpu_cores = self.span.cores();
        status.memory_rss_bytes = root.map(|_| self.living.rss_bytes);
        status.threads = root.map(|_| self.living.threads);
        status.open_fds = root.and(self.living.open_fds);
        let io = self.io.counted().filter(|_| self.published);
        (status.io_read_bytes, status.io_written_bytes) = (io.map(|io| io.read), io.map(|io| io.written));
        status.start_time_seconds = root.map(|root| machine.start_seconds(root.start_ticks));
        status.restarts = self.restarts;
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
