//! Fixture F1: a broker whose faults can be ordered. The daemon reaches it over TCP like any other.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{Offset, TopicPartitionList};

use crate::children::while_none_starts;

/// One mock broker with a topic `t`.
pub struct MockKafka {
    pub cluster: MockCluster<'static, DefaultProducerContext>,
    pub partitions: i32,
}

impl MockKafka {
    pub fn start(partitions: i32) -> Self {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", partitions, 1).unwrap();
        Self { cluster, partitions }
    }

    pub fn brokers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Settings of a stream `main` to the topic `t`; `more` is appended inside `[streams.main]`.
    pub fn settings(&self, run: &str, client: &str, more: &str) -> String {
        format!(
            "[run]\nname = \"it\"\ndrain_timeout = \"2s\"\n{run}\n\
             [kafka]\nbrokers = [\"{}\"]\nclient = {{ {client} }}\n\
             [streams.main]\ntopic = \"t\"\ncreate = false\n{more}\n",
            self.brokers()
        )
    }

    pub fn down(&self) {
        while_none_starts(|| self.cluster.broker_down(1)).unwrap();
    }

    pub fn up(&self) {
        self.cluster.broker_up(1).unwrap();
    }

    /// The sum of the end offsets.
    pub fn records(&self) -> u64 {
        self.ends().iter().sum()
    }

    /// Fixture F2: commits offsets for a group, in the order of the partitions, and ends, as a consumer that died.
    pub fn commit(&self, group: &str, offsets: &[u64]) {
        let consumer: BaseConsumer = rdkafka::ClientConfig::new()
            .set("bootstrap.servers", self.brokers())
            .set("group.id", group)
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        for (partition, offset) in (0..).zip(offsets) {
            let offset = Offset::Offset(i64::try_from(*offset).unwrap());
            list.add_partition_offset("t", partition, offset).unwrap();
        }
        consumer.commit(&list, CommitMode::Sync).unwrap();
    }

    /// The topics that the broker has.
    pub fn topics(&self) -> Vec<String> {
        let reader: BaseConsumer = rdkafka::ClientConfig::new()
            .set("bootstrap.servers", self.brokers())
            .set("allow.auto.create.topics", "false")
            .create()
            .unwrap();
        let metadata = reader.fetch_metadata(None, std::time::Duration::from_secs(10)).unwrap();
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    /// The end offset of every partition.
    pub fn ends(&self) -> Vec<u64> {
        self.watermarks().into_iter().map(|(_, end)| end).collect()
    }

    /// The sum of the end offsets of another topic.
    pub fn records_of(&self, topic: &str, partitions: i32) -> u64 {
        self.watermarks_of(topic, partitions).into_iter().map(|(_, end)| end).sum()
    }

    /// The first offset that is still there and the end offset, of every partition.
    pub fn watermarks(&self) -> Vec<(u64, u64)> {
        self.watermarks_of("t", self.partitions)
    }

    fn watermarks_of(&self, topic: &str, partitions: i32) -> Vec<(u64, u64)> {
        let reader = self.reader();
        (0..partitions)
            .map(|partition| {
                let (low, high) = reader.fetch_watermarks(topic, partition, Duration::from_secs(10)).unwrap();
                (u64::try_from(low).unwrap(), u64::try_from(high).unwrap())
            })
            .collect()
    }

    /// How long the broker takes for every answer.
    pub fn round_trip(&self, time: Duration) {
        self.cluster.broker_round_trip_time(1, time).unwrap();
    }

    /// Everything that is in a topic, in the order of each partition.
    pub fn read(&self, topic: &str, partitions: i32) -> Vec<Read> {
        let reader = self.reader();
        let ends: Vec<u64> = self.watermarks_of(topic, partitions).into_iter().map(|(_, end)| end).collect();
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        reader.assign(&list).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut found = Vec::new();
        while found.len() < usize::try_from(ends.iter().sum::<u64>()).unwrap() {
            assert!(Instant::now() < deadline, "{} of {ends:?} records within 30 s", found.len());
            let Some(message) = reader.poll(Duration::from_millis(100)) else { continue };
            let message = message.unwrap();
            found.push(Read {
                partition: message.partition(),
                key: message.key().map(<[u8]>::to_vec),
                value: message.payload().unwrap_or_default().to_vec(),
                tombstone: message.payload().is_none(),
                headers: headers(&message),
                timestamp_ms: message.timestamp().to_millis().unwrap(),
            });
        }
        found
    }

    fn reader(&self) -> BaseConsumer {
        rdkafka::ClientConfig::new()
            .set("bootstrap.servers", self.brokers())
            .set("group.id", "reader")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "10")
            .create()
            .unwrap()
    }
}

fn headers(message: &BorrowedMessage<'_>) -> Vec<(String, Vec<u8>)> {
    let all = message.headers().into_iter().flat_map(Headers::iter);
    all.map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect()
}

/// A record as a consumer gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    /// Empty for a tombstone.
    pub value: Vec<u8>,
    pub tombstone: bool,
    pub headers: Vec<(String, Vec<u8>)>,
    pub timestamp_ms: i64,
}
