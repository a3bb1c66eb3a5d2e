//! Settings of a source of kind `http`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OnReset, ProgressValue, default_interval, default_timeout};
use crate::config::{Duration, Properties, Secret, SecretUrl};

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// The stream whose progress this is.
    pub stream: String,
    /// Preset that fills in what is not set here: `soakd check --preset NAME` prints it.
    #[serde(default)]
    pub preset: Option<String>,
    /// What the preset asks about, as it stands in its question: a table, connector or job.
    #[serde(default)]
    pub object: Option<String>,
    /// Where to ask, like `http://host:8123/?database=db`; a user name and password go into their own settings.
    pub url: SecretUrl,
    /// Added to the URL's path: what presets use, so that the URL is only the server's.
    #[serde(default)]
    pub path: String,
    /// How to ask: get or post.
    #[serde(default)]
    pub method: HttpMethod,
    /// What to send with post.
    #[serde(default)]
    pub body: String,
    /// Headers of the request: names and texts. Values of secret names (authorization, tokens, keys) are not shown.
    #[serde(default)]
    pub headers: Properties,
    /// User name, when the server asks for one.
    #[serde(default)]
    pub username: Option<String>,
    /// Password; shown nowhere.
    #[serde(default)]
    pub password: Option<Secret>,
    /// File that holds the password, instead of it.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// File of the authorities (PEM) to trust with https, instead of the machine's.
    #[serde(default)]
    pub tls_ca_file: Option<PathBuf>,
    /// Where the value is in a JSON answer, as a JSON pointer like `/count`; within a row, when there are rows.
    #[serde(default)]
    pub json_pointer: Option<String>,
    /// Where the list of rows is in a JSON answer (a JSON pointer): one row a partition.
    #[serde(default)]
    pub rows: Option<String>,
    /// Where the partition is within a row (a JSON pointer).
    #[serde(default)]
    pub partition: Option<String>,
    /// Where the value is in an answer of another form: a regular expression whose group is the value. With groups named partition and value each match is one row.
    #[serde(default)]
    pub regex: Option<String>,
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
}

/// How to ask over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HttpMethod {
    /// GET.
    #[default]
    Get,
    /// POST, with a body.
    Post,
}

impl HttpSettings {
    /// What is wrong with the keys of this kind.
    pub(super) fn refuse(&self, refuse: &mut dyn FnMut(&str, &str)) {
        if self.method == HttpMethod::Get && !self.body.is_empty() {
            refuse("body", "is not sent with method = \"get\"; use \"post\", or leave it out");
        }
        match (&self.json_pointer, &self.regex) {
            (None, None) => refuse("json_pointer", "is missing, and regex too; one of them finds the value"),
            (Some(_), Some(_)) => refuse("regex", "stands beside json_pointer; take one of them out"),
            _ => {}
        }
        for (name, pointer) in
            [("json_pointer", &self.json_pointer), ("rows", &self.rows), ("partition", &self.partition)]
        {
            if pointer.as_ref().is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
                refuse(name, "is no JSON pointer; write it like /data/0/count");
            }
        }
        if self.rows.is_some() != self.partition.is_some() {
            refuse("rows", "goes together with partition, which says where a row's partition is");
        }
        if self.password.is_some() && self.password_file.is_some() {
            refuse("password_file", "stands beside password; take one of them out");
        }
    }
}
