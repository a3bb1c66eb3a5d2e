//! A real PostgreSQL of a test's own.

use std::process::Command;

use crate::children::Start as _;
use crate::services::{Service, home};

/// A running server; it ends when it goes out of scope, or with the test's process.
pub(crate) struct Postgres {
    pub(crate) service: Service,
}

impl Postgres {
    /// Starts a server with these settings (`name=value`).
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::start_in(home(), settings)
    }

    /// Starts a server in a folder, next to the files that its settings name.
    pub(crate) fn start_in(home: tempfile::TempDir, settings: &[&str]) -> Self {
        Self { service: Service::start_in(home, "postgres", settings) }
    }

    /// The server's URL, of user and database postgres.
    pub(crate) fn url(&self) -> &str {
        self.service.get("PGURL")
    }

    /// The server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> &str {
        self.service.get("PGPORT")
    }

    /// Runs `start`, `stop`, `kill`, `restart`, `freeze` or `thaw`.
    pub(crate) fn order(&self, verb: &str) {
        self.service.order(verb);
    }

    /// Runs SQL with psql and returns its rows without decoration.
    pub(crate) fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).unwrap()
    }

    /// As [`Self::psql`], where the server may be away.
    pub(crate) fn try_psql(&self, sql: &str) -> Result<String, String> {
        psql(self.url(), sql)
    }

    /// The pids of the server's sessions whose application is soakd.
    pub(crate) fn sessions(&self) -> Vec<u32> {
        let pids = self
            .psql("select pid from pg_stat_activity where application_name = 'soakd' order by backend_start");
        pids.lines().map(|pid| pid.parse().unwrap()).collect()
    }
}

/// Runs SQL with psql and returns its rows without decoration.
pub(crate) fn psql(url: &str, sql: &str) -> Result<String, String> {
    let done = Command::new("psql")
        .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, url])
        .run_for_output()
        .unwrap();
    if !done.status.success() {
        return Err(format!("{sql}: {}", String::from_utf8_lossy(&done.stderr)));
    }
    Ok(String::from_utf8(done.stdout).unwrap().trim_end_matches('\n').to_owned())
}

/// Sends a signal to one process.
pub(crate) fn signal(name: &str, pid: u32) {
    let done = Command::new("kill").args([format!("-{name}"), pid.to_string()]).run_for_status().unwrap();
    assert!(done.success(), "kill -{name} {pid}");
}
