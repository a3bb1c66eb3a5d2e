//! The system under test of the demo: one thread that reads a topic into an upsert table and commits how far it is.
//!
//! It takes the topic's partitions by itself instead of joining its group: the mock cluster lets a joiner wait three
//! seconds, and the commits are the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::EmbeddedError;
use super::speed::{Bucket, Speed};
use super::table::{PartitionProgress, Table, TableLimits};
use crate::core::clock::Clock;
use crate::core::lock::lock;
use crate::kafka::client::Quiet;

/// Commits are this far apart at least: often enough for a lag in tenths of a second, no burden at any rate.
const COMMIT_INTERVAL_NS: u64 = 100_000_000;
/// Records taken in under one lock: bounds how long a question over HTTP can wait.
const BATCH_RECORDS: u64 = 512;
/// How long the thread sleeps at most: a change of speed and a stop are seen as fast.
const LONGEST_SLEEP: Duration = Duration::from_millis(5);
/// A limit is held in steps of this: waking for each record of a high one would cost more than the records.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// What the ingestor reads, and under which name it commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestorSettings {
    /// The topic; it must exist.
    pub topic: String,
    /// The topic's number of partitions; all are read, each from offset 0.
    pub partitions: u32,
    /// The group whose offsets are committed.
    pub group: String,
    /// How much the table may hold.
    pub limits: TableLimits,
}

/// What the ingestor and those who ask it share.
#[derive(Debug)]
struct Shared {
    table: Table,
    bucket: Bucket,
    read_errors: u64,
    commit_errors: u64,
}

/// Looks at a running ingestor and changes its speed.
#[derive(Debug, Clone)]
pub struct IngestorHandle {
    clock: Clock,
    settings: Arc<IngestorSettings>,
    shared: Arc<Mutex<Shared>>,
}

/// How the ingestor is, at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestorStatus {
    /// Keys with a row.
    pub keys: usize,
    /// Records ingested.
    pub rows: u64,
    /// Records ingested and not kept because the table was full.
    pub rows_not_kept: u64,
    /// The speed that is set.
    pub speed: Speed,
    /// How far each partition was read.
    pub partitions: BTreeMap<u32, PartitionProgress>,
    /// Errors of reading since the start.
    pub read_errors: u64,
    /// Commits that failed since the start; each was tried again.
    pub commit_errors: u64,
}

impl IngestorStatus {
    /// Records that the broker dropped before they were read.
    #[must_use]
    pub fn gap_records(&self) -> u64 {
        self.partitions.values().map(|progress| progress.gap_records).sum()
    }

    /// How often offsets were jumped over.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.partitions.values().map(|progress| progress.gaps).sum()
    }
}

impl IngestorHandle {
    /// What the ingestor reads.
    #[must_use]
    pub fn settings(&self) -> &IngestorSettings {
        &self.settings
    }

    /// How the ingestor is now.
    #[must_use]
    pub fn status(&self) -> IngestorStatus {
        let shared = lock(&self.shared);
        IngestorStatus {
            keys: shared.table.keys(),
            rows: shared.table.ingested(),
            rows_not_kept: shared.table.not_kept(),
            speed: shared.bucket.speed(),
            partitions: shared.table.partitions().clone(),
            read_errors: shared.read_errors,
            commit_errors: shared.commit_errors,
        }
    }

    /// The last value of a key.
    #[must_use]
    pub fn value_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        lock(&self.shared).table.get(key).map(<[u8]>::to_vec)
    }

    /// Changes the speed: when this returns, no further record is ingested at the old one. Returns the new speed.
    pub fn change_speed(&self, change: impl FnOnce(Speed) -> Speed) -> Speed {
        let mut shared = lock(&self.shared);
        let before = shared.bucket.speed();
        let speed = change(before);
        if speed != before {
            shared.bucket.set_speed(self.clock.now_ns(), speed);
            drop(shared);
            let limit = speed.limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
            tracing::info!(limit, stopped = speed.stopped, "the embedded ingestor's speed was changed");
        }
        speed
    }
}

/// Reads the topic until it is stopped.
pub struct Ingestor {
    handle: IngestorHandle,
    consumer: BaseConsumer<Quiet>,
}

impl fmt::Debug for Ingestor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingestor").field("settings", &self.handle.settings).finish_non_exhaustive()
    }
}

impl Ingestor {
    /// Makes the ingestor and its client, which begins to fetch. Nothing is ingested before [`Ingestor::run`].
    ///
    /// # Errors
    /// When the client cannot be made or does not take the partitions.
    pub fn new(settings: IngestorSettings, bootstrap: &str, clock: Clock) -> Result<Self, EmbeddedError> {
        let refused = |error: KafkaError| EmbeddedError::Ingestor {
            topic: settings.topic.clone(),
            reason: error.to_string(),
        };
        let consumer = BaseConsumer::from_config_and_context(
            &client_config(bootstrap, &settings.group),
            Quiet::default(),
        )
        .map_err(refused)?;
        let all = (0..settings.partitions).map(|partition| (partition, 0)).collect();
        let assignment = offsets(&settings.topic, &all).map_err(refused)?;
        consumer.assign(&assignment).map_err(refused)?;
        let shared = Shared {
            table: Table::new(settings.limits, settings.partitions),
            bucket: Bucket::new(clock.now_ns(), Speed::default()),
            read_errors: 0,
            commit_errors: 0,
        };
        let handle =
            IngestorHandle { clock, settings: Arc::new(settings), shared: Arc::new(Mutex::new(shared)) };
        Ok(Self { handle, consumer })
    }

    /// Looks at it and changes its speed, from anywhere.
    #[must_use]
    pub fn handle(&self) -> IngestorHandle {
        self.handle.clone()
    }

    /// Ingests until `stop`, then commits once more and leaves. Blocks: it needs a thread of its own.
    pub fn run(self, stop: &CancellationToken) {
        let mut next_commit_ns = 0;
        let mut told = Told::default();
        while !stop.is_cancelled() {
            let sleep = self.ingest(&mut told);
            let now_ns = self.handle.clock.now_ns();
            if now_ns >= next_commit_ns {
                next_commit_ns = now_ns + COMMIT_INTERVAL_NS;
                self.commit(&mut told);
            }
            if !sleep.is_zero() {
                std::thread::sleep(sleep);
            }
        }
        self.commit(&mut told);
    }

    /// Takes in what may be taken in now, and says how long to sleep then.
    fn ingest(&self, told: &mut Told) -> Duration {
        let mut shared = lock(&self.handle.shared);
        let now_ns = self.handle.clock.now_ns();
        let allowed = shared.bucket.allowance(now_ns, BATCH_RECORDS);
        let mut taken = 0;
        while taken < allowed {
            // Never a poll that waits: the lock is held, so that a stop holds from the very next record.
            match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    let (Ok(partition), Ok(offset)) =
                        (u32::try_from(message.partition()), u64::try_from(message.offset()))
                    else {
                        continue;
                    };
                    if shared.table.apply(partition, offset, message.key(), message.payload()) {
                        taken += 1;
                    }
                }
                Some(Err(error)) => {
                    shared.read_errors += 1;
                    shared.bucket.spend(taken);
                    told.reading(Err(&error));
                    return LONGEST_SLEEP;
                }
                None => {
                    shared.bucket.spend(taken);
                    shared.bucket.nothing_to_read();
                    return LONGEST_SLEEP;
                }
            }
        }
        shared.bucket.spend(taken);
        if taken > 0 {
            told.reading(Ok(()));
        }
        told.full(&shared.table);
        if taken == BATCH_RECORDS {
            return Duration::ZERO;
        }
        shared.bucket.wait(LONGEST_SLEEP).max(SHORTEST_SLEEP)
    }

    fn commit(&self, told: &mut Told) {
        let next = lock(&self.handle.shared).table.to_commit();
        if next.is_empty() {
            return;
        }
        let done = offsets(&self.handle.settings.topic, &next)
            .and_then(|list| self.consumer.commit(&list, CommitMode::Sync));
        let mut shared = lock(&self.handle.shared);
        match &done {
            Ok(()) => shared.table.committed(&next),
            Err(_) => shared.commit_errors += 1,
        }
        drop(shared);
        told.committing(done.as_ref().copied());
    }
}

/// What the log was told, so that it hears of each change once.
#[derive(Default)]
struct Told {
    reading_fails: bool,
    committing_fails: bool,
    full: bool,
}

impl Told {
    fn reading(&mut self, result: Result<(), &KafkaError>) {
        match result {
            Err(error) if !self.reading_fails => tracing::warn!(%error, "the embedded ingestor cannot read"),
            Ok(()) if self.reading_fails => tracing::info!("the embedded ingestor reads again"),
            _ => {}
        }
        self.reading_fails = result.is_err();
    }

    fn committing(&mut self, result: Result<(), &KafkaError>) {
        match result {
            Err(error) if !self.committing_fails => {
                tracing::warn!(%error, "the embedded ingestor cannot commit, and will try again");
            }
            Ok(()) if self.committing_fails => tracing::info!("the embedded ingestor commits again"),
            _ => {}
        }
        self.committing_fails = result.is_err();
    }

    fn full(&mut self, table: &Table) {
        if table.not_kept() > 0 && !self.full {
            let TableLimits { max_keys, max_bytes } = table.limits();
            tracing::warn!(
                max_keys,
                max_bytes,
                "the embedded ingestor's table is full: further keys are ingested and not kept"
            );
            self.full = true;
        }
    }
}

fn client_config(bootstrap: &str, group: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("client.id", "soakd-demo-ingestor")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // What the mock cluster has dropped is jumped over, and counted by the table.
        .set("auto.offset.reset", "earliest")
        // The mock cluster has no long polls: it would answer an empty fetch only when this has passed.
        .set("fetch.wait.max.ms", "10")
        // Small, so that a slow ingestor leaves its lag with the broker; the backoff's default would be a second.
        .set("queued.max.messages.kbytes", "1024")
        .set("fetch.queue.backoff.ms", "10")
        .set("allow.auto.create.topics", "false");
    config
}

fn offsets(topic: &str, next: &BTreeMap<u32, u64>) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(next.len());
    for (partition, offset) in next {
        let partition = i32::try_from(*partition).unwrap_or(i32::MAX);
        let offset = Offset::Offset(i64::try_from(*offset).unwrap_or(i64::MAX));
        list.add_partition_offset(topic, partition, offset)?;
    }
    Ok(list)
}
