//! Processes seen by a real agent and by real exporters' series: the agent is the real binary on loopback, the truth is read from /proc
//! by code of our own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use soakd::core::clock::Clock;
use soakd::core::event::Event;
use soakd::core::lock::lock;
use soakd::core::machine::MachineStatus;
use soakd::core::status::ProcessStatus;
use soakd::process::{ProcessSettings, ProcessWatch};

use super::burner::{Burner, MIB, Spec, Truth, dir};
use super::near;
use crate::children::Start as _;
use crate::daemon::{check, eventually, request, start};
use crate::mock::MockKafka;
use crate::services::Service;

/// A running agent; killed when dropped.
struct Agent {
    child: Child,
    http: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Agent {
    /// `sut` is the process of this name.
    fn start(listen: &str, name: &str, more: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_soakd"));
        command.args(["agent", "--set", "processes.sut.kind=local", "--set"]);
        command.arg(format!("processes.sut.name={name}"));
        command.args(["--set", "processes.sut.interval=200ms", "--set"]).arg(format!("http.listen={listen}"));
        for set in more {
            command.arg("--set").arg(set);
        }
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).start().unwrap();
        let (log, from) = (Arc::<Mutex<String>>::default(), child.stderr.take().unwrap());
        let into = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                *into.lock().unwrap() += &(line + "\n");
            }
        });
        let http = eventually(Duration::from_secs(30), "the agent listens", || {
            let text = log.lock().unwrap().clone();
            text.split("http=").nth(1)?.split_whitespace().next()?.parse().ok()
        });
        Self { child, http, log }
    }

    fn url(&self) -> String {
        format!("http://{}", self.http)
    }

    fn end(mut self) -> String {
        crate::daemon::signal(i32::try_from(self.child.id()).unwrap(), "TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A watch from settings as a user writes them.
struct Far {
    watch: ProcessWatch,
    cell: Arc<Mutex<ProcessStatus>>,
    machine: Arc<Mutex<MachineStatus>>,
    events: Arc<soakd::core::event::EventLog>,
    runtime: tokio::runtime::Runtime,
}

impl Far {
    fn new(settings: Value) -> Self {
        let settings: ProcessSettings = serde_json::from_value(settings).unwrap();
        assert_eq!(settings.problems("processes.sut"), []);
        let (cell, machine, events) = (Arc::default(), Arc::default(), Arc::default());
        let (of, log) = (Arc::clone(&cell), Arc::clone(&events));
        let watch = ProcessWatch::new("sut".into(), &settings, of, log, Clock::start());
        let watch = watch.with_machine(Some(Arc::clone(&machine)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { watch, cell, machine, events, runtime }
    }

    fn look(&mut self) -> Result<ProcessStatus, String> {
        let looked = self.runtime.block_on(self.watch.look());
        looked.map(|look| look.status).map_err(|error| error.to_string())
    }

    /// Looks until what is seen satisfies a condition.
    fn until(&mut self, what: &str, ready: impl Fn(&ProcessStatus) -> bool) -> ProcessStatus {
        eventually(Duration::from_secs(30), what, || self.look().ok().filter(|status| ready(status)))
    }

    fn events(&self) -> Vec<Event> {
        self.events.drain().into_iter().map(|stamped| stamped.event).collect()
    }
}

fn token(dir: &Path, text: &str) -> String {
    let path = dir.join("token");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn cpu_seconds(status: &ProcessStatus) -> f64 {
    status.cpu_ns().unwrap() as f64 / 1e9
}

#[test]
fn an_agent_tells_what_a_local_look_would() {
    let dir = dir();
    let name = format!("soakd-test-far-{}", std::process::id());
    let burner = Burner::start(&dir, &name, &Spec { threads: 1, mib: 64, ..Spec::default() });
    let agent = Agent::start("127.0.0.1:0", &name, &[]);
    // Two soakds read it, one more often than it looks.
    let mut far = Far::new(json!({ "kind": "agent", "url": agent.url() }));
    let mut other = Far::new(json!({ "kind": "agent", "url": agent.url(), "process": "sut" }));
    let first = far.until("the first figures", |status| status.up);
    assert_eq!((first.cpu_ns(), first.cpu_cores), (None, None), "the first reading is not published");
    other.until("the same for the other", |status| status.up);
    let (begun, before) = (Instant::now(), Truth::of(burner.pid()).own_seconds());
    std::thread::sleep(Duration::from_secs(2));
    let status = far.until("cores", |status| status.cpu_cores.is_some());
    let (seconds, used) = (begun.elapsed().as_secs_f64(), Truth::of(burner.pid()).own_seconds() - before);
    // The agent's looks are up to 0.2 s (and a machine's hiccup) older than ours at both ends.
    assert!(near(cpu_seconds(&status), used, 0.1, 0.5), "{} s, in truth {used}", cpu_seconds(&status));
    assert!(near(status.cpu_cores.unwrap(), used / seconds, 0.3, 0.1), "{status:?}");
    let rss = Truth::of(burner.pid()).rss_bytes;
    assert!(near(status.memory_rss_bytes.unwrap() as f64, rss as f64, 0.1, MIB as f64), "in truth {rss}");
    assert_eq!(status.pid, Some(burner.pid()));
    assert!(status.threads.unwrap() >= 2 && status.open_fds.unwrap() > 0, "{status:?}");
    let machine = lock(&far.machine).clone();
    assert!(machine.up && machine.cpus.unwrap() >= 1 && machine.disk_free_bytes.unwrap() > 0, "{machine:?}");
    assert!(machine.cpu.unwrap().user_ns > 500_000_000, "the burner burnt: {machine:?}");
    let others = other.until("the other's", |status| status.cpu_cores.is_some());
    assert!(
        near(cpu_seconds(&others), cpu_seconds(&status), 0.2, 0.5),
        "neither takes anything from the other"
    );

    // The process is started again, and the agent sees it.
    drop(burner);
    let again = Burner::start(&dir, &name, &Spec { threads: 1, ..Spec::default() });
    let pid = again.pid();
    let restarted = far.until("the restart", |status| status.restarts == 1 && status.pid == Some(pid));
    assert!(restarted.cpu_ns() >= status.cpu_ns(), "no counter falls");
    drop(again);
    let error = eventually(Duration::from_secs(30), "its end", || far.look().err());
    assert!(error.contains("the agent cannot see it: no process is named"), "{error}");
    let log = agent.end();
    assert!(log.contains("process restarted") && log.contains("process lost"), "{log}");
}

#[test]
fn an_agent_that_is_started_again_is_no_restart_and_takes_nothing_back() {
    let dir = dir();
    let name = format!("soakd-test-anew-{}", std::process::id());
    let burner = Burner::start(&dir, &name, &Spec { threads: 1, ..Spec::default() });
    let agent = Agent::start("127.0.0.1:0", &name, &[]);
    let (listen, url) = (agent.http.to_string(), agent.url());
    let mut far = Far::new(json!({ "kind": "agent", "url": url, "timeout": "2s" }));
    let before = far.until("a second of CPU", |status| status.cpu_ns().is_some_and(|ns| ns > 300_000_000));
    eventually(Duration::from_secs(30), "the machine's counters", || {
        let _ = far.look();
        lock(&far.machine).cpu.map(|_| ())
    });
    let before = far.until("the last figures", |status| status.cpu_ns() >= before.cpu_ns());
    agent.end();
    for lost in [false, false, true] {
        let error = far.look().unwrap_err();
        assert!(error.contains("cannot connect") || error.contains("no whole answer"), "{error}");
        assert_eq!(far.events().contains(&Event::ProcessLost { process: "sut".into() }), lost);
    }
    let away = lock(&far.cell).clone();
    assert!(!away.up && away.pid.is_none() && away.cpu_ns() == before.cpu_ns(), "{away:?}");
    assert!(!lock(&far.machine).up && lock(&far.machine).cpu.is_some());
    let _agent = Agent::start(&listen, &name, &[]);
    let more = before.cpu_ns().unwrap() + 100_000_000;
    let back = far.until("CPU going on", |status| status.cpu_ns().is_some_and(|ns| ns > more));
    assert_eq!((back.restarts, back.pid), (0, Some(burner.pid())));
}

#[test]
fn nothing_is_told_without_the_token_and_nothing_can_be_changed() {
    let dir = dir();
    let token_file = token(dir.path(), "open sesame\n");
    let agent = Agent::start("127.0.0.1:0", "nobody", &[format!("http.token_file={token_file}")]);
    for path in ["/", "/metrics", "/api/v1/agent"] {
        let (status, body) = request(agent.http, "GET", path, None).unwrap();
        assert!(status == 401 && body.contains("Authorization: Bearer TOKEN"), "{path}: {status} {body}");
    }
    assert_eq!(request(agent.http, "GET", "/livez", None).unwrap().0, 200);
    let asked = |method: &str, path: &str| -> String {
        let mut stream = TcpStream::connect(agent.http).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer open sesame\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            agent.http
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // The first look may still be going on.
    let metrics = eventually(Duration::from_secs(30), "the machine is seen", || {
        Some(asked("GET", "/metrics")).filter(|text| text.contains("soakd_machine_up{machine=\"soakd\"} 1"))
    });
    for series in
        ["soakd_sut_up{process=\"sut\"} 0", "soakd_machine_up{machine=\"soakd\"} 1", "soakd_build_info{"]
    {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
    assert!(!metrics.contains("soakd_run_state"), "{metrics}");
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        assert!(asked(method, "/api/v1/agent").starts_with("HTTP/1.1 405"), "{method}");
    }

    let wrong = token(dir.path(), "open sesam");
    let mut far = Far::new(json!({ "kind": "agent", "url": agent.url(), "token_file": wrong }));
    let error = far.look().unwrap_err();
    assert!(
        error.contains("401") && error.contains("the token is wrong") && !error.contains("sesam"),
        "{error}"
    );
    // The right one is put into the file while soakd runs.
    token(dir.path(), "open sesame");
    let error = eventually(Duration::from_secs(30), "the agent has looked", || {
        Some(far.look().unwrap_err()).filter(|error| !error.contains("it has not looked yet"))
    });
    assert!(error.contains("the agent cannot see it: no process is named \"nobody\""), "{error}");
    agent.end();

    let run = |sets: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_soakd"));
        command.args(["agent", "--set", "processes.sut.kind=local", "--set", "processes.sut.pid=1"]);
        let done = command.args(sets.iter().flat_map(|set| ["--set", set])).run_for_output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, says) = run(&["http.listen=0.0.0.0:0"]);
    assert!(code == Some(2) && says.contains("http.token_file"), "{code:?} {says}");
}

#[test]
fn a_daemon_shows_what_agent_and_exporter_tell() {
    let dir = dir();
    let name = format!("soakd-test-both-{}", std::process::id());
    let burner = Burner::start(&dir, &name, &Spec { threads: 1, ..Spec::default() });
    let agent = Agent::start("127.0.0.1:0", &name, &[]);
    let mock = MockKafka::start(1);
    let processes = format!(
        "[processes.sut]\nkind = \"agent\"\nurl = \"{0}\"\nmachine = \"far\"\ninterval = \"200ms\"\n\
         [processes.exporter]\nkind = \"prometheus\"\nurl = \"{0}/metrics\"\ninterval = \"200ms\"\n",
        agent.url()
    );
    let settings = mock.settings("", "", &processes);
    let (_, table) = check(&settings);
    assert!(table.contains(&format!("pid {}", burner.pid())), "{table}");
    let daemon = start(&settings);
    let series = |name: &str| {
        eventually(Duration::from_secs(30), name, || {
            daemon.scrape().get(name).copied().filter(|value| *value > 0.0)
        })
    };
    for name in [
        "soakd_sut_up{process=\"sut\"}",
        "soakd_sut_cpu_seconds_total{process=\"sut\",mode=\"user\"}",
        "soakd_sut_memory_bytes{process=\"sut\",kind=\"rss\"}",
        "soakd_sut_memory_bytes{process=\"exporter\",kind=\"rss\"}",
        "soakd_sut_open_fds{process=\"exporter\"}",
        "soakd_sut_start_time_seconds{process=\"exporter\"}",
        "soakd_machine_up{machine=\"soakd\"}",
        "soakd_machine_up{machine=\"far\"}",
        "soakd_machine_cpus{machine=\"far\"}",
        "soakd_machine_memory_bytes{machine=\"soakd\",kind=\"available\"}",
        "soakd_machine_disk_bytes{machine=\"soakd\",kind=\"free\"}",
        "soakd_machine_cpu_seconds_total{machine=\"far\",mode=\"user\"}",
    ] {
        series(name);
    }
    let shown = &daemon.get("/api/v1/status")["machines"];
    assert!(shown["far"]["cpu_seconds"]["user"].as_f64() > Some(0.0), "{shown}");
    assert!(shown["soakd"]["disk_free_bytes"].as_u64() > Some(0) && shown["soakd"]["up"] == true, "{shown}");
    // The agent's own process, by its series and by /proc.
    let seen = series("soakd_sut_memory_bytes{process=\"exporter\",kind=\"rss\"}");
    let truth = Truth::of(agent.child.id()).rss_bytes;
    assert!(near(seen, truth as f64, 0.1, MIB as f64), "{seen}, in truth {truth}");
    agent.end();
    eventually(Duration::from_secs(30), "the machine's gauges are gone with the agent", || {
        let scrape = daemon.scrape();
        let gone = scrape.get("soakd_machine_up{machine=\"far\"}") == Some(&0.0)
            && !scrape.contains_key("soakd_machine_cpus{machine=\"far\"}")
            && scrape.contains_key("soakd_machine_cpu_seconds_total{machine=\"far\",mode=\"user\"}");
        gone.then_some(())
    });
}

#[test]
fn a_real_prometheus_tells_of_a_process_that_it_scrapes() {
    let agent = Agent::start("127.0.0.1:0", "nobody", &["processes.sut.interval=10ms".into()]);
    let server = Service::start("prometheus", &[&agent.http.to_string()]);
    let url = server.get("PROMETHEUS_URL");
    let instance = agent.http.to_string();
    let settings =
        |labels: &str| json!({ "kind": "prometheus", "url": url, "server": true, "labels": labels });
    let mut far = Far::new(settings(&format!("job=\"soakd\",instance=\"{instance}\"")));
    let first = far.until("the first sample", |status| status.memory_rss_bytes.is_some());
    assert_eq!(first.cpu_ns(), None);
    // Cores come with the next sample, over the time between the two samples and not between two questions.
    let status = far.until("cores", |status| status.cpu_cores.is_some());
    assert!(status.cpu_cores.unwrap() < 2.0, "{status:?}");
    let truth = Truth::of(agent.child.id()).rss_bytes;
    assert!(near(status.memory_rss_bytes.unwrap() as f64, truth as f64, 0.1, MIB as f64), "in truth {truth}");
    let error = Far::new(settings("job=\"nobody\"")).look().unwrap_err();
    assert!(error.contains("the server has no series process_cpu_seconds_total{job=\"nobody\"}"), "{error}");
    // Prometheus' own process, by its /metrics.
    let mut own = Far::new(json!({ "kind": "prometheus", "url": format!("{url}/metrics") }));
    let seen = own.until("Prometheus' own", |status| status.cpu_ns().is_some());
    assert!(seen.memory_rss_bytes.unwrap() > 10 * MIB && seen.open_fds.unwrap() > 3, "{seen:?}");
    // The server says at once that a target is gone.
    agent.end();
    let error = eventually(Duration::from_secs(30), "it is gone", || far.look().err());
    assert!(error.contains("no series"), "{error}");
}
