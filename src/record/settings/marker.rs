//! Settings of markers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, key};

/// Markers: records on top of the rate, in the stream's own format, on a key of their own for each partition, by which freshness is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MarkerSettings {
    /// Time from one marker to the next (a duration), in every partition. Not set: no markers.
    pub interval: Option<Duration>,
}

impl MarkerSettings {
    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let zero = self.interval.is_some_and(Duration::is_zero);
        let message = "0s leaves no time between markers; use a longer one, or leave it out for no markers";
        zero.then(|| Problem::new(key(at, "interval"), message)).into_iter().collect()
    }
}
