//! Settings of a process of kind `agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{default_interval, default_timeout};
use crate::config::{Duration, Problem, SecretUrl, key};

/// A process of another machine, as the agent there (`soakd agent`) sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentProcessSettings {
    /// The agent, like `http://sut:9641`.
    pub url: SecretUrl,
    /// Time from one reading to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration).
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
}

impl AgentProcessSettings {
    pub(super) fn refuse(&self, at: &str, problems: &mut Vec<Problem>) {
        if self.timeout.is_zero() {
            problems.push(Problem::new(key(at, "timeout"), "must be longer than 0s"));
        }
    }
}
