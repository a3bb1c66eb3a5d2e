//! Who is the limit: soakd itself, starved in every way that there is, or the broker, frozen or slow. Each time the right
//! name and no other. And how the memory of processes grows.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::children::Start as _;
use crate::daemon::{self, Daemon, Ended, Scrape, eventually, series, signal};
use crate::mock::MockKafka;
use crate::services::Service;

/// Seconds of one name so far.
fn seconds(scrape: &Scrape, by: &str) -> f64 {
    series(scrape, &format!("load_limited_seconds_total{{stream=\"main\",by=\"{by}\"}}"))
}

fn limited(scrape: &Scrape, by: &str) -> bool {
    series(scrape, &format!("load_limited{{stream=\"main\",by=\"{by}\"}}")) > 0.0
}

/// The log lines of load that became limited, by one name.
fn told<'a>(log: &'a str, by: &str) -> Vec<&'a str> {
    let by = format!("by=\"{by}\"");
    log.lines().filter(|line| line.contains(" load limited ") && line.contains(&by)).collect()
}

fn wait(daemon: &Daemon, limit_s: u64, what: &str, ready: impl Fn(&Scrape) -> bool) -> Scrape {
    let log = || format!("{what}\n{}", daemon.log());
    let begun = Instant::now();
    loop {
        let scrape = daemon.scrape();
        if ready(&scrape) {
            return scrape;
        }
        assert!(begun.elapsed() < Duration::from_secs(limit_s), "not within {limit_s} s: {}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A CPU quota for a running process, in a cgroup of its own; it ends with the scope.
struct Quota {
    group: PathBuf,
}

impl Quota {
    /// `None` where this machine lets nobody make one.
    fn new(pid: i32, cores: f64) -> Option<Self> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let quota_us = (cores * 100_000.0) as u64;
        let version_1 = |name: &str| (root.join(name), "cpu.cfs_quota_us", quota_us.to_string());
        let version_2 = (root.clone(), "cpu.max", format!("{quota_us} 100000"));
        let ways = [version_1("cpu"), version_1("cpu,cpuacct"), version_2];
        ways.into_iter().find_map(|(parent, file, text)| {
            let group = parent.join(format!("soakd-test-{pid}"));
            std::fs::create_dir(&group).ok()?;
            let made = Self { group };
            let write = |file: &str, text: &str| std::fs::write(made.group.join(file), text);
            write(file, &text).and_then(|()| write("cgroup.procs", &pid.to_string())).ok()?;
            Some(made)
        })
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let (procs, parent) = (self.group.join("cgroup.procs"), self.group.join("../cgroup.procs"));
        for pid in std::fs::read_to_string(procs).unwrap_or_default().lines() {
            let _ = std::fs::write(&parent, pid);
        }
        let _ = std::fs::remove_dir(&self.group);
    }
}

/// Another program; killed by its pid when dropped, and ended by the kernel after a minute of CPU in any case.
struct Program(Child);

impl Program {
    fn start(nice: &str, shell: &str) -> Self {
        let script = format!("ulimit -t 60; {shell}");
        let mut command = Command::new("nice");
        command.args(["-n", nice, "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.start().unwrap())
    }

    fn burner() -> Self {
        Self::start("0", "while :; do :; done")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// More than a debug build can make with a tenth of a core.
const HIGH: &str = "rate = 20000\nmax_rate = 1000000\nlanes = 2\nvalue = { kind = \"random\", size = 100 }";

/// The daemon was starved: it was the generator, once or a few times, for a while, and nobody else.
fn assert_generator(before: &Scrape, after: &Scrape, at_least_s: f64, ended: &Ended) {
    let generator = seconds(after, "generator") - seconds(before, "generator");
    assert!(generator >= at_least_s, "limited for {generator} s\n{}", ended.log);
    assert_eq!(told(&ended.log, "broker"), [""; 0], "{}", ended.log);
    let lines = told(&ended.log, "generator").len();
    assert!((1..=6).contains(&lines), "{lines} times\n{}", ended.log);
    assert_eq!(ended.report()["events"]["load_limited"].as_u64().unwrap() as usize, lines);
    let totals = &ended.report()["streams"]["main"]["totals"]["limited_seconds"];
    assert_eq!(totals["broker"].as_f64(), Some(0.0), "{totals}");
    assert_eq!(ended.code(), 4, "{}", ended.out);
    assert_eq!(ended.report()["verdict"]["result"], "generator_limited");
}

fn started(kafka: &MockKafka, more: &str) -> (Daemon, Scrape) {
    let daemon = daemon::start(&kafka.settings("flush_timeout = \"20s\"", "", more));
    let before = wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 1000.0);
    (daemon, before)
}

#[test]
fn a_daemon_starved_by_a_quota_is_the_generator_and_says_so() {
    let kafka = MockKafka::start(4);
    let (daemon, before) = started(&kafka, HIGH);
    let quota = Quota::new(daemon.pid(), 0.05);
    let Some(quota) = quota else {
        // No group can be made here: the same starvation by stopping it most of the time.
        return starved_by_stops(daemon, &before, 0.05, 3.0);
    };
    wait(&daemon, 60, "generator", |now| {
        seconds(now, "generator") > seconds(&before, "generator") + 3.0 && limited(now, "generator")
    });
    let reasons = daemon.get("/readyz")["reasons"].to_string();
    assert!(
        reasons.contains("limited by the generator") && reasons.contains("its quota throttled it in"),
        "{reasons}"
    );
    drop(quota);
    let after = wait(&daemon, 60, "recovered", |now| {
        series(now, "schedule_backlog_records") < 2000.0 && !limited(now, "generator")
    });
    let ended = daemon.terminate();
    assert_generator(&before, &after, 3.0, &ended);
}

/// The daemon runs for a share of the time only, in turns too short for its lanes to be in time.
fn starved_by_stops(daemon: Daemon, before: &Scrape, share: f64, for_s: f64) {
    const TURN: Duration = Duration::from_millis(500);
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < for_s {
        daemon.signal("STOP");
        std::thread::sleep(TURN.mul_f64(1.0 - share));
        daemon.signal("CONT");
        std::thread::sleep(TURN.mul_f64(share));
    }
    let after = wait(&daemon, 60, "recovered", |now| {
        series(now, "schedule_backlog_records") < 2000.0 && !limited(now, "generator")
    });
    let ended = daemon.terminate();
    assert_generator(before, &after, for_s * 0.8, &ended);
}

#[test]
fn a_daemon_that_is_stopped_again_and_again_is_the_generator_though_its_queue_fills() {
    let kafka = MockKafka::start(4);
    // As few in flight as an ack takes: when it wakes its queue is full.
    let more = format!("{HIGH}\nmax_in_flight = 2000");
    let (daemon, before) = started(&kafka, &more);
    starved_by_stops(daemon, &before, 0.1, 4.0);
}

#[test]
#[ignore = "takes both cores from whatever runs beside it: in tests/run --long"]
fn long_a_daemon_with_burners_beside_it_is_the_generator() {
    let kafka = MockKafka::start(4);
    let dir = tempfile::tempdir().unwrap();
    // So much that the share of a niced process among so many cannot be enough.
    let more = HIGH.replace("20000", "100000");
    let plain = daemon::command(dir.path(), &kafka.settings("flush_timeout = \"20s\"", "", &more));
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(plain.get_program()).args(plain.get_args()).current_dir(dir.path());
    command.stdin(Stdio::null());
    let daemon = daemon::start_with(dir, command);
    let before = wait(&daemon, 60, "acks", |now| series(now, "records_acked_total") >= 1000.0);
    let cores = std::thread::available_parallelism().unwrap().get();
    let burners: Vec<Program> = (0..cores * 4).map(|_| Program::burner()).collect();
    wait(&daemon, 60, "generator", |now| {
        seconds(now, "generator") > seconds(&before, "generator") + 2.0 && limited(now, "generator")
    });
    // The cause is that of the last half second, in which it may have got its share.
    eventually(Duration::from_secs(30), "the cause", || {
        let reasons = daemon.get("/readyz")["reasons"].to_string();
        reasons.contains("waited for a CPU for up to").then_some(())
    });
    drop(burners);
    let after = wait(&daemon, 60, "recovered", |now| !limited(now, "generator"));
    let ended = daemon.terminate();
    assert_generator(&before, &after, 2.0, &ended);
}

/// The broker was the limit, and soakd not, but for what a busy machine does for moments.
fn assert_broker(ended: &Ended, at_least_s: f64) {
    let totals = &ended.report()["streams"]["main"]["totals"]["limited_seconds"];
    let by = |name: &str| totals[name].as_f64().unwrap();
    assert!(by("broker") >= at_least_s && by("generator") <= by("broker") / 10.0, "{totals}\n{}", ended.log);
    assert_eq!(told(&ended.log, "broker").len(), 1, "{}", ended.log);
}

/// A broker of its own that can be frozen, with a stream of 2,000 records a second.
fn frozen_kafka() -> (Service, Daemon) {
    let broker = Service::start("kafka", &[]);
    let settings = format!(
        "[run]\nname = \"it\"\n[kafka]\nbrokers = [\"{}\"]\n\
         [streams.main]\ntopic = \"t\"\nrate = 2000\noverload = {{ max_debt = \"1m\", max_catch_up = 10.0 }}\n",
        broker.get("BOOTSTRAP")
    );
    let daemon = daemon::start(&settings);
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 4000.0);
    (broker, daemon)
}

#[test]
fn real_kafka_that_is_frozen_is_the_broker() {
    let (broker, daemon) = frozen_kafka();
    broker.order("freeze");
    let frozen = wait(&daemon, 30, "broker", |now| seconds(now, "broker") > 2.0);
    assert!(limited(&frozen, "broker") && !limited(&frozen, "generator"), "{}", daemon.log());
    broker.order("thaw");
    wait(&daemon, 60, "recovered", |now| !limited(now, "broker"));
    let ended = daemon.terminate();
    assert_broker(&ended, 2.0);
    assert_ne!(ended.report()["verdict"]["result"], "failed", "{}", ended.out);
}

/// soakd is late by its own doing in the moment in which the broker goes: each has its own time, and the load is the broker's
/// as soon as no ack comes.
#[test]
fn real_kafka_that_is_frozen_while_soakd_is_late_is_the_broker_at_once() {
    let (broker, daemon) = frozen_kafka();
    let before = daemon.scrape();
    broker.order("freeze");
    daemon.signal("STOP");
    std::thread::sleep(Duration::from_millis(1500));
    daemon.signal("CONT");
    wait(&daemon, 30, "broker", |now| limited(now, "broker") && seconds(now, "broker") > 3.0);
    broker.order("thaw");
    let after = wait(&daemon, 60, "recovered", |now| !limited(now, "broker"));
    let generator = seconds(&after, "generator") - seconds(&before, "generator");
    // The stop, and what was late of it when the cap was reached.
    assert!((1.2..2.3).contains(&generator), "{generator} s\n{}", daemon.log());
    let ended = daemon.terminate();
    let names: Vec<&str> = ended.log.lines().filter(|line| line.contains(" load limited ")).collect();
    assert!(names.len() >= 2 && told(&ended.log, "broker").len() == 1, "{names:#?}");
}

#[test]
fn a_slow_broker_is_the_broker() {
    let kafka = MockKafka::start(4);
    let more = "rate = 5000\nmax_in_flight = 500\noverload = { max_debt = \"1s\" }";
    let (daemon, _) = started(&kafka, more);
    kafka.round_trip(Duration::from_millis(700));
    let slow = wait(&daemon, 30, "broker", |now| seconds(now, "broker") > 3.0);
    assert!(limited(&slow, "broker") && !limited(&slow, "generator"), "{}", daemon.log());
    kafka.round_trip(Duration::ZERO);
    wait(&daemon, 30, "recovered", |now| !limited(now, "broker"));
    assert_broker(&daemon.terminate(), 3.0);
}

/// Resident bytes of a process, by the kernel.
fn resident(program: &Program) -> f64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", program.0.id())).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

#[test]
fn memory_that_grows_and_memory_that_does_not_are_told_apart() {
    let python = |code: &str| Program::start("0", &format!("exec python3 -c '{code}'"));
    let leaks = python("import time\nkept = []\nwhile True: kept.append(b\"x\" * 200_000); time.sleep(0.1)");
    // A saw of 20 MiB.
    let saws = python(
        "import time\nkept = []\nwhile True:\n kept.append(b\"x\" * 4_000_000); time.sleep(0.3)\n if len(kept) > 5: kept = []",
    );
    for one in [&leaks, &saws] {
        eventually(Duration::from_secs(20), "python runs", || (resident(one) > 12e6).then_some(()));
    }
    let kafka = MockKafka::start(1);
    let process = |name: &str, program: &Program| {
        format!("[processes.{name}]\nkind = \"local\"\npid = {}\ninterval = \"500ms\"\n", program.0.id())
    };
    let settings = kafka.settings("", "", "rate = 10") + &process("leaks", &leaks) + &process("saws", &saws);
    let daemon = daemon::start(&settings);
    let slope = |name: &str| format!("soakd_sut_memory_slope_bytes_per_hour{{process=\"{name}\"}}");
    let (from, begun) = (resident(&leaks), Instant::now());
    let first = daemon.scrape();
    assert!(!first.contains_key(&slope("leaks")), "not known yet");
    wait(&daemon, 60, "slopes", |now| now.contains_key(&slope("leaks")) && now.contains_key(&slope("saws")));
    std::thread::sleep(Duration::from_secs(3));
    let scrape = daemon.scrape();
    let truth = (resident(&leaks) - from) / begun.elapsed().as_secs_f64() * 3600.0;
    let found = scrape[&slope("leaks")];
    let error = scrape["soakd_sut_memory_slope_error_bytes_per_hour{process=\"leaks\"}"];
    assert!((found - truth).abs() <= 0.1 * truth + error, "{found} ± {error}, in truth {truth}");
    let status = daemon.get("/api/v1/status");
    let shown = status["processes"]["leaks"]["memory_slope_bytes_per_hour"].as_f64().unwrap();
    assert!((shown / found - 1.0).abs() < 0.1, "{shown} {found}");
    // It ends: no flat line goes on.
    drop(saws);
    wait(&daemon, 20, "gone", |now| !now.contains_key(&slope("saws")));
    let ended = daemon.terminate();
    let of = |name: &str| ended.report()["measured"]["processes"][name]["memory_slope"].clone();
    let flat = |slope: Value| slope["flat"].as_bool().unwrap();
    assert!(!flat(of("leaks")) && !flat(of("saws")), "{} {}", of("leaks"), of("saws"));
    let rows: Vec<&str> = ended.out.lines().filter(|line| line.contains("/h (±")).map(str::trim).collect();
    assert!(rows[0].starts_with("grows ") && rows[1].starts_with("cannot tell yet: "), "{rows:?}");
    signal(i32::try_from(leaks.0.id()).unwrap(), "KILL");
}
