//! Output topics that change while soakd reads them, and that hold more than it can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::json;

use super::output::{
    OUTPUT_PARTITIONS, PAUSED, RUNS, SEQUENCE, Worker, caught_up, copier_into, create, source, stream,
};
use super::{Broker, admin, broker, settings, shared};
use crate::daemon::{self, Daemon, eventually};
use crate::lag::{of, shown};
use crate::load::{number, totals};
use crate::truth::{Reader, wall};

/// A stream whose copies stand still, some records behind.
struct Behind {
    daemon: Daemon,
    copier: Worker,
    paused: Arc<AtomicU8>,
    only: Arc<AtomicU64>,
    /// Records that are copied, and that are not.
    copied: f64,
    missing: f64,
}

fn behind(broker: &'static Broker, from: &'static str, to: &'static str, sources: &str) -> Behind {
    create(broker, to, OUTPUT_PARTITIONS);
    let (paused, only) = (Arc::new(AtomicU8::new(RUNS)), Arc::<AtomicU64>::default());
    let more = stream(from) + &source("seq", to, SEQUENCE) + sources;
    let daemon = daemon::start(&settings(broker.bootstrap(), &json!({}), &more));
    let copier = copier_into(broker, from, to, false, Arc::clone(&paused), Arc::clone(&only));
    daemon.wait_metric(30, &of("progress_records", "seq"), |records| records >= 300.0);
    paused.store(PAUSED, Ordering::Release);
    let acked = daemon.metric("records_acked_total");
    daemon.wait_metric(30, "records_acked_total", |now| now >= acked + 400.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |in_flight| in_flight == 0.0);
    let copied =
        Reader::new(broker.bootstrap(), "truth", to, OUTPUT_PARTITIONS).ends().iter().sum::<u64>() as f64;
    let missing = daemon.metric("records_acked_total") - copied;
    assert!(missing > 100.0, "{missing}");
    eventually(Duration::from_secs(30), "all copies are read", || {
        (end_to_end(&daemon) == copied).then_some(())
    });
    assert_eq!(shown(&daemon, "progress_skipped_records_total", "seq"), Some(0.0));
    Behind { daemon, copier, paused, only, copied, missing }
}

fn end_to_end(daemon: &Daemon) -> f64 {
    daemon.metric(&of("end_to_end_seconds_count", "seq"))
}

fn skipped(daemon: &Daemon) -> f64 {
    daemon.metric(&of("progress_skipped_records_total", "seq"))
}

fn wait_ends(broker: &Broker, topic: &str, partitions: i32, expected: f64) {
    let reader = Reader::new(broker.bootstrap(), "truth", topic, partitions);
    eventually(Duration::from_secs(30), "all is written", || {
        (reader.ends().iter().sum::<u64>() as f64 == expected).then_some(())
    });
}

/// What lies in a partition that nobody knew of is progress, and no latency: how long it lay there is not known.
#[test]
fn a_partition_that_is_added_to_the_output_topic_is_read_from_its_beginning() {
    let broker = broker();
    let _shared = shared();
    let rows = source("rows", "grow-out", "value = \"count\"");
    let Behind { daemon, copier, paused, only, copied, missing } = behind(broker, "grow", "grow-out", &rows);
    daemon.signal("STOP");
    let grown = NewPartitions::new("grow-out", OUTPUT_PARTITIONS as usize + 1);
    admin(broker.admin().create_partitions([&grown], &AdminOptions::new())).unwrap().remove(0).unwrap();
    only.store(OUTPUT_PARTITIONS as u64, Ordering::Release);
    paused.store(RUNS, Ordering::Release);
    wait_ends(broker, "grow-out", OUTPUT_PARTITIONS + 1, copied + missing);
    daemon.signal("CONT");
    // Neither source waits for more than the look for partitions and a poll.
    let from = wall();
    for source in ["seq", "rows"] {
        daemon.wait_metric(30, &of("lag_records", source), |lag| lag == 0.0);
    }
    println!("the new partition was found {:.2} s after soakd went on", wall() - from);
    assert_eq!((end_to_end(&daemon), skipped(&daemon)), (copied, missing));
    for source in ["seq", "rows"] {
        assert_eq!(shown(&daemon, "progress_resets_total", source), Some(0.0), "{source}");
    }
    // What comes into it from now on is measured.
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    daemon.wait_metric(30, "records_acked_total", |acked| acked >= copied + missing + 300.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    caught_up(&daemon, &["seq", "rows"]);
    let ended = daemon.terminate();
    ended.good();
    drop(copier);
    let measured = &ended.report()["drain"]["sources"]["seq"]["end_to_end"]["count"];
    assert_eq!(number(measured) as f64, number(&totals(&ended)["acked"]) as f64 - missing);
    let told = "another number of partitions now topic=\"grow-out\" from=3 to=4";
    assert_eq!(ended.log.matches(told).count(), 2, "by each source: {}", ended.log);
}

/// What there is no time to read is left out and counted to the record; progress is right all the same, by the newest.
#[test]
fn a_flood_in_the_output_topic_is_left_out_and_counted() {
    const FLOOD: i32 = 300_000;
    let broker = broker();
    let _shared = shared();
    let Behind { daemon, copier, paused, copied, missing, .. } = behind(broker, "flood", "flood-out", "");
    daemon.signal("STOP");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap()).set("linger.ms", "20");
    let writer: BaseProducer = config.create().unwrap();
    let old = json!({ "sequence": 0, "partition": 0, "intended_ms": (wall() * 1e3) as u64 }).to_string();
    for n in 0..FLOOD {
        let mut sent = writer
            .send(BaseRecord::<(), str>::to("flood-out").partition(n % OUTPUT_PARTITIONS).payload(&old));
        while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), record)) = sent {
            writer.poll(Duration::from_millis(5));
            sent = writer.send(record);
        }
        sent.unwrap();
    }
    writer.flush(Duration::from_secs(20)).unwrap();
    paused.store(RUNS, Ordering::Release);
    wait_ends(broker, "flood-out", OUTPUT_PARTITIONS, copied + missing + f64::from(FLOOD));
    daemon.signal("CONT");
    daemon.wait_metric(30, &of("lag_records", "seq"), |lag| lag == 0.0);
    let (read, left_out) = (end_to_end(&daemon), skipped(&daemon));
    println!("{read} read, {left_out} left out");
    assert!(left_out > 100_000.0, "{left_out}");
    assert_eq!(read + left_out, copied + missing + f64::from(FLOOD));
    assert_eq!(shown(&daemon, "progress_records", "seq"), Some(copied + missing));
    assert_eq!(shown(&daemon, "progress_resets_total", "seq"), Some(0.0));
    let status = daemon.get("/api/v1/status");
    assert_eq!(number(&status["sources"]["seq"]["skipped_records"]) as f64, left_out);
    let ended = daemon.terminate();
    ended.good();
    drop(copier);
    assert_eq!(ended.log.matches("leaves records of the output topic out").count(), 1, "{}", ended.log);
}
