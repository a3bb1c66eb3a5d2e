//! Settings of watched processes.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, key};

/// Reading one process costs microseconds; a second shows bursts.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// One watched process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProcessSettings {
    /// A process of this machine.
    Local(LocalProcessSettings),
}

/// A process of this machine, found by exactly one of `pid`, `name` and `pid_file`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LocalProcessSettings {
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the process, whole; it is found again after a restart.
    pub name: Option<String>,
    /// File that holds the process id; it is read again after a restart.
    pub pid_file: Option<PathBuf>,
    /// Count the process's children too, and theirs.
    pub tree: bool,
    /// Time from one reading to the next (a duration).
    pub interval: Duration,
}

impl Default for LocalProcessSettings {
    fn default() -> Self {
        LocalProcessSettings {
            pid: None,
            name: None,
            pid_file: None,
            tree: false,
            interval: DEFAULT_INTERVAL,
        }
    }
}

impl ProcessSettings {
    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let ProcessSettings::Local(local) = self;
        let mut problems = Vec::new();
        let given = [local.pid.is_some(), local.name.is_some(), local.pid_file.is_some()];
        match given.iter().filter(|given| **given).count() {
            1 => {}
            0 => problems.push(Problem::new(at, "finds no process; set one of pid, name and pid_file")),
            _ => problems
                .push(Problem::new(at, "is found in more than one way; keep one of pid, name and pid_file")),
        }
        if local.pid == Some(0) {
            problems.push(Problem::new(key(at, "pid"), "0 is no process"));
        }
        if local.interval.is_zero() {
            problems.push(Problem::new(key(at, "interval"), "must be longer than 0s"));
        }
        problems
    }
}
