//! Settings of progress sources: ways of asking how far the system under test is. One file a kind.

mod group;
mod http;
mod prometheus;
mod sql;
mod topic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, key};
use crate::core::lag::{OnReset as CoreOnReset, ValueKind};

pub use group::ConsumerGroupSettings;
pub use http::{HttpLookup, HttpMethod, HttpSettings};
pub use prometheus::PrometheusSettings;
pub use sql::{SqlSettings, TlsMode};
pub use topic::TopicSettings;

/// Fine enough to see a lag of seconds, and no burden on the system under test.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A healthy system answers in milliseconds; what takes longer is an error worth counting.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than a system that ingests in blocks (ClickHouse: every 7.5 s) waits for the next one.
const SHORTEST_STANDSTILL: std::time::Duration = std::time::Duration::from_secs(10);
/// A figure that comes a poll or two late is no news.
const STANDSTILL_INTERVALS: u32 = 3;

/// One progress source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SourceSettings {
    /// A query over the PostgreSQL protocol.
    Sql(SqlSettings),
    /// The committed offsets of a consumer group.
    ConsumerGroup(ConsumerGroupSettings),
    /// An answer over HTTP.
    Http(HttpSettings),
    /// A series of a target's /metrics, or the answer of a Prometheus server.
    Prometheus(PrometheusSettings),
    /// The topic that the system under test writes to.
    Topic(TopicSettings),
}

fn default_interval() -> Duration {
    DEFAULT_INTERVAL
}

fn default_timeout() -> Duration {
    DEFAULT_TIMEOUT
}

/// What a progress value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgressValue {
    /// Offset of the next record to ingest, per partition.
    NextOffset,
    /// Offset of the last ingested record, per partition.
    LastOffset,
    /// Highest sequence visible, one row per partition.
    Sequence,
    /// Number of records ingested; only right when no key comes twice.
    Count,
    /// Newest intended time visible, in milliseconds since 1970; per partition or over all.
    EventTime,
    /// Number of the newest marker visible, one row per partition.
    Marker,
    /// Lag in records, as the system states it.
    LagRecords,
    /// Lag in seconds, as the system states it.
    LagSeconds,
}

/// What progress that falls means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnReset {
    /// The system really reads again: lag is the whole distance.
    #[default]
    True,
    /// A statistic was lost: go on from the new value.
    Rebase,
}

/// What a count counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// Rows of a table, to which a key that comes again adds none.
    #[default]
    Rows,
    /// Records that went by, whatever their keys.
    Records,
}

/// What sources of every kind have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Common<'a> {
    /// The kind, as in the settings.
    pub kind: &'static str,
    /// The stream whose progress this is.
    pub stream: &'a str,
    /// What the value means.
    pub value: ProgressValue,
    /// Time from one sample to the next.
    pub interval: std::time::Duration,
    /// Longest wait for an answer.
    pub timeout: std::time::Duration,
    /// Residual lag that counts as caught up: records, or seconds where the system states seconds.
    pub tolerance: u64,
    /// What progress that falls means, the kind's default filled in.
    pub on_reset: OnReset,
    /// Lag without movement for so long is a standstill, the default filled in.
    pub standstill_after: std::time::Duration,
}

impl SourceSettings {
    /// What sources of every kind have.
    pub fn common(&self) -> Common<'_> {
        macro_rules! common {
            ($of:expr, $kind:literal, $value:expr, $on_reset:expr) => {
                Common {
                    kind: $kind,
                    stream: &$of.stream,
                    value: $value,
                    interval: $of.interval.get(),
                    timeout: $of.timeout.get(),
                    tolerance: $of.tolerance,
                    on_reset: $on_reset,
                    standstill_after: standstill_after($of.standstill_after, $of.interval),
                }
            };
        }
        match self {
            Self::Sql(of) => common!(of, "sql", of.value, of.on_reset),
            Self::ConsumerGroup(of) => {
                common!(of, "consumer_group", ProgressValue::NextOffset, of.on_reset)
            }
            Self::Http(of) => common!(of, "http", of.value, counter_reset(of.on_reset, of.value)),
            Self::Prometheus(of) => {
                common!(of, "prometheus", of.value, counter_reset(of.on_reset, of.value))
            }
            Self::Topic(of) => common!(of, "topic", of.value, of.on_reset),
        }
    }

    /// The stream whose progress this is.
    pub fn stream(&self) -> &str {
        self.common().stream
    }

    /// Time from one sample to the next.
    pub fn interval(&self) -> std::time::Duration {
        self.common().interval
    }

    /// Longest wait for an answer.
    pub fn timeout(&self) -> std::time::Duration {
        self.common().timeout
    }

    /// Whether the value is a number of rows, which a key that comes again does not add to. A counter of a process or the
    /// end of a topic counts every record, and so does what the user says does.
    pub fn counts_rows(&self) -> bool {
        let counts = match self {
            Self::Sql(of) => of.counts,
            Self::Http(of) => of.counts,
            Self::ConsumerGroup(_) | Self::Prometheus(_) | Self::Topic(_) => Counts::Records,
        };
        counts == Counts::Rows && self.common().value == ProgressValue::Count
    }

    /// What a fall of the value means. The one counter of records that an answer has begins anew at 0; a sum of Prometheus'
    /// series falls also when one of them is gone.
    pub fn on_reset(&self) -> CoreOnReset {
        let common = self.common();
        let counter = matches!(self, Self::Http(of) if of.counts == Counts::Records)
            && common.value == ProgressValue::Count
            && common.on_reset == OnReset::Rebase;
        // The end of an output topic falls only when the topic is made anew, and then without what it held before the run.
        let emptied = matches!(self, Self::Topic(_))
            && common.value == ProgressValue::Count
            && common.on_reset == OnReset::True;
        match (counter, emptied) {
            (true, _) => CoreOnReset::Counter,
            (_, true) => CoreOnReset::Emptied,
            _ => common.on_reset.into(),
        }
    }

    /// What may be a mistake about a stream that has markers, a sentence: a query for the highest sequence that leaves
    /// nothing out finds the numbers of the markers too.
    pub fn marker_warning(&self) -> Option<String> {
        match self {
            Self::Sql(sql) => sql.marker_warning(),
            Self::Http(http) => http.marker_warning(),
            _ => None,
        }
    }

    /// Whether the source reads records that tell their intended times.
    pub const fn is_timed(&self) -> bool {
        match self {
            Self::Topic(of) => of.intended.is_some() || of.intended_header.is_some(),
            _ => false,
        }
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |name: &str, message: &str| problems.push(Problem::new(key(at, name), message));
        match self {
            Self::Sql(of) => of.refuse(&mut refuse),
            Self::ConsumerGroup(of) => of.refuse(&mut refuse),
            Self::Http(of) => of.refuse(&mut refuse),
            Self::Prometheus(of) => of.refuse(&mut refuse),
            Self::Topic(of) => of.refuse(&mut refuse),
        }
        let common = self.common();
        if common.interval.is_zero() {
            refuse("interval", "must be longer than 0s");
        }
        if common.timeout.is_zero() {
            refuse("timeout", "must be longer than 0s");
        }
        if common.standstill_after.is_zero() {
            refuse(
                "standstill_after",
                "must be longer than 0s: between two polls progress may always stand still",
            );
        }
        let rebases = matches!(
            common.value,
            ProgressValue::NextOffset
                | ProgressValue::LastOffset
                | ProgressValue::Sequence
                | ProgressValue::Count
        );
        if common.on_reset == OnReset::Rebase && !rebases {
            let value = ValueKind::from(common.value).name();
            let message =
                format!("\"rebase\" means nothing for value = {value:?}, which counts nothing; leave it out");
            refuse("on_reset", &message);
        }
        problems
    }
}

/// A counter over HTTP begins anew with its process; an offset or a sequence there is as true as anywhere.
fn counter_reset(set: Option<OnReset>, value: ProgressValue) -> OnReset {
    set.unwrap_or(if value == ProgressValue::Count { OnReset::Rebase } else { OnReset::True })
}

/// What a source calls a standstill.
fn standstill_after(set: Option<Duration>, interval: Duration) -> std::time::Duration {
    let intervals = interval.get().saturating_mul(STANDSTILL_INTERVALS);
    set.map_or_else(|| intervals.max(SHORTEST_STANDSTILL), Duration::get)
}

impl From<ProgressValue> for ValueKind {
    fn from(value: ProgressValue) -> Self {
        match value {
            ProgressValue::NextOffset => Self::NextOffset,
            ProgressValue::LastOffset => Self::LastOffset,
            ProgressValue::Sequence => Self::Sequence,
            ProgressValue::Count => Self::Count,
            ProgressValue::EventTime => Self::EventTime,
            ProgressValue::Marker => Self::Marker,
            ProgressValue::LagRecords => Self::LagRecords,
            ProgressValue::LagSeconds => Self::LagSeconds,
        }
    }
}

impl From<OnReset> for CoreOnReset {
    fn from(on_reset: OnReset) -> Self {
        match on_reset {
            OnReset::True => Self::True,
            OnReset::Rebase => Self::Rebase,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_by_partition_is_refused() {
        let source = |value: &str| -> SourceSettings {
            let query = "SELECT {partition}, count(*) FROM t WHERE partition = {partition}";
            let text = serde_json::json!({ "kind": "sql", "stream": "main", "url": "postgres://u@h/d", "query": query, "value": value });
            serde_json::from_value(text).unwrap()
        };
        assert_eq!(source("lag_records").problems("progress.x"), []);
        let problems = source("count").problems("progress.x");
        assert!(problems[0].to_string().starts_with("progress.x.query: asks by {partition}"), "{problems:?}");
    }

    #[test]
    fn a_standstill_is_ten_seconds_or_three_polls_unless_it_is_set() {
        let source = |more: serde_json::Value| -> SourceSettings {
            let mut settings =
                serde_json::json!({ "kind": "consumer_group", "stream": "main", "group": "g" });
            settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(settings).unwrap()
        };
        for (more, seconds) in [
            (serde_json::json!({}), 10),
            (serde_json::json!({ "interval": "250ms" }), 10),
            (serde_json::json!({ "interval": "30s" }), 90),
            (serde_json::json!({ "interval": "30s", "standstill_after": "45s" }), 45),
            (serde_json::json!({ "standstill_after": "1s" }), 1),
        ] {
            let found = source(more.clone()).common().standstill_after;
            assert_eq!(found, std::time::Duration::from_secs(seconds), "{more}");
        }
        let problems = source(serde_json::json!({ "standstill_after": "0s" })).problems("progress.x");
        assert!(
            problems[0].to_string().starts_with("progress.x.standstill_after: must be longer"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_query_for_the_highest_sequence_that_may_find_markers_is_warned_of() {
        let source = |value: &str, query: &str| -> SourceSettings {
            let url = "postgres://postgres@localhost/postgres";
            let text = serde_json::json!({
                "kind": "sql", "stream": "main", "url": url, "query": query, "value": value
            });
            serde_json::from_value(text).unwrap()
        };
        let all = "SELECT partition, max(sequence) FROM t GROUP BY 1";
        let warning = source("sequence", all).marker_warning().unwrap();
        assert!(warning.contains("stream main"), "{warning}");
        // By partition and by run nothing is left out that has to be.
        let preset =
            "SELECT {partition}, max(sequence) FROM t WHERE partition = {partition} AND run = '{run}'";
        assert!(source("sequence", preset).marker_warning().is_some());
        let chosen = "SELECT partition, max(sequence) FROM t where id < 1000 GROUP BY 1";
        for (value, query) in [("sequence", chosen), ("next_offset", all)] {
            assert_eq!(source(value, query).marker_warning(), None);
        }
        let http = |body: &str| -> SourceSettings {
            let text = serde_json::json!({
                "kind": "http", "stream": "main", "url": "http://h", "method": "post", "body": body, "value": "sequence"
            });
            serde_json::from_value(text).unwrap()
        };
        assert!(http(all).marker_warning().unwrap().contains("stream main"));
        assert_eq!(http(chosen).marker_warning(), None);
    }
}
