//! Progress by the committed offsets of a consumer group, read without ever joining it. Works when the group has no
//! members, and on brokers that cannot list groups.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use crate::core::lag::Progress;
use crate::core::status::ProgressErrorKind;
use crate::core::stream::Stream;
use crate::kafka::client::{Quiet, Refused, reader_config, serve_events};
use crate::kafka::settings::KafkaSettings;

use super::poll::{Answering, ProbeError, Source};
use super::settings::ConsumerGroupSettings;
use super::worker::{Answer, Work, Worker, make};

/// How often the client's events are served between questions, so that they do not pile up.
const SERVE_EVERY: Duration = Duration::from_millis(100);

/// A source of kind `consumer_group` cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The client library refuses a property.
    #[error("the kafka client refuses its settings: {0}")]
    Client(#[from] Refused),
}

/// Asks a broker for a group's offsets.
pub(super) struct GroupSource {
    worker: Worker<Reader>,
    /// What is said when no answer comes in time.
    late: String,
}

#[derive(Debug, Clone)]
struct Target {
    config: ClientConfig,
    group: String,
    stream: Arc<Stream>,
}

impl GroupSource {
    /// A source for a stream's topic. Connects to nothing.
    ///
    /// # Errors
    /// When the client library refuses a property.
    pub(super) fn new(
        settings: &ConsumerGroupSettings,
        kafka: &KafkaSettings,
        stream: &Arc<Stream>,
    ) -> Result<Self, GroupError> {
        let mut config = reader_config(kafka);
        config.set("group.id", &settings.group);
        config.set("enable.auto.offset.store", "false");
        // With `read_committed` a transaction that is open in the group would make every question fail, while the offsets
        // that are committed are known.
        config.set("isolation.level", "read_uncommitted");
        // Refused properties should be an error at start, not at the first poll.
        config.create_native_config().map_err(Refused::from)?;
        let target = Target { config, group: settings.group.clone(), stream: Arc::clone(stream) };
        let (name, late) = (
            format!("group-{}", target.group),
            format!("the offsets of group {:?} did not come in time", target.group),
        );
        Ok(Self { worker: Worker::new(name, target), late })
    }
}

impl Source for GroupSource {
    fn ready(&mut self, _deadline: tokio::time::Instant) -> Answering<'_, ()> {
        Box::pin(std::future::ready(self.worker.ready()))
    }

    fn ask(&mut self, deadline: tokio::time::Instant) -> Answering<'_, Progress> {
        Box::pin(self.worker.ask(deadline, &self.late))
    }

    fn close(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.worker.close()
    }
}

/// The client, on its thread.
struct Reader {
    consumer: BaseConsumer<Quiet>,
    target: Target,
    told: Told,
}

impl Work for Reader {
    type Target = Target;

    fn start(target: Target) -> Result<Self, ProbeError> {
        Ok(Self { consumer: make(&target.config)?, target, told: Told::default() })
    }

    fn answer(&mut self, deadline: Instant) -> Answer {
        let Self { consumer, target, told } = self;
        let left = deadline.saturating_duration_since(Instant::now());
        let outcome = committed(consumer, target, left, told);
        serve_events(consumer);
        if outcome.is_ok() {
            // Kept over failed questions: in a long outage the client tries to connect less often than it is asked.
            consumer.context().forget();
        }
        outcome.map_err(|error| explain(&error, consumer, &target.group, left))
    }

    fn idle(&mut self) -> Duration {
        serve_events(&self.consumer);
        SERVE_EVERY
    }
}

/// What was told of the group before, so that each change is told once.
#[derive(Debug, Default)]
struct Told {
    /// It has had a commit.
    committed: bool,
    /// Partitions that the broker refuses, and why.
    refused: Option<String>,
}

/// All partitions in one call with one deadline. A partition that the broker refuses is unknown; only when none is
/// known is that an error.
fn committed(
    consumer: &BaseConsumer<Quiet>,
    target: &Target,
    left: Duration,
    told: &mut Told,
) -> KafkaResult<Progress> {
    let mut list = TopicPartitionList::new();
    for partition in 0..target.stream.present() {
        list.add_partition(&target.stream.topic, i32::try_from(partition).unwrap_or(i32::MAX));
    }
    let list = consumer.committed_offsets(list, left)?;
    let mut offsets = BTreeMap::new();
    let mut refused = Vec::new();
    for element in list.elements() {
        let next = match (element.error(), element.offset()) {
            (Ok(()), Offset::Offset(next)) => u64::try_from(next).ok(),
            (Ok(()), _) => None,
            (Err(error), _) => {
                refused.push((element.partition(), error));
                None
            }
        };
        offsets.insert(u32::try_from(element.partition()).unwrap_or(u32::MAX), next);
    }
    let known = offsets.values().any(Option::is_some);
    match refused.first() {
        Some((_, error)) if !known => return Err(error.clone()),
        _ => told.refused(target, &refused),
    }
    if known {
        told.committed = true;
        return Ok(Progress::Partitions(offsets));
    }
    Ok(Progress::NoData(if told.committed { GONE } else { "no commits yet" }.to_owned()))
}

/// A broker forgets what a group without members has committed, after `offsets.retention.minutes` (a week by default).
const GONE: &str = "no commits any more: the group's offsets have expired or were deleted";

impl Told {
    fn refused(&mut self, target: &Target, refused: &[(i32, KafkaError)]) {
        let first = refused.first().map(|(partition, error)| {
            let why = error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string());
            format!(
                "{} of {} partitions, partition {partition} the first: {why}",
                refused.len(),
                target.stream.present()
            )
        });
        if first != self.refused {
            match &first {
                Some(what) => {
                    tracing::warn!(
                        group = target.group,
                        what,
                        "the broker refuses offsets of some partitions: their lag is not known"
                    );
                }
                None => tracing::info!(
                    group = target.group,
                    "the broker gives the offsets of all partitions again"
                ),
            }
            self.refused = first;
        }
    }
}

fn explain(error: &KafkaError, consumer: &BaseConsumer<Quiet>, group: &str, waited: Duration) -> ProbeError {
    use RDKafkaErrorCode as Code;
    let last = consumer.context().heard();
    let code = error.rdkafka_error_code();
    let unreachable = |code: Code| {
        matches!(
            code,
            Code::AllBrokersDown
                | Code::BrokerTransportFailure
                | Code::Resolve
                | Code::Authentication
                | Code::SSL
        )
    };
    let timed_out =
        matches!(code, Some(Code::OperationTimedOut | Code::RequestTimedOut | Code::WaitingForCoordinator));
    let kind = match code {
        Some(code) if unreachable(code) => ProgressErrorKind::Connect,
        // It waited in vain because there was nobody to ask.
        _ if timed_out && last.as_ref().is_some_and(|(code, _)| code.is_some_and(unreachable)) => {
            ProgressErrorKind::Connect
        }
        _ if timed_out => ProgressErrorKind::Timeout,
        _ => ProgressErrorKind::Query,
    };
    let what = code.map_or_else(|| error.to_string(), |code| code.to_string());
    let mut text = format!("cannot read the offsets of group {group:?}: {what}");
    if timed_out {
        text = format!(
            "{text} after {}",
            humantime::format_duration(Duration::from_secs(waited.as_secs().max(1)))
        );
    }
    if let Some((_, reason)) = last.filter(|(_, reason)| !reason.is_empty()) {
        text = format!("{text}; last heard: {reason}");
    }
    ProbeError::new(kind, text)
}
