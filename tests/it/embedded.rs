//! The broker and the ingestor of `soakd demo`, with plain Kafka clients and plain TCP on the other side.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};
use soakd::core::clock::Clock;
use soakd::core::rate::Rate;
use soakd::embedded::broker::KEPT_BYTES_PER_PARTITION;
use soakd::embedded::{Demo, DemoSettings, EmbeddedBroker, EmbeddedError, IngestorHandle, Speed};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TOPIC: &str = "soakd-demo";
const GROUP: &str = "soakd-demo";
const PARTITIONS: u32 = 4;
/// Ten times what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running demo; it is stopped when it goes out of scope.
struct Running {
    runtime: Runtime,
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), EmbeddedError>>>,
    bootstrap: String,
    http: SocketAddr,
    ingestor: IngestorHandle,
}

impl Running {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let settings =
            DemoSettings { topic: TOPIC.to_owned(), partitions: PARTITIONS, group: GROUP.to_owned() };
        let demo = Demo::new(settings, EmbeddedBroker::start(&[]).unwrap(), Clock::start()).unwrap();
        let (bootstrap, http, ingestor) =
            (demo.bootstrap().to_owned(), demo.ingestor_address(), demo.handle());
        let stop = CancellationToken::new();
        let task = Some(runtime.spawn(demo.run(stop.clone())));
        Self { runtime, stop, task, bootstrap, http, ingestor }
    }

    fn stop(mut self) -> Result<(), EmbeddedError> {
        self.stop.cancel();
        let task = self.task.take().unwrap();
        let ended = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, task).await });
        ended.expect("the demo did not end").unwrap()
    }

    fn rows(&self) -> u64 {
        self.ingestor.status().rows
    }

    fn committed(&self) -> u64 {
        let committed = |progress: &soakd::embedded::table::PartitionProgress| progress.committed_offset;
        self.ingestor.status().partitions.values().filter_map(committed).sum()
    }

    fn call(&self, method: &str, path: &str, json: Option<&str>) -> (u16, Value) {
        let body = json.unwrap_or_default();
        let kind = json.map_or("", |_| "Content-Type: application/json\r\n");
        let length = body.len();
        self.raw(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}",
            self.http
        ))
    }

    fn raw(&self, request: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) =
            answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request:?} got {answer:?}"));
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let kind = if status < 400 { "application/json" } else { "application/problem+json" };
        assert!(head.contains(&format!("content-type: {kind}\r\n")) || head.ends_with(kind), "{head}");
        (status, serde_json::from_str(body).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ = self.runtime.block_on(task);
        }
    }
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn producer(bootstrap: &str) -> BaseProducer {
    ClientConfig::new().set("bootstrap.servers", bootstrap).set("linger.ms", "5").create().unwrap()
}

/// Sends and waits until the broker has everything.
fn produce(producer: &BaseProducer, records: impl Iterator<Item = (i32, String, Vec<u8>)>) {
    for (partition, key, value) in records {
        let record = || BaseRecord::to(TOPIC).partition(partition).key(&key).payload(&value);
        while producer.send(record()).is_err() {
            producer.poll(Duration::from_millis(1));
        }
    }
    producer.flush(PATIENCE).unwrap();
}

/// Record n of a stream over `keys` keys: a key stays in its partition.
fn record(n: u64, keys: u64) -> (i32, String, Vec<u8>) {
    let key = n % keys;
    ((key % u64::from(PARTITIONS)) as i32, format!("key-{key}"), format!("value-{n}").into_bytes())
}

/// What another client of the same group reads as committed.
fn committed_offsets(bootstrap: &str) -> BTreeMap<i32, Offset> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).set("group.id", GROUP).create().unwrap();
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition_range(TOPIC, 0, PARTITIONS as i32 - 1);
    let found = consumer.committed_offsets(wanted, PATIENCE).unwrap();
    found.elements().iter().map(|element| (element.partition(), element.offset())).collect()
}

#[test]
fn the_table_holds_the_last_value_of_each_key() {
    let demo = Running::start();
    assert!(demo.bootstrap.starts_with("127.0.0.1:"), "{}", demo.bootstrap);
    assert!(demo.http.ip().is_loopback());
    let mut expected = HashMap::new();
    for n in 0..20_000 {
        let (_, key, value) = record(n, 1_001);
        expected.insert(key, value);
    }
    produce(&producer(&demo.bootstrap), (0..20_000).map(|n| record(n, 1_001)));
    until("20,000 rows", || demo.rows() >= 20_000);
    let status = demo.ingestor.status();
    assert_eq!((status.rows, status.keys, status.gap_records()), (20_000, 1_001, 0));
    for (key, value) in expected {
        assert_eq!(demo.ingestor.value_of(key.as_bytes()), Some(value), "{key}");
    }
    demo.stop().unwrap();
}

#[test]
fn l11_another_client_reads_the_groups_commits_and_none_before_the_first() {
    let demo = Running::start();
    // L2: nothing was ingested, so nothing is committed, which is not offset 0.
    assert!(committed_offsets(&demo.bootstrap).values().all(|offset| *offset == Offset::Invalid));
    produce(&producer(&demo.bootstrap), (0..4_000).map(|n| record(n, 8)));
    until("the commits", || demo.committed() == 4_000);
    let expected: BTreeMap<i32, Offset> =
        (0..PARTITIONS as i32).map(|p| (p, Offset::Offset(1_000))).collect();
    assert_eq!(committed_offsets(&demo.bootstrap), expected);
    assert_eq!(demo.ingestor.status().commit_errors, 0);
    demo.stop().unwrap();
}

#[test]
fn stop_freezes_rows_and_commits_while_heads_grow_and_go_catches_up() {
    let demo = Running::start();
    let producer = producer(&demo.bootstrap);
    produce(&producer, (0..1_000).map(|n| record(n, 100)));
    until("the commits", || demo.committed() == 1_000);
    let (status, speed) = demo.call("POST", "/stop", None);
    assert_eq!((status, speed), (200, json!({"records_per_second": null, "stopped": true})));
    produce(&producer, (1_000..3_000).map(|n| record(n, 100)));
    let mut heads = 0;
    for partition in 0..PARTITIONS as i32 {
        heads += producer.client().fetch_watermarks(TOPIC, partition, PATIENCE).unwrap().1;
    }
    // As long as three intervals between commits: a wrong ingestor would have moved in the first.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((heads, demo.rows(), demo.committed()), (3_000, 1_000, 1_000));
    assert_eq!(demo.call("POST", "/stop", None).0, 200);
    let (status, speed) = demo.call("POST", "/go", None);
    assert_eq!((status, speed), (200, json!({"records_per_second": null, "stopped": false})));
    until("catching up", || demo.committed() == 3_000);
    assert_eq!(demo.rows(), 3_000);
    assert_eq!(demo.ingestor.status().gap_records(), 0);
    demo.stop().unwrap();
}

#[test]
fn a_limit_slows_the_ingestor_down_and_null_sets_it_free() {
    let demo = Running::start();
    let limit = Rate::from_per_second(200.0).unwrap();
    let begin = Instant::now();
    let (status, speed) = demo.call("PUT", "/speed", Some(r#"{"records_per_second": 200}"#));
    assert_eq!((status, speed), (200, json!({"records_per_second": 200.0, "stopped": false})));
    assert_eq!(demo.ingestor.status().speed, Speed { limit: Some(limit), stopped: false });
    produce(&producer(&demo.bootstrap), (0..20_000).map(|n| record(n, 100)));
    let first = begin.elapsed();
    until("some rows", || demo.rows() >= 300);
    // Never more than the limit allows, whatever the machine does: no lower bound on its speed is needed.
    let (rows, passed) = (demo.rows(), begin.elapsed());
    assert!(rows as f64 <= passed.as_secs_f64() * 200.0 + 21.0, "{rows} rows in {passed:?}, from {first:?}");
    assert_eq!(demo.call("PUT", "/speed", Some(r#"{"records_per_second": null}"#)).0, 200);
    until("the rest", || demo.rows() == 20_000);
    demo.stop().unwrap();
}

#[test]
fn what_the_broker_drops_while_the_ingestor_is_stopped_is_shown_as_expired() {
    let demo = Running::start();
    let producer = producer(&demo.bootstrap);
    let one = |n: u64| (0, format!("key-{}", n % 10), vec![0; 10_000]);
    produce(&producer, (0..10).map(one));
    until("the first rows", || demo.rows() == 10);
    assert_eq!(demo.call("POST", "/stop", None).0, 200);
    let sent = 4 * KEPT_BYTES_PER_PARTITION / 10_000;
    produce(&producer, (10..sent).map(one));
    let (low, high) = producer.client().fetch_watermarks(TOPIC, 0, PATIENCE).unwrap();
    assert!(low > 10 && high == sent as i64, "{low} to {high}");
    assert_eq!(demo.call("POST", "/go", None).0, 200);
    until("the end", || demo.ingestor.status().partitions[&0].next_offset == sent);
    let status = demo.ingestor.status();
    assert!(status.gap_records() > 0 && status.gaps() > 0, "{status:?}");
    assert_eq!(status.rows + status.gap_records(), sent);
    let view = demo.call("GET", "/", None).1;
    assert_eq!(view["gap_records"], json!(status.gap_records()));
    assert_eq!(view["partitions"][0]["next_offset"], json!(sent));
    demo.stop().unwrap();
}

#[test]
fn bad_input_is_refused_with_the_reason_and_changes_nothing() {
    let demo = Running::start();
    assert_eq!(demo.call("PUT", "/speed", Some(r#"{"records_per_second": 7}"#)).0, 200);
    let before = demo.ingestor.status().speed;
    let host = demo.http;
    let large = format!(r#"{{"records_per_second": {}}}"#, "1".repeat(5_000));
    let with = |path: &str, headers: &str, body: &str| {
        let length = body.len();
        format!("PUT {path} HTTP/1.1\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}")
    };
    let free = r#"{"records_per_second": null}"#;
    let json_type = "Content-Type: application/json\r\n";
    let here = format!("Host: {host}\r\n");
    for (expected, (status, problem)) in [
        (400, demo.call("PUT", "/speed", Some("{\"records"))),
        (422, demo.call("PUT", "/speed", Some("{}"))),
        (422, demo.call("PUT", "/speed", Some(r#"{"records_per_second": -5}"#))),
        (422, demo.call("PUT", "/speed", Some(r#"{"records_per_second": 0}"#))),
        (413, demo.call("PUT", "/speed", Some(&large))),
        (404, demo.call("POST", "/spead", None)),
        (405, demo.call("GET", "/stop", None)),
        (405, demo.call("POST", "/speed", Some(free))),
        (405, demo.call("DELETE", "/", None)),
        (415, demo.raw(&with("/speed", &here, free))),
        (403, demo.raw(&with("/speed", &format!("Host: evil.example\r\n{json_type}"), free))),
        (403, demo.raw(&with("/speed", &format!("{here}{json_type}Origin: http://evil.example\r\n"), free))),
    ] {
        assert_eq!((status, &problem["status"]), (expected, &json!(expected)), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
    }
    assert_eq!(demo.ingestor.status().speed, before);
    // The page's own Origin is welcome.
    let own = format!("{here}{json_type}Origin: http://{host}\r\n");
    assert_eq!(demo.raw(&with("/speed", &own, free)).0, 200);
    demo.stop().unwrap();
}

#[test]
fn a_half_sent_request_and_a_stopped_ingestor_do_not_hold_the_stop() {
    let demo = Running::start();
    produce(&producer(&demo.bootstrap), (0..1_000).map(|n| record(n, 100)));
    until("the rows", || demo.rows() == 1_000);
    demo.call("POST", "/stop", None);
    let mut half = TcpStream::connect(demo.http).unwrap();
    let head = "PUT /speed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
    half.write_all(head.as_bytes()).unwrap();
    // Connections are accepted in order: when this one has an answer, the half one is being served.
    demo.call("GET", "/", None);
    let (http, bootstrap) = (demo.http, demo.bootstrap.clone());
    let begin = Instant::now();
    demo.stop().unwrap();
    assert!(begin.elapsed() < PATIENCE);
    assert!(TcpStream::connect(http).is_err() && TcpStream::connect(bootstrap).is_err());
}

#[test]
fn a_topic_that_cannot_be_is_an_error_that_names_it() {
    let broker = EmbeddedBroker::start(&[("a", 2)]).unwrap();
    for (topic, partitions) in [("a", 2), ("b", 0), ("b", u32::MAX)] {
        let error = broker.create_topic(topic, partitions).unwrap_err().to_string();
        assert!(error.contains(topic) && error.contains(&partitions.to_string()), "{error}");
    }
}
