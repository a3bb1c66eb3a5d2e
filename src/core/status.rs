//! The one snapshot: everything that metrics, HTTP, the status line and the report show is rendered from a
//! [`Snapshot`] taken off the [`Board`], so that they can never disagree.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::clock::Clock;
use super::event::EventLog;
use super::histogram::{Buckets, Latency};
use super::lag::{PartitionLag, Reading};
use super::lock::lock;
use super::machine::MachineStatus;
use super::recovery::Recovery;
use super::slope::Growth;
use super::stream::{Stream, StreamSnapshot};

/// Where a run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum RunState {
    Starting,
    Preloading,
    WarmUp,
    Measuring,
    Paused,
    Draining,
    Finished,
}

impl RunState {
    /// Every state, for the metric that has one series a state.
    pub const ALL: [Self; 7] = [
        Self::Starting,
        Self::Preloading,
        Self::WarmUp,
        Self::Measuring,
        Self::Paused,
        Self::Draining,
        Self::Finished,
    ];

    /// The state's name in metrics, status and report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Preloading => "preloading",
            Self::WarmUp => "warm_up",
            Self::Measuring => "measuring",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Finished => "finished",
        }
    }
}

/// The run as everybody may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStatus {
    /// The run's id: name and start time.
    pub id: String,
    /// The test's name from the settings.
    pub name: String,
    /// Tags from the settings.
    pub tags: BTreeMap<String, String>,
    /// Where the run is in its life.
    pub state: RunState,
    /// When the load began (monotonic), absent before.
    pub started_ns: Option<u64>,
    /// When the run's clock began (monotonic), absent before: with the load, or when the preload was acked.
    pub clock_began_ns: Option<u64>,
    /// When the measured phase began (monotonic), absent before.
    pub measuring_ns: Option<u64>,
    /// When the run was finished (monotonic).
    pub finished_ns: Option<u64>,
    /// Length of the measured phase, absent when the run goes on until it is stopped.
    pub duration_ns: Option<u64>,
    /// Length of the warm-up.
    pub warmup_ns: u64,
    /// Why the run stopped or is stopping: `duration`, `records`, `signal`, `http`, ...
    pub cause: Option<String>,
    /// The verdict of a finished run.
    pub verdict: Option<String>,
    /// How each process' memory grows in the measured phase, in bytes; without those of which it is not known yet. Empty
    /// outside of the measured phase.
    pub memory_slopes: BTreeMap<String, Growth>,
}

impl RunStatus {
    /// A run that has not begun, until it is stopped and without a warm-up.
    #[must_use]
    pub fn starting(id: &str, name: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            tags: BTreeMap::new(),
            state: RunState::Starting,
            started_ns: None,
            clock_began_ns: None,
            measuring_ns: None,
            finished_ns: None,
            duration_ns: None,
            warmup_ns: 0,
            cause: None,
            verdict: None,
            memory_slopes: BTreeMap::new(),
        }
    }
}

/// Why a sample of a progress source failed. The series of the error counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressErrorKind {
    /// No connection could be made.
    Connect,
    /// No answer within the source's timeout.
    Timeout,
    /// The system answered with an error.
    Query,
    /// The answer had another shape than the settings say (columns, rows).
    Shape,
    /// A value was not a whole number of records or an offset.
    BadValue,
}

impl ProgressErrorKind {
    /// Every kind with its label.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Connect, "connect"),
        (Self::Timeout, "timeout"),
        (Self::Query, "query"),
        (Self::Shape, "shape"),
        (Self::BadValue, "bad_value"),
    ];
}

/// What is known of a progress source.
#[derive(Debug, Clone, Default)]
pub struct SourceStatus {
    /// `sql`, `consumer_group`, ...
    pub kind: &'static str,
    /// The name of its [`ValueKind`](super::lag::ValueKind): `next_offset`, `count`, ...
    pub value: &'static str,
    /// The stream that the source watches.
    pub stream: String,
    /// Whether the last poll was answered.
    pub up: bool,
    /// Text of the last error while down. Never a label.
    pub error: Option<String>,
    /// The last poll showed that no later one can be answered, such as a syntax error in a query.
    pub hopeless: bool,
    /// Polls since the last good one.
    pub missed_polls: u32,
    /// Good polls since the start.
    pub polls_total: u64,
    /// Failed polls by [`ProgressErrorKind`], in the order of `ALL`.
    pub errors: [u64; ProgressErrorKind::ALL.len()],
    /// When the last good sample was taken (monotonic).
    pub last_success_ns: Option<u64>,
    /// Time between two polls.
    pub interval_ns: u64,
    /// How long polls took.
    pub duration: Buckets,
    /// The last good sample's figures; `None` when there are none, or when three polls in a row were missed.
    pub reading: Option<Reading>,
    /// Why there is no lag although the source answers: "no commits yet", "no rows".
    pub unknown_reason: Option<String>,
    /// Times that progress fell.
    pub resets: u64,
    /// Times that lag was above 0 and progress did not move for as long as the settings call a standstill.
    pub standstills: u64,
    /// Total time of standstills, the running one included.
    pub standstill_ns: u64,
    /// The longest standstill, the running one included.
    pub standstill_longest_ns: u64,
    /// The last good sample by partition, in order; empty when the source gives one value over all of them. Gone with the
    /// reading.
    pub partitions: Arc<[PartitionLag]>,
    /// How far apart two looks are: the interval and the time that the last good poll took. Nothing that happens between
    /// is told apart. Absent before the first good poll.
    pub resolution_ns: Option<u64>,
    /// Records a second that the system ingests at present. Absent while unknown, before it was seen to move twice, and
    /// when it has not moved for half a minute.
    pub ingest_records_per_second: Option<f64>,
    /// How long the load would have to pause until the system has caught up at its present pace. Absent when it has, when it
    /// does not get nearer, and while unknown.
    pub catch_up_ns: Option<u64>,
    /// The last time that it was away, lost progress or stood still, and how long it took to come back.
    pub recovery: Option<Recovery>,
    /// Good samples whose newest event time lay in the future: another clock is ahead.
    pub clock_ahead: u64,
    /// Good samples in which the system stated a lag below zero, which is taken as 0.
    pub below_zero: u64,
    /// What markers show; absent for sources that do not look for them.
    pub freshness: Option<Freshness>,
    /// Records of the system's output topic that were left out because there are more than can be read.
    pub skipped_records: u64,
    /// From records' intended times until they were read from the system's output topic; absent for other sources.
    pub end_to_end: Option<Arc<Latency>>,
}

/// What a source of markers has shown. Cheap to copy.
#[derive(Debug, Clone, Default)]
pub struct Freshness {
    /// From each marker's intended time until a poll showed it.
    pub latency: Arc<Latency>,
    /// Age of the oldest acked marker that the last good poll did not show, 0 when it showed all; gone with the reading.
    pub oldest_unseen_ns: Option<u64>,
}

/// What is known of a watched process (or tree of processes, unit, cgroup, container). What its source does not tell is
/// absent. An agent sends it as JSON: a field that the other side does not know is left out or has its default.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ProcessStatus {
    /// Whether the process was there at the last look.
    pub up: bool,
    /// Its pid, the root of the tree.
    pub pid: Option<u32>,
    /// Processes counted: 1, or the size of the tree.
    pub processes: u32,
    /// CPU time in user mode since the first look, carried over restarts; absent until there were two looks.
    pub cpu_user_ns: Option<u64>,
    /// CPU time in system mode, likewise.
    pub cpu_system_ns: Option<u64>,
    /// CPU time of both modes, likewise, from a source that does not tell them apart; user and system are absent then.
    pub cpu_unsplit_ns: Option<u64>,
    /// CPU use between the last two looks, in cores.
    pub cpu_cores: Option<f64>,
    /// Time in which the cgroup's CPU quota held it back since the first look, carried over restarts.
    pub cpu_throttled_ns: Option<u64>,
    /// Resident memory of the tree in bytes.
    pub memory_rss_bytes: Option<u64>,
    /// Resident memory with shared pages divided among those who share them.
    pub memory_pss_bytes: Option<u64>,
    /// What the cgroup is charged for, page cache included.
    pub memory_cgroup_bytes: Option<u64>,
    /// The most that the cgroup was ever charged for.
    pub memory_cgroup_peak_bytes: Option<u64>,
    /// The cgroup's memory without the page cache that can be dropped at once: what `docker stats` shows.
    pub memory_working_set_bytes: Option<u64>,
    /// The lower of the cgroup's limit and the machine's memory; absent without a limit.
    pub memory_limit_bytes: Option<u64>,
    /// Threads of the tree.
    pub threads: Option<u64>,
    /// Open file descriptors of the tree.
    pub open_fds: Option<u64>,
    /// Bytes read from storage since the first look, carried over restarts.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to storage, likewise.
    pub io_written_bytes: Option<u64>,
    /// Processes killed for want of memory since the first look.
    pub oom_kills: Option<u64>,
    /// Start of the (root) process in seconds since 1970.
    pub start_time_seconds: Option<f64>,
    /// Times that another process took its place.
    pub restarts: u64,
    /// Why it cannot be seen.
    pub error: Option<String>,
    /// When the last look was made, its middle (monotonic, of the clock of whoever looked); absent before the first.
    pub looked_ns: Option<u64>,
}

impl ProcessStatus {
    /// CPU time of both modes in nanoseconds, whether the source tells them apart or not.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        match (self.cpu_user_ns, self.cpu_system_ns) {
            (Some(user), Some(system)) => Some(user.saturating_add(system)),
            _ => self.cpu_unsplit_ns,
        }
    }

    /// The memory that summaries and slopes are about, in bytes: the resident memory where it is known, else the cgroup's,
    /// as far as possible without page cache.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory_rss_bytes.or(self.memory_working_set_bytes).or(self.memory_cgroup_bytes)
    }

    /// Only what must not fall: nothing is left that would look like a reading of now.
    #[must_use]
    pub fn only_counters(&self) -> Self {
        Self {
            cpu_user_ns: self.cpu_user_ns,
            cpu_system_ns: self.cpu_system_ns,
            cpu_unsplit_ns: self.cpu_unsplit_ns,
            cpu_throttled_ns: self.cpu_throttled_ns,
            io_read_bytes: self.io_read_bytes,
            io_written_bytes: self.io_written_bytes,
            oom_kills: self.oom_kills,
            restarts: self.restarts,
            ..Self::default()
        }
    }
}

/// Everything that is shared between the parts: each part writes its own cell, nobody writes another's.
#[derive(Debug)]
pub struct Board {
    /// The daemon's clock.
    pub clock: Clock,
    /// The run.
    pub run: Mutex<RunStatus>,
    /// The streams by name.
    pub streams: BTreeMap<String, Arc<Stream>>,
    /// The progress sources by name.
    pub sources: BTreeMap<String, Arc<Mutex<SourceStatus>>>,
    /// The processes by name.
    pub processes: BTreeMap<String, Arc<Mutex<ProcessStatus>>>,
    /// The machines by name: soakd's own, [`OWN_MACHINE`](super::machine::OWN_MACHINE), and those that agents and exporters tell of.
    pub machines: BTreeMap<String, Arc<Mutex<MachineStatus>>>,
    /// Events wait here for the log and the record.
    pub events: Arc<EventLog>,
    /// Seconds that the run loop has worked through; see [`Board::beat`].
    pub heartbeats: AtomicU64,
}

impl Board {
    /// The run loop calls this once a second: a daemon whose HTTP answers while its loop hangs shows itself by a
    /// count that does not move.
    pub fn beat(&self) {
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the one snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let streams = self.streams.iter().map(|(name, stream)| (name.clone(), stream.snapshot())).collect();
        let sources = self.sources.iter().map(|(name, cell)| (name.clone(), lock(cell).clone())).collect();
        let processes =
            self.processes.iter().map(|(name, cell)| (name.clone(), lock(cell).clone())).collect();
        let machines = self.machines.iter().map(|(name, cell)| (name.clone(), lock(cell).clone())).collect();
        let now_ns = self.clock.now_ns();
        Snapshot {
            now_ns,
            clock: self.clock,
            run: lock(&self.run).clone(),
            streams,
            sources,
            processes,
            machines,
            events: self.events.counts(),
            heartbeats: self.heartbeats.load(Ordering::Relaxed),
        }
    }
}

/// The state of everything at one instant.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When it was taken (monotonic).
    pub now_ns: u64,
    /// Turns monotonic times into wall time.
    pub clock: Clock,
    /// The run.
    pub run: RunStatus,
    /// Streams by name.
    pub streams: BTreeMap<String, StreamSnapshot>,
    /// Progress sources by name.
    pub sources: BTreeMap<String, SourceStatus>,
    /// Processes by name.
    pub processes: BTreeMap<String, ProcessStatus>,
    /// Machines by name.
    pub machines: BTreeMap<String, MachineStatus>,
    /// Events by kind.
    pub events: Vec<(&'static str, u64)>,
    /// Beats of the run loop, one a second.
    pub heartbeats: u64,
}
