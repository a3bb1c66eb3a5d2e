//! Watches the processes of the system under test: CPU, memory, threads, restarts.
//!
//! A process of this machine is meant by its pid, its pid file, a pattern for its command line, or its name: whole, the
//! kernel's name for it (when that is not cut, to 15 bytes), its executable's or `argv[0]`'s file name. Of several it is
//! the oldest whose parent does not match (postgres: the postmaster); further ones are not counted, and said so in the
//! log. `tree` adds its descendants; it never adds processes that merely match. A unit, a cgroup and a container stand
//! for all processes in them.
//!
//! | file | what it does |
//! | --- | --- |
//! | `source` | one variant for each way of watching; a new kind is a line there and a file |
//! | `local`, `find`, `proc_fs`, `pss` | a process or its tree, by /proc |
//! | `cgroup`, `cgroup_fs` | a unit or cgroup, by the files of version 2 and /proc of its members |
//! | `container` | asks the engine, then reads the cgroup or the engine's statistics |
//! | `tally`, `io_tally`, `carry`, `span` | the arithmetic, pure: trees, bytes, sources that count themselves, cores |
//!
//! What the figures mean:
//! - CPU seconds begin at 0 with the first look and are published from the second on. They never fall: they are
//!   carried over restarts and over children that ended (see [`tally`]). What a process used before the first look at
//!   it is not counted, for a process that took another's place as well: at most one interval, and the time it was away.
//! - Cores are CPU time between two looks over the time that really went by, unknown (absent) when soakd was held up
//!   while it looked, and never more than the machine has.
//! - Resident memory of a tree counts pages that its processes share for each of them.
//! - A zombie has ended. Another (pid, start time) in the process's place is a restart, and so is a cgroup that was made
//!   again or whose members are all others.

mod agent;
pub mod carry;
mod cgroup;
mod cgroup_fs;
mod container;
mod error;
mod find;
pub mod io_tally;
mod local;
mod looks;
mod machine;
pub mod own;
mod proc_fs;
mod prometheus;
mod pss;
mod remote;
mod remote_tally;
pub mod settings;
mod source;
mod span;
pub mod tally;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub use error::ProcessError;
pub use machine::MachineWatch;
pub use settings::{LocalProcessSettings, ProcessSettings};

use self::source::{Looked, Source};
use self::tally::Change;
use crate::core::clock::Clock;
use crate::core::event::{Event, EventLog};
use crate::core::lock::lock;
use crate::core::machine::MachineStatus;
use crate::core::status::ProcessStatus;

/// What one look found, for `soakd check`.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The process as it was seen; CPU is absent at the first look.
    pub status: ProcessStatus,
    /// What the user should know about what was found, as sentences; only when the process was found anew.
    pub remarks: Vec<String>,
}

/// Watches one process and keeps its cell of the board up to date.
#[derive(Debug)]
pub struct ProcessWatch {
    name: String,
    interval: Duration,
    source: Source,
    /// Whether the trouble was logged already.
    troubled: bool,
    cell: Arc<Mutex<ProcessStatus>>,
    events: Arc<EventLog>,
    clock: Clock,
}

impl ProcessWatch {
    /// Prepares the watching of the process `name` of the settings; nothing is read yet.
    #[must_use]
    pub fn new(
        name: String,
        settings: &ProcessSettings,
        cell: Arc<Mutex<ProcessStatus>>,
        events: Arc<EventLog>,
        clock: Clock,
    ) -> Self {
        Self {
            interval: settings.interval().max(Duration::from_millis(1)),
            source: Source::new(&name, settings, clock),
            name,
            troubled: false,
            cell,
            events,
            clock,
        }
    }

    /// Gives the watch a cell for the machine that it tells of, if it does: an agent's, or that of a node_exporter.
    #[must_use]
    pub fn with_machine(mut self, cell: Option<Arc<Mutex<MachineStatus>>>) -> Self {
        if let Some(cell) = cell {
            self.source.with_machine(cell);
        }
        self
    }

    /// Looks at the process at every interval until it is told to stop. That it cannot be seen is in the cell and
    /// never ends the watching.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(self.interval);
        // After a standstill of our own there is nothing to catch up: one look covers it.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let looked = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                looked = self.look() => looked,
            };
            // Anything else is in the cell, and in the log when it is news.
            if let Err(error @ ProcessError::Broken(_)) = looked {
                tracing::error!(process = self.name, %error, "the process is not watched any more");
                return;
            }
        }
    }

    /// Looks once, now, and writes the cell.
    ///
    /// # Errors
    /// When the process cannot be seen; the cell says so too.
    pub async fn look(&mut self) -> Result<Look, ProcessError> {
        let mut status = lock(&self.cell).clone();
        let from_ns = self.clock.now_ns();
        let (change, result) = self.source.look(&mut status).await;
        status.looked_ns = Some(u64::midpoint(from_ns, self.clock.now_ns()));
        status.error = result.as_ref().err().map(ToString::to_string);
        lock(&self.cell).clone_from(&status);
        let remarks = result.as_ref().map_or(&[][..], |looked| &looked.remarks);
        self.tell(change, &status, remarks);
        result.map(|Looked { remarks }| Look { status, remarks })
    }

    /// Events and log lines, on changes only.
    fn tell(&mut self, change: Change, status: &ProcessStatus, remarks: &[String]) {
        let (process, pid) = (self.name.clone(), status.pid);
        let event = match change {
            Change::Same => None,
            Change::Found => Some(Event::ProcessFound { process, pid }),
            Change::Restarted => Some(Event::ProcessRestarted { process, pid }),
            Change::Lost => Some(Event::ProcessLost { process }),
        };
        if let Some(event) = event {
            self.events.emit(self.clock.now_ns(), event);
        }
        for remark in remarks {
            tracing::warn!(process = self.name, pid, "{remark}");
        }
        let troubled = status.error.is_some();
        if let Some(error) = status.error.as_ref().filter(|_| !self.troubled) {
            tracing::warn!(process = self.name, error, "the process cannot be seen");
        }
        self.troubled = troubled;
    }
}
