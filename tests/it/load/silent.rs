//! Acks stop without any error: the most treacherous way for a client to die.

use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{assert_sound, failed, number, totals, wait, wait_due};
use crate::daemon::{self, eventually, series};
use crate::mock::MockKafka;

#[test]
fn p4_acks_that_stop_without_an_error_are_noticed_and_come_back() {
    let kafka = MockKafka::start(2);
    // Else the client asks for metadata too seldom to notice the error at all.
    let client = "\"topic.metadata.refresh.interval.ms\" = 500";
    let daemon = daemon::start(&kafka.settings("", client, "rate = 50"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 20.0);
    kafka.cluster.topic_error("t", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let stopped = eventually(Duration::from_secs(15), "acks have stopped", || {
        let status = daemon.get("/api/v1/status");
        (status["streams"]["main"]["acks_stopped"] == true).then_some(status)
    });
    assert!(number(&stopped["streams"]["main"]["records"]["in_flight"]) > 0, "{stopped}");
    let in_flight = daemon.metric("records_in_flight");
    let later = wait_due(&daemon, 50.0);
    assert!(series(&later, "records_in_flight") > in_flight, "in flight rises");
    kafka.cluster.topic_error("t", RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
    eventually(Duration::from_secs(10), "healthy again", || {
        let now = daemon.scrape();
        let status = daemon.get("/api/v1/status");
        let normal = status["streams"]["main"]["acks_stopped"] == false;
        (normal && series(&now, "records_in_flight") < 10.0).then_some(())
    });
    let ended = daemon.terminate();
    assert_sound(&ended);
    assert_eq!(kafka.records(), number(&totals(&ended)["acked"]), "nothing lost, nothing twice");
    assert_eq!(number(&totals(&ended)["sent"]), number(&totals(&ended)["acked"]));
}

/// The broker refuses to take records and answers everything else: a fresh client would work as soon as it does again.
#[test]
fn p4_a_client_without_acks_on_a_healthy_topic_is_built_anew() {
    let kafka = MockKafka::start(1);
    let client = "\"retry.backoff.ms\" = 100, \"retry.backoff.max.ms\" = 100";
    let daemon = daemon::start(&kafka.settings("flush_timeout = \"5s\"", client, "rate = 20"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 10.0);
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 2000];
    kafka.cluster.request_errors(RDKafkaApiKey::Produce, &errors);
    let rebuilt = wait(&daemon, 40, "a new client", |now| series(now, "kafka_client_rebuilds_total") == 1.0);
    assert!(failed(&rebuilt, "outcome_unknown") > 0.0, "its reports are lost");
    wait_due(&daemon, 10.0);
    assert_eq!(daemon.get("/api/v1/status")["streams"]["main"]["acks_stopped"], true, "no ack came yet");
    kafka.cluster.clear_request_errors(RDKafkaApiKey::Produce);
    let acked = series(&rebuilt, "records_acked_total");
    wait(&daemon, 20, "the load goes on", |now| series(now, "records_acked_total") >= acked + 40.0);
    let ended = daemon.terminate();
    assert_sound(&ended);
    let totals = totals(&ended);
    let (acked, unknown) = (number(&totals["acked"]), number(&totals["failed"]["outcome_unknown"]));
    assert!((acked..=acked + unknown).contains(&kafka.records()), "{} for {totals}", kafka.records());
    assert_eq!(number(&totals["rebuilds"]), 1);
    for (kind, count) in [("client_rebuilt", 1), ("acks_stopped", 1), ("acks_resumed", 1)] {
        assert_eq!(ended.report()["events"][kind], count, "{kind}: {}", ended.log);
    }
}
