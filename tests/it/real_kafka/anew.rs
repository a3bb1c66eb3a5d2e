//! Topics that are deleted and made anew while soakd runs, and partitions that are added.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::json;

use super::output::{OUTPUT_PARTITIONS, SEQUENCE, caught_up, copier_into, create, source, stream};
use super::{Broker, admin, broker, settings, shared};
use crate::daemon::{self, Daemon, eventually};
use crate::lag::{of, shown};
use crate::truth::Reader;

fn make_anew(broker: &Broker, topic: &str, partitions: i32) {
    admin(broker.admin().delete_topics(&[topic], &AdminOptions::new())).unwrap().remove(0).unwrap();
    let new = rdkafka::admin::NewTopic::new(topic, partitions, rdkafka::admin::TopicReplication::Fixed(1));
    // The broker takes a moment to forget a name.
    eventually(Duration::from_secs(30), "the topic is there again", || {
        let made = admin(broker.admin().create_topics([&new], &AdminOptions::new()));
        made.is_ok_and(|made| made.iter().all(Result::is_ok)).then_some(())
    });
}

fn group(topic: &str) -> String {
    format!(
        "[progress.group]\nkind = \"consumer_group\"\nstream = \"main\"\ngroup = \"of-{topic}\"\ninterval = \"200ms\"\n"
    )
}

fn restarted(daemon: &Daemon) -> f64 {
    daemon.metric("events_total{kind=\"log_restarted\"}")
}

/// The new topic's end is the head, however far the old one had come, and what the old one held is said to be gone.
#[test]
fn a_produced_topic_that_is_made_anew_has_the_lag_of_the_new_one() {
    const TOPIC: &str = "anew";
    let broker = broker();
    let _shared = shared();
    create(broker, TOPIC, 2);
    let load = format!("[streams.main]\ntopic = \"{TOPIC}\"\nrate = 500\n");
    let daemon = daemon::start(&settings(broker.bootstrap(), &json!({}), &(load + &group(TOPIC))));
    daemon.wait_metric(30, "records_acked_total", |acked| acked >= 2_000.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |in_flight| in_flight == 0.0);
    let old = daemon.metric("records_acked_total");
    make_anew(broker, TOPIC, 2);
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    eventually(Duration::from_secs(60), "the new topic's acks are noticed", || {
        (restarted(&daemon) >= 1.0).then_some(())
    });
    daemon.wait_metric(30, "records_acked_total", |acked| acked >= old + 300.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |in_flight| in_flight == 0.0);
    let reader = Reader::new(broker.bootstrap(), &format!("of-{TOPIC}"), TOPIC, 2);
    let ends = reader.ends();
    assert!(ends.iter().sum::<u64>() as f64 >= 300.0 && (ends.iter().sum::<u64>() as f64) < old, "{ends:?}");
    reader.commit(&[ends[0] - 5, ends[1]]);
    daemon.wait_metric(10, &of("lag_records", "group"), |lag| lag == 5.0);
    assert!(shown(&daemon, "lag_seconds", "group").unwrap() > 0.0);
    reader.commit(&ends);
    daemon.wait_metric(10, &of("lag_records", "group"), |lag| lag == 0.0);
    let ended = daemon.terminate();
    let report = ended.report();
    let found = &report["streams"]["main"]["reconciliation"];
    assert_eq!(
        (&found["result"], &found["missing_records"]),
        (&json!("missing"), &json!(old as u64)),
        "{report}"
    );
    let remarks = report["remarks"].to_string();
    assert!(
        remarks.contains("offsets of 2 of 2 partitions began again")
            && remarks.contains(&format!("about {old} records")),
        "{remarks}"
    );
    assert!(ended.log.contains("offsets began again"), "{}", ended.log);
}

/// Partitions that are added to a topic that others produce, and the topic made anew with fewer.
#[test]
fn a_watched_topic_is_followed_as_it_grows_and_is_made_anew() {
    const TOPIC: &str = "grown";
    let broker = broker();
    let _shared = shared();
    create(broker, TOPIC, 1);
    let others = || -> ThreadedProducer<DefaultProducerContext> {
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().unwrap()
    };
    let write = |partition: i32, records: usize| {
        let others = others();
        for _ in 0..records {
            others.send(BaseRecord::<(), str>::to(TOPIC).partition(partition).payload("any")).unwrap();
        }
        others.flush(Duration::from_secs(10)).unwrap();
    };
    let load = format!("[streams.main]\ntopic = \"{TOPIC}\"\nproduce = false\n");
    let one = Reader::new(broker.bootstrap(), &format!("of-{TOPIC}"), TOPIC, 1);
    one.commit(&[0]);
    let daemon = daemon::start(&settings(broker.bootstrap(), &json!({}), &(load + &group(TOPIC))));
    write(0, 500);
    daemon.wait_metric(10, &of("lag_records", "group"), |lag| lag == 500.0);
    let grown = NewPartitions::new(TOPIC, 2);
    admin(broker.admin().create_partitions([&grown], &AdminOptions::new())).unwrap().remove(0).unwrap();
    write(1, 300);
    // Nobody has committed in the new one: it is unknown, and not left out.
    daemon.wait_metric(10, &of("progress_unknown_partitions", "group"), |unknown| unknown == 1.0);
    let two = Reader::new(broker.bootstrap(), &format!("of-{TOPIC}"), TOPIC, 2);
    two.commit(&[0, 0]);
    daemon.wait_metric(10, &of("lag_records", "group"), |lag| lag == 800.0);
    assert_eq!(daemon.metric("watched_records_total"), 800.0);

    make_anew(broker, TOPIC, 1);
    write(0, 7);
    eventually(Duration::from_secs(30), "it is told", || (restarted(&daemon) >= 1.0).then_some(()));
    one.commit(&[3]);
    daemon.wait_metric(10, &of("lag_records", "group"), |lag| lag == 4.0);
    assert_eq!(daemon.metric("watched_records_total"), 807.0);
    let ended = daemon.terminate();
    assert!(ended.log.contains("made anew"), "{}", ended.log);
}

/// What an output topic said before it was made anew says nothing of the one that is there.
#[test]
fn an_output_topic_that_is_made_anew_shows_what_the_new_one_holds() {
    const OUT: &str = "remade-out";
    let broker = broker();
    let _shared = shared();
    create(broker, OUT, OUTPUT_PARTITIONS);
    let more = stream("remade") + &source("seq", OUT, SEQUENCE) + &source("rows", OUT, "value = \"count\"");
    let daemon = daemon::start(&settings(broker.bootstrap(), &json!({}), &more));
    let copier = copier_into(broker, "remade", OUT, false, Arc::default(), Arc::default());
    daemon.wait_metric(30, &of("progress_records", "seq"), |records| records >= 500.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    caught_up(&daemon, &["seq", "rows"]);
    drop(copier);
    let acked = daemon.metric("records_acked_total");
    make_anew(broker, OUT, OUTPUT_PARTITIONS);
    let writer: ThreadedProducer<DefaultProducerContext> =
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().unwrap();
    for partition in 0..2 {
        let first = json!({ "sequence": partition, "partition": partition, "intended_ms": 1 }).to_string();
        writer.send(BaseRecord::<(), str>::to(OUT).partition(partition).payload(&first)).unwrap();
    }
    writer.flush(Duration::from_secs(10)).unwrap();
    daemon.wait_metric(20, &of("lag_records", "rows"), |lag| lag == acked - 2.0);
    daemon.wait_metric(20, &of("lag_records", "seq"), |lag| lag > acked * 0.9);
    assert!(daemon.metric(&of("progress_resets_total", "seq")) >= 1.0);
    let log = daemon.log();
    assert!(log.contains("the output topic's end fell"), "{log}");
}
