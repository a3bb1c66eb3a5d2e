//! Real systems of a test's own, by the scripts of tests/services.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::children::Start as _;
use crate::daemon::request;

/// A running system; it ends when it goes out of scope, or with the test's process.
pub(crate) struct Service {
    name: &'static str,
    pub(crate) dir: PathBuf,
    env: HashMap<String, String>,
    home: Option<tempfile::TempDir>,
}

impl Service {
    /// Starts `tests/services/NAME` with its arguments.
    pub(crate) fn start(name: &'static str, arguments: &[&str]) -> Self {
        Self::start_in(home(), name, arguments)
    }

    /// Starts it in a folder, next to the files that its settings name.
    pub(crate) fn start_in(home: tempfile::TempDir, name: &'static str, arguments: &[&str]) -> Self {
        // PostgreSQL runs as another user when the test is root.
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let dir = home.path().join(name);
        let env = script(name, &[&["start", dir.to_str().unwrap()], arguments].concat());
        let env = env.lines().filter_map(|line| line.split_once('='));
        let env = env.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Self { name, dir, env, home: Some(home) }
    }

    /// A value of the system's `env` file, such as `PGURL`.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.env.get(key).unwrap_or_else(|| panic!("{} has no {key}: {:?}", self.name, self.env))
    }

    /// Runs `start`, `stop`, `kill`, `restart`, `freeze` or `thaw`.
    pub(crate) fn order(&self, verb: &str) {
        self.run(verb, &[]);
    }

    /// Runs a command of the script with further arguments and returns what it printed.
    pub(crate) fn run(&self, verb: &str, arguments: &[&str]) -> String {
        script(self.name, &[&[verb, self.dir.to_str().unwrap()], arguments].concat())
    }

    /// The file that holds the pid while the system runs.
    pub(crate) fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }

    pub(crate) fn pid(&self) -> i32 {
        std::fs::read_to_string(self.pid_file()).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nobody needs the data any more; only PostgreSQL would leave shared memory behind.
        let verb = if self.name == "postgres" { "stop" } else { "kill" };
        let _ = Command::new(path(self.name)).args([Path::new(verb), &self.dir]).run_for_output();
        if std::thread::panicking()
            && let Some(home) = self.home.take()
        {
            println!(
                "the log of {} is kept: {}",
                self.name,
                home.keep().join(self.name).join("log").display()
            );
        }
    }
}

/// A folder for a system and its files. `tests/run` looks for logs in its own folder.
pub(crate) fn home() -> tempfile::TempDir {
    match std::env::var_os("SOAKD_TEST_ROOT") {
        Some(root) => tempfile::tempdir_in(root).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services").join(name)
}

fn script(name: &str, arguments: &[&str]) -> String {
    let owner = std::process::id().to_string();
    let done = Command::new(path(name)).args(arguments).env("SOAKD_OWNER", owner).run_for_output().unwrap();
    assert!(done.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The address of a URL without a path, such as `http://127.0.0.1:9090`.
pub(crate) fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").and_then(|rest| rest.parse().ok()).unwrap_or_else(|| panic!("{url}"))
}

/// What Prometheus answers to a query at a time (seconds since 1970), by the series' labels; a sum has none.
pub(crate) fn prometheus(server: &Service, query: &str, at: f64) -> Vec<(Value, f64)> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let path = format!("/api/v1/query?query={encoded}&time={at:.3}");
    let (status, body) = request(address(server.get("PROMETHEUS_URL")), "GET", &path, None).unwrap();
    let body: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{query}: {error}: {body}"));
    assert_eq!((status, body["status"].as_str()), (200, Some("success")), "{query}: {body}");
    let series = |one: &Value| (one["metric"].clone(), one["value"][1].as_str().unwrap().parse().unwrap());
    body["data"]["result"].as_array().unwrap().iter().map(series).collect()
}
