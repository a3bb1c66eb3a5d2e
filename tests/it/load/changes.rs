//! Changes of the rate while the load runs.

use std::time::{Duration, Instant};

use super::{assert_sound, number, totals, wait};
use crate::daemon::{self, Daemon, eventually, series};
use crate::mock::MockKafka;

fn wall_ms() -> i64 {
    i64::try_from(soakd::core::clock::wall_now().as_millis()).unwrap()
}

fn at_rest(daemon: &Daemon) -> f64 {
    let rest = wait(daemon, 30, "at rest", |now| {
        series(now, "records_in_flight") + series(now, "schedule_backlog_records") == 0.0
    });
    series(&rest, "records_sent_total")
}

#[test]
fn h2_a_change_of_rate_reaches_the_lanes_within_50_ms() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&kafka.settings("", "\"linger.ms\" = 0", "rate = 0\nlanes = 2"));
    let (mut reached, mut edges) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let sent = at_rest(&daemon);
        let asked_ms = wall_ms();
        daemon.set_rate(1000.0);
        let answered = Instant::now();
        eventually(Duration::from_secs(10), "records are sent", || {
            (daemon.metric("records_sent_total") > sent).then_some(())
        });
        reached.push(answered.elapsed());
        let before_zero_ms = wall_ms();
        daemon.set_rate(0.0);
        edges.push((asked_ms, before_zero_ms, wall_ms()));
    }
    at_rest(&daemon);
    reached.sort();
    // The median: a busy machine may hold up a single try for longer.
    assert!(reached[4] <= Duration::from_millis(50), "{reached:?}");
    let mut times: Vec<i64> = kafka.read("t", 4).iter().map(|record| record.timestamp_ms).collect();
    times.sort_unstable();
    for (asked_ms, before_zero_ms, zero_ms) in edges {
        let first = times.iter().find(|time| **time >= asked_ms - 1).unwrap();
        let last = times.iter().rfind(|time| **time <= zero_ms + 1).unwrap();
        // The wall clock of the daemon was read once at its start and may be a millisecond apart.
        assert!(*first <= before_zero_ms + 1 && *last >= asked_ms - 1);
        times.retain(|time| *time < asked_ms - 1 || *time > zero_ms + 1);
    }
    assert!(times.is_empty(), "records of a time at which the rate was 0: {times:?}");
    assert_sound(&daemon.terminate());
}

#[test]
fn h2_a_change_of_rate_resets_nothing_and_is_an_event() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&kafka.settings("", "", "rate = 500"));
    let before = wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 200.0);
    for rate in [1000.0, 1000.0, 700.0] {
        daemon.set_rate(rate);
    }
    let after = daemon.scrape();
    for (name, value) in &before {
        if name.contains("_total") {
            assert!(after[name] >= *value, "{name} fell");
        }
    }
    let change = "rate_last_change_timestamp_seconds";
    assert!(series(&after, change) > series(&before, change));
    // The same rate again is no change.
    wait(&daemon, 30, "two events", |now| now["soakd_events_total{kind=\"rate_changed\"}"] == 2.0);
    let ended = daemon.terminate();
    assert_sound(&ended);
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
    assert_eq!(ended.report()["events"]["rate_changed"], 2);
}

/// A backlog needs a broker that takes nothing.
fn with_backlog(kafka: &MockKafka) -> Daemon {
    let client = "\"queue.buffering.max.messages\" = 100";
    let daemon = daemon::start(&kafka.settings("flush_timeout = \"1s\"", client, "rate = 500\nlanes = 2"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 100.0);
    kafka.down();
    wait(&daemon, 30, "a backlog", |now| series(now, "schedule_backlog_records") >= 300.0);
    daemon
}

#[test]
fn h3_a_pause_and_a_rate_of_0_give_the_backlog_up_by_name() {
    let kafka = MockKafka::start(2);
    let daemon = with_backlog(&kafka);
    let gone = |daemon: &Daemon| {
        wait(daemon, 10, "no backlog", |now| series(now, "schedule_backlog_records") == 0.0)
    };
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    let paused = super::dropped(&gone(&daemon), "paused");
    assert!(paused >= 300.0, "{paused}");
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    wait(&daemon, 30, "a backlog", |now| series(now, "schedule_backlog_records") >= 100.0);
    daemon.set_rate(0.0);
    let zero = super::dropped(&gone(&daemon), "paused");
    assert!(zero >= paused + 100.0, "{zero}");
    kafka.up();
    at_rest(&daemon);
    let ended = daemon.terminate();
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
    assert_eq!(number(&totals(&ended)["dropped"]["late"]), 0);
}

#[test]
fn h3_a_stop_gives_the_backlog_up_by_name() {
    let kafka = MockKafka::start(2);
    let daemon = with_backlog(&kafka);
    daemon.signal("TERM");
    let stopped = wait(&daemon, 10, "no backlog", |now| series(now, "schedule_backlog_records") == 0.0);
    assert!(super::dropped(&stopped, "stopped") >= 300.0);
    kafka.up();
    let ended = daemon.wait(super::LIMIT);
    let totals = totals(&ended);
    let unknown = number(&totals["failed"]["outcome_unknown"]);
    let acked = number(&totals["acked"]);
    assert!((acked..=acked + unknown).contains(&kafka.records()), "{totals}");
}
