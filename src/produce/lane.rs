//! One lane: a thread that hands over its share of a stream's records when they are due.

mod hand_over;
mod markers;
mod reports;

use std::sync::Arc;

use self::hand_over::Handover;
use self::markers::Markers;
use super::backlog::Backlog;
use super::client::Client;
use super::handles::RECORD_OVERHEAD;
pub use super::handles::{Finish, LaneError, LaneHandles, LaneSettings};
use super::limit::{Change, Limits, Seen};
use super::share::Share;
use super::silence::{Silence, Told};
use super::staging::MAX_STAGED;
use crate::core::counters::{Counters, DropReason, FailReason, LimitedBy};
use crate::core::event::Event;
use crate::core::histogram::Runs;
use crate::core::lock::lock;
use crate::core::pace::Pace;
use crate::core::schedule::WINDOW;
use crate::core::stream::LaneState;
use crate::record::Maker;

/// Shortest sleep: shorter ones cost more CPU than they are worth in precision.
const MIN_SLEEP_NS: u64 = 1_000_000;
/// Longest sleep: a change of rate, a pause or a stop is taken up within this.
const MAX_SLEEP_NS: u64 = 20_000_000;
/// Longest wait for a report while the client takes no more.
const BLOCKED_NS: u64 = 10_000_000;
/// A client without acks for this long, while a second handle sees the topic healthy, is rebuilt: librdkafka 2.12 is
/// stuck for ever after a metadata answer without brokers (its issue 5301), which the last broker of a cluster may
/// give when it shuts down. Also the least time between two rebuilds.
const REBUILD_NS: u64 = 10_000_000_000;
/// How long the topic must have been healthy: a client finds a broker that comes back by itself, and what it has in
/// flight is lost with it.
const HEALTHY_NS: u64 = 5_000_000_000;

/// librdkafka's default of `message.max.bytes`.
const DEFAULT_MAX_BYTES: usize = 1_000_000;

/// One lane.
pub struct Lane {
    handles: LaneHandles,
    settings: LaneSettings,
    index: usize,
    share: Share,
    backlog: Backlog,
    markers: Option<Markers>,
    client: Client,
    /// The highest pace that the schedule comes to, when it was last looked at.
    pace: Pace,
    claim: Claim,
    limits: Limits,
    /// The lane's own sums; the rest of [`Counters`] is filled in when it publishes.
    counters: Counters,
    delays_ns: Vec<u64>,
    /// Of the largest record.
    record_bytes: usize,
    /// When a record could not be made.
    unmade_ns: Option<u64>,
    /// The byte limit of the client's queue was what held the load back.
    bytes_blocked: bool,
    silence: Silence,
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

/// What came of a claim at "max".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Nothing was asked for, or a slower lane has to come up first.
    None,
    /// There is more to hand over.
    Made,
    /// As many records are in flight as may be.
    NoRoom,
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
        let record_bytes = maker.max_record_bytes();
        let max_bytes = settings
            .kafka
            .client
            .get("message.max.bytes")
            .and_then(|text| text.parse().ok())
            .unwrap_or(DEFAULT_MAX_BYTES);
        if record_bytes + RECORD_OVERHEAD > max_bytes {
            return Err(LaneError::TooLarge { stream: handles.stream.name.clone(), record_bytes, max_bytes });
        }
        let lanes = u32::try_from(handles.stream.lanes.len()).unwrap_or(1).max(1);
        let share_index = u32::try_from(index).unwrap_or(0);
        let schedule = lock(&handles.stream.schedule);
        let (max_records, arrivals) = (schedule.max_records(), schedule.arrivals());
        drop(schedule);
        let clock = handles.stream.clock;
        let client = Client::new(&handles.stream, &settings)?;
        Ok(Self {
            backlog: Backlog::new(settings.overload, max_records, arrivals, handles.stream.partitions),
            markers: settings
                .marker_interval_ns
                .map(|interval_ns| Markers::new(interval_ns, handles.stream.partitions, lanes, share_index)),
            share: Share::new(maker, lanes, share_index),
            silence: Silence::new(clock.now_ns(), settings.linger_ns()),
            client,
            limits: Limits::default(),
            pace: Pace::default(),
            claim: Claim::None,
            counters: Counters::default(),
            delays_ns: Vec::with_capacity(MAX_STAGED),
            record_bytes,
            unmade_ns: None,
            bytes_blocked: false,
            rebuild_after_ns: 0,
            handles,
            settings,
            index,
        })
    }

    /// Produces until the schedule has ended and everything is reported, or the deadline has passed. Blocks its thread.
    pub fn run(mut self) {
        let stream = Arc::clone(&self.handles.stream);
        let Some(cell) = stream.lanes.get(self.index) else { return };
        loop {
            // The clock before the schedule's lock: see `core::schedule`.
            let walked_ns = stream.clock.now_ns();
            self.follow_schedule(walked_ns);
            let waiting = self.send_markers(walked_ns);
            let mut handover = self.hand_over(walked_ns);
            handover.blocked |= waiting;
            self.client.wait(0);
            let now_ns = stream.clock.now_ns();
            self.watch_limits(now_ns, handover);
            let give_up = self.handles.finish.passed(now_ns);
            if give_up {
                let dropped = self.backlog.give_up(&mut self.share);
                add(&mut self.counters.dropped, DropReason::Stopped as usize, dropped);
                if let Some(markers) = &mut self.markers {
                    markers.drop_pending(DropReason::Stopped, &mut self.counters);
                }
            }
            let mut state = lock(cell);
            let told = self.read_reports(&mut state, now_ns);
            if give_up {
                // What is in flight may still arrive.
                let lost = self.client.abandon();
                lose_markers(&mut state);
                add(&mut self.counters.failed, FailReason::OutcomeUnknown as usize, lost);
            }
            // By the schedule that was followed: a pause that came since then may have moved the end.
            let all_sent =
                self.backlog.finished(walked_ns) && self.markers.as_ref().is_none_or(Markers::is_idle);
            let done = give_up || (all_sent && self.client.in_flight() == 0);
            self.publish(&mut state, now_ns, done);
            drop(state);
            self.tell_of_acks(now_ns, told);
            if done {
                return;
            }
            self.replace_dead_client(now_ns);
            let wait_ns = self.wait_ns(now_ns, handover.blocked || self.claim == Claim::NoRoom);
            if wait_ns > 0 {
                self.client.wait(wait_ns);
            }
        }
    }

    fn follow_schedule(&mut self, walked_ns: u64) {
        let stream = Arc::clone(&self.handles.stream);
        let mut schedule = lock(&stream.schedule);
        let Self { backlog, share, counters, markers, .. } = self;
        schedule.walked(backlog.reached());
        schedule.catch_up(self.index, walked_ns, |phase| {
            if let Some((reason, records)) = backlog.push(phase, share) {
                add(&mut counters.dropped, reason as usize, records);
                if let Some(markers) = markers {
                    markers.drop_pending(reason, counters);
                }
            }
        });
        if let (Some(markers), Some(started_ns)) = (markers, schedule.started_ns()) {
            markers.ticks.start(started_ns);
            markers.until_ns = schedule.live_until_ns(walked_ns);
        }
        self.pace = schedule.peak();
        self.claim = Claim::None;
        if let Some(from) = self.backlog.unclaimed(walked_ns) {
            let room = self.in_flight_cap().saturating_sub(self.client.in_flight());
            // So many that about as many as can be staged are the lane's own; half of what lanes may be apart, so that one
            // does not wait for another.
            let records = (MAX_STAGED as u64 * u64::from(self.share.lanes)).min(WINDOW / 2);
            let upto = schedule.claim(self.index, walked_ns, from, room.min(records));
            if upto > from {
                self.backlog.claim(walked_ns, upto);
                self.claim = Claim::Made;
            } else if room == 0 {
                self.claim = Claim::NoRoom;
            }
        }
    }

    /// Writes the lane's one state.
    fn publish(&mut self, state: &mut LaneState, now_ns: u64, done: bool) {
        let mut delays = Runs::new(&mut state.schedule_delay);
        self.delays_ns.drain(..).for_each(|delay_ns| delays.record(delay_ns));
        drop(delays);
        let markers = self.markers.as_ref().map_or(0, |markers| markers.scheduled);
        self.counters.scheduled = self.backlog.scheduled() + markers;
        self.counters.backlog = self.backlog.records();
        self.counters.in_flight = self.client.in_flight();
        state.counters = self.counters;
        // A lane that has ended waits for nothing any more.
        state.limited = self.limits.episode().map(|episode| episode.by).filter(|_| !done);
        state.acks_stopped = self.silence.stopped() && !done;
        state.oldest_backlog_ns = self.backlog.oldest_ns(now_ns);
        state.done = done;
        state.undelivered = self.client.abandoned();
        self.client.copy_rtt(&mut state.broker_rtt_micros);
        self.client.add_wire(&mut state.wire);
    }

    /// Notices that the load is late, and by whose doing.
    fn watch_limits(&mut self, now_ns: u64, handover: Handover) {
        let oldest_ns = self.backlog.oldest_ns(now_ns).max(handover.dropped_ns);
        let blocked = handover.blocked || self.claim == Claim::NoRoom;
        let stream = Arc::clone(&self.handles.stream);
        let seen = Seen {
            now_ns,
            oldest_ns,
            blocked,
            claims: self.backlog.claims(),
            dropped_late: handover.dropped_ns > 0,
            silent_ns: self.silence.silent_ns(now_ns),
            starved: blocked && lock(&stream.held_back).is_starved(),
        };
        let held = seen.held_back();
        let changes = self.limits.observe(seen);
        let episode = self.limits.episode();
        if held || episode.is_some() || changes.iter().any(Option::is_some) {
            let mut held_back = lock(&stream.held_back);
            if held {
                held_back.blocked(now_ns);
            }
            let told = changes.into_iter().flatten().filter_map(|change| match change {
                Change::Entered(by) => {
                    held_back.enter(by).then(|| self.limited_event(by, held_back.own_text()))
                }
                Change::Left(by) => held_back.leave(by).map(|length_ns| self.unlimited_event(by, length_ns)),
            });
            let told: Vec<Event> = told.collect();
            if let Some(episode) = episode {
                held_back.limited(episode.by, episode.from_ns, episode.until_ns);
            }
            drop(held_back);
            told.into_iter().for_each(|event| self.handles.events.emit(now_ns, event));
        }
    }

    /// `own` is what was last measured of soakd itself.
    fn limited_event(&self, by: LimitedBy, own: &str) -> Event {
        let reason = match by {
            LimitedBy::Generator => late_reason(own),
            LimitedBy::Broker if self.bytes_blocked => "the client's queue is full by bytes".to_owned(),
            LimitedBy::Broker => "records in flight are at their limit".to_owned(),
        };
        Event::LoadLimited { stream: self.stream_name(), by: by.name(), reason }
    }

    fn unlimited_event(&self, by: LimitedBy, length_ns: u64) -> Event {
        Event::LoadUnlimited { stream: self.stream_name(), by: by.name(), seconds: length_ns as f64 / 1e9 }
    }

    fn stream_name(&self) -> String {
        self.handles.stream.name.clone()
    }

    fn tell_of_acks(&self, now_ns: u64, told: Option<Told>) {
        let lane = self.share.index;
        let event = match told {
            None => return,
            Some(Told::Stopped) => Event::AcksStopped { stream: self.stream_name(), lane },
            Some(Told::Resumed(ns)) => {
                Event::AcksResumed { stream: self.stream_name(), lane, seconds: ns as f64 / 1e9 }
            }
        };
        self.handles.events.emit(now_ns, event);
    }

    /// Replaces a client that gets no acks although the topic is healthy.
    fn replace_dead_client(&mut self, now_ns: u64) {
        if !self.silence.stopped() {
            return;
        }
        self.handles.health.doubt();
        if let Some(reason) = self.client.fatal_error() {
            self.rebuild(now_ns, &format!("fatal client error: {reason}"));
        } else if self.silence.silent_ns(now_ns) > REBUILD_NS
            && self.handles.health.healthy_for_ns(now_ns) > HEALTHY_NS
        {
            self.rebuild(now_ns, "no acks while the topic is healthy");
        }
    }

    /// Replaces the client, unless that was done just now. What it had in flight is failed with unknown outcome: it may
    /// or may not arrive.
    fn rebuild(&mut self, now_ns: u64, reason: &str) {
        if now_ns < self.rebuild_after_ns {
            return;
        }
        self.rebuild_after_ns = now_ns + REBUILD_NS;
        let stream = Arc::clone(&self.handles.stream);
        let Some(cell) = stream.lanes.get(self.index) else { return };
        let Ok(fresh) = Client::new(&stream, &self.settings) else { return };
        let mut state = lock(cell);
        let told = self.read_reports(&mut state, now_ns);
        let lost = self.client.in_flight();
        lose_markers(&mut state);
        add(&mut self.counters.failed, FailReason::OutcomeUnknown as usize, lost);
        self.counters.rebuilds += 1;
        let dead = std::mem::replace(&mut self.client, fresh);
        self.silence.client_rebuilt(now_ns);
        self.publish(&mut state, now_ns, false);
        drop(state);
        // Ending a client waits for its threads and the broker; the load must not.
        std::thread::spawn(move || drop(dead));
        self.tell_of_acks(now_ns, told);
        let (stream, lane) = (self.stream_name(), self.share.index);
        let event = Event::ClientRebuilt { stream, lane, reason: reason.to_owned() };
        self.handles.events.emit(now_ns, event);
    }

    fn wait_ns(&mut self, now_ns: u64, blocked: bool) -> u64 {
        if !blocked && self.claim == Claim::Made {
            return 0;
        }
        if !blocked && self.backlog.records() > 0 {
            // What could be handed over at once is; what is left waits for tokens, or for the next chunk.
            return if self.backlog.has_tokens() { 0 } else { MIN_SLEEP_NS };
        }
        if blocked {
            // The wait ends with the first report, which is what makes room.
            return BLOCKED_NS;
        }
        let tick_ns = self.markers.as_ref().and_then(|markers| markers.ticks.next_ns());
        let next_ns = self.backlog.next_due_ns().into_iter().chain(tick_ns).min();
        let due_ns = next_ns.map_or(MAX_SLEEP_NS, |due_ns| due_ns.saturating_sub(now_ns));
        due_ns.clamp(MIN_SLEEP_NS, MAX_SLEEP_NS)
    }
}

fn late_reason(own: &str) -> String {
    let late = "records are handed over late by soakd itself";
    if own.is_empty() { late.to_owned() } else { format!("{late}; when it last looked, {own}") }
}

/// Adds to one of the counters of an enum.
fn add(counters: &mut [u64], index: usize, records: u64) {
    if let Some(count) = counters.get_mut(index) {
        *count += records;
    }
}

/// Markers in flight are lost with the client.
fn lose_markers(state: &mut LaneState) {
    state.partitions.values_mut().for_each(|partition| partition.markers.lose());
}
