//! What cannot work is refused at the start, and what only the broker can refuse is counted once.

use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use soakd::kafka::client::{producer_config, reader};
use soakd::kafka::raw::{Events, Producer, Record, Report};
use soakd::kafka::settings::KafkaSettings;

use super::{LIMIT, assert_sound, failed, number, totals, wait};
use crate::children::Start as _;
use crate::daemon::{self, eventually, series};
use crate::mock::MockKafka;

/// Exit code and standard error of a daemon that does not start.
fn refused(settings: &str) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = daemon::command(dir.path(), settings).run_for_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The topics that a broker has.
fn topics(kafka: &MockKafka) -> Vec<String> {
    let settings = KafkaSettings { brokers: vec![kafka.brokers()], ..KafkaSettings::default() };
    let metadata = reader(&settings).unwrap().fetch_metadata(None, Duration::from_secs(10)).unwrap();
    metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
}

#[test]
fn p11_a_record_above_the_limit_is_refused_at_the_start() {
    let kafka = MockKafka::start(1);
    let value = "value = { kind = \"random\", size = 2000000 }";
    let (code, error) = refused(&kafka.settings("", "", value));
    assert_eq!(code, 2, "{error}");
    // A key of 8 bytes on top.
    assert!(error.contains("2000008") && error.contains("message.max.bytes = 1000000"), "{error}");
    // Raised, it is sent.
    let more = format!("rate = 10\nrecords = 2\n{value}");
    let settings = kafka.settings("", "\"message.max.bytes\" = 3000000", &more);
    assert_sound(&daemon::start(&settings).wait(LIMIT));
    assert_eq!(kafka.records(), 2);
}

#[test]
fn p11_what_the_broker_finds_too_large_fails_once_and_is_not_sent_again() {
    let kafka = MockKafka::start(1);
    kafka
        .cluster
        .request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let ended = daemon::start(&kafka.settings("", "", "rate = 200\nrecords = 400")).wait(LIMIT);
    let totals = totals(&ended);
    let too_large = number(&totals["failed"]["too_large"]);
    assert!(too_large > 0, "{totals}");
    assert_eq!(number(&totals["acked"]) + too_large, 400, "{totals}");
    assert_eq!(kafka.records(), number(&totals["acked"]));
    // Such records never were a load.
    assert!(matches!(ended.code(), 1 | 4), "{}", ended.out);
    assert!(ended.out.contains("too large"), "{}", ended.out);
}

#[test]
fn p12_a_missing_topic_is_named_and_not_made() {
    let kafka = MockKafka::start(1);
    let settings = kafka.settings("", "", "rate = 1").replace("topic = \"t\"", "topic = \"missing-one\"");
    let (code, error) = refused(&settings);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("\"missing-one\" does not exist"), "{error}");
    assert_eq!(topics(&kafka), ["t"]);
}

/// A producer asks for its topic again and again, and the broker of the mock cluster makes what it is asked for.
#[test]
fn p12_a_deleted_topic_does_not_come_back_by_itself() {
    struct Reports(usize);
    impl Events for Reports {
        fn report(&mut self, report: Report) {
            assert!(report.outcome.is_err());
            self.0 += 1;
        }
        fn statistics(&mut self, _: &[u8]) {}
    }
    let kafka = MockKafka::start(1);
    let client =
        [("topic.metadata.propagation.max.ms", "100"), ("topic.metadata.refresh.interval.ms", "100")];
    let settings = KafkaSettings { brokers: vec![kafka.brokers()], client: client.into_iter().collect() };
    let mut producer = Producer::new(&producer_config(&settings), "gone").unwrap();
    // Taken until the client knows better, then refused.
    let mut taken = 0;
    let mut reports = Reports(0);
    eventually(Duration::from_secs(30), "the client knows that there is no such topic", || {
        let headers = std::iter::empty();
        let record = Record { partition: 0, timestamp_ms: 0, key: None, value: Some(b""), headers };
        match producer.send(record, 0) {
            Ok(()) => taken += 1,
            Err(_) => return Some(()),
        }
        producer.poll(Duration::from_millis(10), &mut reports);
        (reports.0 > 0).then_some(())
    });
    assert_eq!(topics(&kafka), ["t"]);
}

#[test]
fn p4_records_that_time_out_fail_with_their_reason() {
    let kafka = MockKafka::start(1);
    let client = "\"message.timeout.ms\" = 1000, \"linger.ms\" = 0";
    let daemon = daemon::start(&kafka.settings("", client, "rate = 100"));
    wait(&daemon, 30, "acks", |now| series(now, "records_acked_total") >= 10.0);
    kafka.down();
    wait(&daemon, 30, "records time out", |now| failed(now, "timed_out") > 0.0);
    kafka.up();
    let acked = daemon.metric("records_acked_total");
    wait(&daemon, 30, "acks again", |now| series(now, "records_acked_total") >= acked + 100.0);
    let ended = daemon.terminate();
    let totals = totals(&ended);
    let unknown = number(&totals["failed"]["outcome_unknown"]);
    let acked = number(&totals["acked"]);
    assert!((acked..=acked + unknown).contains(&kafka.records()), "{totals} and {}", kafka.records());
}
