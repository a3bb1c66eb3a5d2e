//! A stream that somebody else produces.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use serde_json::json;

use super::output::{Worker, create};
use super::{broker, settings, shared};
use crate::daemon::{self, Daemon, eventually};
use crate::lag::{of, shown};
use crate::mock::MockKafka;
use crate::truth::{self, Reader};

const TOPIC: &str = "foreign";
const PARTITIONS: i32 = 2;

/// Writes to both partitions in turn until it goes out of scope.
fn writer(producer: &ThreadedProducer<DefaultProducerContext>) -> Worker {
    let producer = producer.clone();
    let mut partition = 0;
    Worker::start(move || {
        partition = (partition + 1) % PARTITIONS;
        producer.send(BaseRecord::<(), str>::to(TOPIC).partition(partition).payload("whatever")).unwrap();
        std::thread::sleep(Duration::from_millis(3));
    })
}

fn caught(daemon: &Daemon, ends: &[u64]) {
    let all = ends.iter().sum::<u64>() as f64;
    eventually(Duration::from_secs(10), "all is seen", || {
        let came = daemon.metric("watched_records_total");
        assert!(came <= all);
        (came == all - 10.0).then_some(())
    });
}

#[test]
fn a_watched_stream_has_a_head_a_timeline_and_a_report_of_its_own() {
    let broker = broker();
    let _shared = shared();
    create(broker, TOPIC, PARTITIONS);
    let others: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap())
        .set("linger.ms", "1")
        .create()
        .unwrap();
    for n in 0..10 {
        others.send(BaseRecord::<(), str>::to(TOPIC).partition(n % PARTITIONS).payload("before")).unwrap();
    }
    others.flush(Duration::from_secs(10)).unwrap();
    let reader = Reader::new(broker.bootstrap(), "of-foreign", TOPIC, PARTITIONS);
    reader.commit(&reader.ends());
    let more = format!(
        "[streams.main]\ntopic = \"{TOPIC}\"\nproduce = false\n[progress.group]\nkind = \"consumer_group\"\n\
         stream = \"main\"\ngroup = \"of-foreign\"\ninterval = \"200ms\"\n"
    );
    let more = settings(broker.bootstrap(), &json!({}), &more);
    let (code, table) = daemon::check(&more);
    assert!(code == Some(0) && table.contains("only watched"), "{code:?} {table}");
    let daemon = daemon::start(&more);
    let shown = |name: &str| shown(&daemon, name, "group").unwrap_or_else(|| panic!("{}", daemon.log()));
    assert_eq!(daemon.metric("watched_records_total"), 0.0, "what was there before is not counted");
    let (begun, writing) = (truth::wall(), writer(&others));
    daemon.wait_metric(10, &of("lag_records", "group"), |lag| lag > 200.0);
    assert!(shown("lag_uncertainty_records") > 0.0, "heads are as old as the last look");
    drop(writing);
    others.flush(Duration::from_secs(10)).unwrap();
    let ends = reader.ends();
    caught(&daemon, &ends);
    let behind = ends.iter().sum::<u64>() as f64 - 10.0;
    daemon.wait_metric(5, &of("lag_records", "group"), |lag| lag == behind);
    // The oldest is the first that was written, to within a look and a poll, and never younger than it is.
    let (age, right) = (shown("lag_seconds"), truth::wall() - begun);
    println!("the oldest is {age:.3} s old, and was written {right:.3} s ago at most");
    assert!((right - 1.0..right + 0.5).contains(&age), "{age} {right}");

    // The first half of partition 0 is committed.
    reader.commit(&[ends[0] / 2, ends[1]]);
    daemon.wait_metric(5, &of("lag_records", "group"), |lag| lag == (ends[0] - ends[0] / 2) as f64);
    assert!(shown("lag_seconds") < age, "the oldest one is younger now");
    assert_eq!(
        daemon.send("PUT", "/api/v1/streams/main/rate", Some(json!({ "records_per_second": 5 }))).0,
        409
    );
    assert_eq!(daemon.metric("records_acked_total"), 0.0, "others' records are not soakd's");

    let ended = daemon.terminate();
    ended.good();
    let report = ended.report();
    let stream = &report["streams"]["main"];
    assert_eq!((&report["cause"], &stream["watched_records"]), (&json!("signal"), &json!(behind as u64)));
    assert_eq!(stream["reconciliation"]["result"], "not_reconciled", "{stream}");
    let source = &report["drain"]["sources"]["group"];
    assert_eq!(
        (&source["drained"], &source["remaining_records"]),
        (&json!(null), &json!(ends[0] - ends[0] / 2))
    );
    assert!(
        report["drain"]["seconds"].as_f64().unwrap() < 5.0,
        "others are not waited for: {}",
        report["drain"]
    );
    assert!(report["measured"]["streams"]["main"]["watched_records_per_second"].as_f64().unwrap() > 0.0);
    assert!(ended.out.contains("by others: only watched"), "{}", ended.out);
    assert_eq!(report["remarks"], json!([]));
}

#[test]
fn a_run_that_only_watches_ends_by_its_duration_and_a_broker_that_is_away_makes_lag_unknown() {
    let kafka = MockKafka::start(2);
    kafka.commit("g", &[0, 0]);
    let source = "[progress.group]\nkind = \"consumer_group\"\nstream = \"main\"\ngroup = \"g\"\ninterval = \"200ms\"\n";
    let watched = |run: &str| kafka.settings(run, "", "produce = false") + source;
    let ended = daemon::start(&watched("duration = \"1s\"")).wait(Duration::from_secs(60));
    ended.good();
    assert_eq!(ended.report()["cause"], "duration");
    let daemon = daemon::start(&watched(""));
    daemon.wait_metric(10, &of("lag_records", "group"), |lag| lag == 0.0);
    kafka.down();
    daemon.wait_metric(30, &of("progress_up", "group"), |up| up == 0.0);
    eventually(Duration::from_secs(30), "lag is unknown", || {
        shown(&daemon, "lag_records", "group").is_none().then_some(())
    });
    kafka.up();
    daemon.wait_metric(30, &of("lag_records", "group"), |lag| lag == 0.0);
    daemon.terminate().good();
}
