//! A second handle that looks at the topics while the load runs: it tells a dead producer from a dead broker, and where
//! each partition's log begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::client::{Quiet, reader};
use super::settings::KafkaSettings;
use super::topic::watermarks;
use crate::core::stream::Stream;

/// What the second handle knows of a topic.
#[derive(Debug, Default)]
pub struct TopicHealth {
    /// When a metadata request for the topic last succeeded without an error for it (monotonic), 0 before.
    metadata_ok_ns: AtomicU64,
    /// A lane has records in flight and no acks: look now.
    doubted: AtomicBool,
}

impl TopicHealth {
    /// When the topic was last seen healthy (monotonic nanoseconds).
    #[must_use]
    pub fn metadata_ok_ns(&self) -> u64 {
        self.metadata_ok_ns.load(Ordering::Acquire)
    }

    /// Asks for a look soon.
    pub fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
    }

    /// Notes that the topic was seen healthy.
    pub fn seen_healthy(&self, at_ns: u64) {
        self.metadata_ok_ns.store(at_ns, Ordering::Release);
    }
}

/// Time between two looks at the log starts; they move slowly.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time between two looks at metadata while a lane is in doubt.
const DOUBT_INTERVAL: Duration = Duration::from_secs(1);
/// How long one look may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How soon a stop or a doubt is noticed.
const TICK: Duration = Duration::from_millis(100);

/// Watches the topics of all streams from one thread.
pub struct Watch {
    reader: BaseConsumer<Quiet>,
    topics: Vec<(Arc<Stream>, Arc<TopicHealth>)>,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("topics", &self.topics.len()).finish_non_exhaustive()
    }
}

impl Watch {
    /// A watch with a client of its own.
    ///
    /// # Errors
    /// When no client can be made from the settings.
    pub fn new(
        settings: &KafkaSettings,
        topics: Vec<(Arc<Stream>, Arc<TopicHealth>)>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, rdkafka::error::KafkaError> {
        Ok(Self { reader: reader(settings)?, topics, stop })
    }

    /// Looks until it is stopped. Blocks its thread.
    pub fn run(self) {
        let mut looked: Option<Instant> = None;
        let mut doubted: Option<Instant> = None;
        while !self.stop.load(Ordering::Acquire) {
            if looked.is_none_or(|at| at.elapsed() >= INTERVAL) {
                looked = Some(Instant::now());
                self.topics.iter().for_each(|(stream, health)| self.look(stream, health, true));
            } else if doubted.is_none_or(|at| at.elapsed() >= DOUBT_INTERVAL) {
                for (stream, health) in &self.topics {
                    if health.doubted.swap(false, Ordering::AcqRel) {
                        doubted = Some(Instant::now());
                        self.look(stream, health, false);
                    }
                }
            }
            // Serves the client's own events, so that they do not pile up.
            let _ = self.reader.poll(TICK);
        }
    }

    fn look(&self, stream: &Stream, health: &TopicHealth, log_starts: bool) {
        let Ok(metadata) = self.reader.fetch_metadata(Some(&stream.topic), TIMEOUT) else { return };
        let healthy = metadata.topics().iter().any(|topic| {
            topic.name() == stream.topic
                && topic.error().is_none()
                && topic.partitions().iter().all(|partition| partition.leader() >= 0)
        });
        if healthy {
            health.seen_healthy(stream.clock.now_ns());
        }
        if healthy && log_starts {
            let marks = watermarks(&self.reader, &stream.topic, stream.partitions, Instant::now() + TIMEOUT);
            for (partition, (low, _)) in (0_u32..).zip(marks.unwrap_or_default()) {
                stream.set_log_start(partition, low);
            }
        }
    }
}
