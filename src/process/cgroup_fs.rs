//! Reading a cgroup (version 2). Every file is opened, read and closed within one call; what a controller that is switched
//! off does not tell is absent.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::ProcessError;

/// Deeper trees, and larger ones, are not searched for a unit.
const MOST_FOLDERS: usize = 20_000;
const MOST_DEPTH: usize = 12;

/// A mounted cgroup file system of version 2.
#[derive(Debug, Clone)]
pub(super) struct CgroupFs {
    root: PathBuf,
}

impl CgroupFs {
    /// The root of the settings, or its `unified` folder where the machine has both versions.
    pub(super) fn open(root: &Path) -> Result<Self, ProcessError> {
        let places = [root.to_owned(), root.join("unified")];
        let found = places.into_iter().find(|place| place.join("cgroup.controllers").exists());
        let root = found.ok_or_else(|| ProcessError::NoCgroups { root: root.to_owned() })?;
        Ok(Self { root })
    }

    /// The folder of a path as settings and /proc have it: from the root on.
    pub(super) fn folder(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The path from the root on, for texts.
    pub(super) fn path(&self, folder: &Path) -> String {
        let inside = folder.strip_prefix(&self.root).unwrap_or(folder);
        format!("/{}", inside.display())
    }

    /// Looks for the cgroup of a systemd unit: in its usual place, else anywhere.
    pub(super) fn find_unit(&self, unit: &str) -> Result<PathBuf, ProcessError> {
        let usual = self.root.join("system.slice").join(unit);
        if usual.is_dir() {
            return Ok(usual);
        }
        // What could be taken for a file of the kernel's (cpu.service) has a mark before it.
        let marked = format!("_{unit}");
        let named =
            |folder: &Path| folder.file_name().is_some_and(|name| name == unit || name == marked.as_str());
        let found: Vec<PathBuf> = folders(&self.root).into_iter().filter(|folder| named(folder)).collect();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(ProcessError::NoSuchUnit { unit: unit.to_owned(), root: self.root.clone() }),
            [first, ..] => Err(ProcessError::ManyUnits {
                unit: unit.to_owned(),
                found: found.len(),
                first: self.path(first),
            }),
        }
    }

    /// Reads a cgroup; `None` when it is not there (any more).
    pub(super) fn read(
        &self,
        folder: &Path,
        machine_bytes: Option<u64>,
    ) -> Result<Option<CgroupReading>, ProcessError> {
        // A cgroup that is removed while it is read has no figures, rather than some.
        let Some(identity) = identity(folder)? else { return Ok(None) };
        let Some(cpu) = read_file(&folder.join("cpu.stat"))? else { return Ok(None) };
        let memory_stat = read_file(&folder.join("memory.stat"))?;
        let current = number(folder, "memory.current")?;
        let inactive = memory_stat.as_deref().and_then(|text| flat(text, "inactive_file"));
        let events = read_file(&folder.join("cgroup.events"))?;
        let micros = |key| flat(&cpu, key).map(|micros| micros.saturating_mul(1_000));
        // Every cgroup has this one, whatever controllers are on: without it the last figure would stay.
        let cpu_usage_ns = micros("usage_usec").ok_or_else(|| ProcessError::Proc {
            what: folder.join("cpu.stat").display().to_string(),
            error: "it has no number usage_usec".to_owned(),
        })?;
        Ok(Some(CgroupReading {
            identity,
            // The root has no such file, and is never empty.
            populated: events.is_none_or(|text| flat(&text, "populated") != Some(0)),
            pids: pids(folder),
            cpu_usage_ns: Some(cpu_usage_ns),
            cpu_user_ns: micros("user_usec"),
            cpu_system_ns: micros("system_usec"),
            cpu_throttled_ns: micros("throttled_usec"),
            memory_bytes: current,
            memory_peak_bytes: number(folder, "memory.peak")?,
            working_set_bytes: current.zip(inactive).map(|(all, inactive)| all.saturating_sub(inactive)),
            memory_limit_bytes: self.memory_limit(folder, machine_bytes)?,
            oom_kills: read_file(&folder.join("memory.events"))?.and_then(|text| flat(&text, "oom_kill")),
            io: read_file(&folder.join("io.stat"))?.map(|text| io_bytes(&text)),
            tasks: number(folder, "pids.current")?,
        }))
    }

    /// The lowest limit of the cgroup and those above it.
    fn memory_limit(&self, folder: &Path, machine_bytes: Option<u64>) -> Result<Option<u64>, ProcessError> {
        let mut lowest = None;
        for place in folder.ancestors().take_while(|place| place.starts_with(&self.root)) {
            let text = read_file(&place.join("memory.max"))?;
            let limit = text.as_deref().and_then(|text| memory_limit(text, machine_bytes));
            lowest = [lowest, limit].into_iter().flatten().min();
        }
        Ok(lowest)
    }
}

/// What a cgroup's files said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CgroupReading {
    /// The same for as long as the cgroup lives; one that is made again has another.
    pub(super) identity: u64,
    /// Whether a process is in it or below.
    pub(super) populated: bool,
    /// Those that we can see, in it and below.
    pub(super) pids: Vec<u32>,
    pub(super) cpu_usage_ns: Option<u64>,
    pub(super) cpu_user_ns: Option<u64>,
    pub(super) cpu_system_ns: Option<u64>,
    pub(super) cpu_throttled_ns: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) memory_peak_bytes: Option<u64>,
    pub(super) working_set_bytes: Option<u64>,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) oom_kills: Option<u64>,
    /// Bytes read from storage, and written.
    pub(super) io: Option<(u64, u64)>,
    /// Threads.
    pub(super) tasks: Option<u64>,
}

fn identity(folder: &Path) -> Result<Option<u64>, ProcessError> {
    match std::fs::metadata(folder) {
        Ok(about) => Ok(about.is_dir().then(|| about.ino())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(failed(folder, &error)),
    }
}

/// The text of a file; `None` when there is none.
fn read_file(path: &Path) -> Result<Option<String>, ProcessError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// A file of a cgroup that was removed after it was opened answers ENODEV.
fn is_gone(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ENODEV)
}

fn failed(path: &Path, error: &io::Error) -> ProcessError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return ProcessError::Denied { path: path.to_owned() };
    }
    ProcessError::Proc { what: path.display().to_string(), error: error.to_string() }
}

/// A file that holds one number.
fn number(folder: &Path, name: &str) -> Result<Option<u64>, ProcessError> {
    Ok(read_file(&folder.join(name))?.and_then(|text| text.trim().parse().ok()))
}

/// The value of a key in a file of lines `key value`.
fn flat(text: &str, key: &str) -> Option<u64> {
    text.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == key)?.1.trim().parse().ok()
}

/// The sums over all devices of a file of lines `8:0 rbytes=1 wbytes=2 ...`.
fn io_bytes(text: &str) -> (u64, u64) {
    let sum = |key: &str| {
        let fields = text.split_ascii_whitespace().filter_map(|field| field.split_once('='));
        let values =
            fields.filter(|(name, _)| *name == key).filter_map(|(_, value)| value.parse::<u64>().ok());
        values.fold(0_u64, u64::saturating_add)
    };
    (sum("rbytes"), sum("wbytes"))
}

/// A limit that says something: `max`, and a number that no machine has, are none; a machine has no more than it has.
pub(super) fn memory_limit(text: &str, machine_bytes: Option<u64>) -> Option<u64> {
    /// How version 1 and container tools write "unlimited": the largest number of whole pages.
    const UNLIMITED: u64 = 0x7FFF_FFFF_FFFF_F000;
    let limit = text.trim().parse::<u64>().ok().filter(|limit| *limit < UNLIMITED)?;
    Some(machine_bytes.map_or(limit, |machine| limit.min(machine)))
}

/// The processes in a cgroup and below that this pid namespace has; the others are listed as 0.
fn pids(folder: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    for place in folders(folder) {
        // A threaded cgroup lists its threads only; its processes are listed above it.
        let text = std::fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid > 0));
    }
    found
}

/// A folder and those below it.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![(root.to_owned(), 0)];
    let mut next = 0;
    while let Some((folder, depth)) = found.get(next).cloned() {
        next += 1;
        if depth == MOST_DEPTH || found.len() >= MOST_FOLDERS {
            continue;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let inside = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        found.extend(inside.map(|entry| (entry.path(), depth + 1)));
    }
    found.into_iter().map(|(folder, _)| folder).collect()
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
