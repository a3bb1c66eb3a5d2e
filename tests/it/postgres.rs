//! A real PostgreSQL of a test's own, by tests/services/postgres.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/postgres");

/// A running server; it ends when it goes out of scope, or with the test's process.
pub(crate) struct Postgres {
    dir: PathBuf,
    env: HashMap<String, String>,
    _home: tempfile::TempDir,
}

impl Postgres {
    /// Starts a server with these settings (`name=value`).
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), settings)
    }

    /// Starts a server in a folder, next to the files that its settings name.
    pub(crate) fn start_in(home: tempfile::TempDir, settings: &[&str]) -> Self {
        // The server runs as another user when the test is root.
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let dir = home.path().join("postgres");
        let mut arguments = vec!["start", dir.to_str().unwrap()];
        arguments.extend(settings);
        let env = script(&arguments);
        let env = env.lines().filter_map(|line| line.split_once('='));
        let env = env.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Self { dir, env, _home: home }
    }

    /// The server's URL, of user and database postgres.
    pub(crate) fn url(&self) -> &str {
        &self.env["PGURL"]
    }

    /// The server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> &str {
        &self.env["PGPORT"]
    }

    /// Runs `start`, `stop`, `kill`, `restart`, `freeze` or `thaw`.
    pub(crate) fn order(&self, verb: &str) {
        script(&[verb, self.dir.to_str().unwrap()]);
    }

    /// Runs SQL with psql and returns its rows without decoration.
    pub(crate) fn psql(&self, sql: &str) -> String {
        let done =
            Command::new("psql").args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, self.url()]).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// The pids of the server's sessions whose application is soakd.
    pub(crate) fn sessions(&self) -> Vec<u32> {
        let pids = self
            .psql("select pid from pg_stat_activity where application_name = 'soakd' order by backend_start");
        pids.lines().map(|pid| pid.parse().unwrap()).collect()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = Command::new(SCRIPT).args([Path::new("stop"), &self.dir]).output();
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(name: &str, pid: u32) {
    let done = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(done.success(), "kill -{name} {pid}");
}

fn script(arguments: &[&str]) -> String {
    let owner = std::process::id().to_string();
    let done = Command::new(SCRIPT).args(arguments).env("SOAKD_OWNER", owner).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
