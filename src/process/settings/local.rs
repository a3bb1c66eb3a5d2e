//! Settings of a process of kind `local`.

use std::path::PathBuf;

use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DEFAULT_INTERVAL;
use crate::config::{Duration, Problem, key};

/// A process, unit, cgroup or container of this machine, found by exactly one of `pid`, `name`, `command`, `pid_file`, `unit`,
/// `cgroup` and `container`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LocalProcessSettings {
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the process, whole; it is found again after a restart.
    pub name: Option<String>,
    /// Regular expression that is found in the command line (arguments with a blank between them), instead of a name; it is found again after a restart.
    pub command: Option<String>,
    /// File that holds the process id; it is read again after a restart.
    pub pid_file: Option<PathBuf>,
    /// systemd unit, like `postgresql.service`: all processes of its cgroup.
    pub unit: Option<String>,
    /// Path of a cgroup (version 2) below cgroup_root, like `/system.slice/docker.service`: all processes in it and below it.
    pub cgroup: Option<PathBuf>,
    /// Name or id of a Docker or Podman container.
    pub container: Option<String>,
    /// Unix socket of Docker or Podman, for container. Not set: the first that is there of `/var/run/docker.sock`, `/run/podman/podman.sock` and `$XDG_RUNTIME_DIR/podman/podman.sock`.
    pub socket: Option<PathBuf>,
    /// Count the process's children too, and theirs.
    pub tree: bool,
    /// Read the proportional memory (PSS) too, at most every 10 s and for at most 0.5 % of a core.
    pub pss: bool,
    /// Time from one reading to the next (a duration).
    pub interval: Duration,
    /// Where the machine's proc file system is mounted.
    pub proc_root: PathBuf,
    /// Where the machine's cgroup file system (version 2) is mounted, or its `unified` folder.
    pub cgroup_root: PathBuf,
}

impl Default for LocalProcessSettings {
    fn default() -> Self {
        LocalProcessSettings {
            pid: None,
            name: None,
            command: None,
            pid_file: None,
            unit: None,
            cgroup: None,
            container: None,
            socket: None,
            tree: false,
            pss: true,
            interval: DEFAULT_INTERVAL,
            proc_root: PathBuf::from("/proc"),
            cgroup_root: PathBuf::from("/sys/fs/cgroup"),
        }
    }
}

impl LocalProcessSettings {
    /// The keys that find the process, and whether they are set.
    fn ways(&self) -> [(&'static str, bool); 7] {
        [
            ("pid", self.pid.is_some()),
            ("name", self.name.is_some()),
            ("command", self.command.is_some()),
            ("pid_file", self.pid_file.is_some()),
            ("unit", self.unit.is_some()),
            ("cgroup", self.cgroup.is_some()),
            ("container", self.container.is_some()),
        ]
    }

    /// Whether all processes of a cgroup are meant, rather than one and perhaps its children.
    pub(in crate::process) fn is_group(&self) -> bool {
        self.unit.is_some() || self.cgroup.is_some() || self.container.is_some()
    }

    pub(super) fn refuse(&self, at: &str, problems: &mut Vec<Problem>) {
        let ways = self.ways();
        let given: Vec<&str> = ways.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
        match given.as_slice() {
            [_] => {}
            [] => {
                let message =
                    "finds no process; set one of pid, name, command, pid_file, unit, cgroup and container";
                problems.push(Problem::new(at, message));
            }
            _ => {
                let message = format!("is found in more than one way; keep one of {}", given.join(", "));
                problems.push(Problem::new(at, message));
            }
        }
        let mut refuse = |name: &str, message: &str| problems.push(Problem::new(key(at, name), message));
        if self.pid == Some(0) {
            refuse("pid", "0 is no process");
        }
        if let Some(Err(error)) = self.command.as_deref().map(Regex::new) {
            refuse("command", &format!("is no regular expression: {error}"));
        }
        if self.command.as_deref().is_some_and(|pattern| Regex::new(pattern).is_ok_and(|of| of.is_match("")))
        {
            refuse(
                "command",
                "matches the empty text, and so every process; name what the command line holds",
            );
        }
        if let Some(unit) = self.unit.as_deref().filter(|unit| unit.contains('/') || !unit.contains('.')) {
            refuse("unit", &format!("{unit:?} is no unit's name; write it whole, like \"{unit}.service\""));
        }
        if self.cgroup.as_ref().is_some_and(|path| path.components().any(|part| part.as_os_str() == "..")) {
            refuse("cgroup", "holds \"..\"; write the path from cgroup_root");
        }
        if let Some(container) = self.container.as_deref().filter(|name| !is_container_name(name)) {
            refuse(
                "container",
                &format!(
                    "{container:?} is no container's name or id: letters, digits, \"_\", \".\" and \"-\""
                ),
            );
        }
        if self.socket.is_some() && self.container.is_none() {
            refuse("socket", "means nothing without container; leave it out");
        }
        if self.tree && self.is_group() {
            refuse(
                "tree",
                "means nothing for a unit, cgroup or container, which is always whole; leave it out",
            );
        }
    }
}

/// What Docker allows; it becomes a part of a request's path.
fn is_container_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|one| one.is_ascii_alphanumeric() || "_.-".contains(one))
}
