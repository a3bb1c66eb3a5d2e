//! Settings of watched processes. One file a kind.

mod agent;
mod local;
mod prometheus;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, key};

pub use agent::AgentProcessSettings;
pub use local::LocalProcessSettings;
pub use prometheus::PrometheusProcessSettings;

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
