//! Which process is meant: by pid, name, command line or pid file.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use regex_lite::Regex;

use super::error::ProcessError;
use super::proc_fs::{Matched, ProcFs};
use super::settings::LocalProcessSettings;
use super::tally::{Machine, ProcReading};
use crate::config::open_regular;

/// A pid file is a line or a few (postmaster.pid has eight).
const PID_FILE_BYTES: u64 = 4096;
/// A pid file is written after its process started; the seconds of boot time and file systems are coarse.
const PID_FILE_SLACK_SECONDS: u64 = 10;

/// How the settings name the process.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Pid(u32),
    Name(String),
    /// The pattern, compiled when it is a right one: the settings' rules leave no other.
    Command(String, Option<Regex>),
    PidFile(PathBuf),
}

/// The process that is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) root: ProcReading,
    /// Further processes that match and are nobody's child that matches.
    pub(super) others: u32,
    /// Children of the root that match, and theirs.
    pub(super) below: u32,
}

impl Found {
    const fn only(root: ProcReading) -> Self {
        Self { root, others: 0, below: 0 }
    }

    /// What the user should know about the choice, as sentences.
    pub(super) fn remarks(&self, tree: bool) -> Vec<String> {
        let (others, below) = (self.others, self.below);
        let mut remarks = Vec::new();
        if others > 0 {
            remarks.push(format!(
                "{others} more that match are not counted: only the oldest is watched, with pid_file or pid you choose"
            ));
        }
        if below > 0 && !tree {
            remarks.push(format!(
                "{below} of its children match too and are not counted: with tree = true they are"
            ));
        }
        remarks
    }
}

impl Target {
    /// The settings' rules leave exactly one way; pid 0 stands for none and is never found.
    pub(super) fn new(settings: &LocalProcessSettings) -> Self {
        match (&settings.pid_file, &settings.name, &settings.command) {
            (Some(path), ..) => Self::PidFile(path.clone()),
            (None, Some(name), _) => Self::Name(name.clone()),
            (None, None, Some(pattern)) => Self::Command(pattern.clone(), Regex::new(pattern).ok()),
            (None, None, None) => Self::Pid(settings.pid.unwrap_or(0)),
        }
    }

    /// Looks for the process.
    pub(super) fn find(&self, proc_fs: &ProcFs, machine: &Machine) -> Result<Found, ProcessError> {
        match self {
            Self::Pid(pid) => {
                living(proc_fs, *pid)?.map(Found::only).ok_or(ProcessError::NoSuchPid { pid: *pid })
            }
            Self::Name(name) => {
                let named = proc_fs.read_named(name)?;
                one_of(&named, proc_fs)?.ok_or_else(|| ProcessError::NoSuchName {
                    name: name.clone(),
                    looked: named.looked,
                    unreadable: named.unreadable,
                })
            }
            Self::Command(pattern, compiled) => {
                let commanded = match compiled {
                    Some(compiled) => proc_fs.read_commanded(compiled)?,
                    None => Matched::default(),
                };
                one_of(&commanded, proc_fs)?.ok_or_else(|| ProcessError::NoSuchCommand {
                    pattern: pattern.clone(),
                    looked: commanded.looked,
                })
            }
            Self::PidFile(path) => by_pid_file(path, proc_fs, machine).map(Found::only),
        }
    }

    /// Whether the watched process may be replaced while it lives: a pid file can name another one.
    pub(super) const fn can_move(&self) -> bool {
        matches!(self, Self::PidFile(_))
    }
}

fn living(proc_fs: &ProcFs, pid: u32) -> Result<Option<ProcReading>, ProcessError> {
    Ok(proc_fs.read(pid)?.filter(|one| !one.ended()))
}

/// The one that is meant, read whole; `None` also when it has ended meanwhile.
fn one_of(matched: &Matched, proc_fs: &ProcFs) -> Result<Option<Found>, ProcessError> {
    let Some(found) = oldest_root(&matched.matches) else { return Ok(None) };
    let root = living(proc_fs, found.root.pid)?.filter(|root| root.id() == found.root.id());
    Ok(root.map(|root| Found { root, ..found }))
}

/// Of several processes of one name, the oldest whose parent does not have that name: of postgres the postmaster, of
/// nginx the master, of two servers the one that was there first.
fn oldest_root(matches: &[ProcReading]) -> Option<Found> {
    let pids: BTreeSet<u32> = matches.iter().map(|one| one.pid).collect();
    let roots = matches.iter().filter(|one| !pids.contains(&one.ppid));
    let root = *roots.clone().min_by_key(|one| (one.start_ticks, one.pid))?;
    let others = roots.count().saturating_sub(1);
    let below = below(root.pid, matches);
    let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
    Some(Found { root, others: number(others), below: number(below) })
}

/// How many of the matches are children of the root, or of its children that match.
fn below(root: u32, matches: &[ProcReading]) -> usize {
    let mut inside = BTreeSet::from([root]);
    // Pids go round: a child may have a lower one than its parent, so once more until nobody joins.
    loop {
        let before = inside.len();
        inside.extend(
            matches.iter().filter(|one| inside.contains(&one.ppid)).map(|one| one.pid).collect::<Vec<_>>(),
        );
        if inside.len() == before {
            return before - 1;
        }
    }
}

fn by_pid_file(path: &Path, proc_fs: &ProcFs, machine: &Machine) -> Result<ProcReading, ProcessError> {
    let (text, written_seconds) =
        read_pid_file(path).map_err(|error| ProcessError::PidFile { path: path.into(), error })?;
    let Some(first) = text.split_ascii_whitespace().next() else {
        return Err(ProcessError::PidFileEmpty { path: path.into() });
    };
    let pid = first.parse::<u32>().ok().filter(|pid| *pid > 0);
    let pid = pid.ok_or_else(|| ProcessError::PidFileGarbage { path: path.into() })?;
    let root = living(proc_fs, pid)?;
    let root = root.ok_or_else(|| ProcessError::PidFileStale { path: path.into(), pid })?;
    // A server killed hard leaves its pid file behind, and after a while its pid is somebody else's.
    let started_seconds = machine.boot_seconds + root.start_ticks / machine.ticks_per_second.max(1);
    let late = written_seconds.map_or(0, |written| started_seconds.saturating_sub(written));
    if late > PID_FILE_SLACK_SECONDS {
        return Err(ProcessError::PidFileReused { path: path.into(), pid, seconds: late });
    }
    Ok(root)
}

/// The beginning of the file, and when it was written (seconds since 1970).
fn read_pid_file(path: &Path) -> io::Result<(String, Option<u64>)> {
    let (file, about) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(PID_FILE_BYTES).read_to_end(&mut bytes)?;
    let written = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok((String::from_utf8_lossy(&bytes).into_owned(), written.map(|at| at.as_secs())))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn process(pid: u32, ppid: u32, start_ticks: u64) -> ProcReading {
        ProcReading::sleeping(pid, ppid, start_ticks)
    }

    #[test]
    fn of_one_name_the_oldest_that_is_no_child_of_that_name_is_meant() {
        // The postmaster 40 has the higher pid (pids went round) and two backends; 90 is another, younger cluster.
        let matches = [
            process(7, 40, 1_001),
            process(8, 40, 1_002),
            process(40, 1, 1_000),
            process(90, 1, 5_000),
            process(91, 90, 5_001),
        ];
        let found = oldest_root(&matches).unwrap();
        assert_eq!((found.root.pid, found.others, found.below), (40, 1, 2));
        assert_eq!((found.remarks(false).len(), found.remarks(true).len()), (2, 1));
        assert!(oldest_root(&[]).is_none());
    }

    fn find(path: &Path) -> Result<ProcReading, String> {
        let proc_fs = ProcFs::new(Path::new("/proc"));
        by_pid_file(path, &proc_fs, &proc_fs.machine().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pid_file_may_be_missing_empty_garbage_or_stale() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sut.pid");
        assert!(find(&path).unwrap_err().contains("cannot read the pid file"));
        for (text, error) in [
            ("", "is empty"),
            (" \n\n", "is empty"),
            ("hunter2\n", "does not begin with a process id"),
            ("-12\n", "does not begin with a process id"),
            ("0\n", "does not begin with a process id"),
            ("99999999999999\n", "does not begin with a process id"),
            ("4294967295\n", "is stale: no process has its pid 4294967295"),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = find(&path).unwrap_err();
            assert!(said.contains(error) && !said.contains("hunter2"), "{text:?}: {said}");
        }
        // postmaster.pid has more lines.
        std::fs::write(&path, format!("{}\n/data\n1700000000\n", std::process::id())).unwrap();
        assert_eq!(find(&path).unwrap().pid, std::process::id());
        assert!(find(dir.path()).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn a_pid_file_older_than_the_process_of_its_pid_is_stale() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sut.pid");
        std::fs::write(&path, std::process::id().to_string()).unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        assert!(find(&path).unwrap_err().contains("belongs to a process that started"));
    }
}
