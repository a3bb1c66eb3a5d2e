//! Starting other programs. Between its fork and its exec a child holds a copy of every open socket of this process, also
//! of a listening one that is closed meanwhile: whoever closes one and binds its port again at once (the mock broker does,
//! when it goes down) then finds the port in use. After its exec it has none of them.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::daemon::eventually;

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

/// Has a child begin with its standard files only. The mock broker's connections would go on in it: whoever is connected
/// would not see that the broker goes down, and wait for its answers.
#[allow(unsafe_code)]
fn keeps_nothing(command: &mut Command) {
    let close_at_exec = || {
        // SAFETY: a plain system call without pointers.
        let result = unsafe {
            let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
            libc::close_range(3, libc::c_uint::MAX, flags)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure calls the system only, allocates nothing and takes no lock.
    unsafe { command.pre_exec(close_at_exec) };
}

impl Start for Command {
    fn start(&mut self) -> io::Result<Child> {
        let _one = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        keeps_nothing(self);
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

#[test]
fn a_child_has_none_of_our_connections() {
    let kafka = crate::mock::MockKafka::start(1);
    let before = sockets("self").len();
    let _client = std::net::TcpStream::connect(kafka.brokers()).unwrap();
    // Ours and the broker's own end; other tests may add to them.
    eventually(Duration::from_secs(10), "the broker takes it", || {
        (sockets("self").len() >= before + 2).then_some(())
    });
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).start().unwrap();
    let pid = child.id().to_string();
    let runs = || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("sleep"));
    eventually(Duration::from_secs(10), "it runs", || runs().then_some(()));
    let kept = sockets(&pid);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(kept.is_empty(), "{kept:?}");
}
