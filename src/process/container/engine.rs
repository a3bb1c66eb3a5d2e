//! Docker's HTTP interface, which Podman has too, as far as it is needed: one container's state and its statistics.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::TIMEOUT;
use crate::core::status::ProcessStatus;
use crate::net::unix::{self, UnixError};
use crate::process::carry::{Counters, Totals};
use crate::process::cgroup_fs::memory_limit;
use crate::process::error::ProcessError;

const MOST_BYTES: usize = 4 << 20;

/// Where the engine listens.
#[derive(Debug)]
pub(super) struct Engine {
    socket: Option<PathBuf>,
}

impl Engine {
    pub(super) const fn new(socket: Option<PathBuf>) -> Self {
        Self { socket }
    }

    fn socket(&self) -> Result<PathBuf, ProcessError> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        let mut usual: Vec<PathBuf> = vec!["/var/run/docker.sock".into(), "/run/podman/podman.sock".into()];
        usual.extend(
            std::env::var_os("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("podman/podman.sock")),
        );
        usual.into_iter().find(|socket| socket.exists()).ok_or_else(|| {
            let text = "found no socket of Docker or Podman in the usual places: set socket, and start its service \
                        (systemctl start podman.socket)";
            ProcessError::Container(text.to_owned())
        })
    }

    /// Asks about a container by name or id.
    pub(super) async fn inspect(&self, name: &str) -> Result<Inspected, ProcessError> {
        let told: Container = self.get(&format!("/containers/{name}/json"), name).await?;
        Ok(Inspected {
            id: told.id,
            pid: u32::try_from(told.state.pid).ok(),
            running: told.state.running,
            oom_killed: told.state.oom_killed,
            exit_code: told.state.exit_code,
            started_at: told.state.started_at,
            memory_limit_bytes: u64::try_from(told.host_config.memory).ok().filter(|limit| *limit > 0),
        })
    }

    /// Asks for the counters of a container, as they are now.
    pub(super) async fn stats(&self, of: &Inspected) -> Result<Stats, ProcessError> {
        // One reading; without one-shot the engine waits for a second one to take a rate from.
        let path = format!("/containers/{}/stats?stream=false&one-shot=true", of.id);
        let stats: Stats = self.get(&path, &of.id).await?;
        if stats.cpu_stats.cpu_usage.total_usage == 0 && stats.pids_stats.current.unwrap_or(0) == 0 {
            // What engines say of a container that has ended.
            return Err(ProcessError::Container("the container has no figures: it has ended".to_owned()));
        }
        Ok(stats)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, container: &str) -> Result<T, ProcessError> {
        let socket = self.socket()?;
        let at = socket.display();
        let answer =
            unix::get(&socket, path, MOST_BYTES, TIMEOUT).await.map_err(|error| unreached(&socket, error))?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body).map_err(|error| {
                ProcessError::Container(format!(
                    "the engine at {at} answered with something else than expected: {error}"
                ))
            }),
            404 => Err(ProcessError::Container(format!("the engine at {at} has no container {container:?}"))),
            status => {
                let told = serde_json::from_slice::<Refusal>(&answer.body).unwrap_or_default().message;
                let told: String = told.chars().take(200).collect();
                Err(ProcessError::Container(format!(
                    "the engine at {at} answered {status} about container {container:?}: {told:?}"
                )))
            }
        }
    }
}

fn unreached(socket: &Path, error: UnixError) -> ProcessError {
    match error {
        UnixError::Socket(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            ProcessError::Denied { path: socket.to_owned() }
        }
        error => {
            ProcessError::Container(format!("the engine at {} does not answer: {error}", socket.display()))
        }
    }
}

/// What the engine says of a container's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inspected {
    pub(super) id: String,
    /// Its first process, by the engine's machine.
    pub(super) pid: Option<u32>,
    pub(super) running: bool,
    pub(super) oom_killed: bool,
    exit_code: i64,
    pub(super) started_at: String,
    memory_limit_bytes: Option<u64>,
}

impl Inspected {
    /// That it does not run, as a sentence.
    pub(super) fn ended(&self, name: &str) -> String {
        let why = if self.oom_killed { ", killed for want of memory" } else { "" };
        format!("container {name:?} does not run: its last exit code is {}{why}", self.exit_code)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    id: String,
    state: State,
    #[serde(default)]
    host_config: HostConfig,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    #[serde(default)]
    running: bool,
    #[serde(default)]
    pid: i64,
    #[serde(default, rename = "OOMKilled")]
    oom_killed: bool,
    #[serde(default)]
    exit_code: i64,
    #[serde(default)]
    started_at: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostConfig {
    #[serde(default)]
    memory: i64,
}

#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

/// The statistics, as far as they are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    cpu_stats: CpuStats,
    memory_stats: MemoryStats,
    pids_stats: PidsStats,
    blkio_stats: BlkioStats,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CpuStats {
    cpu_usage: CpuUsage,
    online_cpus: Option<u32>,
    throttling_data: Option<Throttling>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CpuUsage {
    total_usage: u64,
    usage_in_usermode: u64,
    usage_in_kernelmode: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Throttling {
    throttled_time: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MemoryStats {
    usage: Option<u64>,
    max_usage: Option<u64>,
    limit: Option<u64>,
    stats: Option<MemoryDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MemoryDetails {
    /// Cgroup version 2.
    inactive_file: Option<u64>,
    /// Cgroup version 1.
    total_inactive_file: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PidsStats {
    current: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BlkioStats {
    io_service_bytes_recursive: Option<Vec<BlkioEntry>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BlkioEntry {
    op: String,
    value: u64,
}

impl Stats {
    /// CPUs of the engine's machine.
    pub(super) fn cores(&self) -> f64 {
        self.cpu_stats.online_cpus.filter(|cores| *cores > 0).map_or(f64::INFINITY, f64::from)
    }

    pub(super) fn totals(&self, identity: u64, of: &Inspected) -> Totals {
        let usage = &self.cpu_stats.cpu_usage;
        // Some engines give the sum only.
        let split = (usage.usage_in_usermode, usage.usage_in_kernelmode);
        let split =
            Some(split).filter(|(user, system)| usage.total_usage == 0 || user.saturating_add(*system) > 0);
        let memory = &self.memory_stats;
        let cache = memory.stats.as_ref().and_then(|stats| stats.total_inactive_file.or(stats.inactive_file));
        let (read, written) = self.io_bytes().unzip();
        // The engine's own "limit" is the machine's memory where the container has none.
        let limit = of.memory_limit_bytes.and_then(|limit| memory_limit(&limit.to_string(), memory.limit));
        Totals {
            identity,
            replaced: false,
            counters: Counters {
                cpu_user_ns: split.map(|(user, _)| user),
                cpu_system_ns: split.map(|(_, system)| system),
                cpu_unsplit_ns: split.is_none().then_some(usage.total_usage),
                cpu_throttled_ns: self.cpu_stats.throttling_data.as_ref().map(|data| data.throttled_time),
                io_read_bytes: read,
                io_written_bytes: written,
                oom_kills: None,
            },
            gauges: ProcessStatus {
                memory_cgroup_bytes: memory.usage,
                memory_cgroup_peak_bytes: memory.max_usage.filter(|bytes| *bytes > 0),
                // Without the cache's size (Podman 4) it is not known.
                memory_working_set_bytes: memory
                    .usage
                    .zip(cache)
                    .map(|(usage, cache)| usage.saturating_sub(cache)),
                memory_limit_bytes: limit,
                threads: self.pids_stats.current,
                start_time_seconds: seconds_since_1970(&of.started_at),
                ..ProcessStatus::default()
            },
        }
    }

    /// Bytes read and written; absent where the engine has none (no I/O controller).
    fn io_bytes(&self) -> Option<(u64, u64)> {
        let entries = self.blkio_stats.io_service_bytes_recursive.as_ref()?;
        let sum = |op: &str| {
            let values =
                entries.iter().filter(|entry| entry.op.eq_ignore_ascii_case(op)).map(|entry| entry.value);
            values.fold(0_u64, u64::saturating_add)
        };
        Some((sum("read"), sum("write")))
    }
}

/// Reads an instant: Docker writes it in UTC, Podman in its own time zone.
fn seconds_since_1970(text: &str) -> Option<f64> {
    let (date, zone) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let zone =
        zone.strip_prefix('+').map(|zone| (1.0, zone)).or(zone.strip_prefix('-').map(|zone| (-1.0, zone)));
    let (utc, offset_seconds) = match zone.and_then(|(sign, zone)| Some((sign, zone.split_once(':')?))) {
        Some((sign, (hours, minutes))) => {
            let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
            (format!("{date}Z"), sign * f64::from(hours * 3_600 + minutes * 60))
        }
        None => (text.to_owned(), 0.0),
    };
    let at = humantime::parse_rfc3339(&utc).ok()?;
    Some(at.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64() - offset_seconds)
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
