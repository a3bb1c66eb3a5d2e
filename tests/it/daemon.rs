//! The daemon as a user starts it: the real binary, a file of settings, HTTP, signals. Every test that uses it also
//! checks, once a second and at the end, what must hold in every scrape.

use crate::children::Start as _;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A series: name and labels as they stand in the scrape.
pub type Scrape = BTreeMap<String, f64>;

/// A running daemon in a folder of its own. Killed by its pid when it is dropped.
pub struct Daemon {
    child: Child,
    pub http: SocketAddr,
    pub dir: tempfile::TempDir,
    log: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    out: Arc<Mutex<String>>,
    watch: Option<JoinHandle<Vec<String>>>,
    stop_watch: Arc<AtomicBool>,
}

/// What a daemon left.
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub log: String,
    pub report: Option<Value>,
}

impl Ended {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by {:?}: {}", self.status.signal(), self.log))
    }

    /// The run is good as far as load and system under test go: a machine that had no time for soakd is no fault of
    /// either, and exit code 4 says so.
    pub fn good(&self) {
        let others = self.reasons();
        assert!(others.is_empty(), "{others:#?}\n{}\n{}", self.out, self.log);
        assert!(matches!(self.code(), 0 | 4), "{}\n{}\n{}", self.code(), self.out, self.log);
        assert_eq!(self.report()["exit_code"], self.code());
    }

    /// The run failed for this one reason, whatever the machine had time for.
    pub fn failed(&self, reason: &str) {
        let others = self.reasons();
        assert!(others.len() == 1 && others[0].contains(reason), "{others:#?}\n{}\n{}", self.out, self.log);
        assert!(matches!(self.code(), 1 | 4), "{}\n{}\n{}", self.code(), self.out, self.log);
        assert_eq!(self.report()["exit_code"], self.code());
    }

    /// Why the verdict is not good, except that soakd itself was the limit.
    fn reasons(&self) -> Vec<&str> {
        let reasons = self.report()["verdict"]["reasons"].as_array();
        let reasons = reasons.into_iter().flatten().filter_map(Value::as_str);
        reasons.filter(|reason| !reason.starts_with("soakd itself limited")).collect()
    }

    pub fn report(&self) -> &Value {
        self.report.as_ref().unwrap_or_else(|| panic!("no report: {}\n{}", self.out, self.log))
    }
}

/// `soakd` with settings text in a fresh folder; listens on a free port and keeps its store in the folder.
pub fn command(dir: &Path, settings: &str) -> Command {
    let file = dir.join("soakd.toml");
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_soakd"));
    command
        .current_dir(dir)
        .args(["run", "-c"])
        .arg(&file)
        .args(["--set", "http.listen=127.0.0.1:0", "--set"])
        .arg(format!("store.dir={}", dir.join("store").display()))
        .stdin(Stdio::null());
    command
}

/// Runs `soakd check` and returns its exit code and its table.
pub fn check(settings: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("soakd.toml");
    std::fs::write(&file, settings).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_soakd"))
        .args(["check", "--set", "http.listen=127.0.0.1:0", "-c"])
        .arg(&file)
        .current_dir(dir.path())
        .run_for_output()
        .unwrap();
    assert!(!dir.path().join("soakd-data").exists(), "check writes nothing");
    (done.status.code(), String::from_utf8(done.stdout).unwrap() + &String::from_utf8_lossy(&done.stderr))
}

/// Starts a daemon and waits until it serves.
pub fn start(settings: &str) -> Daemon {
    let dir = tempfile::tempdir().unwrap();
    let command = command(dir.path(), settings);
    start_with(dir, command)
}

/// Starts a prepared command and waits until the load begins.
pub fn start_with(dir: tempfile::TempDir, mut command: Command) -> Daemon {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).start().unwrap();
    let (log, out) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(String::new())));
    let readers = vec![
        collect(child.stderr.take().unwrap(), Arc::clone(&log)),
        collect(child.stdout.take().unwrap(), Arc::clone(&out)),
    ];
    let http = eventually(Duration::from_secs(60), "the daemon serves", || {
        let text = log.lock().unwrap().clone();
        if let Some(status) = child.try_wait().unwrap() {
            panic!("soakd ended at once with {status}: {text}");
        }
        let at = text.find("http=")? + "http=".len();
        text.get(at..)?.split_whitespace().next()?.parse().ok()
    });
    let stop_watch = Arc::new(AtomicBool::new(false));
    let watch = {
        let stop = Arc::clone(&stop_watch);
        std::thread::spawn(move || watch_invariants(http, &stop))
    };
    Daemon { child, http, dir, log, readers, out, watch: Some(watch), stop_watch }
}

fn collect(from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut text = into.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
        }
    })
}

impl Daemon {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// What it printed so far.
    pub fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// As a crash does: no time for anything.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, body) = request(self.http, "GET", path, None).unwrap();
        assert_eq!(status, 200, "GET {path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub fn send(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let text = body.map(|body| body.to_string());
        let (status, body) = request(self.http, method, path, text.as_deref()).unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    pub fn set_rate(&self, records_per_second: f64) {
        let body = serde_json::json!({ "records_per_second": records_per_second });
        let (status, body) = self.send("PUT", "/api/v1/rate", Some(body));
        assert_eq!(status, 200, "{body}");
    }

    pub fn scrape(&self) -> Scrape {
        scrape(self.http).unwrap_or_else(|error| panic!("no scrape: {error}\n{}{}", self.out(), self.log()))
    }

    /// One series, for the stream `main` where nothing else is said: `records_acked_total`.
    pub fn metric(&self, name: &str) -> f64 {
        series(&self.scrape(), name)
    }

    /// Waits until a series satisfies a condition.
    pub fn wait_metric(&self, seconds: u64, name: &str, condition: impl Fn(f64) -> bool) -> f64 {
        eventually(Duration::from_secs(seconds), name, || {
            let scrape = self.scrape();
            scrape.get(&full_name(name)).copied().filter(|value| condition(*value))
        })
    }

    /// SIGTERM, then the end, then everything that must hold.
    pub fn terminate(self) -> Ended {
        self.signal("TERM");
        self.wait(Duration::from_secs(60))
    }

    /// Waits for the daemon's own end.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let child = &mut self.child;
        let log = &self.log;
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "still running after {limit:?}: {}", log.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        };
        self.stop_watch.store(true, Ordering::Release);
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let broken = self.watch.take().unwrap().join().unwrap();
        assert!(broken.is_empty(), "invariants: {broken:#?}\n{}", self.log());
        let report = find_report(&self.dir.path().join("store")).map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(!text.contains("NaN") && !text.contains("Infinity"), "{text}");
            serde_json::from_str(&text).unwrap()
        });
        if let Some(report) = &report {
            check_latencies(report);
        }
        Ended { status, out: self.out(), log: self.log(), report }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop_watch.store(true, Ordering::Release);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No distribution of a report may contradict itself: at most one in a hundred is above the p99, and none above the
/// maximum.
fn check_latencies(report: &Value) {
    if let Some(mean) = report["mean_seconds"].as_f64() {
        let at = |name: &str| report[name].as_f64().unwrap();
        let most = at("p99_seconds") + 0.01 * at("max_seconds");
        assert!(mean <= most * 1.01 + 2e-6, "{report}");
        assert!(
            at("p50_seconds") <= at("p99_seconds") && at("p99_seconds") <= at("max_seconds") + 2e-6,
            "{report}"
        );
    }
    match report {
        Value::Object(fields) => fields.values().for_each(check_latencies),
        Value::Array(items) => items.iter().for_each(check_latencies),
        _ => {}
    }
}

/// Sends a signal by `kill`, so that tests need no unsafe code.
pub fn signal(pid: i32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).run_for_status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

/// Polls until there is an answer; panics with `what` at the limit.
pub fn eventually<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The newest report in a store.
fn find_report(store: &Path) -> Option<PathBuf> {
    let runs = std::fs::read_dir(store.join("runs")).ok()?;
    let mut reports: Vec<PathBuf> = runs
        .filter_map(|run| Some(run.ok()?.path().join("report.json")))
        .filter(|path| path.exists())
        .collect();
    reports.sort();
    reports.pop()
}

/// One HTTP/1.1 request on a connection of its own.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&str>,
) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    if let Some(body) = body {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    } else if method != "GET" {
        head.push_str("Content-Length: 0\r\n");
    }
    stream.write_all(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if chunked { unchunk(body) } else { body.to_owned() }))
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        whole.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or("");
    }
    whole
}

/// All series of `/metrics`.
pub fn scrape(address: SocketAddr) -> std::io::Result<Scrape> {
    let (status, text) = request(address, "GET", "/metrics", None)?;
    if status == 0 {
        // Cut off before the answer began, as at a daemon's end.
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    assert_eq!(status, 200, "{text}");
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter(|text| !text.starts_with('#')).filter_map(line).collect())
}

/// `records_acked_total` → `soakd_records_acked_total{stream="main"}`; a name with braces is completed by its prefix only.
fn full_name(name: &str) -> String {
    if name.contains('{') { format!("soakd_{name}") } else { format!("soakd_{name}{{stream=\"main\"}}") }
}

pub fn series(scrape: &Scrape, name: &str) -> f64 {
    let name = full_name(name);
    *scrape.get(&name).unwrap_or_else(|| panic!("{name} is not in the scrape"))
}

/// The sum of all series of one name whose labels contain a text.
pub fn sum(scrape: &Scrape, name: &str, labels: &str) -> f64 {
    let start = format!("soakd_{name}{{");
    scrape
        .iter()
        .filter(|(series, _)| series.starts_with(&start) && series.contains(labels))
        .map(|(_, v)| v)
        .sum()
}

/// Scrapes once a second until told to stop, and says what did not hold: counters that fell, sums that do not tie out,
/// lag that cannot be, a state that is not exactly one.
fn watch_invariants(http: SocketAddr, stop: &AtomicBool) -> Vec<String> {
    let mut broken = Vec::new();
    let mut before = Scrape::new();
    while !stop.load(Ordering::Acquire) && broken.len() < 20 {
        if let Ok(now) = scrape(http) {
            hold(&before, &now, &mut broken);
            before = now;
        }
        for _ in 0..20 {
            if stop.load(Ordering::Acquire) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    broken
}

fn hold(before: &Scrape, now: &Scrape, broken: &mut Vec<String>) {
    for (series, value) in now {
        let name = series.split('{').next().unwrap_or(series);
        let counter = ["_total", "_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end));
        if counter && before.get(series).is_some_and(|earlier| earlier > value) {
            broken.push(format!("{series} fell from {} to {value}", before[series]));
        }
        if name.contains("lag") && !(0.0..=1e12).contains(value) {
            broken.push(format!("{series} is {value}"));
        }
    }
    if sum(now, "run_state", "") != 1.0 {
        broken.push("not exactly one state".to_owned());
    }
    let streams = now.keys().filter_map(|series| series.strip_prefix("soakd_records_sent_total{stream=\""));
    for stream in streams.filter_map(|rest| rest.split('"').next()) {
        let total = |name: &str| sum(now, name, &format!("stream=\"{stream}\""));
        let (scheduled, sent) = (total("records_scheduled_total"), total("records_sent_total"));
        if scheduled != sent + total("records_dropped_total") + total("schedule_backlog_records") {
            broken.push(format!("{stream}: scheduled {scheduled} is not sent + dropped + backlog"));
        }
        if sent != total("records_acked_total") + total("records_failed_total") + total("records_in_flight") {
            broken.push(format!("{stream}: sent {sent} is not acked + failed + in flight"));
        }
    }
}
