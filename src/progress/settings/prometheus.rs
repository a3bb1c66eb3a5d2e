//! Settings of a source of kind `prometheus`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OnReset, ProgressValue, default_interval, default_timeout};
use crate::config::{Duration, Secret, SecretUrl};
use crate::net::prometheus::Selector;
use crate::progress::web::Access;

/// A series of a target's /metrics, or the answer of a Prometheus server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusSettings {
    /// The stream whose progress this is.
    pub stream: String,
    /// Preset that fills in what is not set here: `soakd check --preset NAME` prints it.
    #[serde(default)]
    pub preset: Option<String>,
    /// What the preset asks about, as it stands in its question: a table, source or job.
    #[serde(default)]
    pub object: Option<String>,
    /// The target's /metrics, like `http://host:9100/metrics`; with query the Prometheus server, like `http://prometheus:9090`.
    pub url: SecretUrl,
    /// User name, when the server asks for one.
    #[serde(default)]
    pub username: Option<String>,
    /// Password; shown nowhere.
    #[serde(default)]
    pub password: Option<Secret>,
    /// File that holds the password, instead of it.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// File that holds a token to be sent as `Authorization: Bearer`; it is read again when the server refuses the token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// File of the authorities (PEM) to trust with https, instead of the machine's.
    #[serde(default)]
    pub tls_ca_file: Option<PathBuf>,
    /// The series to read off /metrics, by name and labels, like `records_total{topic="soak"}`; all that match are added up (count and lag_records), or taken by partition.
    #[serde(default)]
    pub series: Option<String>,
    /// PromQL to ask a Prometheus server with, instead of series.
    #[serde(default)]
    pub query: Option<String>,
    /// Label that holds the partition. Not set: one value over all of them.
    #[serde(default)]
    pub partition_label: Option<String>,
    /// What the value means: next_offset, last_offset, sequence, count, event_time (milliseconds since 1970), marker, lag_records or lag_seconds.
    pub value: ProgressValue,
    /// Time from one sample to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration).
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// Residual lag that counts as caught up, in records; with value = "lag_seconds" in seconds.
    #[serde(default)]
    pub tolerance: u64,
    /// What progress that falls means: "true" (the system reads again) or "rebase" (a statistic was lost). Not set: "rebase" for count, else "true".
    #[serde(default)]
    pub on_reset: Option<OnReset>,
    /// How long progress has to stand still, with lag, to be called a standstill (a duration). Not set: 10s, or three intervals where they are longer.
    #[serde(default)]
    pub standstill_after: Option<Duration>,
}

impl PrometheusSettings {
    /// Where to ask, and as whom.
    pub(in crate::progress) fn access(&self) -> Access<'_> {
        Access {
            url: &self.url,
            username: self.username.as_deref(),
            password: self.password.as_ref(),
            password_file: self.password_file.as_ref(),
            token_file: self.token_file.as_ref(),
            tls_ca_file: self.tls_ca_file.as_ref(),
        }
    }

    /// What is wrong with the keys of this kind.
    pub(super) fn refuse(&self, refuse: &mut dyn FnMut(&str, &str)) {
        self.access().refuse(refuse);
        match (&self.series, &self.query) {
            (None, None) => refuse("series", "is missing, and query too; one of them says what to read"),
            (Some(_), Some(_)) => refuse("query", "stands beside series; take one of them out"),
            (Some(series), None) => {
                if let Err(why) = Selector::parse(series) {
                    refuse("series", &format!("{why}; PromQL goes into query, for a Prometheus server"));
                }
            }
            (None, Some(_)) => {}
        }
        if self.partition_label.is_some() && self.value == ProgressValue::Count {
            refuse(
                "partition_label",
                "means nothing for value = \"count\", which is one number over all; leave it out",
            );
        }
    }
}
