//! A system under test in a thread: reads the topic `t` of a mock broker from its beginning and writes to PostgreSQL.
//! What it has written, and when, is the truth that lag is held against; it uses none of soakd's code.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::mock::MockKafka;
use crate::postgres::Postgres;

/// Most records in one transaction.
const BATCH: usize = 500;

/// What was ingested.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Next offset by partition.
    pub next: BTreeMap<i32, u64>,
    /// Records.
    pub records: u64,
    /// The largest age of a record when it became visible, since it was last asked for.
    pub worst_age: Duration,
    /// The age of every marker when it became visible.
    pub markers: Vec<Duration>,
}

/// The thread; it ends when it goes out of scope.
pub struct Ingestor {
    truth: Arc<Mutex<Truth>>,
    paused: Arc<AtomicBool>,
    delay_ms: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Tables of an ingestor: every record in `NAME_rows`, and the position by partition in `NAME_at`.
pub fn tables(postgres: &Postgres, name: &str) {
    postgres.psql(&format!(
        "CREATE TABLE {name}_rows (partition int, \"offset\" bigint, sequence bigint, marker boolean);
         CREATE TABLE {name}_at (partition int PRIMARY KEY, next_offset bigint, last_offset bigint, sequence bigint)"
    ));
}

impl Ingestor {
    /// Starts on tables that [`tables`] made. Values must be JSON.
    pub fn start(kafka: &MockKafka, postgres: &Postgres, name: &str) -> Self {
        let (truth, paused) = (Arc::new(Mutex::new(Truth::default())), Arc::new(AtomicBool::new(false)));
        let (stop, delay_ms) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let consumer: BaseConsumer = rdkafka::ClientConfig::new()
            .set("bootstrap.servers", kafka.brokers())
            .set("group.id", format!("ingestor-{name}"))
            .set("enable.auto.commit", "false")
            // The mock has no real long poll.
            .set("fetch.wait.max.ms", "10")
            .create()
            .unwrap();
        let mut all = TopicPartitionList::new();
        for partition in 0..kafka.partitions {
            all.add_partition_offset("t", partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&all).unwrap();
        let work = Work {
            consumer,
            url: postgres.url().to_owned(),
            name: name.to_owned(),
            truth: Arc::clone(&truth),
            paused: Arc::clone(&paused),
            delay_ms: Arc::clone(&delay_ms),
            stop: Arc::clone(&stop),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(work.run()));
        Self { truth, paused, delay_ms, stop, thread: Some(thread) }
    }

    /// What is visible. Taken after the commit of the transaction: never more than the table shows.
    pub fn truth(&self) -> Truth {
        let mut truth = self.truth.lock().unwrap();
        let now = truth.clone();
        truth.worst_age = Duration::ZERO;
        now
    }

    /// Stands still (between two batches), or goes on.
    pub fn pause(&self, pause: bool) {
        self.paused.store(pause, Ordering::Release);
    }

    /// From now on a record becomes visible no sooner than at this age.
    pub fn delay(&self, delay: Duration) {
        self.delay_ms.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::Release);
    }
}

impl Drop for Ingestor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().unwrap().join();
    }
}

struct Work {
    consumer: BaseConsumer,
    url: String,
    name: String,
    truth: Arc<Mutex<Truth>>,
    paused: Arc<AtomicBool>,
    delay_ms: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// One record as it is written.
struct Row {
    partition: i32,
    offset: u64,
    sequence: u64,
    intended: Duration,
    marker: bool,
}

impl Work {
    async fn run(self) {
        let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        while !self.stop.load(Ordering::Acquire) {
            if self.paused.load(Ordering::Acquire) {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
            let batch = self.batch().await;
            if batch.is_empty() {
                continue;
            }
            client.batch_execute(&self.sql(&batch)).await.unwrap();
            let now = wall_now();
            let mut truth = self.truth.lock().unwrap();
            for row in &batch {
                truth.next.insert(row.partition, row.offset + 1);
                truth.worst_age = truth.worst_age.max(now.saturating_sub(row.intended));
                if row.marker {
                    truth.markers.push(now.saturating_sub(row.intended));
                }
            }
            truth.records += batch.len() as u64;
        }
    }

    /// The records that are there, each old enough.
    async fn batch(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        while rows.len() < BATCH {
            let wait = if rows.is_empty() { Duration::from_millis(20) } else { Duration::ZERO };
            let Some(message) = self.consumer.poll(wait) else { break };
            rows.push(row(&message.unwrap()));
        }
        if let Some(newest) = rows.iter().map(|row| row.intended).max() {
            let delay = Duration::from_millis(self.delay_ms.load(Ordering::Acquire));
            // Let the connection's task run as well.
            tokio::time::sleep((newest + delay).saturating_sub(wall_now())).await;
        }
        rows
    }

    fn sql(&self, rows: &[Row]) -> String {
        let name = &self.name;
        let values: Vec<String> = rows.iter().map(Row::sql).collect();
        let last: BTreeMap<i32, &Row> = rows.iter().map(|row| (row.partition, row)).collect();
        let at: Vec<String> = last
            .values()
            .map(|row| format!("({},{},{},{})", row.partition, row.offset + 1, row.offset, row.sequence))
            .collect();
        format!(
            "BEGIN; INSERT INTO {name}_rows VALUES {}; INSERT INTO {name}_at VALUES {} ON CONFLICT (partition)
             DO UPDATE SET next_offset = excluded.next_offset, last_offset = excluded.last_offset,
             sequence = excluded.sequence; COMMIT",
            values.join(","),
            at.join(",")
        )
    }
}

impl Row {
    fn sql(&self) -> String {
        format!("({},{},{},{})", self.partition, self.offset, self.sequence, self.marker)
    }
}

fn row(message: &BorrowedMessage<'_>) -> Row {
    let value: serde_json::Value = serde_json::from_slice(message.payload().unwrap()).unwrap();
    Row {
        partition: message.partition(),
        offset: u64::try_from(message.offset()).unwrap(),
        sequence: value["sequence"].as_u64().unwrap(),
        intended: Duration::from_millis(value["intended_ms"].as_u64().unwrap()),
        marker: value["marker"].as_bool().unwrap_or(false),
    }
}

#[allow(clippy::disallowed_methods)]
fn wall_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
