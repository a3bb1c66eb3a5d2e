//! One lane: a thread that hands over its share of a stream's records when they are due.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rdkafka::error::KafkaError;

use super::client::{Client, Offer};
use super::deliveries::{Handed, Report};
use super::limit::{Change, Limits, Seen};
use crate::core::event::{Event, EventLog};
use crate::core::status::lock;
use crate::core::stream::{Counters, DropReason, FailReason, LaneState, LimitedBy, Stream};
use crate::core::walk::{Overload, Owner, Pacer};
use crate::kafka::settings::KafkaSettings;
use crate::kafka::watch::TopicHealth;
use crate::record::{Facts, Maker};

/// Most records walked between two looks at the schedule, the reports and the clock.
const CHUNK: u64 = 4096;
/// Records handed over between two readings of the clock.
const CLOCK_EVERY: u64 = 64;
/// Shortest sleep: shorter ones cost more CPU than they are worth in precision.
const MIN_SLEEP_NS: u64 = 1_000_000;
/// Longest sleep: a change of rate, a pause or a stop is taken up within this.
const MAX_SLEEP_NS: u64 = 20_000_000;
/// Longest wait for a report while the client takes no more.
const BLOCKED_NS: u64 = 10_000_000;
/// Acks have stopped when records are in flight and none was acked for this long (and the client's linger).
const ACKS_STOPPED_NS: u64 = 3_000_000_000;
/// A client without acks for this long, while a second handle sees the topic healthy, is rebuilt.
const REBUILD_NS: u64 = 10_000_000_000;
/// How fresh the second handle's sight must be.
const HEALTHY_NS: u64 = 5_000_000_000;

/// When a lane must end although records are in flight. Set by the run at a stop.
#[derive(Debug)]
pub struct Finish(AtomicU64);

impl Default for Finish {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Finish {
    /// Sets the deadline (monotonic); what is in flight then counts as failed with unknown outcome.
    pub fn set(&self, deadline_ns: u64) {
        self.0.store(deadline_ns, Ordering::Release);
    }

    fn passed(&self, now_ns: u64) -> bool {
        now_ns >= self.0.load(Ordering::Acquire)
    }
}

/// How a lane produces.
#[derive(Debug, Clone)]
pub struct LaneSettings {
    /// The Kafka client's settings.
    pub kafka: Arc<KafkaSettings>,
    /// What happens to records that cannot be sent when they are due.
    pub overload: Overload,
    /// Most records in flight of the whole stream; `None`: one second of load, at least 1,000.
    pub max_in_flight: Option<u64>,
}

/// Things a lane shares with others.
#[derive(Debug, Clone)]
pub struct LaneHandles {
    /// The stream, whose lane state this lane publishes.
    pub stream: Arc<Stream>,
    /// What the second handle knows of the topic.
    pub health: Arc<TopicHealth>,
    /// Where events go.
    pub events: Arc<EventLog>,
    /// When to end at the latest.
    pub finish: Arc<Finish>,
}

/// Why a lane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The client library refused a property.
    #[error("kafka.client: {0}")]
    Client(#[source] KafkaError),
    /// A record would never fit.
    #[error(
        "streams.{stream}.value: records of up to {record_bytes} bytes are larger than message.max.bytes = {max_bytes}: make them smaller, or raise kafka.client.\"message.max.bytes\" (and the topic's max.message.bytes)"
    )]
    TooLarge {
        /// The stream.
        stream: String,
        /// The largest record with its overhead.
        record_bytes: usize,
        /// The client's limit.
        max_bytes: usize,
    },
}

/// librdkafka's default of `message.max.bytes`.
const DEFAULT_MAX_BYTES: usize = 1_000_000;
/// What a record costs in the protocol beyond key and value, at most.
const RECORD_OVERHEAD: usize = 512;

/// The lane's share of the sequence.
struct Share {
    maker: Maker,
    lanes: u32,
    index: u32,
    key: RefCell<Vec<u8>>,
}

impl Owner for Share {
    fn count(&self, from: u64, to: u64) -> u64 {
        if self.lanes == 1 {
            return to.saturating_sub(from);
        }
        let mut key = self.key.borrow_mut();
        (from..to).filter(|record| self.maker.key(*record, &mut key).1 % self.lanes == self.index).count()
            as u64
    }
}

/// One lane.
pub struct Lane {
    handles: LaneHandles,
    settings: LaneSettings,
    index: usize,
    share: Share,
    pacer: Pacer,
    client: Client,
    limits: Limits,
    /// The lane's own sums; the rest of [`Counters`] is filled in when it publishes.
    counters: Counters,
    delays_ns: Vec<u64>,
    value: Vec<u8>,
    /// The byte limit of the client's queue was what held the load back.
    bytes_blocked: bool,
    last_ack_ns: u64,
    acks_stopped_ns: Option<u64>,
    rebuild_after_ns: u64,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
            .field("stream", &self.handles.stream.name)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Lane {
    /// A lane with a client of its own. Nothing is sent before the stream's schedule starts.
    ///
    /// # Errors
    /// When the client refuses its settings or the records are larger than it takes.
    pub fn new(
        handles: LaneHandles,
        settings: LaneSettings,
        index: usize,
        maker: Maker,
    ) -> Result<Self, LaneError> {
        let record_bytes = maker.max_record_bytes() + RECORD_OVERHEAD;
        let max_bytes = settings
            .kafka
            .client
            .get("message.max.bytes")
            .and_then(|text| text.parse().ok())
            .unwrap_or(DEFAULT_MAX_BYTES);
        if record_bytes > max_bytes {
            return Err(LaneError::TooLarge { stream: handles.stream.name.clone(), record_bytes, max_bytes });
        }
        let lanes = u32::try_from(handles.stream.lanes.len()).unwrap_or(1).max(1);
        let max_records = lock(&handles.stream.schedule).max_records();
        let client = Client::new(&handles, &settings)?;
        Ok(Self {
            pacer: Pacer::new(settings.overload, max_records),
            share: Share { maker, lanes, index: u32::try_from(index).unwrap_or(0), key: RefCell::default() },
            client,
            limits: Limits::default(),
            counters: Counters::default(),
            delays_ns: Vec::with_capacity(CHUNK as usize),
            value: Vec::new(),
            bytes_blocked: false,
            last_ack_ns: handles.stream.clock.now_ns(),
            acks_stopped_ns: None,
            rebuild_after_ns: 0,
            handles,
            settings,
            index,
        })
    }

    /// Produces until the schedule has ended and everything is reported, or the deadline has passed. Blocks its thread.
    pub fn run(mut self) {
        loop {
            // The clock before the schedule's lock: see `core::schedule`.
            let now_ns = self.handles.stream.clock.now_ns();
            self.follow_schedule();
            let (blocked, dropped_late) = self.hand_over(now_ns);
            self.client.wait(0);
            let now_ns = self.handles.stream.clock.now_ns();
            self.watch_acks(now_ns);
            let finish = self.handles.finish.passed(now_ns);
            let done = finish || (self.pacer.finished(now_ns) && self.client.in_flight() == 0);
            if finish {
                self.give_up();
            }
            self.publish(now_ns, blocked, dropped_late, done);
            if done {
                return;
            }
            let wait_ns = self.wait_ns(now_ns, blocked);
            if wait_ns > 0 {
                self.client.wait(wait_ns);
            }
        }
    }

    fn follow_schedule(&mut self) {
        let (pacer, share, dropped) = (&mut self.pacer, &self.share, &mut self.counters.dropped);
        lock(&self.handles.stream.schedule).catch_up(self.index, |phase| {
            if let Some((reason, records)) = pacer.push(phase, share)
                && let Some(count) = dropped.get_mut(reason as usize)
            {
                *count += records;
            }
        });
    }

    /// Hands over what is due and may be sent; returns whether the client took no more, and whether records were too
    /// late.
    fn hand_over(&mut self, now_ns: u64) -> (bool, bool) {
        let late = self.pacer.advance(now_ns, &self.share);
        let reason = if self.bytes_blocked { DropReason::QueueBytes } else { DropReason::Late };
        if let Some(count) = self.counters.dropped.get_mut(reason as usize) {
            *count += late;
        }
        let to = self.pacer.allowance(now_ns).min(self.pacer.next() + CHUNK);
        let cap = self.in_flight_cap();
        let mut room = cap.saturating_sub(self.client.in_flight());
        let (mut sent_ns, mut until_clock, mut blocked) = (now_ns, CLOCK_EVERY, false);
        while self.pacer.next() < to {
            let sequence = self.pacer.next();
            let (key_id, partition) = self.share.maker.key(sequence, self.share.key.get_mut());
            if partition % self.share.lanes != self.share.index {
                self.pacer.step(false);
                continue;
            }
            if room == 0 {
                blocked = true;
                break;
            }
            if until_clock == 0 {
                (sent_ns, until_clock) = (self.handles.stream.clock.now_ns(), CLOCK_EVERY);
            }
            let intended_ns = self.pacer.intended_ns();
            let record = Handed { sequence, intended_ns, sent_ns, partition, bytes: 0 };
            match self.offer(record, key_id) {
                Offer::Sent => self.bytes_blocked = false,
                Offer::Refused(reason) => self.fail(reason, 1),
                Offer::Full => {
                    blocked = true;
                    self.bytes_blocked = self.client.in_flight() < self.client.max_messages;
                    break;
                }
                Offer::Dead(reason) => {
                    self.rebuild(sent_ns, &reason);
                    break;
                }
            }
            self.counters.sent += 1;
            self.delays_ns.push(sent_ns.saturating_sub(intended_ns));
            self.pacer.step(true);
            room -= 1;
            until_clock -= 1;
        }
        (blocked, late > 0)
    }

    fn in_flight_cap(&self) -> u64 {
        let one_second = lock(&self.handles.stream.schedule).rate().micros() / 1_000_000;
        let cap = self.settings.max_in_flight.unwrap_or_else(|| one_second.max(1000));
        cap.div_ceil(u64::from(self.share.lanes))
    }

    fn offer(&mut self, mut record: Handed, key_id: u64) -> Offer {
        let key = self.share.key.get_mut();
        let intended_ms = self.handles.stream.clock.wall_ms(record.intended_ns);
        let facts = Facts { sequence: record.sequence, partition: record.partition, key_id, intended_ms };
        self.share.maker.value(&facts, &mut self.value);
        record.bytes = u32::try_from(key.len() + self.value.len()).unwrap_or(u32::MAX);
        let key = self.share.maker.has_keys().then_some(key.as_slice());
        self.client.offer(record, key, &self.value, intended_ms)
    }

    fn fail(&mut self, reason: FailReason, records: u64) {
        if let Some(count) = self.counters.failed.get_mut(reason as usize) {
            *count += records;
        }
    }

    /// Notices that acks have stopped, and replaces a client that is dead while the topic is healthy.
    fn watch_acks(&mut self, now_ns: u64) {
        if self.client.in_flight() == 0 {
            self.last_ack_ns = self.last_ack_ns.max(now_ns);
        }
        let silent_ns = now_ns.saturating_sub(self.last_ack_ns).saturating_sub(self.client.linger_ns);
        let (stream, lane) = (self.handles.stream.name.clone(), self.share.index);
        match self.acks_stopped_ns {
            None if silent_ns > ACKS_STOPPED_NS => {
                self.acks_stopped_ns = Some(self.last_ack_ns);
                self.handles.events.emit(now_ns, Event::AcksStopped { stream, lane });
            }
            Some(since_ns) if silent_ns < ACKS_STOPPED_NS => {
                self.acks_stopped_ns = None;
                let seconds = self.last_ack_ns.saturating_sub(since_ns) as f64 / 1e9;
                self.handles.events.emit(now_ns, Event::AcksResumed { stream, lane, seconds });
            }
            _ => {}
        }
        if self.acks_stopped_ns.is_none() || now_ns < self.rebuild_after_ns {
            return;
        }
        self.handles.health.doubt();
        if let Some(reason) = self.client.fatal_error() {
            self.rebuild(now_ns, &format!("fatal client error: {reason}"));
        } else if silent_ns > REBUILD_NS {
            let seen_ns = self.handles.health.metadata_ok_ns();
            // A sight from before the silence says nothing about it.
            if seen_ns > self.last_ack_ns && now_ns.saturating_sub(seen_ns) < HEALTHY_NS {
                self.rebuild(now_ns, "no acks while the topic is healthy");
            }
        }
    }

    /// Replaces the client. What it had in flight is failed with unknown outcome: it may or may not arrive.
    fn rebuild(&mut self, now_ns: u64, reason: &str) {
        self.rebuild_after_ns = now_ns + REBUILD_NS;
        let Ok(fresh) = Client::new(&self.handles, &self.settings) else { return };
        self.take_reports(now_ns);
        let lost = self.client.in_flight();
        self.fail(FailReason::OutcomeUnknown, lost);
        self.counters.rebuilds += 1;
        self.last_ack_ns = now_ns;
        let dead = std::mem::replace(&mut self.client, fresh);
        // Ending a client waits for its threads and the broker; the load must not.
        std::thread::spawn(move || drop(dead));
        let event = Event::ClientRebuilt {
            stream: self.handles.stream.name.clone(),
            lane: self.share.index,
            reason: reason.to_owned(),
        };
        self.handles.events.emit(now_ns, event);
    }

    /// The deadline of a stop has passed: the backlog is dropped, what is in flight has an unknown outcome.
    fn give_up(&mut self) {
        let dropped = self.pacer.give_up(&self.share);
        if let Some(count) = self.counters.dropped.get_mut(DropReason::Stopped as usize) {
            *count += dropped;
        }
        self.take_reports(self.handles.stream.clock.now_ns());
        let lost = self.client.in_flight();
        self.fail(FailReason::OutcomeUnknown, lost);
        self.client.abandoned = lost;
    }

    fn take_reports(&mut self, now_ns: u64) {
        let mut state = lock_lane(&self.handles.stream, self.index);
        let Some(state) = state.as_deref_mut() else { return };
        let (counters, last_ack_ns) = (&mut self.counters, &mut self.last_ack_ns);
        self.client.drain(|report| {
            if report.outcome.is_ok() {
                *last_ack_ns = (*last_ack_ns).max(report.reported_ns);
            }
            count(&report, counters, state, now_ns);
        });
    }

    /// Publishes the lane's one state.
    fn publish(&mut self, now_ns: u64, blocked: bool, dropped_late: bool, done: bool) {
        self.take_reports(now_ns);
        let oldest_ns = self.pacer.oldest_backlog_ns(now_ns);
        let change = self.limits.observe(Seen { now_ns, oldest_ns, blocked, dropped_late });
        self.counters.scheduled = self.pacer.scheduled();
        self.counters.backlog = self.pacer.backlog();
        self.counters.in_flight = self.client.in_flight();
        self.counters.stalls = self.limits.stalls();
        self.counters.limited_ns = self.limits.limited_ns(now_ns);
        if let Some(mut state) = lock_lane(&self.handles.stream, self.index) {
            self.delays_ns.drain(..).for_each(|delay_ns| state.schedule_delay.record(delay_ns));
            state.counters = self.counters;
            state.limited = self.limits.limited();
            state.acks_stopped = self.acks_stopped_ns.is_some();
            state.oldest_backlog_ns = oldest_ns;
            state.done = done;
            state.undelivered = self.client.abandoned;
            self.client.copy_rtt(&mut state.broker_rtt_micros);
        }
        if let Some(change) = change {
            self.tell(now_ns, change);
        }
    }

    fn tell(&self, now_ns: u64, change: Change) {
        let stream = self.handles.stream.name.clone();
        let name = |by: LimitedBy| LimitedBy::ALL.get(by as usize).map_or("", |(_, name)| *name);
        let event = match change {
            Change::Entered(by) => {
                let reason = match by {
                    LimitedBy::Generator => "records are handed over late while the client has room",
                    LimitedBy::Broker if self.bytes_blocked => "the client's queue is full by bytes",
                    LimitedBy::Broker => "records in flight are at their limit",
                };
                Event::LoadLimited { stream, by: name(by), reason: reason.to_owned() }
            }
            Change::Left(by, length_ns) => {
                Event::LoadUnlimited { stream, by: name(by), seconds: length_ns as f64 / 1e9 }
            }
        };
        self.handles.events.emit(now_ns, event);
    }

    fn wait_ns(&self, now_ns: u64, blocked: bool) -> u64 {
        if !blocked && self.pacer.backlog() > 0 {
            // What could be handed over at once is; what is left waits for tokens, or for the next chunk.
            return if self.pacer.has_tokens() { 0 } else { MIN_SLEEP_NS };
        }
        if blocked {
            // The wait ends with the first report, which is what makes room.
            return BLOCKED_NS;
        }
        let due_ns = self.pacer.next_due_ns().map_or(MAX_SLEEP_NS, |due_ns| due_ns.saturating_sub(now_ns));
        due_ns.clamp(MIN_SLEEP_NS, MAX_SLEEP_NS)
    }
}

/// The lane's cell on the stream.
fn lock_lane(stream: &Stream, index: usize) -> Option<std::sync::MutexGuard<'_, LaneState>> {
    stream.lanes.get(index).map(lock)
}

/// Counts one report.
fn count(report: &Report, counters: &mut Counters, state: &mut LaneState, now_ns: u64) {
    let record = report.record;
    match report.outcome {
        Ok(offset) => {
            counters.acked += 1;
            counters.bytes_acked += u64::from(record.bytes);
            state.ack_from_intended.record(report.reported_ns.saturating_sub(record.intended_ns));
            state.ack_from_sent.record(report.reported_ns.saturating_sub(record.sent_ns));
            let partition = state.partitions.entry(record.partition).or_default();
            partition.timeline.acked(offset, record.sequence, record.intended_ns, now_ns);
            let head = &mut partition.head;
            head.next_offset = head.next_offset.max(offset + 1);
            head.last_sequence = head.last_sequence.max(Some(record.sequence));
            head.acked += 1;
        }
        Err(reason) => {
            if let Some(count) = counters.failed.get_mut(reason as usize) {
                *count += 1;
            }
        }
    }
}
