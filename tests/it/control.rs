//! Changing the load of a running daemon, and what its interface owes meanwhile.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::children::Start as _;
use crate::daemon::{self, Daemon, eventually, request, series, sum};
use crate::mock::MockKafka;

/// A source by the commits of the group `g`.
pub(crate) fn group_source(name: &str, interval: &str, more: &str) -> String {
    format!(
        "[progress.{name}]\nkind = \"consumer_group\"\nstream = \"main\"\ngroup = \"g\"\n\
         interval = \"{interval}\"\ntimeout = \"5s\"\n{more}\n"
    )
}

/// Waits until so many more records are acked: a load that lasts.
pub(crate) fn more_acked(daemon: &Daemon, records: f64) -> f64 {
    let before = daemon.metric("records_acked_total");
    daemon.wait_metric(60, "records_acked_total", |acked| acked >= before + records)
}

#[test]
fn h2_three_rates_are_three_segments_and_no_total_falls() {
    let kafka = MockKafka::start(4);
    kafka.commit("g", &[0; 4]);
    let settings = kafka.settings("", "", "rate = 100") + &group_source("group", "200ms", "");
    let daemon = daemon::start(&settings);
    let mut acked = more_acked(&daemon, 200.0);
    for rate in [300.0, 100.0] {
        daemon.set_rate(rate);
        let now = more_acked(&daemon, rate * 2.0);
        assert!(now > acked);
        acked = now;
    }
    let ended = daemon.terminate();
    let report = ended.report();
    let segments = report["segments"].as_array().unwrap();
    assert_eq!(segments.len(), 3, "{segments:#?}");
    let mut counted = 0.0;
    for (segment, rate) in segments.iter().zip([100.0, 300.0, 100.0]) {
        let main = &segment["figures"]["streams"]["main"];
        let target = main["target_records_per_second"].as_f64().unwrap();
        assert!((target / rate - 1.0).abs() < 1e-6, "{target} of {rate}");
        let achieved = main["achieved_records_per_second"].as_f64().unwrap();
        assert!((achieved / rate - 1.0).abs() < 0.25, "{achieved} of {rate}");
        counted += main["counts"]["acked"].as_f64().unwrap();
        assert!(main["ack_from_intended"]["p99_seconds"].as_f64().unwrap() > 0.0);
        let lag = &segment["figures"]["sources"]["group"]["lag_records"];
        assert!(lag["max"].as_f64().unwrap() > 0.0, "{lag}");
    }
    let total = report["streams"]["main"]["totals"]["acked"].as_f64().unwrap();
    // Acks of the last moment come after the load's end.
    assert!(counted <= total && total - counted <= 10.0, "{counted} of {total}");
    assert_eq!(segments[1]["began_by"], "rate_changed");
}

/// Settings with the streams `main` (topic `t`) and `other` (topic `u`).
fn two_streams(kafka: &MockKafka) -> String {
    kafka.cluster.create_topic("u", 2, 1).unwrap();
    kafka.settings("", "", "rate = 200") + "[streams.other]\ntopic = \"u\"\ncreate = false\nrate = 100\n"
}

#[test]
fn h3_a_pause_stops_every_stream_and_resume_starts_every_one() {
    let kafka = MockKafka::start(2);
    let daemon = daemon::start(&two_streams(&kafka));
    let totals = || {
        let scrape = daemon.scrape();
        ["main", "other"]
            .map(|stream| series(&scrape, &format!("records_scheduled_total{{stream=\"{stream}\"}}")))
    };
    let targets = || {
        let status = daemon.get("/api/v1/status");
        ["main", "other"]
            .map(|stream| status["streams"][stream]["target_records_per_second"].as_f64().unwrap())
    };
    more_acked(&daemon, 100.0);
    assert_eq!(targets(), [200.0, 100.0]);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    assert_eq!(targets(), [0.0, 0.0]);
    daemon.wait_metric(30, "run_state{state=\"paused\"}", |now| now == 1.0);
    // What a lane counts at its last look before the pause it publishes within a wake-up.
    std::thread::sleep(Duration::from_millis(300));
    let held = totals();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(totals(), held, "records in a pause");
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    assert_eq!(targets(), [200.0, 100.0]);
    eventually(Duration::from_secs(30), "both streams go on", || {
        let [main, other] = totals();
        (main >= held[0] + 200.0 && other >= held[1] + 100.0).then_some(())
    });
    let ended = daemon.terminate();
    let paused = ended.report()["measured"]["paused_seconds"].as_f64().unwrap();
    assert!(paused >= 2.0, "{paused}");
}

#[test]
fn h5_pauses_and_resumes_in_quick_succession_end_as_the_last_one_says() {
    let kafka = MockKafka::start(2);
    let daemon = daemon::start(&two_streams(&kafka));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for verb in ["pause", "resume", "pause", "pause"].iter().cycle().take(50) {
                    let (status, body) = daemon.send("POST", &format!("/api/v1/{verb}"), None);
                    assert!((status == 200 || status == 409) && body.is_object(), "{verb}: {status} {body}");
                }
            });
        }
    });
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    let status = daemon.get("/api/v1/status");
    for (stream, rate) in [("main", 200.0), ("other", 100.0)] {
        assert_eq!(status["streams"][stream]["target_records_per_second"], rate, "{stream}");
    }
    daemon.wait_metric(30, "run_state{state=\"measuring\"}", |now| now == 1.0);
    more_acked(&daemon, 200.0);
    daemon.terminate().good();
}

#[test]
fn h6_a_port_in_use_ends_the_start_before_anything_is_touched() {
    let kafka = MockKafka::start(1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    // The mock cluster makes no topics: to get as far as that would be another error.
    let settings =
        kafka.settings("", "", "rate = 1000").replace("\"t\"\ncreate = false", "\"new\"\ncreate = true");
    let mut command = daemon::command(dir.path(), &settings);
    let out = command.args(["--set", &format!("http.listen={listen}")]).run_for_output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let error = String::from_utf8(out.stderr).unwrap();
    // The tests' own variables are none of soakd's.
    let lines: Vec<&str> = error.lines().filter(|line| !line.contains("SOAKD_TEST_ROOT")).collect();
    assert_eq!(lines.len(), 1, "{error}");
    assert!(lines[0].contains(&format!("port {}", listen.port())) && !error.contains("panicked"), "{error}");
    assert_eq!(kafka.topics(), ["t"]);
    assert_eq!(kafka.records(), 0);
    let runs = std::fs::read_dir(dir.path().join("store/runs")).unwrap().count();
    assert_eq!(runs, 0, "no folder of a run that never began");
}

#[test]
fn h6_after_a_kill_with_open_connections_the_port_binds_at_once() {
    let kafka = MockKafka::start(1);
    let settings = kafka.settings("", "", "rate = 10");
    let mut daemon = daemon::start(&settings);
    let http = daemon.http;
    let open: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(http).unwrap()).collect();
    assert_eq!(request(http, "GET", "/livez", None).unwrap().0, 200);
    daemon.kill();
    let dir = tempfile::tempdir().unwrap();
    let mut command = daemon::command(dir.path(), &settings);
    command.args(["--set", &format!("http.listen={http}")]);
    let again = daemon::start_with(dir, command);
    assert_eq!(again.http, http);
    drop(open);
    again.terminate().good();
}

#[test]
fn h7_a_broker_that_is_away_freezes_neither_readiness_nor_changes() {
    let kafka = MockKafka::start(16);
    kafka.commit("g", &[0; 16]);
    // More sources than the runtime has threads: one call that blocks its thread would show.
    let sources = ["one", "two", "three"].map(|name| group_source(name, "200ms", "")).concat();
    let daemon = daemon::start(&(kafka.settings("flush_timeout = \"1s\"", "", "rate = 100") + &sources));
    more_acked(&daemon, 20.0);
    kafka.down();
    let mut took = Vec::new();
    let mut rate = 0.0;
    let down = || sum(&daemon.scrape(), "progress_errors_total", "source=\"one\"") >= 1.0;
    let began = Instant::now();
    let mut due = began;
    while !down() || began.elapsed() < Duration::from_secs(3) {
        assert!(began.elapsed() < Duration::from_secs(60), "the source never noticed");
        // By a timetable, so that one long wait counts as all the questions that it kept waiting.
        due += Duration::from_millis(20);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        assert_eq!(request(daemon.http, "GET", "/readyz", None).unwrap().0, 200);
        rate = if rate == 100.0 { 110.0 } else { 100.0 };
        daemon.set_rate(rate);
        took.push(due.elapsed());
    }
    took.sort();
    let p99 = took[took.len() * 99 / 100 - 1];
    assert!(p99 < Duration::from_secs(1), "{p99:?} of {}", took.len());
    daemon.terminate();
}

#[test]
fn m2_no_counter_falls_through_changes_outages_and_progress_that_goes_back() {
    let kafka = MockKafka::start(4);
    kafka.commit("g", &[0; 4]);
    let daemon = daemon::start(&(kafka.settings("", "", "rate = 500") + &group_source("group", "100ms", "")));
    let progress = "progress_records{source=\"group\",stream=\"main\"}";
    more_acked(&daemon, 400.0);
    kafka.commit("g", &[100; 4]);
    daemon.wait_metric(30, progress, |records| records == 400.0);
    kafka.commit("g", &[10; 4]);
    daemon.wait_metric(30, "progress_resets_total{source=\"group\",stream=\"main\"}", |resets| resets == 1.0);
    daemon.set_rate(100.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "run_state{state=\"paused\"}", |now| now == 1.0);
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    kafka.down();
    daemon.wait_metric(30, "records_in_flight", |records| records > 100.0);
    kafka.up();
    more_acked(&daemon, 300.0);
    kafka.commit("g", &kafka.ends());
    let ended = daemon.terminate();
    let remarks = &ended.report()["measured"]["sources"]["group"];
    assert_eq!(remarks["resets"], 1);
    assert!(remarks["ingest_min_records_per_second"].as_f64().is_none_or(|rate| rate >= 0.0), "{remarks}");
}

#[test]
fn m7_two_hundred_partitions_and_three_sources_scrape_fast_and_small() {
    let kafka = MockKafka::start(200);
    let mut settings = kafka.settings("", "", "rate = 1000");
    (0..3).for_each(|i| settings += &group_source(&format!("g{i}"), "500ms", ""));
    kafka.commit("g", &[0; 200]);
    let daemon = daemon::start(&settings);
    more_acked(&daemon, 1000.0);
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            let asked = Instant::now();
            let (status, text) = request(daemon.http, "GET", "/metrics", None).unwrap();
            let series = text.lines().filter(|line| !line.starts_with('#')).count();
            assert_eq!((status, series < 5000), (200, true), "{series} series");
            assert!(!text.contains("partition="), "series by partition");
            asked.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[10] < Duration::from_millis(200), "{took:?}");
    kafka.commit("g", &vec![1_000_000; 200]);
    daemon.terminate().good();
}

#[test]
fn the_figures_of_a_process_move_with_it() {
    let kafka = MockKafka::start(1);
    let mut busy = Busy::start();
    let settings = kafka.settings("", "", "rate = 100")
        + &format!(
            "[processes.sut]\nkind = \"local\"\npid_file = \"{}\"\ninterval = \"200ms\"\n",
            busy.pid_file()
        );
    let daemon = daemon::start(&settings);
    let of = |name: &str| format!("{name}{{process=\"sut\"}}");
    daemon.wait_metric(30, &of("sut_up"), |up| up == 1.0);
    let user = "sut_cpu_seconds_total{process=\"sut\",mode=\"user\"}";
    daemon.wait_metric(30, user, |seconds| seconds > 0.2);
    let scrape = daemon.scrape();
    let memory = series(&scrape, "sut_memory_bytes{process=\"sut\",kind=\"rss\"}");
    assert!(memory > 500_000.0, "{memory}");
    assert_eq!(series(&scrape, &of("sut_threads")), 1.0);
    let started = series(&scrape, &of("sut_start_time_seconds"));
    busy.kill();
    daemon.wait_metric(30, &of("sut_up"), |up| up == 0.0);
    let gone = daemon.scrape();
    assert!(!gone.contains_key(&format!("soakd_{}", of("sut_threads"))), "a figure of what is not there");
    assert!(gone.contains_key(&format!("soakd_{user}")), "a counter stays");
    busy.again();
    daemon.wait_metric(30, &of("sut_restarts_total"), |restarts| restarts == 1.0);
    daemon.wait_metric(30, &of("sut_start_time_seconds"), |now| now >= started);
    let before = daemon.metric(user);
    daemon.wait_metric(30, user, |seconds| seconds > before + 0.2);
    let ended = daemon.terminate();
    assert_eq!(ended.report()["measured"]["processes"]["sut"]["restarts"], 1);
}

/// A shell that spins, and its pid file.
struct Busy {
    child: std::process::Child,
    dir: tempfile::TempDir,
}

impl Busy {
    fn start() -> Self {
        let mut busy = Self { child: spin(), dir: tempfile::tempdir().unwrap() };
        busy.note();
        busy
    }

    fn pid_file(&self) -> String {
        self.dir.path().join("pid").display().to_string()
    }

    fn note(&mut self) {
        std::fs::write(self.pid_file(), self.child.id().to_string()).unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn again(&mut self) {
        self.child = spin();
        self.note();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spin() -> std::process::Child {
    std::process::Command::new("sh").args(["-c", "while :; do :; done"]).start().unwrap()
}
