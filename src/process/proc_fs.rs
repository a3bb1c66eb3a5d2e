//! Reading /proc. Every file is opened, read and closed within one call: nothing stays open from look to look.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use procfs::process::{Process, ProcessesIter, Stat};
use procfs::{FromReadSI, KernelStats, ProcError, current_system_info};
use regex_lite::Regex;

use super::error::ProcessError;
use super::io_tally::IoBytes;
use super::tally::{Machine, ProcReading};

/// The kernel keeps no more of a process's name.
const COMM_BYTES: usize = 15;
/// argv[0] is no longer than a path.
const ARGV0_BYTES: u64 = 4096;
/// Flag of the kernel's own threads, which have neither executable nor arguments.
const PF_KTHREAD: u32 = 0x0020_0000;

/// Of a very long command line (a class path) this much is searched.
const COMMAND_BYTES: u64 = 256 << 10;

/// A mounted proc file system.
#[derive(Debug, Clone)]
pub(super) struct ProcFs {
    root: PathBuf,
}

impl ProcFs {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn of(&self, pid: u32) -> PathBuf {
        self.root.join(pid.to_string())
    }

    /// Reads one process; `None` when there is none (any more).
    pub(super) fn read(&self, pid: u32) -> Result<Option<ProcReading>, ProcessError> {
        let read = Process::new_with_root(self.of(pid)).and_then(|process| Ok((process.stat()?, process)));
        match read {
            Ok((stat, process)) => Ok(reading(&stat).map(|one| ProcReading {
                open_fds: self.open_fds(pid),
                io: process.io().ok().map(|io| IoBytes { read: io.read_bytes, written: io.write_bytes }),
                ..one
            })),
            Err(error) => absent_or(error, self.of(pid).join("stat")),
        }
    }

    /// Newer kernels tell their number as the folder's size; else they are counted.
    fn open_fds(&self, pid: u32) -> Option<u64> {
        let folder = self.of(pid).join("fd");
        let told = std::fs::metadata(&folder).ok()?.len();
        if told > 0 {
            return Some(told);
        }
        u64::try_from(std::fs::read_dir(folder).ok()?.count()).ok()
    }

    /// Proportional memory in bytes: costs some milliseconds a gigabyte. `None` where it may not be read.
    pub(super) fn pss_bytes(&self, pid: u32) -> Option<u64> {
        let text = std::fs::read_to_string(self.of(pid).join("smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// Path of the process's cgroup (version 2), as its file has it.
    pub(super) fn cgroup(&self, pid: u32) -> Option<String> {
        let text = std::fs::read_to_string(self.of(pid).join("cgroup")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
    }

    /// Our own pid as this file system has it (another one when it is the host's, mounted into a container).
    pub(super) fn own_pid(&self) -> Option<u32> {
        std::fs::read_link(self.root.join("self")).ok()?.to_str()?.parse().ok()
    }

    /// Memory of the machine in bytes.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.root.join("meminfo")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    fn all(&self) -> Result<ProcessesIter, ProcessError> {
        procfs::process::all_processes_with_root(&self.root)
            .map_err(|error| failed(&self.root.display().to_string(), error))
    }

    /// Reads all processes that can be seen, for their parents.
    pub(super) fn read_all(&self) -> Result<Vec<ProcReading>, ProcessError> {
        // Processes end while we walk, and some may be hidden: neither is an error of the walk.
        let stats = self.all()?.filter_map(|process| process.and_then(|process| process.stat()).ok());
        Ok(stats.filter_map(|stat| reading(&stat)).collect())
    }

    /// Reads the living processes of a name: the process's name as the kernel has it (cut to 15 bytes, so compared for
    /// shorter names only), the file name of its executable, or the file name of argv[0].
    pub(super) fn read_named(&self, name: &str) -> Result<Matched, ProcessError> {
        self.read_matching(|process, stat, unreadable| {
            (name.len() <= COMM_BYTES && stat.comm == name)
                || (stat.flags & PF_KTHREAD == 0 && runs(process, name, unreadable))
        })
    }

    /// Reads the living processes whose command line the pattern is found in, but not ourselves: our own may hold it.
    pub(super) fn read_commanded(&self, pattern: &Regex) -> Result<Matched, ProcessError> {
        let own_pid = self.own_pid();
        self.read_matching(|process, stat, _| {
            u32::try_from(stat.pid).ok() != own_pid
                && command_line(process).is_some_and(|line| pattern.is_match(&line))
        })
    }

    fn read_matching(
        &self,
        mut is_meant: impl FnMut(&Process, &Stat, &mut u32) -> bool,
    ) -> Result<Matched, ProcessError> {
        let mut found = Matched::default();
        for process in self.all()? {
            let Ok(process) = process else { continue };
            let Ok(stat) = process.stat() else { continue };
            let Some(one) = reading(&stat).filter(|one| !one.ended()) else { continue };
            found.looked += 1;
            if is_meant(&process, &stat, &mut found.unreadable) {
                found.matches.push(one);
            }
        }
        Ok(found)
    }

    /// What the readings' units stand for on this machine.
    pub(super) fn machine(&self) -> Result<Machine, ProcessError> {
        let path = self.root.join("stat");
        let stats = KernelStats::from_file(&path, current_system_info());
        let stats = stats.map_err(|error| failed(&path.display().to_string(), error))?;
        let cores = u32::try_from(stats.cpu_time.len()).unwrap_or(u32::MAX);
        Ok(Machine {
            ticks_per_second: procfs::ticks_per_second(),
            // No CPU listed (a container's own view of /proc/stat): then nothing is known to be too much.
            cores: if cores == 0 { f64::INFINITY } else { f64::from(cores) },
            boot_seconds: stats.btime,
        })
    }
}

/// What was found by name or command line.
#[derive(Debug, Default)]
pub(super) struct Matched {
    /// Living processes that match, without open files and I/O.
    pub(super) matches: Vec<ProcReading>,
    /// Processes that were compared.
    pub(super) looked: u32,
    /// Those whose executable may not be read.
    pub(super) unreadable: u32,
}

fn runs(process: &Process, name: &str, unreadable: &mut u32) -> bool {
    let executable = process.exe();
    *unreadable += u32::from(matches!(executable, Err(ProcError::PermissionDenied(_))));
    executable.is_ok_and(|path| is_file_name(&path, name))
        || argv0(process).is_some_and(|path| is_file_name(&path, name))
}

fn arguments(process: &Process, most_bytes: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    process.open_relative("cmdline").ok()?.take(most_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn argv0(process: &Process) -> Option<PathBuf> {
    let bytes = arguments(process, ARGV0_BYTES)?;
    let first = bytes.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

/// The arguments with a blank between them; `None` for the kernel's own threads, which have none.
fn command_line(process: &Process) -> Option<String> {
    let bytes = arguments(process, COMMAND_BYTES)?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether a path ends in this file name. An executable that was replaced while it runs (an upgrade) is marked.
fn is_file_name(path: &Path, name: &str) -> bool {
    let Some(file) = path.file_name().map(OsStr::as_bytes) else { return false };
    file == name.as_bytes() || file.strip_suffix(b" (deleted)") == Some(name.as_bytes())
}

fn reading(stat: &Stat) -> Option<ProcReading> {
    Some(ProcReading {
        pid: u32::try_from(stat.pid).ok()?,
        // The parent in another pid namespace is 0: nobody's child here.
        ppid: u32::try_from(stat.ppid).unwrap_or(0),
        start_ticks: stat.starttime,
        utime_ticks: stat.utime,
        stime_ticks: stat.stime,
        cutime_ticks: u64::try_from(stat.cutime).unwrap_or(0),
        cstime_ticks: u64::try_from(stat.cstime).unwrap_or(0),
        rss_bytes: stat.rss.saturating_mul(procfs::page_size()),
        threads: u64::try_from(stat.num_threads).unwrap_or(0),
        open_fds: None,
        io: None,
        state: stat.state,
    })
}

fn absent_or<T>(error: ProcError, path: PathBuf) -> Result<Option<T>, ProcessError> {
    match error {
        ProcError::NotFound(_) => Ok(None),
        ProcError::PermissionDenied(_) => Err(ProcessError::Denied { path }),
        error => Err(failed(&path.display().to_string(), error)),
    }
}

fn failed(what: &str, error: ProcError) -> ProcessError {
    match error {
        ProcError::PermissionDenied(_) => ProcessError::Denied { path: what.into() },
        ProcError::Io(error, _) => ProcessError::Proc { what: what.into(), error: error.to_string() },
        error => ProcessError::Proc { what: what.into(), error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_compared_whole_and_without_the_mark_of_a_replaced_file() {
        for (path, name, same) in [
            ("/usr/bin/environmentd", "environmentd", true),
            ("environmentd", "environmentd", true),
            ("/usr/bin/environmentd (deleted)", "environmentd", true),
            ("/usr/bin/environmentd-2", "environmentd", false),
            ("/usr/bin/environment", "environmentd", false),
            ("/environmentd/", "other", false),
            ("/", "", false),
        ] {
            assert_eq!(is_file_name(Path::new(path), name), same, "{path} {name}");
        }
    }

    #[test]
    fn a_permission_problem_is_a_text_and_an_absent_process_is_none() {
        let path = PathBuf::from("/proc/7/stat");
        let denied = absent_or::<()>(ProcError::PermissionDenied(None), path.clone()).unwrap_err();
        assert!(denied.to_string().contains("permission denied reading /proc/7/stat"), "{denied}");
        assert!(matches!(absent_or::<()>(ProcError::NotFound(None), path.clone()), Ok(None)));
        let odd = std::io::Error::other("odd");
        assert!(absent_or::<()>(ProcError::Io(odd, None), path).unwrap_err().to_string().ends_with("odd"));
        assert!(ProcFs::new(Path::new("/proc")).read(u32::MAX).unwrap().is_none());
    }

    #[test]
    fn we_can_read_ourselves() {
        let proc_fs = ProcFs::new(Path::new("/proc"));
        let pid = std::process::id();
        assert_eq!(proc_fs.own_pid(), Some(pid));
        let me = proc_fs.read(pid).unwrap().unwrap();
        assert!(me.threads >= 1 && me.rss_bytes > 0 && !me.ended());
        assert!(me.open_fds.unwrap() >= 3 && me.io.is_some());
        assert!(proc_fs.read_all().unwrap().iter().any(|one| one.id() == me.id()));
        // What is only ours, and our share of what is shared.
        let pss_bytes = proc_fs.pss_bytes(pid).unwrap();
        assert!(
            pss_bytes > 100_000 && pss_bytes <= proc_fs.read(pid).unwrap().unwrap().rss_bytes * 2,
            "{pss_bytes}"
        );
        assert!(proc_fs.memory_bytes().unwrap() > 100 << 20);
        assert!(proc_fs.cgroup(pid).unwrap().starts_with('/'));
        let machine = proc_fs.machine().unwrap();
        assert!(machine.cores >= 1.0 && machine.ticks_per_second > 0);
    }
}
