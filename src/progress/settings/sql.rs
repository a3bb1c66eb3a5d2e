//! Settings of a source of kind `sql`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counts, OnReset, ProgressValue, default_interval, default_timeout};
use crate::config::{Duration, SecretUrl};
use crate::progress::{dsn, question};

/// A query over the PostgreSQL protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlSettings {
    /// The stream whose progress this is.
    pub stream: String,
    /// Preset that fills in what is not set here: `soakd check --preset NAME` prints it.
    #[serde(default)]
    pub preset: Option<String>,
    /// What the preset asks about, as it stands in its question: a table, view or source; `soakd check --preset NAME` says which.
    #[serde(default)]
    pub object: Option<String>,
    /// `postgres://user:password@host:port/database`, several hosts separated by commas, or psql's `host=… user=…` form; shown
    /// without the password. May hold psql's sslmode and sslrootcert.
    pub url: SecretUrl,
    /// File that holds the password, instead of the URL.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The query: rows of partition and value, or one row with one value. `{run}` stands for the run's id; with `{partition}` in it, it
    /// is asked for each partition, joined by UNION ALL: `SELECT {partition}, max(sequence) FROM t WHERE partition = {partition}`.
    pub query: String,
    /// What the value means: next_offset, last_offset, sequence, count, event_time (a timestamp, or milliseconds since 1970), marker, lag_records
    /// or lag_seconds (an interval, or a number).
    pub value: ProgressValue,
    /// What a count counts: rows (of a table, to which a key that comes again adds none) or records (that went by, as a statistic of the system's does).
    #[serde(default)]
    pub counts: Counts,
    /// Time from one sample to the next (a duration).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration); then the session is thrown away.
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
    /// Residual lag that counts as caught up, in records; with value = "lag_seconds" in seconds.
    #[serde(default)]
    pub tolerance: u64,
    /// SQL to run at the start of each session. In the environment and `--set`: one statement as it is, or a JSON array.
    #[serde(default)]
    pub session: Vec<String>,
    /// What progress that falls means: "true" (the system reads again) or "rebase" (a statistic was lost).
    #[serde(default)]
    pub on_reset: OnReset,
    /// How long progress has to stand still, with lag, to be called a standstill (a duration). Not set: 10s, or three intervals where they are longer.
    #[serde(default)]
    pub standstill_after: Option<Duration>,
    /// TLS: disable, prefer, require (encrypt, trust anybody) or verify_full (check certificate and host name).
    #[serde(default)]
    pub tls: TlsMode,
    /// File of the authorities (PEM) to trust, instead of the machine's.
    #[serde(default)]
    pub tls_ca_file: Option<PathBuf>,
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

impl SqlSettings {
    /// What may be a mistake about a stream that has markers.
    pub(super) fn marker_warning(&self) -> Option<String> {
        (self.value == ProgressValue::Sequence && !question::chooses(&self.query)).then(|| {
            format!(
                "query leaves out no markers, though those of stream {} have numbers of their own in the place of the \
                 sequence: lag would be too low when they are the higher ones. Leave them out, by the numbers of their keys \
                 (WHERE id < the keys' cardinality) or by a field that tells them; for a preset, object may be a query in brackets",
                self.stream
            )
        })
    }

    /// What is wrong with the keys of this kind.
    pub(super) fn refuse(&self, refuse: &mut dyn FnMut(&str, &str)) {
        if self.query.trim().is_empty() {
            refuse("query", "is empty; give the SQL that returns the progress");
        }
        if self.value == ProgressValue::Count && question::is_by_partition(&self.query) {
            refuse(
                "query",
                "asks by {partition}, and value = \"count\" is one row over all of them; leave {partition} out",
            );
        }
        match dsn::parse(self.url.expose(), self.tls, self.tls_ca_file.as_deref()) {
            Err(message) => refuse("url", &message),
            Ok(dsn) if self.tls_ca_file.is_some() && !dsn.protection.verifies() => refuse(
                "tls_ca_file",
                "is not looked at unless tls = \"verify_full\"; set that, or leave the file out",
            ),
            Ok(_) => {}
        }
    }
}
