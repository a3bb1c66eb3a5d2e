//! Settings of progress sources: ways of asking how far the system under test is.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, SecretUrl, key};

use super::dsn;

/// Fine enough to see a lag of seconds, and no burden on the system under test.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A healthy system answers in milliseconds; what takes longer is an error worth counting.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// One progress source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SourceSettings {
    /// A query over the PostgreSQL protocol.
    Sql(SqlSettings),
    /// The committed offsets of a consumer group.
    ConsumerGroup(ConsumerGroupSettings),
}

/// A query over the PostgreSQL protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlSettings {
    /// The stream whose progress this is.
    pub stream: String,
    /// `postgres://user:password@host:port/database`, several hosts separated by commas, or psql's `host=… user=…` form; shown
    /// without the password. May hold psql's sslmode and sslrootcert.
    pub url: SecretUrl,
    /// File that holds the password, instead of the URL.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The query: rows of partition and value, or one row with one value.
    pub query: String,
    /// What the value means: next_offset, last_offset, sequence or count.
    pub value: ProgressValue,
    /// Time from one sample to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration); then the session is thrown away.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// Residual lag in records that counts as caught up.
    #[serde(default)]
    pub tolerance: u64,
    /// SQL to run at the start of each session. In the environment and `--set`: one statement as it is, or a JSON array.
    #[serde(default)]
    pub session: Vec<String>,
    /// What progress that falls means: "true" (the system reads again) or "rebase" (a statistic was lost).
    #[serde(default)]
    pub on_reset: OnReset,
    /// TLS: disable, prefer, require (encrypt, trust anybody) or verify_full (check certificate and host name).
    #[serde(default)]
    pub tls: TlsMode,
    /// File of the authorities (PEM) to trust, instead of the machine's.
    #[serde(default)]
    pub tls_ca_file: Option<PathBuf>,
}

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

/// How a session is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TlsMode {
    /// Never TLS.
    Disable,
    /// TLS when the server offers it.
    #[default]
    Prefer,
    /// TLS or nothing, without checking who answers.
    Require,
    /// TLS or nothing, with a certificate that is trusted and names the host.
    VerifyFull,
}

impl SourceSettings {
    /// The stream whose progress this is.
    pub fn stream(&self) -> &str {
        match self {
            SourceSettings::Sql(sql) => &sql.stream,
            SourceSettings::ConsumerGroup(group) => &group.stream,
        }
    }

    /// Time from one sample to the next.
    pub fn interval(&self) -> std::time::Duration {
        match self {
            SourceSettings::Sql(sql) => sql.interval.get(),
            SourceSettings::ConsumerGroup(group) => group.interval.get(),
        }
    }

    /// Longest wait for an answer.
    pub fn timeout(&self) -> std::time::Duration {
        match self {
            SourceSettings::Sql(sql) => sql.timeout.get(),
            SourceSettings::ConsumerGroup(group) => group.timeout.get(),
        }
    }

    /// What may be a mistake about a stream that has markers, a sentence: a query for the highest sequence that leaves
    /// nothing out finds the numbers of the markers too.
    pub fn marker_warning(&self) -> Option<String> {
        let SourceSettings::Sql(sql) = self else { return None };
        let query = sql.query.to_ascii_lowercase();
        let chooses = ["where", "filter", "having", "case"].iter().any(|word| query.contains(word));
        (sql.value == ProgressValue::Sequence && !chooses).then(|| {
            format!(
                "query leaves out no markers, though those of stream {} have numbers of their own in the place of the \
                 sequence: lag would be too low when they are the higher ones. Leave them out, by the numbers of their keys \
                 (WHERE id < the keys' cardinality) or by a field that tells them",
                sql.stream
            )
        })
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |name: &str, message: &str| problems.push(Problem::new(key(at, name), message));
        let (interval, timeout) = match self {
            SourceSettings::Sql(sql) => {
                if sql.query.trim().is_empty() {
                    refuse("query", "is empty; give the SQL that returns the progress");
                }
                match dsn::parse(sql.url.expose(), sql.tls, sql.tls_ca_file.as_deref()) {
                    Err(message) => refuse("url", &message),
                    Ok(dsn) if sql.tls_ca_file.is_some() && !dsn.protection.verifies() => refuse(
                        "tls_ca_file",
                        "is not looked at unless tls = \"verify_full\"; set that, or leave the file out",
                    ),
                    Ok(_) => {}
                }
                (sql.interval, sql.timeout)
            }
            SourceSettings::ConsumerGroup(group) => {
                if group.group.is_empty() {
                    refuse("group", "is empty; name the group of the system under test");
                }
                (group.interval, group.timeout)
            }
        };
        if interval.is_zero() {
            refuse("interval", "must be longer than 0s");
        }
        if timeout.is_zero() {
            refuse("timeout", "must be longer than 0s");
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let chosen = "SELECT partition, max(sequence) FROM t where id < 1000 GROUP BY 1";
        for (value, query) in [("sequence", chosen), ("next_offset", all)] {
            assert_eq!(source(value, query).marker_warning(), None);
        }
    }
}
