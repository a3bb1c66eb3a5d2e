//! Settings of a source of kind `consumer_group`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OnReset, default_interval, default_timeout};
use crate::config::Duration;

/// The committed offsets of a consumer group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsumerGroupSettings {
    /// The stream whose progress this is.
    pub stream: String,
    /// The group of the system under test. Its offsets are read, never committed.
    pub group: String,
    /// Time from one sample to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration).
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// Residual lag in records that counts as caught up.
    #[serde(default)]
    pub tolerance: u64,
    /// What progress that falls means: "true" (the system reads again) or "rebase" (a statistic was lost).
    #[serde(default)]
    pub on_reset: OnReset,
    /// How long progress has to stand still, with lag, to be called a standstill (a duration). Not set: 10s, or three intervals where they are longer.
    #[serde(default)]
    pub standstill_after: Option<Duration>,
}

impl ConsumerGroupSettings {
    /// What is wrong with the keys of this kind.
    pub(super) fn refuse(&self, refuse: &mut dyn FnMut(&str, &str)) {
        if self.group.is_empty() {
            refuse("group", "is empty; name the group of the system under test");
        }
    }
}
