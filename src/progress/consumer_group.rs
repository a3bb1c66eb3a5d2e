//! Progress by the committed offsets of a consumer group, read without ever joining it. Works when the group has no
//! members, and on brokers that cannot list groups.
//!
//! The client library's call blocks its thread for as long as the broker keeps it waiting, so each source has a thread of its
//! own. It takes one question at a time: while a question is not answered no other is put, so that nothing piles up.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::core::lag::Progress;
use crate::core::status::ProgressErrorKind;
use crate::kafka::client::{Quiet, Refused, reader_config, serve_events};
use crate::kafka::settings::KafkaSettings;

use super::poll::{Answering, ProbeError, Source};
use super::settings::ConsumerGroupSettings;

/// How often the client's events are served between questions, so that they do not pile up.
const SERVE_EVERY: Duration = Duration::from_millis(100);
/// The blocking call ends this much before the deadline, so that its own error comes first.
const MARGIN: Duration = Duration::from_millis(50);
/// How long a thread may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// A source of kind `consumer_group` cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The client library refuses a property.
    #[error("the kafka client refuses its settings: {0}")]
    Client(#[from] Refused),
}

/// Asks a broker for a group's offsets.
pub(super) struct GroupSource {
    target: Target,
    worker: Option<Worker>,
    /// A question whose answer nobody waits for any more, and since when.
    unanswered: Option<(oneshot::Receiver<Answer>, Instant)>,
}

#[derive(Debug, Clone)]
struct Target {
    config: ClientConfig,
    group: String,
    topic: String,
    partitions: u32,
}

type Answer = Result<Progress, ProbeError>;

struct Question {
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

/// The thread. It ends when the sender is dropped, and then lets go of `ended`.
struct Worker {
    questions: SyncSender<Question>,
    ended: oneshot::Receiver<()>,
}

impl GroupSource {
    /// A source for a topic with so many partitions. Connects to nothing.
    ///
    /// # Errors
    /// When the client library refuses a property.
    pub(super) fn new(
        settings: &ConsumerGroupSettings,
        kafka: &KafkaSettings,
        topic: &str,
        partitions: u32,
    ) -> Result<Self, GroupError> {
        let mut config = reader_config(kafka);
        config.set("group.id", &settings.group);
        config.set("enable.auto.offset.store", "false");
        // With `read_committed` a transaction that is open in the group would make every question fail, while the offsets
        // that are committed are known.
        config.set("isolation.level", "read_uncommitted");
        // Refused properties should be an error at start, not at the first poll.
        config.create_native_config().map_err(Refused::from)?;
        let target = Target { config, group: settings.group.clone(), topic: topic.to_owned(), partitions };
        Ok(Self { target, worker: None, unanswered: None })
    }

    fn start(&mut self) -> Result<(), ProbeError> {
        if let Some((answer, since)) = &mut self.unanswered {
            if matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                let waited = humantime::format_duration(Duration::from_secs(since.elapsed().as_secs()));
                let text = format!("an earlier question to the broker is still not answered after {waited}");
                return Err(ProbeError::new(ProgressErrorKind::Timeout, text));
            }
            self.unanswered = None;
        }
        if let Some(worker) = &mut self.worker
            && matches!(worker.ended.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        {
            return Ok(());
        }
        self.worker = Some(spawn(self.target.clone())?);
        Ok(())
    }

    async fn asked(&mut self, deadline: tokio::time::Instant) -> Answer {
        let gone = || ProbeError::new(ProgressErrorKind::Connect, "the kafka client has ended".to_owned());
        let worker = self.worker.as_ref().ok_or_else(gone)?;
        let (sender, receiver) = oneshot::channel();
        let question = Question { deadline: deadline.into_std() - MARGIN, answer: sender };
        worker.questions.try_send(question).map_err(|_| gone())?;
        // Kept here while it is waited for, so that it is known when this answer is dropped.
        let (receiver, _) = self.unanswered.insert((receiver, Instant::now()));
        let Ok(answer) = timeout_at(deadline, receiver).await else {
            let text = format!("the offsets of group {:?} did not come in time", self.target.group);
            return Err(ProbeError::new(ProgressErrorKind::Timeout, text));
        };
        self.unanswered = None;
        answer.unwrap_or_else(|_| Err(gone()))
    }
}

impl Source for GroupSource {
    fn ready(&mut self, _deadline: tokio::time::Instant) -> Answering<'_, ()> {
        Box::pin(std::future::ready(self.start()))
    }

    fn ask(&mut self, deadline: tokio::time::Instant) -> Answering<'_, Progress> {
        Box::pin(self.asked(deadline))
    }

    fn close(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let worker = self.worker.take();
        Box::pin(async move {
            if let Some(Worker { questions, ended }) = worker {
                drop(questions);
                // A thread that a broker holds is left behind: the process is about to end.
                let _ = tokio::time::timeout(FAREWELL, ended).await;
            }
        })
    }
}

fn spawn(target: Target) -> Result<Worker, ProbeError> {
    let (questions, asked) = sync_channel(1);
    let (ending, ended) = oneshot::channel::<()>();
    let name = format!("group-{}", target.group);
    let thread = move || {
        let _ending = ending;
        serve(&target, &asked);
    };
    let spawned = std::thread::Builder::new().name(name.replace('\0', "")).spawn(thread);
    spawned.map_err(|error| {
        ProbeError::new(
            ProgressErrorKind::Connect,
            format!("cannot start a thread for the kafka client: {error}"),
        )
    })?;
    Ok(Worker { questions, ended })
}

/// The thread's life.
fn serve(target: &Target, questions: &Receiver<Question>) {
    let consumer: BaseConsumer<Quiet> = match target.config.create_with_context(Quiet::default()) {
        Ok(consumer) => consumer,
        Err(error) => {
            // Told to whoever asks, and then the thread ends: the next poll tries anew.
            if let Ok(question) = questions.recv() {
                let text = format!("cannot make a kafka client: {}", Refused::from(error));
                let _ = question.answer.send(Err(ProbeError::new(ProgressErrorKind::Connect, text)));
            }
            return;
        }
    };
    let mut told = Told::default();
    loop {
        match questions.recv_timeout(SERVE_EVERY) {
            Ok(question) => {
                let left = question.deadline.saturating_duration_since(Instant::now());
                let outcome = committed(&consumer, target, left, &mut told);
                serve_events(&consumer);
                if outcome.is_ok() {
                    // Kept over failed questions: in a long outage the client tries to connect less often than it is asked.
                    consumer.context().forget();
                }
                let outcome = outcome.map_err(|error| explain(&error, &consumer, &target.group, left));
                let _ = question.answer.send(outcome);
            }
            Err(RecvTimeoutError::Timeout) => serve_events(&consumer),
            Err(RecvTimeoutError::Disconnected) => return,
        }
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
    for partition in 0..target.partitions {
        list.add_partition(&target.topic, i32::try_from(partition).unwrap_or(i32::MAX));
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
                target.partitions
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
