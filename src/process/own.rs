//! Watches soakd itself: whether it has the CPU that it wants, and whether the clock was set. Tells the streams, whose lanes
//! then know whom to blame, and which are limited by the generator while soakd is at its own limit.

mod quota;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use procfs::process::Process;
use procfs::{CurrentSI, KernelStats};
use tokio_util::sync::CancellationToken;

use self::quota::quota;
use super::looks::looks;
use crate::core::counters::LimitedBy;
use crate::core::event::Event;
use crate::core::lock::lock;
use crate::core::own::{OwnChange, OwnHealth, OwnReading, ThreadReading};
use crate::core::status::Board;
use crate::core::stream::Stream;

/// Time between two looks: a lane that is late asks what was seen last.
const INTERVAL: Duration = Duration::from_millis(500);
/// Where the kernel shows the groups.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// Names of the threads that make the load: the lanes, and those of the Kafka client.
const LOAD_THREADS: [&str; 2] = ["lane-", "rdk:"];

/// Watches the own process and tells every stream that is produced.
#[derive(Debug)]
pub struct OwnWatch {
    board: Arc<Board>,
    source: Source,
    health: OwnHealth,
    /// Streams that were told that soakd is their limit.
    limited: BTreeSet<String>,
}

impl OwnWatch {
    /// Prepares the watching; nothing is read yet.
    #[must_use]
    pub fn new(board: Arc<Board>) -> Self {
        let source = Source::new("/proc", CGROUP_ROOT);
        Self { board, source, health: OwnHealth::default(), limited: BTreeSet::new() }
    }

    /// Looks twice a second until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        looks(self, INTERVAL, Self::look, "soakd's own health is not watched any more", stop).await;
    }

    fn look(&mut self) {
        let (at_ns, steps) = (self.board.clock.now_ns(), self.clock_steps());
        let reading = self.source.read(at_ns, steps);
        let change = self.health.observe(reading);
        let reason = match &change {
            Some(OwnChange::Entered(reason)) => Some(reason.as_str()),
            _ => None,
        };
        let board = Arc::clone(&self.board);
        for stream in board.streams.values().filter(|stream| stream.produced) {
            self.tell(stream, at_ns, reason);
        }
    }

    fn clock_steps(&self) -> u64 {
        let counts = self.board.events.counts();
        counts.iter().find(|(kind, _)| *kind == "clock_stepped").map_or(0, |(_, count)| *count)
    }

    /// Tells one stream: short of CPU or not, and whether soakd is its limit. The reason is there when that began just now.
    fn tell(&mut self, stream: &Stream, now_ns: u64, reason: Option<&str>) {
        const BY: LimitedBy = LimitedBy::Generator;
        let by = BY.name();
        let text = self.health.text();
        let limited = self.health.limited().filter(|_| has_schedule(stream, now_ns));
        let mut held_back = lock(&stream.held_back);
        held_back.set_own(self.health.is_starved(), limited.is_some(), &text);
        let name = stream.name.clone();
        let event = match (limited, self.limited.contains(&name)) {
            (Some(_), false) => {
                self.limited.insert(name.clone());
                let reason = reason.unwrap_or(&text).to_owned();
                held_back.enter(BY).then_some(Event::LoadLimited { stream: name, by, reason })
            }
            (None, true) => {
                self.limited.remove(&name);
                let ended =
                    |length_ns| Event::LoadUnlimited { stream: name, by, seconds: length_ns as f64 / 1e9 };
                held_back.leave(BY).map(ended)
            }
            _ => None,
        };
        if let Some((from_ns, until_ns)) = limited {
            held_back.limited(BY, from_ns, until_ns);
        }
        drop(held_back);
        if let Some(event) = event {
            self.board.events.emit(now_ns, event);
        }
    }
}

/// Whether there is a schedule that the load can fail: not at "max", in a pause, or when the load is over.
fn has_schedule(stream: &Stream, now_ns: u64) -> bool {
    let done = stream.lanes.iter().all(|lane| lock(lane).done);
    let mut schedule = lock(&stream.schedule);
    !done
        && !schedule.is_at_max()
        && !schedule.is_paused()
        && schedule.target_now(now_ns).per_second() != Some(0.0)
}

/// Reads the own process from the kernel's files, whose roots are parameters.
#[derive(Debug)]
struct Source {
    proc_root: PathBuf,
    cgroup_root: PathBuf,
    /// CPU time of all threads that were seen, those that have ended too.
    cpu_ns: u64,
    /// By thread, at the last look.
    threads: BTreeMap<u32, Thread>,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    reading: ThreadReading,
    makes_load: bool,
}

impl Source {
    fn new(proc_root: &str, cgroup_root: &str) -> Self {
        Self {
            proc_root: proc_root.into(),
            cgroup_root: cgroup_root.into(),
            cpu_ns: 0,
            threads: BTreeMap::new(),
        }
    }

    /// What cannot be read counts as no limit: a false alarm would void a run.
    fn read(&mut self, at_ns: u64, clock_steps: u64) -> OwnReading {
        self.read_threads();
        let own = std::fs::read_to_string(self.proc_root.join("self/cgroup")).unwrap_or_default();
        let quota = quota(&self.cgroup_root, &own);
        let cores = allowed_cpus();
        let allowed_cores = match (&quota, cores) {
            (Some(quota), Some(cores)) => quota.cores.min(cores),
            (Some(quota), None) => quota.cores,
            (None, cores) => cores.unwrap_or(0.0),
        };
        let load = self.threads.iter().filter(|(_, thread)| thread.makes_load);
        OwnReading {
            at_ns,
            cpu_ns: self.cpu_ns,
            allowed_cores,
            threads: load.map(|(id, thread)| (*id, thread.reading)).collect(),
            quota: quota.map(|quota| (quota.periods, quota.throttled)),
            machine_ticks: machine_ticks(),
            clock_steps,
        }
    }

    fn read_threads(&mut self) {
        let tasks = self.proc_root.join("self/task");
        let mut threads = BTreeMap::new();
        for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
            let Some(id) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // It may have ended since.
            let Some(reading) = thread_reading(&task.path()) else { continue };
            let known = self.threads.get(&id);
            let before_ns = known.map_or(0, |known| known.reading.cpu_ns);
            self.cpu_ns += reading.cpu_ns.saturating_sub(before_ns);
            // A thread gets its name after it was started.
            let makes_load = known.is_some_and(|known| known.makes_load) || makes_load(&task.path());
            threads.insert(id, Thread { reading, makes_load });
        }
        self.threads = threads;
    }
}

/// From the scheduler's statistics: time on a CPU and time waiting for one, in nanoseconds.
fn thread_reading(task: &Path) -> Option<ThreadReading> {
    let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
    let mut figures = text.split_whitespace().map_while(|figure| figure.parse().ok());
    Some(ThreadReading { cpu_ns: figures.next()?, waited_ns: figures.next()? })
}

fn makes_load(task: &Path) -> bool {
    let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    LOAD_THREADS.iter().any(|start| name.starts_with(start))
}

/// CPUs that the process may run on.
fn allowed_cpus() -> Option<f64> {
    let status = Process::myself().and_then(|own| own.status()).ok()?;
    let ranges = status.cpus_allowed_list?;
    Some(ranges.iter().map(|(first, last)| f64::from(last.saturating_sub(*first)) + 1.0).sum())
}

/// Ticks of all CPUs together, and those stolen by the machine's host.
fn machine_ticks() -> (u64, u64) {
    let Ok(stats) = KernelStats::current() else { return (0, 0) };
    let total = stats.total;
    let stolen = total.steal.unwrap_or(0);
    let idle = total.idle + total.iowait.unwrap_or(0);
    let busy = total.user + total.nice + total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    (idle + busy + stolen, stolen)
}

#[cfg(test)]
mod tests;
