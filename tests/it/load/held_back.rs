//! soakd itself does not run: it must say so, and blame nobody else.

use std::time::Duration;

use super::{limited, limited_seconds, number, totals, wait};
use crate::daemon::{self, Daemon, Ended, Scrape, series};
use crate::mock::MockKafka;

const STOPPED_SECONDS: f64 = 3.0;

/// Stops a daemon with 1,000 records a second for three seconds; the scrape is from when it has recovered.
fn stop_for_a_while(kafka: &MockKafka, more: &str) -> (Scrape, Ended) {
    let daemon = daemon::start(&kafka.settings("", "", &format!("rate = 1000\n{more}")));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 500.0);
    let before = daemon.scrape();
    daemon.signal("STOP");
    std::thread::sleep(Duration::from_secs_f64(STOPPED_SECONDS));
    daemon.signal("CONT");
    let after = recovered(&daemon, series(&before, "records_scheduled_total"));
    let stopped = limited_seconds(&after, "generator") - limited_seconds(&before, "generator");
    assert!((STOPPED_SECONDS - 0.5..30.0).contains(&stopped), "limited for {stopped} s\n{}", daemon.log());
    assert_eq!(limited_seconds(&after, "broker"), 0.0, "{}", daemon.log());
    (after, daemon.terminate())
}

fn recovered(daemon: &Daemon, scheduled: f64) -> Scrape {
    wait(daemon, 30, "recovered", |now| {
        series(now, "records_scheduled_total") >= scheduled + STOPPED_SECONDS * 1000.0
            && series(now, "schedule_backlog_records") < 50.0
            && !limited(now, "generator")
    })
}

fn seconds(ended: &Ended, latency: &str) -> f64 {
    ended.report()["measured"]["streams"]["main"][latency]["max_seconds"].as_f64().unwrap()
}

#[test]
fn r6_a_stopped_daemon_shows_in_the_latency_from_the_intended_time() {
    let kafka = MockKafka::start(4);
    let (_, ended) = stop_for_a_while(&kafka, "lanes = 2");
    assert_eq!(number(&totals(&ended)["dropped"]["late"]), 0);
    assert!(seconds(&ended, "ack_from_intended") >= STOPPED_SECONDS - 0.2, "{}", ended.out);
    assert!(seconds(&ended, "schedule_delay") >= STOPPED_SECONDS - 0.2, "{}", ended.out);
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
    // The figures are void, and the exit code says so. The broker was not silent: nobody listened.
    assert_eq!(ended.code(), 4, "{}", ended.out);
    assert!(ended.report()["events"]["acks_stopped"].is_null(), "{}", ended.log);
}

#[test]
fn r6_a_stopped_daemon_shows_in_dropped_records_when_they_are_skipped() {
    let kafka = MockKafka::start(4);
    let (after, ended) = stop_for_a_while(&kafka, "overload = { policy = \"skip\" }");
    let late = super::dropped(&after, "late");
    assert!(late >= (STOPPED_SECONDS - 0.2) * 1000.0, "{late} dropped");
    assert_eq!(ended.code(), 4, "{}", ended.out);
}

#[test]
fn r2_each_step_is_reached_or_said_not_to_be() {
    let kafka = MockKafka::start(4);
    let more = "rate = 1000\nmax_rate = 60000\nvalue = { kind = \"random\", size = 100 }";
    let daemon = daemon::start(&kafka.settings("", "", more));
    super::wait_due(&daemon, 2000.0);
    for rate in [10_000.0, 20_000.0, 50_000.0] {
        daemon.set_rate(rate);
        super::wait_due(&daemon, 2.5 * rate);
    }
    let ended = daemon.terminate();
    let segments = ended.report()["segments"].as_array().unwrap();
    let mut before = 0.0;
    for segment in
        segments.iter().filter(|segment| segment["figures"]["active_seconds"].as_f64().unwrap() > 1.0)
    {
        let figures = &segment["figures"]["streams"]["main"];
        let rate = |name: &str| figures[name].as_f64().unwrap();
        let target = rate("target_records_per_second");
        // By what was sent: at the end of a short step up to a second of it is still to be acked.
        let seconds = segment["figures"]["active_seconds"].as_f64().unwrap();
        let achieved = figures["counts"]["sent"].as_f64().unwrap() / seconds;
        let reached = achieved >= 0.97 * target;
        let said = figures["rate_sustained"] == false || ended.code() == 4;
        assert!(reached || said, "{achieved} of {target} and not a word\n{}", ended.out);
        assert!(achieved > before, "{achieved} after {before}\n{}", ended.out);
        before = achieved;
    }
    assert!(before > 10_000.0, "{}", ended.out);
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]));
}
