//! Topics: made when they are missing, and how far they reach. Every call here blocks; none belongs on the runtime.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{Quiet, Refused, last_heard, reader, reader_config};
use super::settings::KafkaSettings;

/// Time between two questions to a broker that is not ready yet.
const RETRY: Duration = Duration::from_millis(20);

/// A topic as the settings want it.
#[derive(Debug, Clone)]
pub struct TopicSpec {
    /// The topic's name.
    pub name: String,
    /// Whether a missing topic is created.
    pub create: bool,
    /// Partitions of a created topic.
    pub partitions: u32,
    /// Copies of each partition of a created topic.
    pub replication_factor: u16,
    /// Settings of a created topic.
    pub config: Vec<(String, String)>,
}

/// A topic as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInfo {
    /// The number of its partitions, whatever the settings say.
    pub partitions: u32,
    /// Whether soakd created it just now.
    pub created: bool,
    /// First offset still there and next offset to be written, by partition.
    pub watermarks: Vec<(u64, u64)>,
}

/// Why a topic cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// No client can be made from the settings.
    #[error("kafka.client: {0}")]
    Client(#[source] Refused),
    /// No broker answers.
    #[error("kafka.brokers: no broker answers at {brokers} within {}s: {source}{heard}", timeout.as_secs_f32())]
    Unreachable {
        /// The brokers that were asked.
        brokers: String,
        /// How long was waited.
        timeout: Duration,
        /// The client's word.
        source: Box<KafkaError>,
        /// What the client met before, such as a refused password; begins with `; `, or is empty.
        heard: String,
    },
    /// The topic is not there and may not be created.
    #[error("topic {0:?} does not exist: create it, or set create = true for the stream")]
    Missing(String),
    /// The broker refused to create the topic.
    #[error("topic {topic:?} cannot be created: {reason}")]
    Create {
        /// The topic.
        topic: String,
        /// The broker's word.
        reason: String,
    },
    /// The broker answers with an error about the topic.
    #[error("topic {topic:?} cannot be used: {reason}")]
    Unusable {
        /// The topic.
        topic: String,
        /// The broker's word.
        reason: String,
    },
}

/// Makes sure that a topic is there and says how far it reaches.
///
/// # Errors
/// When no broker answers in time, or the topic is missing and cannot be created.
pub fn ensure(
    settings: &KafkaSettings,
    spec: &TopicSpec,
    timeout: Duration,
) -> Result<TopicInfo, TopicError> {
    let deadline = Instant::now() + timeout;
    let reader = reader(settings).map_err(TopicError::Client)?;
    let mut created = false;
    let mut partitions = lookup(settings, &reader, &spec.name, deadline, timeout)?;
    if partitions.is_none() {
        if !spec.create {
            return Err(TopicError::Missing(spec.name.clone()));
        }
        create(settings, spec, deadline)?;
        created = true;
        // The brokers learn of a new topic one after the other.
        while partitions.is_none() && Instant::now() < deadline {
            std::thread::sleep(RETRY);
            partitions = lookup(settings, &reader, &spec.name, deadline, timeout)?;
        }
    }
    let partitions = partitions.ok_or_else(|| TopicError::Missing(spec.name.clone()))?;
    let watermarks = first_watermarks(&reader, &spec.name, partitions, deadline)
        .map_err(|error| TopicError::Unusable { topic: spec.name.clone(), reason: error.to_string() })?;
    Ok(TopicInfo { partitions, created, watermarks })
}

/// The metadata may name leaders that do not know yet that they lead: of a topic just made, or after a restart.
fn first_watermarks(
    reader: &BaseConsumer<Quiet>,
    topic: &str,
    partitions: u32,
    deadline: Instant,
) -> Result<Vec<(u64, u64)>, KafkaError> {
    loop {
        match watermarks(reader, topic, partitions, deadline) {
            Err(error) if may_pass(&error) && Instant::now() < deadline => std::thread::sleep(RETRY),
            outcome => return outcome,
        }
    }
}

/// Whether asking again may help.
fn may_pass(error: &KafkaError) -> bool {
    !matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed)
    )
}

/// The number of partitions of a topic whose leaders are all there; `None` when the topic does not exist.
fn lookup(
    settings: &KafkaSettings,
    reader: &BaseConsumer<Quiet>,
    topic: &str,
    deadline: Instant,
    timeout: Duration,
) -> Result<Option<u32>, TopicError> {
    let unusable = |reason: String| TopicError::Unusable { topic: topic.to_owned(), reason };
    loop {
        let metadata = reader.fetch_metadata(Some(topic), left(deadline)).map_err(|source| {
            let (brokers, heard) = (settings.brokers.join(","), last_heard(reader));
            TopicError::Unreachable { brokers, timeout, source: Box::new(source), heard }
        })?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Ok(None);
        };
        let leaderless = found.partitions().iter().filter(|partition| partition.leader() < 0).count();
        match found.error() {
            Some(error) if is_missing(error) => return Ok(None),
            None if leaderless == 0 && !found.partitions().is_empty() => {
                return Ok(u32::try_from(found.partitions().len()).ok());
            }
            other if Instant::now() >= deadline => {
                return Err(unusable(match other {
                    Some(error) => RDKafkaErrorCode::from(error).to_string(),
                    None => format!("{leaderless} partitions have no leader"),
                }));
            }
            _ => std::thread::sleep(RETRY),
        }
    }
}

fn is_missing(error: RDKafkaRespErr) -> bool {
    matches!(
        RDKafkaErrorCode::from(error),
        RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic
    )
}

fn create(settings: &KafkaSettings, spec: &TopicSpec, deadline: Instant) -> Result<(), TopicError> {
    let refused = |reason: String| TopicError::Create { topic: spec.name.clone(), reason };
    let admin: AdminClient<Quiet> = reader_config(settings)
        .create_with_context(Quiet::default())
        .map_err(|error| TopicError::Client(error.into()))?;
    let replication = TopicReplication::Fixed(i32::from(spec.replication_factor));
    let partitions = i32::try_from(spec.partitions).map_err(|_| refused("too many partitions".into()))?;
    let topic = spec
        .config
        .iter()
        .fold(NewTopic::new(&spec.name, partitions, replication), |topic, (name, value)| {
            topic.set(name, value)
        });
    let options =
        AdminOptions::new().operation_timeout(Some(left(deadline))).request_timeout(Some(left(deadline)));
    // The admin client answers through a future although it has a thread of its own; this thread may block.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| refused(e.to_string()))?;
    let results = runtime
        .block_on(admin.create_topics([&topic], &options))
        .map_err(|error| refused(error.to_string()))?;
    match results.into_iter().next() {
        // Somebody else was faster: as good as ours.
        Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) | None => Ok(()),
        Some(Err((_, code))) => Err(refused(code.to_string())),
    }
}

/// First offset still there and next offset to be written of every partition, under one deadline for all.
///
/// # Errors
/// When one of them cannot be read in time.
pub fn watermarks(
    reader: &BaseConsumer<Quiet>,
    topic: &str,
    partitions: u32,
    deadline: Instant,
) -> Result<Vec<(u64, u64)>, KafkaError> {
    (0..partitions)
        .map(|partition| {
            let partition = i32::try_from(partition).unwrap_or(i32::MAX);
            let (low, high) = reader.fetch_watermarks(topic, partition, left(deadline))?;
            Ok((u64::try_from(low).unwrap_or(0), u64::try_from(high).unwrap_or(0)))
        })
        .collect()
}

/// The number of partitions of a topic; `None` when there is no such topic.
///
/// # Errors
/// When no broker answers in time.
pub fn partitions(
    reader: &BaseConsumer<Quiet>,
    topic: &str,
    deadline: Instant,
) -> Result<Option<u32>, KafkaError> {
    let metadata = reader.fetch_metadata(Some(topic), left(deadline))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let found = found.filter(|found| found.error().is_none() && !found.partitions().is_empty());
    Ok(found.and_then(|found| u32::try_from(found.partitions().len()).ok()))
}

/// The next offset to be written of every partition, by one question to each broker instead of two for each partition. With
/// the client's usual `isolation.level` it is the next offset that a reader of what is committed gets.
///
/// # Errors
/// When one of them cannot be read in time.
pub fn ends(
    reader: &BaseConsumer<Quiet>,
    topic: &str,
    partitions: u32,
    deadline: Instant,
) -> Result<Vec<u64>, KafkaError> {
    edges(reader, topic, partitions, Offset::End, deadline)
}

/// The first offset that is still there of every partition, by one question to each broker.
///
/// # Errors
/// When one of them cannot be read in time.
pub fn log_starts(
    reader: &BaseConsumer<Quiet>,
    topic: &str,
    partitions: u32,
    deadline: Instant,
) -> Result<Vec<u64>, KafkaError> {
    edges(reader, topic, partitions, Offset::Beginning, deadline)
}

/// The beginning or the end of every partition.
fn edges(
    reader: &BaseConsumer<Quiet>,
    topic: &str,
    partitions: u32,
    edge: Offset,
    deadline: Instant,
) -> Result<Vec<u64>, KafkaError> {
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        // In place of a time it asks for the edge.
        list.add_partition_offset(topic, i32::try_from(partition).unwrap_or(i32::MAX), edge)?;
    }
    let list = reader.offsets_for_times(list, left(deadline))?;
    let found = |partition: u32| {
        let found = list.find_partition(topic, i32::try_from(partition).unwrap_or(i32::MAX));
        let found = found.ok_or(KafkaError::OffsetFetch(RDKafkaErrorCode::UnknownPartition))?;
        found.error()?;
        match found.offset() {
            Offset::Offset(end) => Ok(u64::try_from(end).unwrap_or(0)),
            _ => Err(KafkaError::OffsetFetch(RDKafkaErrorCode::NoOffset)),
        }
    };
    (0..partitions).map(found).collect()
}

/// Time until the deadline; never zero, because the client reads 0 as "only what is there already".
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
