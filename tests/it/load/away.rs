//! The broker goes away, comes back, or is too slow.

use std::time::{Duration, Instant};

use super::{LIMIT, acked_share, dropped, failed, limited, limited_seconds, number, totals, wait, wait_due};
use crate::daemon::{self, Daemon, Ended, eventually, request, series};
use crate::mock::MockKafka;

/// Everything that was acked is there, and nothing twice.
fn assert_reconciled(kafka: &MockKafka, ended: &Ended) {
    let totals = totals(ended);
    let (acked, unknown) = (number(&totals["acked"]), number(&totals["failed"]["outcome_unknown"]));
    assert!((acked..=acked + unknown).contains(&kafka.records()), "{} for {totals}", kafka.records());
    let result = &ended.report()["streams"]["main"]["reconciliation"]["result"];
    assert!(result == "agrees" || result == "surplus_of_failed", "{result}\n{}", ended.out);
}

/// The outage was the broker's, whatever else the machine was busy with.
fn assert_by_broker(daemon: &Daemon) {
    let now = daemon.scrape();
    let (broker, generator) = (limited_seconds(&now, "broker"), limited_seconds(&now, "generator"));
    assert!(broker > 1.0 && generator < broker / 4.0, "broker {broker} s, generator {generator} s");
}

fn is_healthy(daemon: &Daemon) -> bool {
    daemon.get("/readyz")["status"] == "ok"
}

#[test]
fn p1_a_full_queue_empties_when_the_broker_is_back() {
    let kafka = MockKafka::start(4);
    let client = "\"queue.buffering.max.messages\" = 1000";
    let daemon = daemon::start(&kafka.settings("", client, "rate = 2000\noverload = { max_debt = \"1s\" }"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 1000.0);
    kafka.down();
    let down = wait(&daemon, 30, "late records are dropped", |now| dropped(now, "late") >= 2000.0);
    assert!(limited(&down, "broker") && !limited(&down, "generator"), "{}", daemon.log());
    assert!(series(&down, "stalls_total") >= 1.0);
    assert_by_broker(&daemon);
    kafka.up();
    wait(&daemon, 15, "the backlog is gone", |now| {
        series(now, "schedule_backlog_records") < 100.0 && series(now, "records_in_flight") < 500.0
    });
    let share = acked_share(&daemon, 6000.0);
    assert!((0.95..=1.05).contains(&share), "{share} of the rate\n{}", daemon.log());
    let ended = daemon.terminate();
    assert_reconciled(&kafka, &ended);
}

#[test]
fn p2_a_slow_broker_does_not_slow_the_schedule_nor_the_answers() {
    let kafka = MockKafka::start(4);
    let client = "\"queue.buffering.max.messages\" = 500";
    let more = "rate = 5000\noverload = { max_debt = \"1s\" }";
    let daemon = daemon::start(&kafka.settings("duration = \"5s\"", client, more));
    kafka.round_trip(Duration::from_millis(500));
    let mut answers = Vec::new();
    while daemon.metric("records_scheduled_total") < 22_000.0 {
        let begun = Instant::now();
        let (status, _) = request(daemon.http, "GET", "/api/v1/status", None).unwrap();
        assert_eq!(status, 200);
        answers.push(begun.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    answers.sort();
    assert!(answers[answers.len() / 2] < Duration::from_millis(250), "{answers:?}");
    assert!(*answers.last().unwrap() < Duration::from_millis(2500), "{answers:?}");
    assert_by_broker(&daemon);
    kafka.round_trip(Duration::ZERO);
    let ended = daemon.wait(LIMIT);
    assert_eq!(number(&totals(&ended)["scheduled"]), 25_000, "open loop: {}", ended.out);
    assert!(number(&totals(&ended)["dropped"]["late"]) > 5000, "{}", ended.out);
    assert_reconciled(&kafka, &ended);
}

#[test]
fn r8_a_rate_that_the_broker_does_not_take_is_not_sustained() {
    let kafka = MockKafka::start(1);
    kafka.round_trip(Duration::from_millis(500));
    let client = "\"queue.buffering.max.messages\" = 100";
    let ended = daemon::start(&kafka.settings("duration = \"4s\"", client, "rate = 2000")).wait(LIMIT);
    let figures = &ended.report()["measured"]["streams"]["main"];
    assert_eq!(figures["rate_sustained"], false, "{}", ended.out);
    let number = |name: &str| figures[name].as_f64().unwrap();
    assert!((number("target_records_per_second") - 2000.0).abs() < 100.0, "{figures}");
    assert!(number("achieved_records_per_second") < 1000.0, "{figures}");
    // All seconds are missed, the first one too.
    assert!(number("first_missed_second") < 1.5, "{figures}");
    assert!(ended.out.contains("NOT SUSTAINED"), "{}", ended.out);
}

#[test]
fn p3_an_outage_is_degraded_health_and_never_an_end() {
    let kafka = MockKafka::start(4);
    let client = "\"queue.buffering.max.messages\" = 200";
    let daemon = daemon::start(&kafka.settings("", client, "rate = 500\noverload = { max_debt = \"2s\" }"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 100.0);
    assert!(is_healthy(&daemon) || daemon.log().contains("generator"), "{}", daemon.get("/readyz"));
    kafka.down();
    let health = eventually(Duration::from_secs(15), "acks have stopped", || {
        let health = daemon.get("/readyz");
        health["reasons"].to_string().contains("acks have stopped").then_some(health)
    });
    assert_eq!(health["status"], "degraded");
    wait_due(&daemon, 1000.0);
    kafka.up();
    // A few seconds at rest; a machine full of other tests takes its time.
    let begun = Instant::now();
    while !is_healthy(&daemon) {
        assert!(begun.elapsed() < LIMIT, "{}\n{}", daemon.get("/readyz"), daemon.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("healthy after {:?}", begun.elapsed());
    let ended = daemon.terminate();
    assert_reconciled(&kafka, &ended);
    let outages = ended.report()["streams"]["main"]["outages"].as_array().unwrap();
    assert_eq!(outages.len(), 1, "{}", ended.out);
    let seconds = outages[0]["seconds"].as_f64().unwrap();
    assert!((3.0..30.0).contains(&seconds) && outages[0]["end_at"].is_string(), "{}", ended.out);
    assert_eq!(ended.report()["events"]["acks_stopped"], 1);
    assert_eq!(ended.report()["events"]["acks_resumed"], 1);
}

#[test]
fn p10_the_byte_limit_bounds_memory_and_is_named() {
    let kafka = MockKafka::start(4);
    let client = "\"queue.buffering.max.kbytes\" = 65536";
    let more = "rate = 0\noverload = { max_debt = \"1s\" }\nvalue = { kind = \"random\", size = 100000 }";
    let daemon = daemon::start(&kafka.settings("", client, more));
    let resident = || daemon.scrape()["process_resident_memory_bytes"];
    let before = resident();
    kafka.down();
    daemon.set_rate(500.0);
    let full = wait(&daemon, 30, "dropped by the byte limit", |now| dropped(now, "queue_bytes") >= 500.0);
    assert_eq!(dropped(&full, "late"), 0.0);
    assert!(series(&full, "records_in_flight") <= 65536.0 * 1024.0 / 100_000.0);
    assert!(daemon.log().contains("full by bytes"), "{}", daemon.log());
    let risen = (resident() - before) / 1_048_576.0;
    assert!(risen <= 64.0 * 1.5, "{risen} MiB");
    daemon.set_rate(0.0);
    kafka.up();
    wait(&daemon, 30, "all is acked", |now| series(now, "records_in_flight") == 0.0);
    let ended = daemon.terminate();
    assert_reconciled(&kafka, &ended);
    for limit in ["queue.buffering.max.kbytes 65536: ", "queue.buffering.max.messages "] {
        assert!(ended.out.contains(limit), "{limit} is not in\n{}", ended.out);
    }
}

/// CPU seconds of the daemon so far.
fn cpu_seconds(daemon: &Daemon) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // In hundredths of a second, as Linux gives them to everybody.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// CPU seconds of the daemon for each second, while so many records become due.
fn cores(daemon: &Daemon, records: f64) -> f64 {
    let (before, begun) = (cpu_seconds(daemon), Instant::now());
    // Scrapes cost CPU too, the same at all times.
    wait_due(daemon, records);
    (cpu_seconds(daemon) - before) / begun.elapsed().as_secs_f64()
}

fn outage_costs_no_cpu(partitions: i32) {
    let kafka = MockKafka::start(partitions);
    let daemon = daemon::start(&kafka.settings("", "", "rate = 500\noverload = { max_debt = \"2s\" }"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 500.0);
    let before = cores(&daemon, 1500.0);
    kafka.down();
    wait(&daemon, 30, "acks have stopped", |now| dropped(now, "late") > 0.0);
    let during = cores(&daemon, 2500.0);
    assert!(during <= before + 0.15, "{during} cores in the outage, {before} before");
    kafka.up();
    wait(&daemon, 20, "the backlog is gone", |now| series(now, "schedule_backlog_records") < 50.0);
    let after = cores(&daemon, 1500.0);
    assert!(after <= before + 0.15, "{after} cores after the outage, {before} before");
    // It shows its own CPU, in whole seconds.
    let (shown, used) = (daemon.scrape()["process_cpu_seconds_total"], cpu_seconds(&daemon));
    assert!((shown..shown + 2.0).contains(&used), "{shown} is shown, {used} s were used");
    assert_reconciled(&kafka, &daemon.terminate());
}

#[test]
fn p13_an_outage_costs_no_cpu_with_4_partitions() {
    outage_costs_no_cpu(4);
}

#[test]
fn p13_an_outage_costs_no_cpu_with_64_partitions() {
    outage_costs_no_cpu(64);
}

#[test]
fn a_policy_of_waiting_drops_nothing_over_an_outage() {
    let kafka = MockKafka::start(2);
    let client = "\"queue.buffering.max.messages\" = 100";
    let more = "rate = 500\nrecords = 3000\nlanes = 2\noverload = { policy = \"wait\", max_catch_up = 3.0 }";
    let daemon = daemon::start(&kafka.settings("", client, more));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 100.0);
    kafka.down();
    let late = wait_due(&daemon, 1500.0);
    assert!(series(&late, "schedule_backlog_records") >= 1000.0);
    kafka.up();
    let ended = daemon.wait(LIMIT);
    assert_eq!(kafka.records(), 3000, "{}", ended.out);
    assert_eq!(number(&totals(&ended)["acked"]), 3000);
}

#[test]
fn a_policy_of_skipping_keeps_no_backlog_in_an_outage() {
    let kafka = MockKafka::start(2);
    let client = "\"queue.buffering.max.messages\" = 100";
    let daemon = daemon::start(&kafka.settings("", client, "rate = 500\noverload = { policy = \"skip\" }"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 100.0);
    kafka.down();
    wait(&daemon, 30, "late records are dropped", |now| dropped(now, "late") >= 500.0);
    // 100 ms of load, and what becomes due until the lane looks again.
    wait(&daemon, 30, "a small backlog", |now| series(now, "schedule_backlog_records") <= 75.0);
    // What was dropped was limited all the time, not for the 100 ms that a record may be late.
    wait_due(&daemon, 1000.0);
    assert_by_broker(&daemon);
    kafka.up();
    wait(&daemon, 15, "nobody limits", |now| !limited(now, "broker") && !limited(now, "generator"));
    assert_reconciled(&kafka, &daemon.terminate());
}

#[test]
fn p2_lanes_that_are_held_back_together_are_held_back_once() {
    let kafka = MockKafka::start(4);
    let more = "rate = 4000\nlanes = 4\nmax_in_flight = 100\noverload = { max_debt = \"1s\" }";
    let begun = Instant::now();
    let daemon = daemon::start(&kafka.settings("", "", more));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 100.0);
    kafka.down();
    wait(&daemon, 30, "late records are dropped", |now| dropped(now, "late") >= 4000.0);
    assert_by_broker(&daemon);
    let now = daemon.scrape();
    assert!(series(&now, "records_in_flight") <= 100.0, "the cap is the stream's");
    assert!(limited_seconds(&now, "broker") <= begun.elapsed().as_secs_f64(), "more than time has passed");
    kafka.up();
    assert_reconciled(&kafka, &daemon.terminate());
}

#[test]
fn b7_every_counter_of_a_stream_moves() {
    let kafka = MockKafka::start(2);
    let client = "\"statistics.interval.ms\" = 200, \"message.timeout.ms\" = 1500";
    let more = "rate = 500\nmax_in_flight = 100\noverload = { max_debt = \"1s\" }";
    let daemon = daemon::start(&kafka.settings("", client, more));
    let fresh = daemon.scrape();
    kafka.round_trip(Duration::from_millis(60));
    let slow = wait(&daemon, 30, "the round trip is seen", |now| {
        now.get("soakd_broker_rtt_seconds{stream=\"main\",broker=\"1\"}").is_some_and(|rtt| *rtt >= 0.05)
    });
    kafka.down();
    wait(&daemon, 30, "records fail and are dropped", |now| {
        failed(now, "timed_out") > 0.0 && dropped(now, "late") > 0.0 && series(now, "records_in_flight") > 0.0
    });
    let away = daemon.scrape();
    kafka.round_trip(Duration::ZERO);
    kafka.up();
    daemon.set_rate(200.0);
    let done = wait(&daemon, 30, "acks again", |now| {
        series(now, "records_acked_total") > series(&away, "records_acked_total") + 100.0
    });
    for name in [
        "records_scheduled_total",
        "records_sent_total",
        "records_acked_total",
        "bytes_acked_total",
        "stalls_total",
        "schedule_delay_seconds_count",
        "schedule_delay_seconds_sum",
        "rate_last_change_timestamp_seconds",
    ] {
        assert!(series(&done, name) > series(&fresh, name), "{name}");
    }
    for from in ["intended", "sent"] {
        let name = format!("ack_latency_seconds_count{{stream=\"main\",from=\"{from}\"}}");
        assert_eq!(series(&done, &name), series(&done, "records_acked_total"), "{name}");
    }
    assert!(limited_seconds(&away, "broker") > 0.0 && limited(&away, "broker"));
    assert!(series(&away, "schedule_backlog_records") > 0.0);
    assert_eq!(
        (series(&slow, "target_records_per_second"), series(&done, "target_records_per_second")),
        (500.0, 200.0)
    );
    // Every record has 8 bytes of key and 500 of value.
    assert_eq!(series(&done, "bytes_acked_total"), 508.0 * series(&done, "records_acked_total"));
    daemon.terminate();
}
