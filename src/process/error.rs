//! Why a process cannot be seen.

use std::path::PathBuf;

/// Why a look at a process failed. A failed look never ends the watching.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The pid of the settings is free, its process is a zombie, or it is hidden.
    #[error("no process has pid {pid}: it has ended (a zombie has), or /proc is mounted with hidepid")]
    NoSuchPid {
        /// The pid of the settings.
        pid: u32,
    },
    /// No process has the name.
    #[error(
        "no process is named {name:?}: of {looked} visible processes neither the name, the executable's file name \
         nor argv[0]'s file name is it{}",
        unreadable_hint(*unreadable)
    )]
    NoSuchName {
        /// The name of the settings.
        name: String,
        /// Processes that were compared.
        looked: u32,
        /// Those of them whose executable may not be read.
        unreadable: u32,
    },
    /// No command line matches.
    #[error(
        "no process has a command line that {pattern:?} is found in: {looked} visible processes were compared"
    )]
    NoSuchCommand {
        /// The pattern of the settings.
        pattern: String,
        /// Processes that were compared.
        looked: u32,
    },
    /// The pid file cannot be read.
    #[error("cannot read the pid file {}: {error}", path.display())]
    PidFile {
        /// The file of the settings.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The pid file holds nothing (yet).
    #[error("the pid file {} is empty", path.display())]
    PidFileEmpty {
        /// The file of the settings.
        path: PathBuf,
    },
    /// The pid file holds something else. Its content is not told: it may be another file than was meant.
    #[error("the pid file {} does not begin with a process id", path.display())]
    PidFileGarbage {
        /// The file of the settings.
        path: PathBuf,
    },
    /// The process of the pid file is gone.
    #[error("the pid file {} is stale: no process has its pid {pid}, or /proc is mounted with hidepid", path.display())]
    PidFileStale {
        /// The file of the settings.
        path: PathBuf,
        /// The pid in it.
        pid: u32,
    },
    /// The pid of the pid file was given to another process later.
    #[error(
        "the pid file {} is stale: its pid {pid} belongs to a process that started {seconds} s after the file was \
         written",
        path.display()
    )]
    PidFileReused {
        /// The file of the settings.
        path: PathBuf,
        /// The pid in it.
        pid: u32,
        /// Whole seconds between the two.
        seconds: u64,
    },
    /// The system does not let us look.
    #[error("permission denied reading {}: run soakd as the process's user or as root", path.display())]
    Denied {
        /// What was read.
        path: PathBuf,
    },
    /// There is no cgroup file system of version 2.
    #[error(
        "there is no cgroup file system of version 2 at {at}, nor at {at}/unified: say where it is mounted with cgroup_root; a \
         machine with version 1 only has no such figures, use pid, name, command or pid_file there",
        at = root.display()
    )]
    NoCgroups {
        /// The root of the settings.
        root: PathBuf,
    },
    /// No unit has the name.
    #[error(
        "no cgroup below {} is named {unit:?}: the unit is not running, or is named otherwise",
        root.display()
    )]
    NoSuchUnit {
        /// The unit of the settings.
        unit: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// More than one unit has the name: those of several users.
    #[error("{found} cgroups are named {unit:?}: choose one by its path, like cgroup = {first:?}")]
    ManyUnits {
        /// The unit of the settings.
        unit: String,
        /// How many there are.
        found: usize,
        /// The path of one of them.
        first: String,
    },
    /// The cgroup is not there.
    #[error("there is no cgroup {path}: what ran in it has ended, or the path is another one")]
    NoSuchCgroup {
        /// The path from the root on.
        path: String,
    },
    /// The cgroup is there, and nothing runs in it.
    #[error("no process is in the cgroup {path}")]
    EmptyCgroup {
        /// The path from the root on.
        path: String,
    },
    /// The container is not there, or does not run, or cannot be asked about.
    #[error("{0}")]
    Container(String),
    /// A look broke off in a way that none ever should; the watching ends.
    #[error("the watching broke off: {0}")]
    Broken(String),
    /// An agent or an exporter does not tell. The text is whole.
    #[error("{0}")]
    Remote(String),
    /// Anything else in /proc.
    #[error("cannot read {what}: {error}")]
    Proc {
        /// What was read.
        what: String,
        /// What the system said.
        error: String,
    },
}

fn unreadable_hint(unreadable: u32) -> String {
    match unreadable {
        0 => String::new(),
        _ => format!(
            "; the executable of {unreadable} of them may not be read, run soakd as their user or as root"
        ),
    }
}
