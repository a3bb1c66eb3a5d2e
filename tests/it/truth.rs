//! What is true, by clients of the test's own that share no code with soakd: the broker's log, a group's commits.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, DefaultConsumerContext};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde::Deserialize;

/// How long a broker may take for one question.
const PATIENCE: Duration = Duration::from_secs(20);

/// Wall time in seconds since 1970.
#[allow(clippy::disallowed_methods)] // the truth reads its own clock
pub(crate) fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// A plain consumer that never joins a group.
pub(crate) struct Reader {
    consumer: BaseConsumer<DefaultConsumerContext>,
    topic: String,
    partitions: i32,
}

/// The payload of a value in Connect's envelope, or a value without one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) partition: u32,
    pub(crate) sequence: u64,
    pub(crate) intended_ms: i64,
    pub(crate) text: String,
}

#[derive(Deserialize)]
struct Envelope {
    payload: Row,
}

/// One record of the log; its offset is its place, because nothing else is in these logs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    /// The record's Kafka timestamp.
    pub(crate) timestamp_ms: i64,
}

/// A whole topic.
pub(crate) struct Log {
    /// By partition, in offset order from offset 0.
    pub(crate) partitions: Vec<Vec<Entry>>,
    /// By id: the last value of the partition that the id is in.
    pub(crate) last: HashMap<u64, Row>,
}

impl Reader {
    /// A reader that asks for the commits of `group`.
    pub(crate) fn new(brokers: &str, group: &str, topic: &str, partitions: i32) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", group);
        config.set("enable.auto.commit", "false").set("reconnect.backoff.max.ms", "500");
        Self { consumer: config.create().unwrap(), topic: topic.to_owned(), partitions }
    }

    /// First offset still there and next offset to be written, by partition; `None` when the broker does not answer.
    pub(crate) fn try_watermarks(&self, patience: Duration) -> Option<Vec<(u64, u64)>> {
        let one = |partition| {
            let (low, high) = self.consumer.fetch_watermarks(&self.topic, partition, patience).ok()?;
            Some((u64::try_from(low).ok()?, u64::try_from(high).ok()?))
        };
        (0..self.partitions).map(one).collect()
    }

    pub(crate) fn watermarks(&self) -> Vec<(u64, u64)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(marks) = self.try_watermarks(PATIENCE) {
                return marks;
            }
            assert!(Instant::now() < deadline, "no watermarks of {}", self.topic);
        }
    }

    pub(crate) fn ends(&self) -> Vec<u64> {
        self.watermarks().into_iter().map(|(_, high)| high).collect()
    }

    /// The group's commits, 0 where it has none; `None` when the broker does not answer.
    pub(crate) fn committed(&self, patience: Duration) -> Option<Vec<u64>> {
        let mut list = TopicPartitionList::new();
        (0..self.partitions).for_each(|partition| {
            list.add_partition(&self.topic, partition);
        });
        let found = self.consumer.committed_offsets(list, patience).ok()?;
        let offset = |partition| match found.find_partition(&self.topic, partition)?.offset() {
            Offset::Offset(next) => u64::try_from(next).ok(),
            _ => Some(0),
        };
        (0..self.partitions).map(offset).collect()
    }

    /// Commits for the group, as a consumer that has read so far.
    pub(crate) fn commit(&self, next: &[u64]) {
        let mut list = TopicPartitionList::new();
        for (partition, next) in (0..).zip(next) {
            let offset = Offset::Offset(i64::try_from(*next).unwrap());
            list.add_partition_offset(&self.topic, partition, offset).unwrap();
        }
        self.consumer.commit(&list, CommitMode::Sync).unwrap();
    }

    /// Reads the topic from its beginning to the end that it has now, and parses every value.
    pub(crate) fn read(&self, parse: impl Fn(&[u8]) -> (u64, Option<Row>)) -> Log {
        let ends = self.ends();
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions {
            list.add_partition_offset(&self.topic, partition, Offset::Beginning).unwrap();
        }
        self.consumer.assign(&list).unwrap();
        let mut log = Log { partitions: vec![Vec::new(); ends.len()], last: HashMap::new() };
        let mut missing: u64 = ends.iter().sum();
        while missing > 0 {
            let message = self.consumer.poll(PATIENCE);
            let message = message.unwrap_or_else(|| panic!("{missing} records did not come")).unwrap();
            let entries = &mut log.partitions[message.partition() as usize];
            assert_eq!(message.offset(), entries.len() as i64, "the log has a gap");
            let (sequence, row) = parse(message.payload().unwrap());
            entries.push(Entry { sequence, timestamp_ms: message.timestamp().to_millis().unwrap() });
            if let Some(row) = row {
                log.last.insert(row.id, row);
            }
            missing -= 1;
        }
        self.consumer.unassign().unwrap();
        log
    }
}

/// A value of kind json in Connect's envelope.
pub(crate) fn envelope(value: &[u8]) -> (u64, Option<Row>) {
    let Envelope { payload } = serde_json::from_slice(value).unwrap();
    (payload.sequence, Some(payload))
}

/// A value of kind json.
pub(crate) fn json(value: &[u8]) -> (u64, Option<Row>) {
    let row: Row = serde_json::from_slice(value).unwrap();
    (row.sequence, Some(row))
}

/// A value of kind random begins with its sequence.
pub(crate) fn random(value: &[u8]) -> (u64, Option<Row>) {
    (u64::from_be_bytes(value[..8].try_into().unwrap()), None)
}

/// CPU time that a process has used, without its children, in seconds.
pub(crate) fn cpu_seconds(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // User and system time in ticks, 100 a second on every Linux.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
