//! The life of a run: preload, warm-up, measured phase, end of load, flush, drain, reconciliation, report.
//!
//! One loop, woken every 20 ms, is the only writer of the run's state and the only reader of the events. Ends are not
//! made here: the schedule is exact to the record by itself, the loop only notices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

mod begin;
mod end;

use super::collector::{Boundary, Collector};
use super::told::tell;
use crate::core::clock::wall_now;
use crate::core::control::Control;
use crate::core::counters::Head;
use crate::core::event::{Event, Stamped};
use crate::core::lock::lock;
use crate::core::schedule::Schedule;
use crate::core::status::{Board, RunState, Snapshot};
use crate::core::stream::{Latencies, Stream};
use crate::store::record::{RunRecord, Watermarks};

/// How soon the loop notices an end, a stop or an event.
const TICK: Duration = Duration::from_millis(20);
const SECOND_NS: u64 = 1_000_000_000;
/// A step of the wall clock, and not the time between two readings on a busy machine.
const CLOCK_STEP_SECONDS: f64 = 1.0;

/// The deadlines of a run.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// Longest wait for outstanding acks.
    pub flush: Duration,
    /// Longest wait for the system under test to catch up; 0: none.
    pub drain: Duration,
}

/// What the run asks of others. `app` gives it, so that this part knows neither lanes nor clients nor terminals.
pub trait Surroundings {
    /// Tells the lanes of every stream when to end at the latest (monotonic).
    fn finish_by(&self, deadline_ns: u64);
    /// Reads the broker's end offsets before and after, by stream; streams that cannot be read are left out.
    fn watermarks(&self) -> JoinHandle<BTreeMap<String, Vec<Watermarks>>>;
    /// Called with each snapshot that figures are taken from, until the run is over.
    fn sample(&mut self, snapshot: &Snapshot);
    /// Called once a second until the run is over, to show a snapshot.
    fn show(&mut self, snapshot: &Snapshot);
    /// Writes and judges the finished run, whose last state is the snapshot; returns the verdict in one word.
    fn finished(&mut self, record: RunRecord, last: &Snapshot) -> String;
    /// Whether a lane's thread has ended although it should not have.
    fn broken(&self) -> Option<String>;
}

/// One run from start to report.
#[derive(Debug)]
pub struct Run<S> {
    board: Arc<Board>,
    control: Arc<Control>,
    collector: Collector,
    deadlines: Deadlines,
    /// Asks the progress sources for a poll, so that a drain need not wait for a long interval.
    wake_sources: Vec<Arc<Notify>>,
    surroundings: S,
    /// A signal came: the daemon is to end.
    signalled: CancellationToken,
    last_second_ns: u64,
    /// Good polls of all sources at the last tick.
    polls: u64,
    wall_ahead_seconds: Option<f64>,
    /// Stops that were asked for when the load ended, the one that ended it included.
    stops_at_load_end: usize,
}

impl<S: Surroundings> Run<S> {
    /// A run that has not begun.
    pub const fn new(
        control: Arc<Control>,
        board: Arc<Board>,
        collector: Collector,
        deadlines: Deadlines,
        wake_sources: Vec<Arc<Notify>>,
        surroundings: S,
        signalled: CancellationToken,
    ) -> Self {
        Self {
            board,
            control,
            collector,
            deadlines,
            wake_sources,
            surroundings,
            signalled,
            last_second_ns: 0,
            polls: 0,
            wall_ahead_seconds: None,
            stops_at_load_end: 0,
        }
    }

    /// Runs to the report, then on until a signal when `idle`.
    pub async fn run(mut self, idle: bool) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.start();
        let cause = loop {
            ticks.tick().await;
            self.each_tick();
            if let Some(cause) = self.load_over() {
                break cause;
            }
        };
        self.end_load(&cause);
        self.flush(&mut ticks).await;
        let undelivered_records = self.undelivered();
        self.drain(&mut ticks).await;
        self.finish(&mut ticks, cause, undelivered_records).await;
        if idle && !self.signalled.is_cancelled() {
            tracing::info!("idle: serving until a signal");
        }
        while idle && !self.signalled.is_cancelled() {
            ticks.tick().await;
            self.take_events();
            self.second_passed();
        }
    }

    fn start(&mut self) {
        let now_ns = self.board.clock.now_ns();
        let mut run = lock(&self.board.run);
        run.started_ns = Some(now_ns);
        let run_id = run.id.clone();
        drop(run);
        if self.board.streams.values().any(|stream| lock(&stream.schedule).preload() > 0) {
            self.begin(Boundary::PreloadStart, Schedule::start_preload);
            lock(&self.board.run).state = RunState::Preloading;
        } else {
            self.start_clock();
        }
        self.last_second_ns = now_ns;
        self.emit(Event::RunStarted { run: run_id });
        self.follow_clock();
    }

    /// What is done at every tick of a run: events to the log, the second's figures and each sample's, boundaries.
    fn each_tick(&mut self) {
        self.take_events();
        self.follow_clock();
        let (polled, second) = (self.polled(), self.second_passed());
        if !polled && !second {
            return;
        }
        let snapshot = self.board.snapshot();
        self.collector.tick(&snapshot);
        self.surroundings.sample(&snapshot);
        if second {
            lock(&self.board.run).memory_slopes = self.collector.memory_slopes();
            self.watch_wall_clock();
            self.surroundings.show(&snapshot);
        }
    }

    /// Whether a source has answered since the last tick: of sources that are asked more often than once a second the
    /// highest lag would else be in the report by chance only.
    fn polled(&mut self) -> bool {
        let polls = self.board.sources.values().map(|source| lock(source).polls_total);
        let polls = polls.fold(0, u64::wrapping_add);
        std::mem::replace(&mut self.polls, polls) != polls
    }

    fn take_events(&mut self) {
        self.follow_profiles();
        let mut boundary = None;
        for Stamped { event, .. } in self.board.events.drain() {
            tell(&event);
            let divides = match event {
                Event::RateChanged { .. } | Event::ProfileStarted { .. } => Some(Boundary::RateChange),
                Event::Paused { .. } => Some(Boundary::Pause),
                Event::Resumed { .. } => Some(Boundary::Resume),
                _ => None,
            };
            boundary = boundary.or(divides);
        }
        // One look at all distributions for all changes of a tick: a storm of changes must not keep the loop from a stop.
        if let Some(boundary) = boundary {
            self.cut(boundary);
        }
    }

    /// Whether a second has passed since it was last so; the loop's heartbeat.
    fn second_passed(&mut self) -> bool {
        let now_ns = self.board.clock.now_ns();
        let passed_ns = now_ns.saturating_sub(self.last_second_ns);
        if passed_ns < SECOND_NS {
            return false;
        }
        // By whole seconds, so that they do not drift; those that were slept through are not made up for.
        self.last_second_ns = now_ns - passed_ns % SECOND_NS;
        self.board.beat();
        true
    }

    /// Notices when somebody sets the machine's clock. Nothing here goes by it, but a reader who compares soakd's times
    /// with another program's needs to know.
    fn watch_wall_clock(&mut self) {
        let clock = self.board.clock;
        let ahead_seconds = wall_now().as_secs_f64() - clock.wall_seconds(clock.now_ns());
        let seconds = ahead_seconds - self.wall_ahead_seconds.unwrap_or(ahead_seconds);
        self.wall_ahead_seconds = Some(ahead_seconds);
        if seconds.abs() > CLOCK_STEP_SECONDS {
            self.emit(Event::ClockStepped { seconds });
        }
    }

    /// Moves the run from warm-up to the measured phase, into a pause and out of it.
    fn follow_clock(&mut self) {
        let Some(stream) = self.paced().next() else { return };
        let schedule = lock(&stream.schedule);
        let (held, ran_ns) = (schedule.is_held(), schedule.ran_ns(self.board.clock.now_ns()));
        drop(schedule);
        let mut run = lock(&self.board.run);
        if matches!(run.state, RunState::Starting | RunState::Draining | RunState::Finished) {
            return;
        }
        let warm = ran_ns >= run.warmup_ns;
        run.state = match (held, warm) {
            (true, _) => RunState::Paused,
            (false, _) if run.clock_began_ns.is_none() => RunState::Preloading,
            (false, false) => RunState::WarmUp,
            (false, true) => RunState::Measuring,
        };
        if run.state == RunState::Preloading {
            drop(run);
            return self.follow_preload();
        }
        if run.state == RunState::Measuring && run.measuring_ns.is_none() {
            run.measuring_ns = Some(self.board.clock.now_ns());
            let (run_id, warmup_ns) = (run.id.clone(), run.warmup_ns);
            drop(run);
            // Without a warm-up the start was this boundary.
            if warmup_ns > 0 {
                self.cut(Boundary::WarmUpEnd);
            }
            self.emit(Event::MeasuringStarted { run: run_id });
        }
    }

    /// The streams by which the run goes: those that it produces, or all when it only watches.
    fn paced(&self) -> impl Iterator<Item = &Arc<Stream>> {
        let streams = || self.board.streams.values();
        let watches_only = streams().all(|stream| !stream.produced);
        streams().filter(move |stream| stream.produced || watches_only)
    }

    /// Why the load is over, if it is.
    fn load_over(&self) -> Option<String> {
        if let Some(cause) = self.control.stop_requested() {
            return Some(cause);
        }
        if let Some(error) = self.surroundings.broken() {
            return Some(error);
        }
        let mut by_records = true;
        for stream in self.paced() {
            let mut schedule = lock(&stream.schedule);
            let now_ns = self.board.clock.now_ns();
            if !schedule.ended(now_ns) {
                return None;
            }
            let due = schedule.due(now_ns);
            let by_its_records = schedule.max_records().is_some_and(|max| due >= max);
            let at_max = schedule.is_at_max();
            drop(schedule);
            if by_its_records && at_max && !stream.snapshot().counters.has_handed_over(due) {
                return None;
            }
            by_records &= by_its_records;
        }
        Some(if by_records { "records" } else { "duration" }.to_owned())
    }

    fn cut(&mut self, why: Boundary) {
        let snapshot = self.board.snapshot();
        let (latencies, heads) = self.distributions();
        self.collector.boundary(&snapshot, &latencies, heads, why);
    }

    /// The latencies so far and the heads of every stream.
    fn distributions(&self) -> (BTreeMap<String, Latencies>, BTreeMap<String, Vec<Head>>) {
        let streams = &self.board.streams;
        let latencies = streams.iter().map(|(name, stream)| (name.clone(), stream.latencies())).collect();
        let heads = streams.iter().map(|(name, stream)| (name.clone(), stream.heads())).collect();
        (latencies, heads)
    }

    fn emit(&self, event: Event) {
        self.board.events.emit(self.board.clock.now_ns(), event);
    }
}
