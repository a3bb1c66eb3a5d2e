//! The output topic of a system under test, which is a thread here that copies records from one topic to another after a
//! known delay. What is true is told by another reader of the output topic, which uses none of soakd's code.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};

use super::{Broker, admin, broker, settings, shared};
use crate::daemon::{self, Daemon, eventually, sum};
use crate::lag::{of, shown};
use crate::load::{number, totals};
use crate::truth;

const PARTITIONS: i32 = 2;
/// Not those of the stream.
pub(super) const OUTPUT_PARTITIONS: i32 = 3;
const DELAY: Duration = Duration::from_millis(200);

pub(super) fn create(broker: &Broker, topic: &str, partitions: i32) {
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    admin(broker.admin().create_topics([&new], &AdminOptions::new())).unwrap().remove(0).unwrap();
}

/// A thread that works until it goes out of scope.
pub(super) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(mut work: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                work();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().unwrap().join();
    }
}

fn consumer(broker: &Broker, topic: &str, partitions: i32) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap()).set("group.id", format!("of-{topic}"));
    let consumer: BaseConsumer = config.set("enable.auto.commit", "false").create().unwrap();
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        all.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&all).unwrap();
    consumer
}

fn age(value: &[u8]) -> f64 {
    let value: Value = serde_json::from_slice(value).unwrap();
    truth::wall() - value["intended_ms"].as_f64().unwrap() / 1e3
}

/// The copier copies.
pub(super) const RUNS: u8 = 0;
/// It is told to rest.
pub(super) const PAUSED: u8 = 1;
/// It rests: what it has read is written, and it reads no more.
const RESTS: u8 = 2;

/// Copies `from` to `to` once records are old enough; in transactions when `transactional`.
fn copier(
    broker: &'static Broker,
    from: &'static str,
    to: &'static str,
    transactional: bool,
    paused: Arc<AtomicU8>,
) -> Worker {
    copier_into(broker, from, to, transactional, paused, Arc::default())
}

/// As [`copier`], into one partition only when `only` is not 0.
pub(super) fn copier_into(
    broker: &'static Broker,
    from: &'static str,
    to: &'static str,
    transactional: bool,
    paused: Arc<AtomicU8>,
    only: Arc<AtomicU64>,
) -> Worker {
    let reader = consumer(broker, from, PARTITIONS);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap()).set("linger.ms", "1");
    config.set("topic.metadata.refresh.interval.ms", "200");
    if transactional {
        config.set("transactional.id", format!("copier-{to}"));
    }
    let writer: BaseProducer = config.create().unwrap();
    if transactional {
        writer.init_transactions(Duration::from_secs(20)).unwrap();
    }
    let copied = AtomicU64::new(0);
    Worker::start(move || {
        if paused.load(Ordering::Acquire) != RUNS {
            let _ = paused.compare_exchange(PAUSED, RESTS, Ordering::AcqRel, Ordering::Acquire);
            std::thread::sleep(Duration::from_millis(10));
            return;
        }
        let Some(message) = reader.poll(Duration::from_millis(20)) else { return };
        let mut batch = vec![message.unwrap().detach()];
        while let Some(message) = reader.poll(Duration::ZERO) {
            batch.push(message.unwrap().detach());
        }
        let newest = batch.iter().map(|record| age(record.payload().unwrap())).fold(f64::MAX, f64::min);
        std::thread::sleep(Duration::from_secs_f64((DELAY.as_secs_f64() - newest).max(0.0)));
        if transactional {
            writer.begin_transaction().unwrap();
        }
        for record in &batch {
            let mut partition = (copied.fetch_add(1, Ordering::Relaxed) % OUTPUT_PARTITIONS as u64) as i32;
            if only.load(Ordering::Acquire) > 0 {
                partition = only.load(Ordering::Acquire) as i32;
            }
            let payload = record.payload().unwrap();
            let mut sent = writer.send(BaseRecord::<(), [u8]>::to(to).partition(partition).payload(payload));
            // It has to learn of a partition that was added, too.
            while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::UnknownPartition), record)) = sent
            {
                writer.poll(Duration::from_millis(20));
                sent = writer.send(record);
            }
            sent.unwrap();
        }
        if transactional {
            writer.commit_transaction(Duration::from_secs(20)).unwrap();
        } else {
            writer.flush(Duration::from_secs(20)).unwrap();
        }
    })
}

/// What another reader of the output topic has seen: the age of each record when it was read.
fn witness(broker: &'static Broker, topic: &str) -> (Worker, Arc<Mutex<Vec<f64>>>) {
    let (reader, ages) = (consumer(broker, topic, OUTPUT_PARTITIONS), Arc::<Mutex<Vec<f64>>>::default());
    let seen = Arc::clone(&ages);
    let worker = Worker::start(move || {
        if let Some(message) = reader.poll(Duration::from_millis(20)) {
            seen.lock().unwrap().push(age(message.unwrap().payload().unwrap()));
        }
    });
    (worker, ages)
}

pub(super) fn source(name: &str, topic: &str, more: &str) -> String {
    format!(
        "[progress.{name}]\nkind = \"topic\"\nstream = \"main\"\ntopic = \"{topic}\"\ninterval = \"200ms\"\n{more}\n"
    )
}

pub(super) fn stream(topic: &str) -> String {
    format!(
        "[streams.main]\ntopic = \"{topic}\"\npartitions = {PARTITIONS}\nrate = 500\nvalue = {{ kind = \"json\" }}\n\
         marker = {{ interval = \"200ms\" }}\n"
    )
}

pub(super) const SEQUENCE: &str = "value = \"sequence\"\nsequence = \"/sequence\"\npartition = \"/partition\"\nmarker = \"/marker\"\n\
                        intended = \"/intended_ms\"";
const MARKER: &str =
    "value = \"marker\"\nsequence = \"/sequence\"\npartition = \"/partition\"\nmarker = \"/marker\"";

pub(super) fn caught_up(daemon: &Daemon, sources: &[&str]) {
    for source in sources {
        eventually(Duration::from_secs(30), source, || {
            let status = daemon.get("/api/v1/status");
            (status["sources"][source]["caught_up"] == true).then_some(())
        });
    }
}

fn p(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share).ceil() as usize).max(1) - 1]
}

#[test]
fn the_output_topic_tells_records_sequences_times_markers_and_the_latency_end_to_end() {
    let broker = broker();
    let _shared = shared();
    create(broker, "told-out", OUTPUT_PARTITIONS);
    let paused = Arc::new(AtomicU8::new(RUNS));
    let (witness, ages) = witness(broker, "told-out");
    let sources = [
        source("rows", "told-out", "value = \"count\""),
        source("seq", "told-out", SEQUENCE),
        source("time", "told-out", "value = \"event_time\"\nintended = \"/intended_ms\""),
        source("markers", "told-out", MARKER),
    ];
    let daemon =
        daemon::start(&settings(broker.bootstrap(), &json!({}), &(stream("told") + &sources.concat())));
    let copier = copier(broker, "told", "told-out", false, Arc::clone(&paused));
    daemon.wait_metric(30, "records_acked_total", |acked| acked >= 1_500.0);
    for source in ["rows", "seq", "time"] {
        let lag = daemon.wait_metric(10, &of("lag_seconds", source), |lag| lag > 0.0);
        assert!(lag < 2.0, "{source} is {lag} s behind");
    }
    assert_eq!(shown(&daemon, "progress_unknown_partitions", "seq"), Some(0.0));

    // The system stops: what it has not written is lag, to the record where soakd knows the record.
    paused.store(PAUSED, Ordering::Release);
    eventually(Duration::from_secs(20), "the copier rests", || {
        (paused.load(Ordering::Acquire) == RESTS).then_some(())
    });
    let written = ages.lock().unwrap().len() as f64;
    daemon.wait_metric(30, "records_acked_total", |acked| acked > written + 500.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |in_flight| in_flight == 0.0);
    let written = ages.lock().unwrap().len() as f64;
    let behind = daemon.metric("records_acked_total") - written;
    assert!(behind > 100.0, "{behind}");
    daemon.wait_metric(10, &of("lag_records", "rows"), |lag| lag == behind);
    let oldest = daemon.wait_metric(10, &of("marker_oldest_unseen_seconds", "markers"), |age| age > 1.0);
    let age = shown(&daemon, "lag_seconds", "seq").unwrap();
    assert!((oldest - age).abs() < 1.5, "{oldest} {age}");
    paused.store(RUNS, Ordering::Release);
    caught_up(&daemon, &["rows", "seq", "time", "markers"]);

    let scrape = daemon.scrape();
    for source in ["rows", "seq", "time", "markers"] {
        let label = format!("source=\"{source}\"");
        let polls = |end: &str| sum(&scrape, &format!("progress_duration_seconds_{end}"), &label);
        println!("a poll of {source} took {:.1} ms", polls("sum") / polls("count") * 1e3);
    }
    let ended = daemon.terminate();
    ended.good();
    drop((copier, witness));
    assert_end_to_end(ended.report(), number(&totals(&ended)["acked"]), &ages.lock().unwrap());
    assert!(ended.out.contains("end to end"), "{}", ended.out);
    let freshness = &ended.report()["drain"]["sources"]["markers"]["freshness"];
    assert_eq!(number(&freshness["count"]), number(&totals(&ended)["markers"]));
    assert!(freshness["p50_seconds"].as_f64().unwrap() >= DELAY.as_secs_f64(), "{freshness}");
}

/// Every record was measured, as the other reader measured it.
fn assert_end_to_end(report: &Value, acked: u64, ages: &[f64]) {
    let found = &report["drain"]["sources"]["seq"]["end_to_end"];
    let of = |name: &str| found[name].as_f64().unwrap_or_else(|| panic!("{found}"));
    let mut ages = ages.to_vec();
    ages.sort_by(f64::total_cmp);
    let mean = ages.iter().sum::<f64>() / ages.len() as f64;
    println!(
        "end to end {found}; by another reader mean {mean:.4}, p50 {:.4}, p99 {:.4}",
        p(&ages, 0.5),
        p(&ages, 0.99)
    );
    assert_eq!((of("count") as u64, ages.len() as u64), (acked, acked));
    for (mine, right) in
        [(of("mean_seconds"), mean), (of("p50_seconds"), p(&ages, 0.5)), (of("p99_seconds"), p(&ages, 0.99))]
    {
        // Two readers on two busy cores.
        assert!((mine - right).abs() < 0.05 + right * 0.02, "{mine} is not {right}");
    }
}

#[test]
fn the_end_of_a_topic_that_is_written_in_transactions_is_reached() {
    let broker = broker();
    let _shared = shared();
    create(broker, "exactly-out", OUTPUT_PARTITIONS);
    let more = stream("exactly") + &source("seq", "exactly-out", SEQUENCE);
    let daemon = daemon::start(&settings(broker.bootstrap(), &json!({}), &more));
    let copier = copier(broker, "exactly", "exactly-out", true, Arc::default());
    daemon.wait_metric(30, &of("progress_records", "seq"), |records| records >= 1_000.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    caught_up(&daemon, &["seq"]);
    let scrape = daemon.scrape();
    assert_eq!(sum(&scrape, "progress_errors_total", "source=\"seq\""), 0.0, "{}", daemon.log());
    let ended = daemon.terminate();
    ended.good();
    drop(copier);
    let end = &ended.report()["drain"]["sources"]["seq"];
    assert_eq!(number(&end["end_to_end"]["count"]), number(&totals(&ended)["acked"]), "{end}");
}

#[test]
fn an_output_topic_that_is_missing_is_said_and_waited_for() {
    let broker = broker();
    let _shared = shared();
    let more = stream("late") + &source("seq", "late-out", SEQUENCE);
    let daemon = daemon::start(&settings(broker.bootstrap(), &json!({}), &more));
    daemon.wait_metric(30, &of("progress_up", "seq"), |up| up == 0.0);
    let status = daemon.get("/api/v1/status");
    let error = status["sources"]["seq"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("\"late-out\" does not exist yet"), "{status}");
    create(broker, "late-out", OUTPUT_PARTITIONS);
    daemon.wait_metric(30, &of("progress_up", "seq"), |up| up == 1.0);
    let _copier = copier(broker, "late", "late-out", false, Arc::default());
    daemon.wait_metric(30, &of("progress_records", "seq"), |records| records >= 100.0);
    let ended = daemon.terminate();
    ended.good();
}
