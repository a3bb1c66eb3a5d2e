//! Counts that are exact to the record.

use super::{LIMIT, assert_sound, number, totals, wait};
use crate::daemon::{self, series};
use crate::mock::MockKafka;

#[test]
fn r4_thirty_records_a_second_for_three_seconds_is_ninety_whatever_the_lanes() {
    let kafka = MockKafka::start(4);
    for lanes in [1, 4] {
        let before = kafka.records();
        let settings = kafka.settings("duration = \"3s\"", "", &format!("rate = 30\nlanes = {lanes}"));
        let ended = daemon::start(&settings).wait(LIMIT);
        assert_sound(&ended);
        assert_eq!(kafka.records() - before, 90, "{lanes} lanes");
        assert_eq!((number(&totals(&ended)["scheduled"]), number(&totals(&ended)["acked"])), (90, 90));
    }
}

#[test]
fn r4_half_a_record_a_second_is_exact_with_four_lanes() {
    let kafka = MockKafka::start(4);
    let ended = daemon::start(&kafka.settings("duration = \"5s\"", "", "rate = 0.5\nlanes = 4")).wait(LIMIT);
    assert_sound(&ended);
    // Due at 0 s, 2 s and 4 s.
    assert_eq!((kafka.records(), number(&totals(&ended)["scheduled"])), (3, 3));
}

#[test]
#[ignore = "long: tests/run --long"]
fn long_r4_thirty_a_second_for_thirty_seconds_is_nine_hundred_five_times() {
    for _ in 0..5 {
        let kafka = MockKafka::start(4);
        let ended = daemon::start(&kafka.settings("duration = \"30s\"", "", "rate = 30")).wait(LIMIT);
        assert_sound(&ended);
        assert_eq!((kafka.records(), number(&totals(&ended)["scheduled"])), (900, 900));
    }
}

#[test]
fn r4_a_limit_of_records_is_exact_with_lanes_and_above_all_rates() {
    let kafka = MockKafka::start(4);
    let settings = kafka.settings("", "", "rate = 5000\nrecords = 4321\nlanes = 3");
    let ended = daemon::start(&settings).wait(LIMIT);
    assert_sound(&ended);
    assert_eq!((kafka.records(), number(&totals(&ended)["scheduled"])), (4321, 4321));
    assert_eq!(ended.report()["cause"], "records");
}

#[test]
fn r4_warm_up_and_measured_phase_make_one_exact_load() {
    let kafka = MockKafka::start(2);
    let run = "warmup = \"1s\"\nduration = \"2s\"";
    let ended = daemon::start(&kafka.settings(run, "", "rate = 300")).wait(LIMIT);
    assert_sound(&ended);
    assert_eq!((kafka.records(), number(&totals(&ended)["scheduled"])), (900, 900));
    let part = |phase: &str| number(&ended.report()[phase]["streams"]["main"]["counts"]["scheduled"]);
    assert!(part("warm_up") >= 300 && part("measured") >= 450, "{}", ended.out);
    // The last records are due in the last moment, and counted in the next.
    assert!((850..=900).contains(&(part("warm_up") + part("measured"))), "{}", ended.out);
    assert_eq!(ended.report()["cause"], "duration");
}

#[test]
fn r4_a_pause_stops_the_clock_and_moves_no_count() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&kafka.settings("duration = \"3s\"", "", "rate = 100\nlanes = 2"));
    wait(&daemon, 30, "half of it", |now| series(now, "records_scheduled_total") >= 100.0);
    for _ in 0..2 {
        assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    }
    let paused = daemon.scrape();
    assert_eq!(series(&paused, "target_records_per_second"), 0.0);
    let beat = *paused.get("soakd_heartbeat_total").unwrap();
    let later = wait(&daemon, 30, "time passes", |now| now["soakd_heartbeat_total"] >= beat + 2.0);
    assert!(series(&later, "records_scheduled_total") < 300.0, "a pause is no debt");
    let still = wait(&daemon, 30, "time passes", |now| now["soakd_heartbeat_total"] >= beat + 3.0);
    assert_eq!(series(&later, "records_scheduled_total"), series(&still, "records_scheduled_total"));
    assert_eq!(daemon.get("/api/v1/status")["run"]["state"], "paused");
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    let ended = daemon.wait(LIMIT);
    assert_sound(&ended);
    let given_up = number(&totals(&ended)["dropped"]["paused"]);
    assert_eq!(number(&totals(&ended)["scheduled"]), 300);
    assert_eq!(kafka.records() + given_up, 300);
    assert!(ended.report()["measured"]["paused_seconds"].as_f64().unwrap() >= 1.5, "{}", ended.out);
}

#[test]
fn r7_rate_zero_is_nothing_until_it_is_changed() {
    let kafka = MockKafka::start(2);
    let daemon = daemon::start(&kafka.settings("", "", "rate = 0"));
    let beats = |more: f64| {
        let beat = daemon.scrape()["soakd_heartbeat_total"];
        wait(&daemon, 30, "time passes", |now| now["soakd_heartbeat_total"] >= beat + more)
    };
    assert_eq!(series(&beats(2.0), "records_scheduled_total"), 0.0);
    daemon.set_rate(500.0);
    wait(&daemon, 30, "records", |now| series(now, "records_acked_total") >= 100.0);
    daemon.set_rate(0.0);
    // What was sent before may still come in.
    let rest = wait(&daemon, 30, "at rest", |now| {
        series(now, "records_in_flight") + series(now, "schedule_backlog_records") == 0.0
    });
    let later = beats(3.0);
    for name in ["records_scheduled_total", "records_sent_total", "records_acked_total"] {
        assert_eq!(series(&rest, name), series(&later, name), "{name} at rate 0");
    }
    let ended = daemon.terminate();
    assert_sound(&ended);
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
}

#[test]
fn two_streams_at_once_are_exact_and_apart() {
    let kafka = MockKafka::start(4);
    kafka.cluster.create_topic("u", 3, 1).unwrap();
    let more = "rate = 400\nlanes = 2\n[streams.other]\ntopic = \"u\"\ncreate = false\nrate = 100";
    let daemon = daemon::start(&kafka.settings("duration = \"3s\"", "", more));
    // A total keeps the shares: 4 to 1.
    let (_, rates) =
        daemon.send("PUT", "/api/v1/rate", Some(serde_json::json!({"records_per_second": 1000})));
    assert_eq!(rates["streams"]["main"]["records_per_second"], 800.0);
    assert_eq!(rates["streams"]["other"]["records_per_second"], 200.0);
    let ended = daemon.wait(LIMIT);
    assert_sound(&ended);
    let due = |name: &str| number(&ended.report()["streams"][name]["totals"]["scheduled"]);
    let (main, other) = (due("main"), due("other"));
    assert_eq!((kafka.records_of("t", 4), kafka.records_of("u", 3)), (main, other));
    // Both were changed at the same moment, so that the shares hold for the counts, up to a record in each phase.
    assert!(main.abs_diff(4 * other) <= 8 && (1200..=2400).contains(&main), "{main} and {other}");
}
