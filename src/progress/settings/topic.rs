//! Settings of a source of kind `topic`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OnReset, ProgressValue, default_interval, default_timeout};
use crate::config::Duration;

/// The topic that the system under test writes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// The stream whose progress this is.
    pub stream: String,
    /// The output topic; it is read, never written.
    pub topic: String,
    /// Brokers of the output topic. Not set: those of kafka.brokers.
    #[serde(default)]
    #[schemars(extend("x-soakd-commas" = true))]
    pub brokers: Vec<String>,
    /// What the value means: count (records of the topic, by its end offsets), or what its records hold: sequence, event_time or marker.
    pub value: ProgressValue,
    /// Where a JSON record holds the sequence, or the marker's number (a JSON pointer).
    #[serde(default)]
    pub sequence: Option<String>,
    /// Where a JSON record holds the partition of the stream that it came from (a JSON pointer).
    #[serde(default)]
    pub partition: Option<String>,
    /// Where a JSON record of a marker holds true (a JSON pointer), and no other does. Not set: with marker all records are markers, with sequence none is.
    #[serde(default)]
    pub marker: Option<String>,
    /// Where a JSON record holds its intended time in milliseconds since 1970 (a JSON pointer): for end-to-end latency and event_time.
    #[serde(default)]
    pub intended: Option<String>,
    /// Header that holds the intended time in milliseconds since 1970, as text, instead of intended.
    #[serde(default)]
    pub intended_header: Option<String>,
    /// Time from one sample to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration).
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// Residual lag that counts as caught up, in records; with value = "lag_seconds" in seconds.
    #[serde(default)]
    pub tolerance: u64,
    /// What progress that falls means: "true" (the system reads again) or "rebase" (a statistic was lost).
    #[serde(default)]
    pub on_reset: OnReset,
    /// How long progress has to stand still, with lag, to be called a standstill (a duration). Not set: 10s, or three intervals where they are longer.
    #[serde(default)]
    pub standstill_after: Option<Duration>,
}

impl TopicSettings {
    /// What is wrong with the keys of this kind.
    pub(super) fn refuse(&self, refuse: &mut dyn FnMut(&str, &str)) {
        if self.topic.is_empty() {
            refuse("topic", "is empty; name the topic that the system under test writes to");
        }
        let needs = match self.value {
            ProgressValue::Count => None,
            ProgressValue::Sequence | ProgressValue::Marker => {
                self.sequence.is_none().then_some(("sequence", "is missing: where a record holds its number"))
            }
            ProgressValue::EventTime => (self.intended.is_none() && self.intended_header.is_none())
                .then_some(("intended", "is missing: where a record holds its intended time")),
            _ => Some((
                "value",
                "is nothing that a topic's records tell; use count, sequence, event_time or marker",
            )),
        };
        if let Some((name, message)) = needs {
            refuse(name, message);
        }
        let pointers = [
            ("sequence", &self.sequence),
            ("partition", &self.partition),
            ("marker", &self.marker),
            ("intended", &self.intended),
        ];
        for (name, pointer) in pointers {
            if let Some(pointer) =
                pointer.as_ref().filter(|pointer| !pointer.is_empty() && !pointer.starts_with('/'))
            {
                refuse(
                    name,
                    &format!("{pointer:?} is not a JSON pointer; begin with a slash, like \"/{pointer}\""),
                );
            }
        }
        if self.intended.is_some() && self.intended_header.is_some() {
            refuse("intended_header", "stands beside intended; take one of them out");
        }
    }
}
