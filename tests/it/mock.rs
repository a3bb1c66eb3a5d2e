//! Fixture F1: a broker whose faults can be ordered. The daemon reaches it over TCP like any other.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{Offset, TopicPartitionList};

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
        self.cluster.broker_down(1).unwrap();
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

    /// The first offset that is still there and the end offset, of every partition.
    pub fn watermarks(&self) -> Vec<(u64, u64)> {
        let reader: BaseConsumer =
            rdkafka::ClientConfig::new().set("bootstrap.servers", self.brokers()).create().unwrap();
        (0..self.partitions)
            .map(|partition| {
                let timeout = std::time::Duration::from_secs(10);
                let (low, high) = reader.fetch_watermarks("t", partition, timeout).unwrap();
                (u64::try_from(low).unwrap(), u64::try_from(high).unwrap())
            })
            .collect()
    }
}
