//! Settings of a process of kind `prometheus`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default_timeout;
use crate::config::{Duration, Problem, Secret, SecretUrl, key};
use crate::net::prometheus::Selector;
use crate::net::web::Access;

/// A target's /metrics costs it more than a file of /proc, and a server has nothing new every second.
fn default_scrape_interval() -> Duration {
    Duration::from_secs(5)
}

fn default_mountpoint() -> String {
    "/".to_owned()
}

/// Whose series are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessSeries {
    /// The `process_*` that Prometheus' client libraries tell of their own process.
    #[default]
    Process,
    /// The `container_*` of cAdvisor and of the kubelet.
    Cadvisor,
    /// The `node_*` of node_exporter: the whole machine.
    Node,
}

/// A process of any machine, by the series of a /metrics endpoint or of a Prometheus server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusProcessSettings {
    /// The /metrics endpoint, like `http://sut:9100/metrics`; with server = true the Prometheus server, like `http://prometheus:9090`.
    pub url: SecretUrl,
    /// Whether url is a Prometheus server, which is asked by query, and not a target.
    #[serde(default)]
    pub server: bool,
    /// Whose series to read: process (the `process_*` of a program's own /metrics), cadvisor (`container_*`) or node (`node_*` of node_exporter: the whole machine).
    #[serde(default)]
    pub series: ProcessSeries,
    /// Labels that choose the one process, container or machine, like `job="materialized",instance="sut:6878"`.
    #[serde(default)]
    pub labels: String,
    /// Mount point of the file system whose space is shown with series = "node".
    #[serde(default = "default_mountpoint")]
    pub mountpoint: String,
    /// Name of the machine in metrics with series = "node". Not set: the name of the process.
    #[serde(default)]
    pub machine: Option<String>,
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
    /// Time from one reading to the next (a duration).
    #[serde(default = "default_scrape_interval")]
    pub interval: Duration,
    /// Longest wait for an answer (a duration).
    #[serde(default = "default_timeout")]
    pub timeout: Duration,
}

impl PrometheusProcessSettings {
    /// Where to ask, and as whom.
    pub(in crate::process) fn access(&self) -> Access<'_> {
        Access {
            url: &self.url,
            username: self.username.as_deref(),
            password: self.password.as_ref(),
            password_file: self.password_file.as_ref(),
            token_file: self.token_file.as_ref(),
            tls_ca_file: self.tls_ca_file.as_ref(),
        }
    }

    pub(super) fn refuse(&self, at: &str, problems: &mut Vec<Problem>) {
        let mut refuse = |name: &str, what: &str| problems.push(Problem::new(key(at, name), what));
        self.access().refuse(&mut refuse);
        if let Err(why) = Selector::parse(&format!("x{{{}}}", self.labels)) {
            refuse("labels", &format!("{why}; labels are written like job=\"a\",instance=~\"b.*\""));
        }
        if self.timeout.is_zero() {
            refuse("timeout", "must be longer than 0s");
        }
        if self.machine.is_some() && self.series != ProcessSeries::Node {
            refuse(
                "machine",
                "means nothing without series = \"node\", which alone tells of a machine; leave it out",
            );
        }
    }
}
