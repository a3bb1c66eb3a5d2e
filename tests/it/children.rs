//! Starting other programs. Between its fork and its exec a child holds a copy of every open socket of this process, also
//! of a listening one that is closed meanwhile: whoever closes one and binds its port again at once (the mock broker does,
//! when it goes down) then finds the port in use.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Read while a child is being started, written while none may be.
static STARTING: RwLock<()> = RwLock::new(());
/// Children that were started and not yet looked at: one that is started runs before it has closed its copies.
static STARTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Does something while no child has a copy of a listening socket of this process.
pub fn while_none_starts<T>(act: impl FnOnce() -> T) -> T {
    let _none = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let started = std::mem::take(&mut *STARTED.lock().unwrap_or_else(PoisonError::into_inner));
    let listening = listening();
    for pid in started {
        while !sockets(&pid.to_string()).is_disjoint(&listening) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    act()
}

/// The listening sockets of this process.
fn listening() -> BTreeSet<PathBuf> {
    const LISTEN: &str = "0A";
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let all: BTreeSet<PathBuf> = fields
        .filter(|fields| fields.get(3) == Some(&LISTEN))
        .filter_map(|fields| Some(PathBuf::from(format!("socket:[{}]", fields.get(9)?))))
        .collect();
    all.intersection(&sockets("self")).cloned().collect()
}

/// The sockets that a process has open; none when it is gone.
fn sockets(pid: &str) -> BTreeSet<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
}

/// What `Command` has, by the rule above.
pub trait Start {
    /// As `spawn`.
    fn start(&mut self) -> io::Result<Child>;
    /// As `output`.
    fn run_for_output(&mut self) -> io::Result<Output>;
    /// As `status`.
    fn run_for_status(&mut self) -> io::Result<ExitStatus>;
}

impl Start for Command {
    fn start(&mut self) -> io::Result<Child> {
        let _one = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let child = self.spawn()?;
        STARTED.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        Ok(child)
    }

    fn run_for_output(&mut self) -> io::Result<Output> {
        self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).start()?.wait_with_output()
    }

    fn run_for_status(&mut self) -> io::Result<ExitStatus> {
        self.start()?.wait()
    }
}

#[test]
fn a_mock_broker_goes_down_while_programs_are_started() {
    let kafka = crate::mock::MockKafka::start(1);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(Command::new("true").run_for_status().unwrap().success());
                }
            });
        }
        for _ in 0..60 {
            kafka.down();
            kafka.up();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
