//! Watches the processes of the system under test: CPU, memory, threads, restarts.
//!
//! A process of this machine is meant by its pid, its pid file, or its name: whole, the kernel's name for it (when
//! that is not cut, to 15 bytes), its executable's or `argv[0]`'s file name. Of several with one name it is the oldest
//! whose parent does not have that name (postgres: the postmaster); further ones are not counted, and said so in the
//! log. `tree` adds its descendants; it never adds processes that merely have the same name.
//!
//! What the figures mean:
//! - CPU seconds begin at 0 with the first look and are published from the second on. They never fall: they are
//!   carried over restarts and over children that ended (see [`tally`]). What a process used before the first look at
//!   it is not counted, for a process that took another's place as well: at most one interval, and the time it was away.
//! - Cores are CPU time between two looks over the time that really went by, unknown (absent) when soakd was held up
//!   while it looked, and never more than the machine has.
//! - Memory is the resident set; pages that processes of a tree share are counted for each of them.
//! - A zombie has ended. Another (pid, start time) in the process's place is a restart.

mod error;
mod find;
mod local;
pub mod own;
mod proc_fs;
pub mod settings;
pub mod tally;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub use error::ProcessError;
pub use settings::{LocalProcessSettings, ProcessSettings};

use self::local::LocalWatch;
use self::tally::Change;
use crate::core::clock::Clock;
use crate::core::event::{Event, EventLog};
use crate::core::lock::lock;
use crate::core::status::ProcessStatus;

/// What one look found, for `soakd check`.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The process as it was seen; CPU is absent at the first look.
    pub status: ProcessStatus,
    /// Further processes of the same name that are not counted; 0 when the process was known already.
    pub others: u32,
}

/// Watches one process and keeps its cell of the board up to date.
#[derive(Debug)]
pub struct ProcessWatch {
    name: String,
    interval: Duration,
    watch: LocalWatch,
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
        let ProcessSettings::Local(local) = settings;
        Self {
            name,
            interval: local.interval.get().max(Duration::from_millis(1)),
            watch: LocalWatch::new(local, clock),
            troubled: false,
            cell,
            events,
            clock,
        }
    }

    /// Looks at the process at every interval until it is told to stop. That it cannot be seen is in the cell and
    /// never ends the watching.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(self.interval);
        // After a standstill of our own there is nothing to catch up: one look covers it.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (name, cell) = (self.name.clone(), Arc::clone(&self.cell));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            // /proc is fast, but a process in trouble can hold its readers up.
            let look = tokio::task::spawn_blocking(move || {
                // The cell has the error, and the log when it is news.
                drop(self.look_once());
                self
            });
            let looked = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                looked = look => looked,
            };
            match looked {
                Ok(back) => self = back,
                Err(error) => {
                    tracing::error!(process = name, %error, "the process is not watched any more");
                    unknown_from_now(&mut lock(&cell), format!("the watching broke off: {error}"));
                    return;
                }
            }
        }
    }

    /// Looks once, now, on this thread (some milliseconds at most), and writes the cell.
    ///
    /// # Errors
    /// When the process cannot be seen; the cell says so too.
    pub fn look_once(&mut self) -> Result<Look, ProcessError> {
        let mut status = lock(&self.cell).clone();
        let (change, result) = self.watch.look(&mut status);
        lock(&self.cell).clone_from(&status);
        self.tell(change, &status, result.as_ref().map_or(0, |looked| looked.others));
        result.map(|looked| Look { status, others: looked.others })
    }

    /// Events and log lines, on changes only.
    fn tell(&mut self, change: Change, status: &ProcessStatus, others: u32) {
        let process = self.name.clone();
        let event = match (change, status.pid) {
            (Change::Found, Some(pid)) => Some(Event::ProcessFound { process, pid }),
            (Change::Restarted, Some(pid)) => Some(Event::ProcessRestarted { process, pid }),
            (Change::Lost, _) => Some(Event::ProcessLost { process }),
            _ => None,
        };
        if let Some(event) = event {
            self.events.emit(self.clock.now_ns(), event);
        }
        if others > 0 {
            let (process, pid) = (&self.name, status.pid);
            tracing::warn!(
                process,
                pid,
                others,
                "more processes have this name; only the oldest is watched, with pid_file or pid you choose"
            );
        }
        let troubled = status.error.is_some();
        if let Some(error) = status.error.as_ref().filter(|_| !self.troubled) {
            tracing::warn!(process = self.name, error, "the process cannot be seen");
        }
        self.troubled = troubled;
    }
}

/// Leaves the counters, which must not fall, and nothing that would look like a reading.
fn unknown_from_now(status: &mut ProcessStatus, error: String) {
    *status = ProcessStatus {
        cpu_user_ns: status.cpu_user_ns,
        cpu_system_ns: status.cpu_system_ns,
        restarts: status.restarts,
        error: Some(error),
        ..ProcessStatus::default()
    };
}
