//! The client that reads the output topic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};

mod follow;

use super::super::poll::ProbeError;
use super::super::settings::{ProgressValue, TopicSettings};
use super::super::worker::{Answer, Work, make};
use super::extract::{Told, told};
use crate::core::clock::Clock;
use crate::core::histogram::Latency;
use crate::core::lag::Progress;
use crate::core::lock::lock;
use crate::core::status::ProgressErrorKind;
use crate::kafka::client::{Quiet, last_heard, serve_events};
use crate::kafka::topic::{ends, partitions};

/// How long a poll for one record waits: a question waits as long.
const PATIENCE: Duration = Duration::from_millis(10);
/// How often the client's events are served when nothing is read.
const SERVE_EVERY: Duration = Duration::from_millis(100);
/// Records taken between two looks for a question.
const BATCH: usize = 1_000;
/// The last offsets of a partition may belong to transactions and not be records. The reader is told that it is at the end
/// then; so long nothing must have come.
const SETTLED: Duration = Duration::from_millis(100);

/// What is read outside polls and waits for the next one.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) end_to_end: Mutex<Latency>,
    /// Records that are not in the latencies.
    pub(super) skipped: AtomicU64,
}

/// What the reader is made from.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) config: ClientConfig,
    pub(super) clock: Clock,
    pub(super) settings: TopicSettings,
    /// The stream's partitions.
    pub(super) partitions: u32,
    pub(super) shared: Arc<Shared>,
}

impl Target {
    /// Whether records tell their intended time.
    pub(super) const fn is_timed(&self) -> bool {
        self.settings.intended.is_some() || self.settings.intended_header.is_some()
    }

    /// Whether records are read at all.
    fn is_reading(&self) -> bool {
        self.settings.value != ProgressValue::Count || self.is_timed()
    }
}

/// Reads the topic.
pub(super) struct Reader {
    target: Target,
    /// Asks for ends. A broker answers a connection's questions in their order, and lets a reader's wait for records: on its
    /// connection every question would take as long.
    asker: Arc<BaseConsumer<Quiet>>,
    /// Reads; absent when ends are enough.
    consumer: Option<BaseConsumer<Quiet>>,
    /// Partitions of the output topic, and when that was asked.
    partitions: Option<(u32, Instant)>,
    /// The offset that is read next, by partition of the output topic; empty before the first question.
    next: Vec<u64>,
    /// By partition: nothing has come since the client said that this is the end.
    at_end: Vec<bool>,
    /// Where each partition ended when it was found, if it was not there from the beginning. How long the records before
    /// that were there to be read is not known.
    found_at: Vec<u64>,
    /// The highest value by partition of the stream.
    newest: BTreeMap<u32, u64>,
    /// Records read since the last answer, and those of them that tell nothing.
    taken: u64,
    unreadable: u64,
    why: String,
}

impl Work for Reader {
    type Target = Target;

    fn start(target: Target) -> Result<Self, ProbeError> {
        let asker = Arc::new(make(&target.config)?);
        let consumer = target.is_reading().then(|| make(&target.config)).transpose()?;
        Ok(Self {
            target,
            asker,
            consumer,
            partitions: None,
            next: Vec::new(),
            at_end: Vec::new(),
            found_at: Vec::new(),
            newest: BTreeMap::new(),
            taken: 0,
            unreadable: 0,
            why: String::new(),
        })
    }

    fn answer(&mut self, deadline: Instant) -> Answer {
        let value = self.target.settings.value;
        let before = self.next.clone();
        let looked = self.ask_for_ends(deadline)?;
        let followed = self.follow(&looked, &before);
        followed.map_err(|error| of_ends(&self.asker, &self.target.settings.topic, &error))?;
        if value == ProgressValue::Count {
            return Ok(Progress::Total(looked.iter().fold(0, |sum, end| sum.saturating_add(*end))));
        }
        self.read_up_to(&looked, deadline)?;
        self.progress()
    }

    fn idle(&mut self) -> Duration {
        self.look_for_partitions();
        if self.consumer.is_none() || self.next.is_empty() {
            serve_events(&self.asker);
            return SERVE_EVERY;
        }
        self.read(PATIENCE);
        Duration::ZERO
    }
}

/// What the broker says to a question about the topic's end.
fn of_ends(asker: &BaseConsumer<Quiet>, topic: &str, error: &KafkaError) -> ProbeError {
    let what = format!("cannot read the end of the topic {topic:?}");
    ProbeError::of_broker(&what, &last_heard(asker), error)
}

/// The ends of the topic's partitions. Blocks.
fn look_at_ends(
    asker: &BaseConsumer<Quiet>,
    topic: &str,
    known: Option<u32>,
    deadline: Instant,
) -> Result<Vec<u64>, ProbeError> {
    let failed = |error: KafkaError| of_ends(asker, topic, &error);
    let found = match known {
        Some(found) => Some(found),
        None => partitions(asker, topic, deadline).map_err(failed)?,
    };
    let Some(found) = found else {
        let text = format!("the topic {topic:?} does not exist yet");
        return Err(ProbeError::new(ProgressErrorKind::Query, text));
    };
    let looked = ends(asker, topic, found, deadline).map_err(failed)?;
    serve_events(asker);
    // Kept over failed questions: in a long outage the client tries to connect less often than it is asked.
    asker.context().forget();
    Ok(looked)
}

impl Reader {
    /// Asks for the ends, and reads on meanwhile: a record that waited for the answer would look late.
    fn ask_for_ends(&mut self, deadline: Instant) -> Result<Vec<u64>, ProbeError> {
        // Asked anew after a failure, because a topic may have been made anew with fewer.
        let known = self.partitions.take();
        let (asker, topic) = (Arc::clone(&self.asker), self.target.settings.topic.clone());
        let ask = || look_at_ends(&asker, &topic, known.map(|(found, _)| found), deadline);
        let gone = || ProbeError::new(ProgressErrorKind::Query, "the question was given up".to_owned());
        let looked = self.reading_meanwhile(ask).unwrap_or_else(|| Err(gone()))?;
        let found = u32::try_from(looked.len()).unwrap_or(u32::MAX);
        self.partitions = known.or_else(|| Some((found, Instant::now())));
        Ok(looked)
    }

    /// Does something that blocks, and reads on; `None` when it panicked.
    fn reading_meanwhile<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Option<T> {
        if self.consumer.is_none() || self.next.is_empty() {
            return Some(work());
        }
        std::thread::scope(|scope| {
            let work = scope.spawn(work);
            while !work.is_finished() {
                self.read(PATIENCE);
            }
            work.join().ok()
        })
    }

    fn read_up_to(&mut self, ends: &[u64], deadline: Instant) -> Result<(), ProbeError> {
        let asked = Instant::now();
        loop {
            let settled = asked.elapsed() >= SETTLED;
            let mut all = self.next.iter().zip(ends).zip(&self.at_end);
            if all.all(|((next, end), at_end)| next >= end || (*at_end && settled)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let behind: u64 =
                    self.next.iter().zip(ends).map(|(next, end)| end.saturating_sub(*next)).sum();
                let heard = self.consumer.as_ref().map(heard).unwrap_or_default();
                let text = format!("the reader is still {behind} records before the topic's end{heard}");
                return Err(ProbeError::new(ProgressErrorKind::Timeout, text));
            }
            self.read(PATIENCE);
        }
    }

    /// Takes what has come, and waits for it so long. Times are read before any record is
    /// taken apart, so that the last one of a batch is not held to be later than it is.
    fn read(&mut self, patience: Duration) {
        let Some(consumer) = &self.consumer else { return };
        let mut messages = Vec::new();
        let mut ends = Vec::new();
        let mut came = false;
        while messages.len() < BATCH {
            match consumer.poll(if came { Duration::ZERO } else { patience }) {
                None => break,
                Some(Ok(message)) => messages.push((message, self.target.clock.now_ns())),
                Some(Err(KafkaError::PartitionEOF(partition))) => ends.push((messages.len(), partition)),
                // The client goes on by itself, and remembers what it met for a question that it cannot answer.
                Some(Err(_)) => {}
            }
            came = true;
        }
        let settings = &self.target.settings;
        let records: Vec<Record> =
            messages.iter().map(|(message, read_ns)| Record::new(settings, message, *read_ns)).collect();
        drop(messages);
        let mut ends = ends.into_iter().peekable();
        for (index, record) in records.into_iter().enumerate() {
            while let Some((_, partition)) = ends.next_if(|(before, _)| *before <= index) {
                self.reached(partition);
            }
            self.take(record);
        }
        ends.for_each(|(_, partition)| self.reached(partition));
    }

    fn reached(&mut self, partition: i32) {
        let partition = usize::try_from(partition).unwrap_or(usize::MAX);
        if let Some(at_end) = self.at_end.get_mut(partition) {
            *at_end = true;
        }
    }

    fn take(&mut self, record: Record) {
        let Record { partition, next, read_ns, told } = record;
        // What is at or below the position is left of an earlier one.
        let Some(known) = self.next.get_mut(partition).filter(|known| next > **known) else { return };
        *known = next;
        if let Some(at_end) = self.at_end.get_mut(partition) {
            *at_end = false;
        }
        let came = self.found_at.get(partition).is_none_or(|found_at| next > *found_at);
        self.note(told, came.then_some(read_ns));
    }

    /// Takes what a record tells; `came_ns` is when it came, where that is known.
    fn note(&mut self, told: Result<Told, String>, came_ns: Option<u64>) {
        self.taken += 1;
        let told = told.and_then(|told| {
            if told.partition < self.target.partitions {
                return Ok(told);
            }
            Err(format!("partition {}, which the stream does not have", told.partition))
        });
        let Told { partition, value, intended_ms } = match told {
            Ok(told) => told,
            Err(why) => {
                self.unreadable += 1;
                self.why = why;
                return;
            }
        };
        if let Some(intended_ms) = intended_ms {
            let intended_ns = self.target.clock.at_wall_ms(intended_ms);
            // What was intended before this process began is an earlier run's.
            match came_ns.filter(|_| intended_ns > 0) {
                Some(came_ns) => {
                    lock(&self.target.shared.end_to_end).record(came_ns.saturating_sub(intended_ns));
                }
                None if intended_ns > 0 => {
                    self.target.shared.skipped.fetch_add(1, Ordering::Relaxed);
                }
                None => {}
            }
        }
        if let Some(value) = value {
            let newest = self.newest.entry(partition).or_insert(value);
            *newest = value.max(*newest);
        }
    }

    fn progress(&mut self) -> Answer {
        let (read, unreadable) = (std::mem::take(&mut self.taken), std::mem::take(&mut self.unreadable));
        if read > 0 && unreadable == read {
            let text = format!(
                "none of {read} records read from the topic can be used; the last one has {}",
                self.why
            );
            return Err(ProbeError::new(ProgressErrorKind::Shape, text));
        }
        if self.newest.is_empty() {
            return Ok(Progress::NoData("no record has come since soakd began to read the topic".to_owned()));
        }
        if self.target.settings.partition.is_some() {
            let values = self.newest.iter().map(|(partition, value)| (*partition, Some(*value)));
            return Ok(Progress::Partitions(values.collect()));
        }
        Ok(Progress::Total(self.newest.values().copied().max().unwrap_or(0)))
    }
}

/// `; last heard: REASON`, or nothing. Events are served with the records, which nobody else may take.
fn heard(consumer: &BaseConsumer<Quiet>) -> String {
    match consumer.context().heard() {
        Some((_, reason)) if !reason.is_empty() => format!("; last heard: {reason}"),
        _ => String::new(),
    }
}

/// One record of the output topic.
struct Record {
    partition: usize,
    /// The offset after it.
    next: u64,
    /// When it was read (monotonic).
    read_ns: u64,
    told: Result<Told, String>,
}

impl Record {
    fn new(settings: &TopicSettings, message: &BorrowedMessage<'_>, read_ns: u64) -> Self {
        Self {
            partition: usize::try_from(message.partition()).unwrap_or(usize::MAX),
            next: u64::try_from(message.offset()).unwrap_or(0) + 1,
            read_ns,
            told: look(settings, message),
        }
    }
}

/// What a message tells.
fn look(settings: &TopicSettings, message: &BorrowedMessage<'_>) -> Result<Told, String> {
    let named = |name: &String| {
        let mut headers = message.headers()?.iter();
        headers.find(|header| header.key == name).and_then(|header| header.value)
    };
    let header = settings.intended_header.as_ref().and_then(named);
    told(settings, message.payload(), header)
}
