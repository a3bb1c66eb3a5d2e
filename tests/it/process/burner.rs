//! Real processes to watch: this test binary run again, linked to any file name, told what to do by its environment.
//! They end with their parent, and after two minutes in any case.

use crate::children::Start as _;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Watched;
use soakd::core::lock::lock;
use soakd::process::LocalProcessSettings;
use tokio_util::sync::CancellationToken;

pub(super) const MIB: u64 = 1 << 20;
const LIFE: Duration = Duration::from_secs(120);
/// A child that burns some hundredths of a second, and one that burns some tenths.
const SHORT: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
const LONG: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

/// What a burner does.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    pub(super) threads: u32,
    pub(super) mib: u64,
    pub(super) children: u32,
    pub(super) child_mib: u64,
    /// Has had children; starts more that burn and end, one after the other, from one line it reads to the next.
    pub(super) churn: bool,
    /// Starts and ends threads all the time.
    pub(super) churn_threads: bool,
    /// Does not burn but watches this process, and its tree.
    pub(super) watch_pid: u32,
    pub(super) interval: Duration,
    /// How long it watches, and how often it must have looked (a starved machine takes longer).
    pub(super) span: Duration,
    pub(super) looks: u32,
}

/// What a sampler saw.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Samples {
    pub(super) looks: u32,
    pub(super) max_cores: f64,
    pub(super) first_fds: usize,
    pub(super) last_fds: usize,
    pub(super) first_rss_bytes: u64,
    pub(super) last_rss_bytes: u64,
}

/// A folder on the file system of the test binary, so that it can be linked there.
pub(super) fn dir() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(super) fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited 30 s for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running burner; killed and reaped when dropped.
pub(super) struct Burner {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub(super) children: Vec<u32>,
}

impl Burner {
    /// Starts a burner under this file name and waits until it has done what it shall.
    pub(super) fn start(dir: &TempDir, name: &str, spec: &Spec) -> Self {
        let path = dir.path().join(name);
        if !path.exists() {
            std::fs::hard_link(std::env::current_exe().unwrap(), &path).unwrap();
        }
        Self::spawn(&path, spec)
    }

    /// Starts a process of its own that watches: its descriptors are not mixed with other tests'.
    pub(super) fn start_sampler(watch_pid: u32, interval: Duration, span: Duration, looks: u32) -> Self {
        let spec = Spec { watch_pid, interval, span, looks, ..Spec::default() };
        Self::spawn(&std::env::current_exe().unwrap(), &spec)
    }

    fn spawn(path: &Path, spec: &Spec) -> Self {
        let mut child = Command::new(path)
            .args(["--exact", "process::burner::body", "--ignored", "--nocapture", "--test-threads=1"])
            .env("SOAKD_TEST_BURNER", serde_json::to_string(spec).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .start()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut burner = Self { child, input, output, children: Vec::new() };
        burner.children = serde_json::from_str(&burner.line("ready ")).unwrap();
        burner
    }

    /// The rest of the next line of output that contains the word (the test harness writes lines too).
    fn line(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the burner ended before {word:?}");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.to_owned();
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, signal: &str) {
        let status =
            Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).run_for_status();
        assert!(status.unwrap().success());
    }

    /// Lets it start short-lived children.
    pub(super) fn start_churn(&mut self) {
        self.input.write_all(b"start\n").unwrap();
    }

    /// Starts no more short-lived children and waits until the last one has ended.
    pub(super) fn stop_churn(&mut self) {
        self.input.write_all(b"stop\n").unwrap();
        self.line("stopped");
    }

    pub(super) fn samples(mut self) -> Samples {
        serde_json::from_str(&self.line("samples ")).unwrap()
    }

    pub(super) fn kill_without_waiting(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What /proc says of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) state: char,
    own_ticks: u64,
    reaped_ticks: u64,
    pub(super) threads: u64,
    pub(super) start_ticks: u64,
    pub(super) rss_bytes: u64,
}

impl Truth {
    pub(super) fn of(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = rest.split(' ').collect();
        // proc(5) counts from 1 and the state is its field 3.
        let field = |number: usize| fields[number - 3].parse::<u64>().unwrap();
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            state: fields[0].chars().next().unwrap(),
            own_ticks: field(14) + field(15),
            reaped_ticks: field(16) + field(17),
            threads: field(20),
            start_ticks: field(22),
            rss_bytes: pages * 4096,
        }
    }

    pub(super) fn own_seconds(&self) -> f64 {
        self.own_ticks as f64 / 100.0
    }

    pub(super) fn all_seconds(&self) -> f64 {
        (self.own_ticks + self.reaped_ticks) as f64 / 100.0
    }

    pub(super) fn boot_seconds() -> u64 {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        stat.lines().find_map(|line| line.strip_prefix("btime ")).unwrap().parse().unwrap()
    }
}

/// What a burner runs: not a test.
#[test]
#[ignore = "the body of the processes that other tests watch"]
fn body() {
    let Ok(spec) = std::env::var("SOAKD_TEST_BURNER") else { return };
    let spec: Spec = serde_json::from_str(&spec).unwrap();
    let parent = parent_id();
    let begin = Instant::now();
    let alive = move || parent_id() == parent && begin.elapsed() < LIFE;
    if spec.watch_pid != 0 {
        println!("ready []");
        println!("samples {}", serde_json::to_string(&sample(&spec)).unwrap());
        return;
    }
    for _ in 0..spec.threads {
        std::thread::spawn(|| {
            let mut n = 0_u64;
            loop {
                n = black_box(n.wrapping_mul(31).wrapping_add(7));
            }
        });
    }
    let memory = black_box(vec![1_u8; usize::try_from(spec.mib * MIB).unwrap()]);
    let children: Vec<Burner> = (0..spec.children)
        .map(|_| {
            let child = Spec { mib: spec.child_mib, ..Spec::default() };
            Burner::spawn(&std::env::current_exe().unwrap(), &child)
        })
        .collect();
    let pids: Vec<u32> = children.iter().map(Burner::pid).collect();
    if spec.churn_threads {
        std::thread::spawn(|| {
            loop {
                std::thread::spawn(|| std::thread::sleep(Duration::from_millis(30))).join().unwrap();
            }
        });
    }
    if spec.churn {
        run(LONG);
    }
    println!("ready {}", serde_json::to_string(&pids).unwrap());
    if spec.churn {
        churn(alive);
    }
    while alive() {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop((children, memory));
    // Not back into the test harness, which would complain that nobody reads its result.
    std::process::exit(0);
}

fn run(script: &str) {
    assert!(Command::new("sh").args(["-c", script]).run_for_status().unwrap().success());
}

fn churn(alive: impl Fn() -> bool) {
    let _ = std::io::stdin().read_line(&mut String::new());
    let (stop, stopped) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = stop.send(());
    });
    for script in [SHORT, SHORT, SHORT, LONG].iter().cycle() {
        if !alive() || stopped.try_recv().is_ok() {
            break;
        }
        run(script);
    }
    // Nobody may be there any more to read it.
    let _ = writeln!(std::io::stdout(), "stopped");
}

/// Watches as the daemon does, and looks at what is published and at itself.
fn sample(spec: &Spec) -> Samples {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let watched = Watched::new(LocalProcessSettings {
        pid: Some(spec.watch_pid),
        tree: true,
        interval: spec.interval.into(),
        ..LocalProcessSettings::default()
    });
    let stop = CancellationToken::new();
    let task = runtime.spawn(watched.watch.run(stop.clone()));
    let me = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
        (fds, Truth::of(std::process::id()).rss_bytes)
    };
    let mut samples = Samples::default();
    let (begin, mut last) = (Instant::now(), None);
    while (begin.elapsed() < spec.span || samples.looks < spec.looks) && begin.elapsed() < LIFE / 2 {
        std::thread::sleep(Duration::from_millis(5));
        let status = lock(&watched.cell).clone();
        samples.max_cores = samples.max_cores.max(status.cpu_cores.unwrap_or(0.0));
        if last.as_ref() != Some(&status) {
            samples.looks += 1;
            last = Some(status);
        }
        // The first quarter warms the allocator and the runtime's threads up.
        if samples.first_fds == 0 && begin.elapsed() > spec.span / 4 && samples.looks > spec.looks / 4 {
            (samples.first_fds, samples.first_rss_bytes) = me();
        }
    }
    (samples.last_fds, samples.last_rss_bytes) = me();
    stop.cancel();
    runtime.block_on(task).unwrap();
    samples
}
