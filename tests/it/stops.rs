//! How runs end: by themselves, by signals, over HTTP, too early, too late, and what is left of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::children::Start as _;
use crate::control::{group_source, more_acked};
use crate::daemon::{self, Daemon, Ended, eventually, request, series};
use crate::mock::MockKafka;

fn state(daemon: &Daemon, name: &str) {
    daemon.wait_metric(60, &format!("run_state{{state=\"{name}\"}}"), |now| now == 1.0);
}

fn runs(store: &Path) -> usize {
    std::fs::read_dir(store.join("runs")).map_or(0, Iterator::count)
}

/// A number that is null has its reason beside it.
fn nulls_have_reasons(at: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let told = fields.get("absent").is_some_and(|absent| absent.get(name).is_some());
                let optional = ["warm_up", "first_missed_second"].contains(&name.as_str());
                assert!(
                    !field.is_null() || told || optional,
                    "{at}.{name} is null without a reason: {value}"
                );
                nulls_have_reasons(&format!("{at}.{name}"), field);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| nulls_have_reasons(at, item)),
        _ => {}
    }
}

#[test]
fn b5_every_clean_stop_finishes_the_report_and_names_its_cause() {
    for (how, cause) in [("TERM", "signal"), ("INT", "signal"), ("http", "http")] {
        let kafka = MockKafka::start(1);
        let daemon = daemon::start(&kafka.settings("", "", "rate = 200"));
        more_acked(&daemon, 50.0);
        if how == "http" {
            assert_eq!(daemon.send("POST", "/api/v1/runs/current/stop", None).0, 202);
        } else {
            daemon.signal(how);
        }
        let ended = daemon.wait(Duration::from_secs(30));
        ended.good();
        let report = ended.report();
        assert_eq!(
            (report["finished"].as_bool(), report["cause"].as_str()),
            (Some(true), Some(cause)),
            "{how}"
        );
        assert_eq!(report["streams"]["main"]["totals"]["acked"], kafka.records(), "{how}");
    }
}

#[test]
fn b6_stopped_after_a_moment_or_while_paused_the_report_is_whole() {
    let kafka = MockKafka::start(4);
    let settings = kafka.settings("", "", "rate = 100");
    let short = daemon::start(&settings);
    std::thread::sleep(Duration::from_millis(300));
    let ended = short.terminate();
    check_short(&ended);
    let paused = daemon::start(&settings);
    more_acked(&paused, 10.0);
    assert_eq!(paused.send("POST", "/api/v1/pause", None).0, 200);
    state(&paused, "paused");
    let ended = paused.terminate();
    check_short(&ended);
    assert!(ended.report()["measured"]["paused_seconds"].as_f64().unwrap() > 0.0);
}

fn check_short(ended: &Ended) {
    ended.good();
    let report = ended.report();
    assert_eq!(report["finished"], true);
    nulls_have_reasons("report", report);
    let measured = &report["measured"];
    let (from, to) = (measured["from_seconds"].as_f64().unwrap(), measured["to_seconds"].as_f64().unwrap());
    assert!(to > from && to - from < 30.0, "{from} to {to}");
    let main = &measured["streams"]["main"];
    let (count, active) =
        (main["counts"]["acked"].as_f64().unwrap(), measured["active_seconds"].as_f64().unwrap());
    let achieved = main["achieved_records_per_second"].as_f64().unwrap();
    assert!((achieved - count / active).abs() <= 0.01 * achieved, "{achieved} is not {count} in {active} s");
    let classic: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("after ")).collect();
    assert_eq!(classic.len(), 1, "the classic line at the end of a short run: {}", ended.out);
    let total = &report["streams"]["main"]["totals"]["sent"];
    assert!(classic[0].contains(&format!("sent {total} records, ingested ?, lag ? (? s)")), "{classic:?}");
}

#[test]
fn b6_a_broker_that_is_away_at_the_start_is_exit_3_and_a_signal_meanwhile_130() {
    let kafka = MockKafka::start(1);
    kafka.down();
    let dir = tempfile::tempdir().unwrap();
    let settings = kafka.settings("", "", "rate = 100");
    let began = Instant::now();
    let mut waiting =
        daemon::command(dir.path(), &settings).stdout(Stdio::piped()).stderr(Stdio::piped()).start().unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut stopped = daemon::command(other.path(), &settings)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start()
        .unwrap();
    // Its run has a folder by then, and its signals are its own.
    eventually(Duration::from_secs(30), "the start has begun", || {
        (runs(&other.path().join("store")) > 0).then_some(())
    });
    std::thread::sleep(Duration::from_secs(1));
    daemon::signal(i32::try_from(stopped.id()).unwrap(), "TERM");
    let left = eventually(Duration::from_secs(10), "it leaves", || stopped.try_wait().unwrap());
    assert_eq!(left.code(), Some(130));
    let gave_up = eventually(Duration::from_secs(60), "it gives up", || waiting.try_wait().unwrap());
    assert_eq!(gave_up.code(), Some(3));
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    let (mut out, mut error) = (String::new(), String::new());
    waiting.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    waiting.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(out, "", "no half report");
    assert!(error.contains(&kafka.brokers()), "{error}");
    for dir in [dir, other] {
        assert_eq!(runs(&dir.path().join("store")), 0, "no folder of a run that never began");
    }
}

#[test]
fn b8_a_drain_ends_at_its_deadline_with_what_remains() {
    let kafka = MockKafka::start(1);
    kafka.commit("g", &[0]);
    let daemon = daemon::start(
        &(kafka.settings("", "", "rate = 100\nrecords = 150") + &group_source("group", "100ms", "")),
    );
    daemon.wait_metric(30, "records_acked_total", |acked| acked == 150.0);
    kafka.commit("g", &[100]);
    let ended = daemon.wait(Duration::from_secs(30));
    ended.failed("source group: not drained");
    let drain = &ended.report()["drain"];
    assert_eq!((&drain["drained"], &drain["timeout_seconds"]), (&false.into(), &2.0.into()));
    assert_eq!(drain["sources"]["group"]["remaining_records"], 50);
    let took = drain["seconds"].as_f64().unwrap();
    assert!((2.0..20.0).contains(&took), "{took}");
    let classic = ended.out.lines().find(|line| line.starts_with("after ")).unwrap();
    assert!(classic.contains("sent 150 records, ingested 100, lag 50 ("), "{classic}");
}

#[test]
fn a_stop_during_the_drain_ends_the_waiting_and_not_the_report() {
    let kafka = MockKafka::start(1);
    kafka.commit("g", &[0]);
    let settings = kafka.settings("", "", "rate = 100\nrecords = 50").replace("\"2s\"", "\"10m\"");
    for how in ["TERM", "http", "http then TERM"] {
        let stop_first = how == "http then TERM";
        let settings = if stop_first { settings.replace("records = 50", "") } else { settings.clone() };
        let daemon = daemon::start(&(settings + &group_source("group", "100ms", "")));
        more_acked(&daemon, 20.0);
        if stop_first {
            assert_eq!(daemon.send("POST", "/api/v1/runs/current/stop", None).0, 202);
        }
        state(&daemon, "draining");
        daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
        if how == "http" {
            assert_eq!(daemon.send("POST", "/api/v1/runs/current/stop", None).0, 202);
        } else {
            daemon.signal("TERM");
        }
        let ended = daemon.wait(Duration::from_secs(30));
        ended.failed("source group: not");
        let report = ended.report();
        // Not drained, or not known when no poll came after the last ack.
        let drained = &report["drain"]["drained"];
        assert!(report["finished"] == true && *drained != true, "{how}: {drained}");
        assert_eq!(report["cause"], if stop_first { "http" } else { "records" });
    }
}

#[test]
fn a_stop_while_the_backlog_is_worked_off_gives_it_up() {
    let kafka = MockKafka::start(1);
    let run = "duration = \"2s\"\nflush_timeout = \"60s\"";
    let more = "rate = 1000\nmax_in_flight = 100\noverload = { policy = \"wait\" }";
    let daemon = daemon::start(&kafka.settings(run, "", more));
    more_acked(&daemon, 100.0);
    kafka.down();
    state(&daemon, "draining");
    let backlog = daemon.metric("schedule_backlog_records");
    assert!(backlog > 100.0, "{backlog}");
    daemon.signal("TERM");
    daemon.wait_metric(30, "records_dropped_total{stream=\"main\",reason=\"stopped\"}", |dropped| {
        dropped > 100.0
    });
    assert_eq!(daemon.metric("schedule_backlog_records"), 0.0);
    kafka.up();
    let ended = daemon.wait(Duration::from_secs(60));
    let totals = &ended.report()["streams"]["main"]["totals"];
    assert_eq!(totals["scheduled"], 2000);
    assert_eq!(totals["acked"].as_f64().unwrap() + totals["dropped"]["stopped"].as_f64().unwrap(), 2000.0);
}

#[test]
fn a_second_signal_leaves_at_once_with_130() {
    let kafka = MockKafka::start(1);
    let daemon = daemon::start(&kafka.settings("flush_timeout = \"10m\"", "", "rate = 100"));
    more_acked(&daemon, 20.0);
    kafka.down();
    daemon.wait_metric(30, "records_in_flight", |records| records > 0.0);
    daemon.signal("TERM");
    state(&daemon, "draining");
    let asked = Instant::now();
    daemon.signal("INT");
    let ended = daemon.wait(Duration::from_secs(10));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!((ended.code(), ended.report.is_none()), (130, true));
}

#[test]
fn an_idle_daemon_serves_its_run_until_a_signal() {
    let kafka = MockKafka::start(1);
    let daemon = daemon::start(&kafka.settings("after_run = \"idle\"", "", "rate = 100"));
    more_acked(&daemon, 20.0);
    assert_eq!(daemon.send("POST", "/api/v1/runs/current/stop", None).0, 202);
    state(&daemon, "finished");
    let beats = || daemon.scrape()["soakd_heartbeat_total"];
    let before = beats();
    eventually(Duration::from_secs(20), "it lives", || (beats() >= before + 2.0).then_some(()));
    assert_eq!(request(daemon.http, "GET", "/readyz", None).unwrap().0, 200);
    assert!(daemon.get("/api/v1/runs/current")["verdict"].is_string());
    assert_eq!(daemon.send("PUT", "/api/v1/rate", Some(json!({ "records_per_second": 5 }))).0, 409);
    assert!(daemon.out().contains("after "), "the report is printed at the run's end");
    let ended = daemon.terminate();
    ended.good();
    assert_eq!(ended.report()["cause"], "http");
    let classic = ended.out.lines().filter(|line| line.starts_with("after "));
    assert_eq!(classic.count(), 1, "{}", ended.out);
}

#[test]
fn half_open_clients_do_not_hold_the_end_and_http_is_the_last_to_go() {
    let kafka = MockKafka::start(1);
    kafka.commit("g", &[0]);
    let daemon = daemon::start(&(kafka.settings("", "", "rate = 100") + &group_source("group", "100ms", "")));
    let open = |text: String| {
        let mut client = TcpStream::connect(daemon.http).unwrap();
        client.write_all(text.as_bytes()).unwrap();
        client
    };
    let head = format!("PUT /api/v1/rate HTTP/1.1\r\nHost: {}\r\n", daemon.http);
    let half_a_body = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let clients = [open(String::new()), open(head.clone()), open(head + half_a_body)];
    more_acked(&daemon, 50.0);
    let asked = Instant::now();
    daemon.signal("TERM");
    // Load, flush, then the drain of 2 s: HTTP still tells of it.
    state(&daemon, "draining");
    let drained = daemon.scrape();
    assert_eq!(series(&drained, "target_records_per_second"), 0.0);
    assert_eq!(series(&drained, "progress_up{source=\"group\",stream=\"main\"}"), 1.0);
    let ended = daemon.wait(Duration::from_secs(30));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    ended.failed("source group: not drained");
    assert_eq!(ended.report()["finished"], true);
    drop(clients);
}

#[test]
fn a_store_that_cannot_be_written_lets_the_load_go_on_and_says_so() {
    let kafka = MockKafka::start(1);
    let file = tempfile::NamedTempFile::new().unwrap();
    for store in [file.path().join("store").display().to_string(), "/proc/soakd".to_owned()] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = daemon::command(dir.path(), &kafka.settings("", "", "rate = 100\nrecords = 30"));
        command.args(["--set", &format!("store.dir={store}")]);
        let ended = daemon::start_with(dir, command).wait(Duration::from_secs(30));
        assert!(matches!(ended.code(), 0 | 4), "{}", ended.log);
        assert!(ended.log.contains("will not be recorded") && ended.log.contains(&store), "{}", ended.log);
        assert!(ended.out.contains("30 acked"), "the report on standard output: {}", ended.out);
    }
}

#[test]
fn a_store_that_fails_during_the_run_costs_the_file_and_not_the_report() {
    let kafka = MockKafka::start(1);
    let daemon = daemon::start(&kafka.settings("", "", "rate = 100"));
    more_acked(&daemon, 20.0);
    let runs = daemon.dir.path().join("store/runs");
    std::fs::remove_dir_all(&runs).unwrap();
    std::fs::write(&runs, "in the way").unwrap();
    std::fs::set_permissions(&runs, PermissionsExt::from_mode(0o444)).unwrap();
    let ended = daemon.terminate();
    assert!(matches!(ended.code(), 0 | 4));
    assert!(ended.log.contains("the report cannot be written"), "{}", ended.log);
    assert!(ended.out.contains("STREAM main"), "{}", ended.out);
}

#[test]
fn json_logs_are_objects_and_the_classic_line_comes_every_ten_seconds_and_at_the_end() {
    let kafka = MockKafka::start(1);
    let dir = tempfile::tempdir().unwrap();
    let mut command = daemon::command(dir.path(), &kafka.settings("duration = \"11s\"", "", "rate = 100"));
    let out = command.arg("--log-json").run_for_output().unwrap();
    assert!(matches!(out.status.code(), Some(0 | 4)));
    let (text, log) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = lines.iter().find(|line| line["message"] == "load ended").unwrap();
    assert_eq!((told["cause"].as_str(), told["level"].as_str()), (Some("duration"), Some("INFO")));
    let classic: Vec<&str> = text.lines().filter(|line| line.starts_with("after ")).collect();
    assert_eq!(classic.len(), 2, "{text}");
    assert!(
        classic[1].contains("s sent 1100 records, ingested ?, lag ? (? s), max lag ? (? s)"),
        "{classic:?}"
    );
}

/// Lines of a daemon whose broker is away for a while.
fn outage_lines(away: Duration) -> Vec<String> {
    let kafka = MockKafka::start(4);
    kafka.commit("g", &[0; 4]);
    let source = group_source("group", "500ms", "").replace("\"5s\"", "\"1s\"");
    let daemon = daemon::start(&(kafka.settings("", "", "rate = 500") + &source));
    more_acked(&daemon, 200.0);
    let before = daemon.log().lines().count();
    kafka.down();
    std::thread::sleep(away);
    kafka.up();
    more_acked(&daemon, 1000.0);
    daemon.wait_metric(60, "load_limited{stream=\"main\",by=\"broker\"}", |limited| limited == 0.0);
    let lines = daemon.log().lines().skip(before).map(ToOwned::to_owned).collect();
    daemon.terminate();
    lines
}

#[test]
fn default_logs_tell_an_outage_in_a_handful_of_lines() {
    let lines = outage_lines(Duration::from_secs(5));
    assert!((2..=10).contains(&lines.len()), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains("librdkafka") && !line.contains('{')), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("acks stopped stream=main lane=0")), "{lines:#?}");
}

#[test]
#[ignore = "long: tests/run --long"]
fn long_default_logs_of_a_three_minute_outage_are_at_most_sixty_lines() {
    let lines = outage_lines(Duration::from_secs(180));
    assert!(lines.len() <= 60, "{lines:#?}");
}

#[test]
fn a_daemon_that_could_not_make_the_load_exits_4_before_1() {
    let kafka = MockKafka::start(1);
    let daemon = daemon::start(&kafka.settings("", "", "rate = 100"));
    more_acked(&daemon, 50.0);
    daemon.signal("STOP");
    std::thread::sleep(Duration::from_secs(2));
    daemon.signal("CONT");
    more_acked(&daemon, 50.0);
    let ended = daemon.terminate();
    assert_eq!(ended.code(), 4, "{}", ended.out);
    assert_eq!(ended.report()["verdict"]["result"], "generator_limited");
}
