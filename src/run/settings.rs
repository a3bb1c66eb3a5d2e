//! Settings of the run: how long, how it ends, how it is named.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, is_name, key};

/// Long enough for a slow system to work off some seconds of load, short enough for a nightly job.
const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(600);
/// A healthy broker acknowledges within a second; half a minute outlasts a change of leader.
const DEFAULT_FLUSH_TIMEOUT: Duration = Duration::from_secs(30);
/// Any fixed number does: two runs with the same settings send the same records.
const DEFAULT_SEED: u64 = 42;

/// The run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// Name of the test; the run's id is made from it and the time. 1 to 64 letters, digits, `_` or `-`.
    pub name: String,
    /// Length of the measured phase (a duration), after the warm-up; a pause stops its clock. Not set: until stopped.
    pub duration: Option<Duration>,
    /// Load before the measured phase that no summary counts (a duration).
    pub warmup: Duration,
    /// Longest wait (a duration), after the load has ended, for the system under test to ingest what was acked.
    pub drain_timeout: Duration,
    /// Longest wait (a duration), at a stop, for the broker to acknowledge what is in flight.
    pub flush_timeout: Duration,
    /// Seed of keys and values; the same seed sends the same records.
    pub seed: u64,
    /// What the daemon does when the run has ended: exit, or idle (keep serving `/metrics` and the API).
    pub after_run: AfterRun,
    /// Labels for the record and the report, as text; nothing else reads them.
    pub tags: BTreeMap<String, String>,
}

/// What the daemon does when the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterRun {
    /// Leave, with an exit code by the verdict.
    #[default]
    Exit,
    /// Keep serving `/metrics` and the API.
    Idle,
}

impl Default for RunSettings {
    fn default() -> Self {
        RunSettings {
            name: "soak".into(),
            duration: None,
            warmup: Duration::default(),
            drain_timeout: DEFAULT_DRAIN_TIMEOUT,
            flush_timeout: DEFAULT_FLUSH_TIMEOUT,
            seed: DEFAULT_SEED,
            after_run: AfterRun::default(),
            tags: BTreeMap::new(),
        }
    }
}

impl RunSettings {
    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !is_name(&self.name) {
            problems.push(Problem::new(
                key(at, "name"),
                format!("{:?} is not a name; use 1 to 64 letters, digits, `_` or `-`", self.name),
            ));
        }
        if self.duration.is_some_and(Duration::is_zero) {
            problems.push(Problem::new(
                key(at, "duration"),
                "0s measures nothing; give a longer one, or leave it out to run until stopped",
            ));
        }
        // A flush of no time would call every record in flight lost at each stop.
        if self.flush_timeout.is_zero() {
            problems.push(Problem::new(key(at, "flush_timeout"), "must be longer than 0s"));
        }
        problems
    }
}
