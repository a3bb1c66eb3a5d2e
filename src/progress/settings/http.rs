//! Settings of a source of kind `http`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counts, OnReset, ProgressValue, default_interval, default_timeout};
use crate::config::{Duration, Properties, Secret, SecretUrl};
use crate::progress::http::{compile, is_pointer, refuse_lookups};
use crate::progress::web::{Access, header_map};

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
    /// Added to the URL: what presets use, so that the URL is only the server's. `{topic}` stands for the stream's topic, and the name of a look-up for what it found.
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
    /// File that holds a token to be sent as `Authorization: Bearer`; it is read again when the server refuses the token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// File of the authorities (PEM) to trust with https, instead of the machine's.
    #[serde(default)]
    pub tls_ca_file: Option<PathBuf>,
    /// Where the value is in a JSON answer, as a JSON pointer like `/count`; within a row, when there are rows. Without rows it may also be a list or a table of values by partition.
    #[serde(default)]
    pub json_pointer: Option<String>,
    /// Where the list of rows is in a JSON answer (a JSON pointer; `/` is the whole answer): one row a partition.
    #[serde(default)]
    pub rows: Option<String>,
    /// Where the partition is within a row (a JSON pointer). Not set: the row's place in its list, or its name in its table.
    #[serde(default)]
    pub partition: Option<String>,
    /// Where the topic is within a row (a JSON pointer): rows of other topics than the stream's are left out.
    #[serde(default)]
    pub topic: Option<String>,
    /// Where the value is in an answer of another form: a regular expression whose one group is the value, and which finds it once. With groups named partition and value each match is one row; a group named topic leaves the rows of other topics out.
    #[serde(default)]
    pub regex: Option<String>,
    /// Questions to be put before, one after the other: what they find stands in the path.
    #[serde(default)]
    pub lookup: Vec<HttpLookup>,
    /// What the value means: next_offset, last_offset, sequence, count, event_time (milliseconds since 1970), marker, lag_records or lag_seconds.
    pub value: ProgressValue,
    /// What a count counts: rows (of a table, to which a key that comes again adds none) or records (that went by, as a statistic of the system's does).
    #[serde(default)]
    pub counts: Counts,
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

/// What has to be found out before the question can be put, by a question of its own, at every poll.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpLookup {
    /// Its name: `{name}` stands for what it finds in the paths after it.
    pub name: String,
    /// Where to ask (GET), added to the URL.
    pub path: String,
    /// Where the rows are in the JSON answer (a JSON pointer).
    #[serde(default)]
    pub rows: String,
    /// Which rows to look at: by JSON pointer within a row a regular expression that what is there has to match.
    #[serde(default)]
    pub only: BTreeMap<String, String>,
    /// What to take of a row (a JSON pointer).
    pub take: String,
    /// Take that of all rows, separated by commas. Otherwise each row is gone on with, and only one may lead to the end.
    #[serde(default)]
    pub all: bool,
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

    /// What may be a mistake about a stream that has markers: SQL over HTTP that leaves nothing out.
    pub(super) fn marker_warning(&self) -> Option<String> {
        let question = format!("{} {} {}", self.url.expose(), self.path, self.body).to_ascii_lowercase();
        let asks = question.contains("select") && question.contains("max(");
        let chooses =
            ["where", "filter", "having", "case", "maxif"].iter().any(|word| question.contains(word));
        (self.value == ProgressValue::Sequence && asks && !chooses).then(|| {
            format!(
                "the query leaves out no markers, though those of stream {} have numbers of their own in the place of the \
                 sequence: lag would be too low when they are the higher ones. Leave them out, by the numbers of their keys or \
                 by a field that tells them",
                self.stream
            )
        })
    }

    /// What is wrong with the keys of this kind.
    pub(super) fn refuse(&self, refuse: &mut dyn FnMut(&str, &str)) {
        self.access().refuse(refuse);
        if let Err(what) = header_map(&self.headers) {
            refuse("headers", &what);
        }
        if self.method == HttpMethod::Get && !self.body.is_empty() {
            refuse("body", "is not sent with method = \"get\"; use \"post\", or leave it out");
        }
        if !self.path.is_empty() && !self.path.starts_with(['/', '?']) {
            refuse("path", "begins with neither / nor ?");
        }
        match (&self.json_pointer, &self.regex) {
            (None, None) => refuse("json_pointer", "is missing, and regex too; one of them finds the value"),
            (Some(_), Some(_)) => refuse("regex", "stands beside json_pointer; take one of them out"),
            (None, Some(regex)) => {
                if let Err(why) = compile(regex) {
                    refuse("regex", &why);
                }
            }
            (Some(_), None) => {}
        }
        let pointers = [
            ("json_pointer", &self.json_pointer),
            ("rows", &self.rows),
            ("partition", &self.partition),
            ("topic", &self.topic),
        ];
        for (name, pointer) in pointers {
            if pointer.as_ref().is_some_and(|pointer| !is_pointer(pointer)) {
                refuse(name, "is no JSON pointer; write it like /data/0/count");
            }
        }
        for (name, pointer) in [("partition", &self.partition), ("topic", &self.topic)] {
            if pointer.is_some() && self.rows.is_none() {
                refuse(name, "is a place within a row, and rows is not set: it says where the rows are");
            }
        }
        if self.rows.is_some() && self.regex.is_some() {
            refuse("rows", "is for JSON; with regex use groups named partition and value");
        }
        refuse_lookups(self, refuse);
    }
}
