//! Settings of a process of kind `prometheus`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{default_interval, default_timeout};
use crate::config::{Duration, Problem, SecretUrl, key};

/// A process of any machine, by the series of a /metrics endpoint or of a Prometheus server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusProcessSettings {
    /// The /metrics endpoint, like `http://sut:9100/metrics`.
    pub url: SecretUrl,
    /// Time from one reading to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration).
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
}

impl PrometheusProcessSettings {
    pub(super) fn refuse(&self, at: &str, problems: &mut Vec<Problem>) {
        if self.timeout.is_zero() {
            problems.push(Problem::new(key(at, "timeout"), "must be longer than 0s"));
        }
    }
}
