//! Settings of a process of kind `agent`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{default_interval, default_timeout};
use crate::config::{Duration, Problem, SecretUrl, key};
use crate::net::web::Access;

/// A process of another machine, as the agent there (`soakd agent`) sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentProcessSettings {
    /// The agent, like `http://sut:9641`.
    pub url: SecretUrl,
    /// Name of the process in the agent's settings. Not set: the same as here.
    #[serde(default)]
    pub process: Option<String>,
    /// Name of the agent's machine in metrics. Not set: the host of the url.
    #[serde(default)]
    pub machine: Option<String>,
    /// File that holds the agent's token; it is read again when the agent refuses the token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// File of the authorities (PEM) to trust with https, instead of the machine's.
    #[serde(default)]
    pub tls_ca_file: Option<PathBuf>,
    /// Time from one reading to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration).
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
}

impl AgentProcessSettings {
    /// Where to ask, and as whom.
    pub(in crate::process) fn access(&self) -> Access<'_> {
        Access {
            url: &self.url,
            username: None,
            password: None,
            password_file: None,
            token_file: self.token_file.as_ref(),
            tls_ca_file: self.tls_ca_file.as_ref(),
        }
    }

    pub(super) fn refuse(&self, at: &str, problems: &mut Vec<Problem>) {
        let mut refuse = |name: &str, what: &str| problems.push(Problem::new(key(at, name), what));
        self.access().refuse(&mut refuse);
        if self.timeout.is_zero() {
            refuse("timeout", "must be longer than 0s");
        }
    }
}
