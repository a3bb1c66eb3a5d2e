//! Settings of watched processes. One file a kind.

mod agent;
mod local;
mod prometheus;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, key};
use crate::net::http::check_url;

pub use agent::AgentProcessSettings;
pub use local::LocalProcessSettings;
pub use prometheus::{ProcessSeries, PrometheusProcessSettings};

/// Reading one process costs microseconds; a second shows bursts.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A healthy system answers in milliseconds; what takes longer is an error worth telling.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// One watched process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProcessSettings {
    /// A process, unit, cgroup or container of this machine.
    Local(LocalProcessSettings),
    /// A process of another machine, as the agent there (`soakd agent`) sees it.
    Agent(AgentProcessSettings),
    /// A process of any machine, by the series of a /metrics endpoint or of a Prometheus server.
    Prometheus(PrometheusProcessSettings),
}

/// A machine that a process's source tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldMachine {
    /// Its name in metrics.
    pub name: String,
    /// Who tells of it: two with one name must be one.
    pub from: String,
}

fn default_interval() -> Duration {
    DEFAULT_INTERVAL
}

fn default_timeout() -> Duration {
    DEFAULT_TIMEOUT
}

impl ProcessSettings {
    /// Time from one reading to the next.
    pub fn interval(&self) -> std::time::Duration {
        match self {
            Self::Local(of) => of.interval.get(),
            Self::Agent(of) => of.interval.get(),
            Self::Prometheus(of) => of.interval.get(),
        }
    }

    /// The machine that it tells of besides, when it does: of an agent, or of a node_exporter. `name` is the process's in the settings.
    pub fn machine(&self, name: &str) -> Option<ToldMachine> {
        match self {
            Self::Agent(of) => {
                let uri = check_url(of.url.expose()).ok()?;
                let host = || uri.host().map(|host| host.trim_matches(['[', ']']).to_owned());
                let from = uri.authority()?.as_str().to_owned();
                Some(ToldMachine { name: of.machine.clone().or_else(host)?, from })
            }
            Self::Prometheus(of) if of.series == ProcessSeries::Node => {
                // A server tells of many machines, and its own is most likely none of them.
                let told = of.machine.clone().unwrap_or_else(|| name.to_owned());
                Some(ToldMachine { name: told, from: format!("processes.{name}") })
            }
            Self::Local(_) | Self::Prometheus(_) => None,
        }
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        match self {
            Self::Local(of) => of.refuse(at, &mut problems),
            Self::Agent(of) => of.refuse(at, &mut problems),
            Self::Prometheus(of) => of.refuse(at, &mut problems),
        }
        if self.interval().is_zero() {
            problems.push(Problem::new(key(at, "interval"), "must be longer than 0s"));
        }
        problems
    }
}
