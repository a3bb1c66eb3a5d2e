//! The ways of watching: one variant a way, each written against the same status.

use std::sync::{Arc, Mutex};

use super::agent::AgentWatch;
use super::cgroup::CgroupWatch;
use super::container::ContainerWatch;
use super::error::ProcessError;
use super::local::LocalWatch;
use super::prometheus::PrometheusWatch;
use super::settings::ProcessSettings;
use super::tally::Change;
use crate::core::clock::Clock;
use crate::core::machine::MachineStatus;
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
    /// By its engine, and its cgroup.
    Container(Box<ContainerWatch>),
    /// By an agent on another machine.
    Agent(AgentWatch),
    /// By an exporter's series.
    Prometheus(PrometheusWatch),
}

impl Source {
    /// Nothing is read yet. `name` is the process's in the settings.
    pub(super) fn new(name: &str, settings: &ProcessSettings, clock: Clock) -> Self {
        match settings {
            ProcessSettings::Local(local) => match &local.container {
                Some(container) => Self::Container(Box::new(ContainerWatch::new(container, local, clock))),
                None if local.is_group() => Self::Here(Some(Box::new(CgroupWatch::new(local, clock)))),
                None => Self::Here(Some(Box::new(LocalWatch::new(local, clock)))),
            },
            ProcessSettings::Agent(agent) => Self::Agent(AgentWatch::new(name, agent, clock)),
            ProcessSettings::Prometheus(series) => Self::Prometheus(PrometheusWatch::new(series, clock)),
        }
    }

    /// Gives it a cell for the machine that it tells of, if it does.
    pub(super) fn with_machine(&mut self, cell: Arc<Mutex<MachineStatus>>) {
        match self {
            Self::Here(_) | Self::Container(_) => {}
            Self::Agent(watch) => watch.with_machine(cell),
            Self::Prometheus(watch) => watch.with_machine(cell),
        }
    }

    /// Looks once and writes what is known into the status; on an error too, where the process is down in it.
    pub(super) async fn look(
        &mut self,
        status: &mut ProcessStatus,
    ) -> (Change, Result<Looked, ProcessError>) {
        match self {
            Self::Here(watch) => on_a_thread(watch, status).await,
            Self::Container(watch) => Box::pin(watch.look(status)).await,
            Self::Agent(watch) => watch.look(status).await,
            Self::Prometheus(watch) => watch.look(status).await,
        }
    }
}

/// /proc is fast, but a process in trouble can hold its readers up: never on the runtime's own threads.
pub(super) async fn on_a_thread<W: LookHere + ?Sized + 'static>(
    slot: &mut Option<Box<W>>,
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
