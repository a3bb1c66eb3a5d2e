//! The ways of watching: one variant a way, each written against the same status.

use super::error::ProcessError;
use super::local::LocalWatch;
use super::settings::ProcessSettings;
use super::tally::Change;
use crate::core::clock::Clock;
use crate::core::status::ProcessStatus;

/// What a look found, besides what it wrote into the status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// What the user should know about what was found, as sentences; only when it was found anew.
    pub(super) remarks: Vec<String>,
}

/// Looks at what this machine's file systems say. Blocking, some milliseconds at most.
pub(super) trait LookHere: std::fmt::Debug + Send {
    /// Looks once and writes what is known into the status; on an error too, where the process is down in it.
    fn look(&mut self, status: &mut ProcessStatus) -> (Change, Result<Looked, ProcessError>);
}

/// A way of watching.
#[derive(Debug)]
pub(super) enum Source {
    /// By the files of this machine; away while a thread looks.
    Here(Option<Box<dyn LookHere>>),
    /// Not built yet.
    None(&'static str),
}

impl Source {
    /// Nothing is read yet. `_name` is the process's in the settings.
    pub(super) fn new(_name: &str, settings: &ProcessSettings, clock: Clock) -> Self {
        match settings {
            ProcessSettings::Local(local) => Self::Here(Some(Box::new(LocalWatch::new(local, clock)))),
            ProcessSettings::Agent(_) => Self::None("agent"),
            ProcessSettings::Prometheus(_) => Self::None("prometheus"),
        }
    }

    /// Looks once and writes what is known into the status; on an error too, where the process is down in it.
    pub(super) async fn look(
        &mut self,
        status: &mut ProcessStatus,
    ) -> (Change, Result<Looked, ProcessError>) {
        match self {
            Self::Here(watch) => on_a_thread(watch, status).await,
            Self::None(kind) => {
                (Change::Same, Err(ProcessError::Broken(format!("kind {kind} is not built yet"))))
            }
        }
    }
}

/// /proc is fast, but a process in trouble can hold its readers up: never on the runtime's own threads.
pub(super) async fn on_a_thread(
    slot: &mut Option<Box<dyn LookHere>>,
    status: &mut ProcessStatus,
) -> (Change, Result<Looked, ProcessError>) {
    let before = status.only_counters();
    let Some(mut watch) = slot.take() else {
        *status = before;
        return (Change::Same, Err(ProcessError::Broken("an earlier look at it broke off".into())));
    };
    let mut seen = std::mem::take(status);
    let look = tokio::task::spawn_blocking(move || {
        let (change, result) = watch.look(&mut seen);
        (watch, seen, change, result)
    });
    match look.await {
        Ok((watch, seen, change, result)) => {
            *slot = Some(watch);
            *status = seen;
            (change, result)
        }
        Err(error) => {
            *status = before;
            (Change::Lost, Err(ProcessError::Broken(error.to_string())))
        }
    }
}
