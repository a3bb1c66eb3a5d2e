//! Loads that are planned or a closed loop: profiles, "max", preload, Poisson arrivals.

use serde_json::{Value, json};

use super::{LIMIT, assert_sound, number, totals, wait};
use crate::daemon::{self, Daemon, eventually, series};
use crate::mock::MockKafka;

fn run(kafka: &MockKafka, run: &str, stream: &str) -> daemon::Ended {
    daemon::start(&kafka.settings(run, "", stream)).wait(LIMIT)
}

fn put(daemon: &Daemon, what: &str, body: Value) -> Value {
    let (status, answer) = daemon.send("PUT", &format!("/api/v1/streams/main/{what}"), Some(body));
    assert_eq!(status, 200, "{answer}");
    answer
}

fn targets(ended: &daemon::Ended) -> Vec<Value> {
    let segments = ended.report()["segments"].as_array().unwrap();
    let target = |segment: &Value| segment["figures"]["streams"]["main"]["target_records_per_second"].clone();
    segments.iter().map(target).collect()
}

#[test]
fn r4_steps_are_exact_and_segments_of_the_report() {
    let kafka = MockKafka::start(4);
    let profile = "profile = [{ steps = { from = 100, to = 300, by = 200, each = \"1s\" } }, { rate = 50 }]";
    let ended = run(&kafka, "duration = \"3s\"", &format!("{profile}\nlanes = 3"));
    assert_sound(&ended);
    assert_eq!((kafka.records(), number(&totals(&ended)["scheduled"])), (450, 450));
    assert_eq!(ended.report()["events"]["rate_changed"], 2);
    let found: Vec<f64> = targets(&ended).iter().map(|target| target.as_f64().unwrap()).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    // A segment is cut within a tick, and the last one ends a moment after the load.
    let near = found.iter().zip([100.0, 300.0, 50.0]).all(|(found, set)| (found / set - 1.0).abs() < 0.05);
    assert!(near, "{found:?}");
}

#[test]
fn r4_curves_have_the_count_of_their_integral_whatever_the_lanes() {
    let kafka = MockKafka::start(4);
    let profile = "profile = [{ ramp_to = 400, over = \"1s\" }, \
        { sine = { mean = 300, amplitude = 300, period = \"500ms\" }, for = \"1s\" }, \
        { burst = { rate = 1000, for = \"100ms\", every = \"500ms\" }, for = \"1s\" }]";
    for lanes in [1, 4] {
        let before = kafka.records();
        let ended = run(&kafka, "duration = \"3s\"", &format!("{profile}\nlanes = {lanes}"));
        assert_sound(&ended);
        assert_eq!(
            (kafka.records() - before, number(&totals(&ended)["scheduled"])),
            (700, 700),
            "{lanes} lanes"
        );
        let mean =
            ended.report()["measured"]["streams"]["main"]["target_records_per_second"].as_f64().unwrap();
        assert!((mean * 3.0 / 700.0 - 1.0).abs() < 0.02, "{mean}");
    }
}

#[test]
fn h2_a_profile_over_http_begins_now_and_a_rate_ends_it() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&kafka.settings("", "", "rate = 100\nlanes = 2"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 20.0);
    let wanted = json!([{ "ramp_to": 600, "over": "500ms" }, { "rate": 0, "for": "1s" }, { "rate": 250 }]);
    let answer = put(&daemon, "profile", json!({ "profile": wanted }));
    assert_eq!((&answer["profile"], &answer["profile_repeat"]), (&wanted, &json!(1)));
    assert!(answer["position_seconds"].as_f64().unwrap() < 1.0, "{answer}");
    let path = "/api/v1/streams/main/profile";
    eventually(LIMIT, "the second segment", || (daemon.get(path)["segment"] == 1).then_some(()));
    eventually(LIMIT, "the last segment", || (daemon.get(path)["segment"] == 2).then_some(()));
    assert_eq!(daemon.get("/api/v1/rate")["records_per_second"], 250.0);
    let after = put(&daemon, "rate", json!({ "records_per_second": 40 }));
    assert_eq!(after["records_per_second"], 40.0);
    assert_eq!(daemon.get(path)["profile"], Value::Null);
    wait(&daemon, 30, "records go on", |now| series(now, "records_in_flight") > 0.0);
    let ended = daemon.terminate();
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
    assert_eq!(ended.report()["events"]["profile_started"], 1);
    // Into the last two segments, and to the rate.
    assert_eq!(ended.report()["events"]["rate_changed"], 3, "{}", ended.log);
}

#[test]
fn r2_at_max_a_limit_of_records_is_exact_and_nothing_is_called_late() {
    let kafka = MockKafka::start(4);
    for lanes in [1, 3] {
        let before = kafka.records();
        let ended = run(&kafka, "", &format!("rate = \"max\"\nrecords = 30_000\nlanes = {lanes}"));
        assert_sound(&ended);
        assert_eq!((kafka.records() - before, number(&totals(&ended)["scheduled"])), (30_000, 30_000));
        let report = ended.report();
        assert_eq!(report["cause"], "records");
        let main = &report["measured"]["streams"]["main"];
        // All that was claimed belongs to the measured phase.
        assert_eq!(number(&main["counts"]["scheduled"]), 30_000, "{main}");
        assert_eq!(
            (&main["target_records_per_second"], &main["rate_sustained"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(number(&main["counts"]["stalls"]), 0, "{main}");
        assert!(ended.out.contains("target max, achieved"), "{}", ended.out);
        assert!(report["remarks"].to_string().contains("a closed loop"), "{}", report["remarks"]);
    }
}

#[test]
fn h2_from_max_to_a_rate_and_back_every_record_is_accounted_for() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&kafka.settings("", "", "rate = \"max\"\nmax_in_flight = 2000\nlanes = 2"));
    let target = "records_acked_total";
    let fast = wait(&daemon, 30, "a fast load", |now| series(now, target) >= 20_000.0);
    assert!(!fast.contains_key("soakd_target_records_per_second{stream=\"main\"}"), "max has no rate");
    assert!(series(&fast, "records_in_flight") <= 2000.0);
    assert_eq!(series(&fast, "stalls_total"), 0.0, "at max the cap is what the load goes by");
    let status = daemon.get("/api/v1/status");
    assert_eq!(status["streams"]["main"]["target_records_per_second"], "max");
    assert_eq!(daemon.get("/api/v1/rate")["records_per_second"], "max");
    put(&daemon, "rate", json!({ "records_per_second": 200 }));
    let slow = wait(&daemon, 30, "the rest is sent", |now| {
        series(now, "schedule_backlog_records") < 10.0 && series(now, "records_in_flight") < 20.0
    });
    assert_eq!(series(&slow, "target_records_per_second"), 200.0);
    let later = super::wait_due(&daemon, 100.0);
    assert!(series(&later, "records_scheduled_total") < series(&slow, "records_scheduled_total") + 1000.0);
    put(&daemon, "rate", json!({ "records_per_second": "max" }));
    wait(&daemon, 30, "fast again", |now| series(now, target) >= series(&later, target) + 20_000.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    wait(&daemon, 30, "at rest", |now| {
        series(now, "records_in_flight") + series(now, "schedule_backlog_records") == 0.0
    });
    let ended = daemon.terminate();
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
    let found = targets(&ended);
    assert_eq!((&found[0], &found[2]), (&Value::Null, &Value::Null), "{found:?}");
    assert!((found[1].as_f64().unwrap() / 200.0 - 1.0).abs() < 1e-6, "{found:?}");
    assert_eq!(number(&totals(&ended)["dropped"]["late"]), 0);
}

#[test]
fn b4_a_preload_is_exact_and_apart_from_warm_up_and_measured_phase() {
    let kafka = MockKafka::start(4);
    // The clock begins with the last ack, not with the last record.
    kafka.round_trip(std::time::Duration::from_millis(100));
    let settings = "rate = 200\npreload = 3_000\nlanes = 2\nmax_in_flight = 1000";
    let daemon = daemon::start(&kafka.settings("warmup = \"1s\"\nduration = \"1s\"", "", settings));
    let ended = daemon.wait(LIMIT);
    assert_sound(&ended);
    assert_eq!((kafka.records(), number(&totals(&ended)["acked"])), (3_400, 3_400));
    let report = ended.report();
    let count = |phase: &str| number(&report[phase]["streams"]["main"]["counts"]["acked"]);
    assert_eq!(count("preload"), 3_000);
    assert!(
        (150..=250).contains(&count("warm_up")) && (150..=250).contains(&count("measured")),
        "{}",
        ended.out
    );
    let length = report["measured"]["active_seconds"].as_f64().unwrap();
    assert!((length - 1.0).abs() < 0.2, "the preload takes nothing from the measured phase: {length}");
    assert_eq!(report["segments"][0]["phase"], "preload");
    assert!(ended.out.contains("PRELOAD (in no figure above)"), "{}", ended.out);
}

#[test]
fn a_limit_of_records_counts_after_the_preload_and_a_pause_holds_it() {
    let kafka = MockKafka::start(2);
    let settings = "rate = 400\npreload = 20_000\nrecords = 300\nmax_in_flight = 50";
    kafka.round_trip(std::time::Duration::from_millis(20));
    let daemon = daemon::start(&kafka.settings("", "\"linger.ms\" = 0", settings));
    wait(&daemon, 30, "some of it", |now| series(now, "records_acked_total") >= 100.0);
    let preloading = daemon.scrape();
    assert_eq!(preloading["soakd_run_state{state=\"preloading\"}"], 1.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    let held = wait(&daemon, 30, "at rest", |now| {
        series(now, "records_in_flight") == 0.0 && now["soakd_run_state{state=\"paused\"}"] == 1.0
    });
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    kafka.round_trip(std::time::Duration::ZERO);
    let ended = daemon.wait(LIMIT);
    assert_sound(&ended);
    assert!(series(&held, "records_scheduled_total") < 20_000.0, "it was held in the middle");
    let given_up = number(&totals(&ended)["dropped"]["paused"]);
    assert_eq!(number(&totals(&ended)["scheduled"]), 20_300);
    assert_eq!(kafka.records() + given_up, 20_300);
    assert_eq!(ended.report()["cause"], "records");
}

#[test]
fn poisson_arrivals_are_the_same_for_any_number_of_lanes_and_unlike_even_ones() {
    let kafka = MockKafka::start(4);
    let mut counts = Vec::new();
    for lanes in [1, 4] {
        let before = kafka.records();
        let stream = format!("rate = 300\narrivals = \"poisson\"\nlanes = {lanes}");
        let ended = run(&kafka, "duration = \"3s\"", &stream);
        assert_sound(&ended);
        let count = kafka.records() - before;
        assert_eq!(number(&totals(&ended)["scheduled"]), count);
        counts.push(count);
    }
    // Five standard deviations of 900; the very number is pinned by the seed.
    assert!((750..=1050).contains(&counts[0]) && counts[0] != 900 && counts[0] == counts[1], "{counts:?}");
    let mut times: Vec<i64> = kafka.read("t", 4).iter().map(|record| record.timestamp_ms).collect();
    times.sort_unstable();
    let gaps: Vec<f64> =
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).filter(|gap| *gap < 100.0).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    // Exponential gaps deviate by their mean, even ones by nothing but the millisecond of the timestamp.
    assert!((0.8..1.2).contains(&(deviation / mean)), "{deviation} of {mean}");
}

#[test]
fn a_stop_in_the_preload_ends_it_and_other_streams_have_waited() {
    let kafka = MockKafka::start(2);
    kafka.cluster.create_topic("u", 2, 1).unwrap();
    kafka.round_trip(std::time::Duration::from_millis(50));
    let more = "rate = 100\npreload = 1_000_000\nmax_in_flight = 100\n\
        [streams.other]\ntopic = \"u\"\ncreate = false\nrate = 100";
    let daemon = daemon::start(&kafka.settings("flush_timeout = \"5s\"", "\"linger.ms\" = 0", more));
    let main = "records_acked_total{stream=\"main\"}";
    let seen = wait(&daemon, 30, "some of it", |now| series(now, main) >= 100.0);
    assert_eq!(series(&seen, "records_scheduled_total{stream=\"other\"}"), 0.0);
    assert_eq!(series(&seen, "target_records_per_second{stream=\"other\"}"), 0.0);
    let ended = daemon.terminate();
    let report = ended.report();
    assert_eq!((&report["measured"], &report["warm_up"]), (&Value::Null, &Value::Null));
    assert_eq!(report["absent"]["measured"], "the load ended during the preload");
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
    assert_eq!(kafka.records_of("u", 2), 0);
    assert_eq!(report["preload"]["streams"]["main"]["rate_sustained"], Value::Null);
}
