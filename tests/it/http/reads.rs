use std::sync::Arc;

use serde_json::{Value, json};
use soakd::core::counters::{Counters, LimitedBy};
use soakd::core::histogram::Latency;
use soakd::core::lag::{PartitionLag, Reading};
use soakd::core::lock::lock;
use soakd::core::recovery::Recovery;
use soakd::core::status::{Freshness, RunState};

use super::daemon::{Daemon, PATIENCE};

#[test]
fn the_index_names_every_endpoint_and_each_answers() {
    let daemon = Daemon::start();
    let index = daemon.get("/");
    assert_eq!(index.status, 200);
    assert!(index.headers["content-type"].starts_with("text/plain"));
    let mut seen = 0;
    for line in index.body.lines() {
        let mut words = line.split_whitespace();
        let (Some(method @ ("GET" | "PUT" | "POST")), Some(path)) = (words.next(), words.next()) else {
            continue;
        };
        let path = path.replace("{name}", "main").replace("{id}", "current");
        let json = vec![("Content-Type", "application/json")];
        let (headers, body) = match method {
            "PUT" if path.ends_with("/profile") => (json, "{\"profile\": [{\"rate\": 400}]}"),
            "PUT" => (json, "{\"records_per_second\": 400}"),
            _ => (vec![], ""),
        };
        let status = daemon.connect().ask(method, &path, &headers, body).status;
        assert!(status == 200 || status == 202, "{method} {path}: {status}");
        seen += 1;
    }
    assert_eq!(seen, 17, "{}", index.body);
}

#[test]
fn metrics_say_their_version_and_show_the_streams() {
    let daemon = Daemon::start();
    let answer = daemon.get("/metrics?ignored=1");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(answer.body.contains("\nsoakd_target_records_per_second{stream=\"main\"} 300\n"));
    assert!(answer.body.contains("\nprocess_resident_memory_bytes "));
}

#[test]
fn readyz_is_503_only_until_the_start_is_over() {
    let daemon = Daemon::start();
    daemon.set_state(RunState::Starting);
    assert_eq!(daemon.get("/livez").ok()["status"], "ok");
    let starting = daemon.get("/readyz");
    assert_eq!((starting.status, starting.json()["status"].clone()), (503, json!("starting")));
    for state in [RunState::WarmUp, RunState::Measuring, RunState::Paused, RunState::Finished] {
        daemon.set_state(state);
        assert_eq!(daemon.get("/readyz").ok(), json!({ "status": "ok", "reasons": [] }), "{state:?}");
    }
}

#[test]
fn an_outage_is_degraded_and_never_503() {
    let daemon = Daemon::start();
    {
        let mut lane = lock(&daemon.board().streams["main"].lanes[0]);
        lane.acks_stopped = true;
        lane.limited = Some(LimitedBy::Broker);
        lane.counters =
            Counters { scheduled: 30, sent: 20, in_flight: 20, backlog: 10, ..Counters::default() };
    }
    daemon.source(|source| {
        source.up = false;
        source.missed_polls = 1;
        source.error = Some("no connection to 127.0.0.1:5432".to_owned());
    });
    lock(&daemon.board().processes["engine"]).up = false;
    let health = daemon.get("/readyz").ok();
    assert_eq!(health["status"], "degraded");
    let reasons: Vec<&str> =
        health["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
    for part in [
        "stream main: acks have stopped with 20",
        "stream main: the load is limited by the broker",
        "source view: no connection to 127.0.0.1:5432",
        "process engine: it is not there",
    ] {
        assert!(reasons.iter().any(|reason| reason.starts_with(part)), "{part}: {reasons:?}");
    }
    assert_eq!(daemon.get("/livez").status, 200);
    let status = daemon.get("/api/v1/status").ok();
    assert_eq!(status["degraded"], health["reasons"]);
    assert_eq!(status["streams"]["main"]["limited_by"], json!(["broker"]));
}

#[test]
fn the_status_shows_streams_sources_processes_totals_and_settings() {
    let daemon = Daemon::start();
    let counters = Counters {
        scheduled: 100,
        sent: 90,
        acked: 80,
        failed: [1, 0, 0, 0, 0, 1],
        dropped: [4, 0, 0, 0, 0],
        backlog: 6,
        in_flight: 8,
        bytes_acked: 8_000,
        ..Counters::default()
    };
    assert!(counters.tie_out());
    for stream in daemon.board().streams.values() {
        let mut lane = lock(&stream.lanes[0]);
        lane.counters = counters;
        lane.ack_from_sent.record(5_000_000);
        lane.partitions.entry(1).or_default().head.next_offset = 42;
    }
    daemon.source(|source| {
        source.reading =
            Some(Reading { lag_records: Some(9), lag_ns: Some(500_000_000), ..Reading::default() });
    });
    let status = daemon.get("/api/v1/status").ok();
    assert_eq!(status["state"], "measuring");
    assert_eq!(status["run"]["id"], "steady-20260101");
    assert_eq!(status["run"]["duration_seconds"], 60.0);
    let main = &status["streams"]["main"];
    assert_eq!(main["target_records_per_second"], 300.0);
    assert_eq!(main["set_records_per_second"], 300.0);
    assert_eq!(main["records"]["acked"], 80);
    assert_eq!(main["records"]["failed"], 2);
    assert_eq!(main["records"]["failed_by_reason"]["outcome_unknown"], 1);
    assert_eq!(main["records"]["dropped_by_reason"]["late"], 4);
    assert_eq!(main["latency"]["ack_from_sent"]["count"], 1);
    assert_eq!(main["latency"]["schedule_delay"], Value::Null);
    assert_eq!(main["partitions"][1]["next_offset"], 42);
    let view = &status["sources"]["view"];
    assert_eq!((&view["lag_records"], &view["lag_seconds"]), (&json!(9), &json!(0.5)));
    assert_eq!((&view["kind"], &view["value"]), (&json!("sql"), &json!("next_offset")));
    assert_eq!(status["processes"]["engine"]["pid"], 7);
    assert_eq!(status["processes"]["engine"]["memory_rss_bytes"], Value::Null);
    assert_eq!(status["totals"]["target_records_per_second"], 400.0);
    assert_eq!(status["totals"]["records"]["sent"], 180);
    assert_eq!(status["settings"]["http"]["listen"], "somewhere");
}

#[test]
fn sources_are_shown_by_partition_on_request_only() {
    let daemon = Daemon::start();
    daemon.source(|source| {
        let lag = |partition, lag_records| PartitionLag { partition, lag_records, ..PartitionLag::default() };
        source.partitions = [lag(0, Some(7)), lag(1, None)].into();
        let mut latency = Latency::new();
        latency.record(700_000_000);
        source.freshness =
            Some(Freshness { latency: Arc::new(latency), oldest_unseen_ns: Some(2_500_000_000) });
        (source.resolution_ns, source.catch_up_ns) = (Some(1_002_000_000), Some(60_000_000_000));
        source.ingest_records_per_second = Some(1234.5);
        source.recovery = Some(Recovery { back_ns: Some(1_500_000_000), ..Recovery::default() });
    });
    let view = |path| daemon.get(path).ok()["sources"]["view"].clone();
    let usual = view("/api/v1/status");
    assert_eq!(usual.get("partitions"), None);
    assert_eq!(usual["freshness"]["seconds"]["count"], 1);
    assert_eq!(usual["freshness"]["oldest_unseen_seconds"], 2.5);
    assert_eq!((&usual["resolution_seconds"], &usual["catch_up_seconds"]), (&json!(1.002), &json!(60.0)));
    assert_eq!(usual["end_to_end"], Value::Null);
    assert_eq!(usual["ingest_records_per_second"], 1234.5);
    assert_eq!(usual["recovery"]["back_after_seconds"], 1.5);
    assert_eq!(usual["recovery"]["caught_up_after_seconds"], Value::Null);
    let shown = view("/api/v1/status?partitions=true");
    assert_eq!(shown["partitions"].as_array().map(Vec::len), Some(2));
    assert_eq!(shown["partitions"][0]["lag_records"], 7);
    assert_eq!(shown["partitions"][1]["lag_records"], Value::Null);
    let refused = daemon.get("/api/v1/status?partitions=maybe");
    assert_eq!(refused.status, 400);
}

#[test]
fn l2_unknown_lag_is_null_with_its_reason() {
    let daemon = Daemon::start();
    daemon.source(|source| {
        source.reading = Some(Reading { unknown_partitions: 2, ..Reading::default() });
        source.unknown_reason = Some("no commits yet".to_owned());
    });
    let view = daemon.get("/api/v1/status").ok()["sources"]["view"].clone();
    for unknown in ["lag_records", "lag_seconds", "lag_at_least", "lag_uncertainty_records", "caught_up"] {
        assert_eq!(view[unknown], Value::Null, "{unknown}");
    }
    assert_eq!(view["unknown_partitions"], 2);
    assert_eq!(view["unknown_reason"], "no commits yet");
}

#[test]
fn the_achieved_rate_is_counted_over_the_last_seconds() {
    let daemon = Daemon::start();
    let begin = std::time::Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "no achieved rate");
        lock(&daemon.board().streams["main"].lanes[0]).counters.acked += 10;
        let status = daemon.get("/api/v1/status").ok();
        if let Some(achieved) = status["streams"]["main"]["achieved_records_per_second"].as_f64()
            && achieved > 0.0
        {
            let over = status["streams"]["main"]["achieved_over_seconds"].as_f64().unwrap();
            assert!(over > 0.1, "{over}");
            assert_eq!(status["totals"]["achieved_records_per_second"], achieved);
            break;
        }
        std::thread::yield_now();
    }
}

#[test]
fn runs_are_listed_and_found_by_id_and_as_current() {
    let daemon = Daemon::start();
    let runs = daemon.get("/api/v1/runs").ok();
    assert_eq!(runs["runs"][0]["id"], "steady-20260101");
    assert_eq!(runs["runs"][0]["tags"]["variant"], "a");
    let by_id = daemon.get("/api/v1/runs/steady-20260101").ok();
    assert_eq!(daemon.get("/api/v1/runs/current").ok(), by_id);
    let problem = daemon.get("/api/v1/runs/another").problem(404);
    assert!(problem["detail"].as_str().unwrap().contains("steady-20260101"), "{problem}");
}

#[test]
fn get_changes_nothing() {
    let daemon = Daemon::start();
    let before = daemon.get("/api/v1/rate").ok();
    for path in ["/api/v1/pause", "/api/v1/resume", "/api/v1/streams/main/pause", "/api/v1/runs/current/stop"]
    {
        assert_eq!(daemon.get(path).problem(405)["status"], 405);
    }
    for path in ["/api/v1/rate?records_per_second=1", "/api/v1/status", "/api/v1/runs", "/metrics", "/readyz"]
    {
        assert_eq!(daemon.get(path).status, 200);
    }
    assert_eq!(daemon.get("/api/v1/rate").ok(), before);
    assert_eq!(daemon.control.stop_requested(), None);
    assert!(daemon.board().events.drain().is_empty());
}
