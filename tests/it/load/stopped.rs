//! The end of a load whose broker is dead.

use std::time::Duration;

use super::{LIMIT, number, totals, wait};
use crate::daemon::{self, series};
use crate::mock::MockKafka;

#[test]
fn p6_the_planned_end_of_a_load_on_a_dead_broker_is_an_end() {
    let kafka = MockKafka::start(2);
    let run = "duration = \"3s\"\nflush_timeout = \"1s\"";
    let daemon = daemon::start(&kafka.settings(run, "", "rate = 500\noverload = { max_debt = \"1s\" }"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 100.0);
    kafka.down();
    let ended = daemon.wait(LIMIT);
    let totals = totals(&ended);
    assert_eq!(number(&totals["scheduled"]), 1500, "{totals}");
    let lost = number(&totals["failed"]["outcome_unknown"]);
    assert!(lost > 0, "{totals}");
    assert_eq!(number(&ended.report()["drain"]["undelivered_records"]), lost);
    assert!(matches!(ended.code(), 1 | 4), "{}", ended.out);
    assert!(ended.out.contains("had no delivery report"), "{}", ended.out);
    assert_eq!(number(&ended.report()["streams"]["main"]["in_flight"]), 0);
    assert_eq!(number(&ended.report()["streams"]["main"]["backlog"]), 0);
}

#[test]
fn p6_a_second_signal_leaves_at_once() {
    let kafka = MockKafka::start(2);
    let daemon = daemon::start(&kafka.settings("flush_timeout = \"10m\"", "", "rate = 500\nlanes = 2"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 100.0);
    kafka.down();
    wait(&daemon, 30, "records hang", |now| series(now, "records_in_flight") >= 500.0);
    daemon.signal("TERM");
    wait(&daemon, 10, "the load has ended", |now| now["soakd_run_state{state=\"draining\"}"] == 1.0);
    daemon.signal("TERM");
    let ended = daemon.wait(Duration::from_secs(10));
    assert_eq!(ended.code(), 130, "{}", ended.log);
}
