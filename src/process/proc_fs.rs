//! Reading /proc. Every file is opened, read and closed within one call: nothing stays open from look to look.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use procfs::process::{Process, Stat};
use procfs::{CurrentSI, KernelStats, ProcError};

use super::error::ProcessError;
use super::tally::{Machine, ProcReading};

/// The kernel keeps no more of a process's name.
const COMM_BYTES: usize = 15;
/// argv[0] is no longer than a path.
const ARGV0_BYTES: u64 = 4096;
/// Flag of the kernel's own threads, which have neither executable nor arguments.
const PF_KTHREAD: u32 = 0x0020_0000;

/// Reads one process; `None` when there is none (any more).
pub(super) fn read(pid: u32) -> Result<Option<ProcReading>, ProcessError> {
    let path = || PathBuf::from(format!("/proc/{pid}/stat"));
    let Ok(number) = i32::try_from(pid) else { return Ok(None) };
    match Process::new(number).and_then(|process| process.stat()) {
        Ok(stat) => Ok(reading(&stat)),
        Err(error) => absent_or(error, path()),
    }
}

/// Reads all processes that can be seen, for their parents.
pub(super) fn read_all() -> Result<Vec<ProcReading>, ProcessError> {
    let mut all = Vec::new();
    for process in procfs::process::all_processes().map_err(|error| failed("/proc", error))? {
        // Processes end while we walk, and some may be hidden: neither is an error of the walk.
        all.extend(process.and_then(|process| process.stat()).ok().as_ref().and_then(reading));
    }
    Ok(all)
}

/// What [`read_named`] found.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Living processes of that name.
    pub(super) matches: Vec<ProcReading>,
    /// Processes that were compared.
    pub(super) looked: u32,
    /// Those whose executable may not be read.
    pub(super) unreadable: u32,
}

/// Reads the living processes of a name: the process's name as the kernel has it (cut to 15 bytes, so compared for
/// shorter names only), the file name of its executable, or the file name of argv[0].
pub(super) fn read_named(name: &str) -> Result<Named, ProcessError> {
    let mut named = Named::default();
    for process in procfs::process::all_processes().map_err(|error| failed("/proc", error))? {
        let Ok(process) = process else { continue };
        let Ok(stat) = process.stat() else { continue };
        let Some(one) = reading(&stat).filter(|one| !one.ended()) else { continue };
        named.looked += 1;
        if (name.len() <= COMM_BYTES && stat.comm == name)
            || (stat.flags & PF_KTHREAD == 0 && runs(&process, name, &mut named.unreadable))
        {
            named.matches.push(one);
        }
    }
    Ok(named)
}

fn runs(process: &Process, name: &str, unreadable: &mut u32) -> bool {
    let executable = process.exe();
    *unreadable += u32::from(matches!(executable, Err(ProcError::PermissionDenied(_))));
    executable.is_ok_and(|path| is_file_name(&path, name))
        || argv0(process).is_some_and(|path| is_file_name(&path, name))
}

fn argv0(process: &Process) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    process.open_relative("cmdline").ok()?.take(ARGV0_BYTES).read_to_end(&mut bytes).ok()?;
    let first = bytes.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

/// Whether a path ends in this file name. An executable that was replaced while it runs (an upgrade) is marked.
fn is_file_name(path: &Path, name: &str) -> bool {
    let Some(file) = path.file_name().map(OsStr::as_bytes) else { return false };
    file == name.as_bytes() || file.strip_suffix(b" (deleted)") == Some(name.as_bytes())
}

/// What the readings' units stand for on this machine.
pub(super) fn machine() -> Result<Machine, ProcessError> {
    let stats = KernelStats::current().map_err(|error| failed("/proc/stat", error))?;
    let cores = u32::try_from(stats.cpu_time.len()).unwrap_or(u32::MAX);
    Ok(Machine {
        ticks_per_second: procfs::ticks_per_second(),
        // No CPU listed (a container's own view of /proc/stat): then nothing is known to be too much.
        cores: if cores == 0 { f64::INFINITY } else { f64::from(cores) },
        boot_seconds: stats.btime,
    })
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
        assert!(read(u32::MAX).unwrap().is_none());
    }

    #[test]
    fn we_can_read_ourselves() {
        let me = read(std::process::id()).unwrap().unwrap();
        assert!(me.threads >= 1 && me.rss_bytes > 0 && !me.ended());
        assert!(read_all().unwrap().iter().any(|one| one.id() == me.id()));
        let machine = machine().unwrap();
        assert!(machine.cores >= 1.0 && machine.ticks_per_second > 0);
    }
}
