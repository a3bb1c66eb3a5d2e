//! The one loop that polls sources of every kind. Each source has its own, so that a slow one delays no other.
//!
//! A poll reads the stream's acked heads, asks, and reads the heads again. Connecting comes before the first look,
//! so that it does not blur the sample. A failed poll moves no figure: the source is down, the error is counted, and after
//! three missed polls the last reading is gone too, because a stale figure looks like a good one.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::core::clock::Clock;
use crate::core::event::{Event, EventLog};
use crate::core::histogram::Latency;
use crate::core::ingest::Ingest;
use crate::core::lag::{LagTracker, Observation, Progress, Reading, Sample, ValueKind};
use crate::core::lock::lock;
use crate::core::recovery::{Look, Recoveries, Recovery};
use crate::core::standstill::{self, Standstill};
use crate::core::status::{ProgressErrorKind, SourceStatus};
use crate::core::stream::Stream;

mod error;
mod show;

pub use error::ProbeError;
use show::{no_answer_yet, show, without_figure};

/// Missed polls in a row after which there is no reading any more.
const MISSED_POLLS_UNTIL_UNKNOWN: u32 = 3;
/// A source keeps its deadline itself and says what it waited for; this is how much later the loop gives it up all the same.
const GRACE: Duration = Duration::from_millis(500);
/// What is known of the ends of a stream that is only watched says nothing about now when it is older.
const OLDEST_LOOK_NS: u64 = 2_000_000_000;

/// What a source answers, or why not.
pub(super) type Answering<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProbeError>> + Send + 'a>>;

/// One way of asking how far the system under test is. Dropping an unfinished answer must leave the source usable.
pub(super) trait Source: Send {
    /// Makes ready to ask: connects where that is needed.
    fn ready(&mut self, deadline: Instant) -> Answering<'_, ()>;

    /// Asks once.
    fn ask(&mut self, deadline: Instant) -> Answering<'_, Progress>;

    /// The end-to-end latencies of what was read since the last call; `None` for a source that reads no records.
    fn take_end_to_end(&mut self) -> Option<Latency> {
        None
    }

    /// Records that were left out of what is read, since the start.
    fn skipped(&self) -> u64 {
        0
    }

    /// Good answers in which the system stated a lag below zero, since the start.
    fn below_zero(&self) -> u64 {
        0
    }

    /// Cleans up after a failed poll, once the failure is published. Takes a second at most.
    fn after_failure(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// Says goodbye at the end. Takes some seconds at most.
    fn close(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// A good poll.
#[derive(Debug, Clone)]
pub struct Polled {
    /// What the source answered.
    pub progress: Progress,
    /// How long the poll took, connecting included.
    pub took: Duration,
    /// Lag by this answer.
    pub reading: Reading,
    /// Why there is no reading, or no lag in it.
    pub unknown_reason: Option<String>,
}

/// What a poller needs to know and where it writes.
pub(super) struct Wiring {
    pub(super) name: String,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) standstill_after: Duration,
    pub(super) stream: Arc<Stream>,
    pub(super) cell: Arc<Mutex<SourceStatus>>,
    pub(super) events: Arc<EventLog>,
    pub(super) clock: Clock,
    pub(super) tracker: LagTracker,
}

/// Polls one progress source.
pub struct Poller {
    wiring: Wiring,
    source: Box<dyn Source>,
    standstill: Standstill,
    ingest: Ingest,
    recoveries: Recoveries,
    down_since_ns: Option<u64>,
    /// How long the last good poll took.
    took: Duration,
    wake: Arc<Notify>,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").field("name", &self.wiring.name).finish_non_exhaustive()
    }
}

impl Poller {
    pub(super) fn with(wiring: Wiring, source: Box<dyn Source>) -> Self {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let (interval_ns, standstill_ns) = (ns(wiring.interval), ns(wiring.standstill_after));
        Self {
            wiring,
            source,
            standstill: Standstill::new(standstill_ns),
            ingest: Ingest::default(),
            recoveries: Recoveries::new(interval_ns),
            down_since_ns: None,
            took: Duration::ZERO,
            wake: Arc::default(),
        }
    }

    /// The source's name in the settings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.wiring.name
    }

    /// Asks a running poller for a poll at once: for the end of a drain, where an interval may be too long to wait.
    #[must_use]
    pub fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Polls until it is stopped, then ends the session. An outage ends nothing.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut ticks = interval(self.wiring.interval);
        // After a long poll, or a time when the whole process stood still, polls are not made up for.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let wake = self.wake();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = ticks.tick() => {}
                () = wake.notified() => ticks.reset(),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.poll_watched() => {}
            }
        }
        self.close().await;
    }

    /// Polls once. A figure does not stay while its source says nothing for as long as three polls take, however long it may
    /// take for an answer.
    async fn poll_watched(&mut self) {
        let patience =
            self.wiring.interval.saturating_mul(MISSED_POLLS_UNTIL_UNKNOWN).saturating_add(self.took);
        let cell = Arc::clone(&self.wiring.cell);
        let mut poll = pin!(self.poll_once());
        if timeout(patience, &mut poll).await.is_err() {
            no_answer_yet(&mut lock(&cell), patience);
            // Its outcome is on the board, as in the loop.
            let _ = poll.await;
        }
    }

    /// Polls once and publishes the outcome, as the loop does. For `soakd check` and the end of a drain.
    ///
    /// # Errors
    /// When the source gave no answer that can be used within its timeout.
    pub async fn poll_once(&mut self) -> Result<Polled, ProbeError> {
        let began_ns = self.wiring.clock.now_ns();
        let outcome = self.sample().await;
        match outcome {
            Ok(sample) => Ok(self.publish(began_ns, sample)),
            Err(error) => {
                self.publish_failure(began_ns, &error);
                self.source.after_failure().await;
                Err(error)
            }
        }
    }

    /// Ends the session, if there is one.
    pub async fn close(mut self) {
        self.source.close().await;
    }

    async fn sample(&mut self) -> Result<Sample, ProbeError> {
        let deadline = Instant::now() + self.wiring.timeout;
        match self.try_sample(deadline).await {
            // Asking changes nothing, so asking again is safe.
            Err(error) if error.stale && Instant::now() < deadline => self.try_sample(deadline).await,
            outcome => outcome,
        }
    }

    async fn try_sample(&mut self, deadline: Instant) -> Result<Sample, ProbeError> {
        let Self { source, wiring, .. } = self;
        let last = deadline + GRACE;
        timeout_at(last, source.ready(deadline)).await.unwrap_or_else(|_| Err(given_up(wiring.timeout)))?;
        known_ends(&wiring.stream)?;
        let heads_before = wiring.stream.heads();
        let of_markers = wiring.tracker.kind() == ValueKind::Marker;
        let markers_before = if of_markers { wiring.stream.acked_markers() } else { Vec::new() };
        let asked_ns = wiring.clock.now_ns();
        let answer = timeout_at(last, source.ask(deadline)).await;
        let progress = answer.unwrap_or_else(|_| Err(given_up(wiring.timeout)))?;
        let answered_ns = wiring.clock.now_ns();
        let heads_after = wiring.stream.heads();
        Ok(Sample { asked_ns, answered_ns, heads_before, heads_after, markers_before, progress })
    }

    fn publish(&mut self, began_ns: u64, sample: Sample) -> Polled {
        let now_ns = self.wiring.clock.now_ns();
        let observation = self.wiring.tracker.observe(&sample, &*self.wiring.stream);
        let reset = observation.reset();
        let end_to_end = self.source.take_end_to_end();
        // A source that knows no records stands still by its seconds.
        let lag = observation.reading.lag_records.or(observation.reading.lag_ns);
        let state = lag.map(|lag| (lag, observation.moved, observation.reading.caught_up));
        let still_ns = self.watch_standstill(sample.answered_ns, state);
        if let Some((from, to)) = reset {
            self.emit(now_ns, Event::ProgressReset { source: self.wiring.name.clone(), from, to });
        }
        if let Some(since_ns) = self.down_since_ns.take() {
            let seconds = seconds(now_ns.saturating_sub(since_ns));
            self.emit(now_ns, Event::SourceFound { source: self.wiring.name.clone(), seconds });
        }
        self.ingest.observe(&observation);
        if let Some(still_ns) = still_ns {
            self.recoveries.stood_still(sample.answered_ns, still_ns);
        }
        self.watch_recovery(now_ns, &observation);
        let took_ns = now_ns.saturating_sub(began_ns);
        let mut cell = lock(&self.wiring.cell);
        cell.up = true;
        cell.hopeless = false;
        cell.error = None;
        cell.missed_polls = 0;
        cell.polls_total += 1;
        cell.last_success_ns = Some(sample.answered_ns);
        cell.duration.record(took_ns);
        cell.resolution_ns = Some(cell.interval_ns.saturating_add(took_ns));
        cell.resets += u64::from(reset.is_some());
        cell.recovery = self.recoveries.last();
        cell.ingest_records_per_second = self.ingest.records_per_second();
        let behind = observation.reading.lag_records.filter(|_| !observation.reading.caught_up);
        cell.catch_up_ns = behind.and_then(|lag| self.ingest.catch_up_ns(lag));
        let mut change = show(&mut cell, &observation, end_to_end);
        let (skipped, below_zero) = (self.source.skipped(), self.source.below_zero());
        change.skips = cell.skipped_records == 0 && skipped > 0;
        change.below_zero = cell.below_zero == 0 && below_zero > 0;
        (cell.skipped_records, cell.below_zero) = (skipped, below_zero);
        drop(cell);
        change.log(&self.wiring.name);
        let Observation { reading, unknown_reason, .. } = observation;
        let took = Duration::from_nanos(took_ns);
        self.took = took;
        Polled { progress: sample.progress, took, reading, unknown_reason }
    }

    fn publish_failure(&mut self, began_ns: u64, error: &ProbeError) {
        let now_ns = self.wiring.clock.now_ns();
        if self.down_since_ns.is_none() {
            self.down_since_ns = Some(began_ns);
            let source = self.wiring.name.clone();
            self.emit(now_ns, Event::SourceLost { source, error: error.text.clone() });
        }
        self.recoveries.failed(began_ns);
        let mut cell = lock(&self.wiring.cell);
        cell.up = false;
        cell.recovery = self.recoveries.last();
        cell.hopeless = error.hopeless;
        cell.error = Some(error.text.clone());
        cell.missed_polls = cell.missed_polls.saturating_add(1);
        if let Some(count) = cell.errors.get_mut(error.kind as usize) {
            *count += 1;
        }
        cell.duration.record(now_ns.saturating_sub(began_ns));
        let unknown = cell.missed_polls >= MISSED_POLLS_UNTIL_UNKNOWN;
        if unknown {
            without_figure(&mut cell);
            self.ingest.forget();
        }
        drop(cell);
        self.watch_standstill(now_ns, None);
    }

    /// Follows standstills. Gives how long one that begins now has lasted already.
    fn watch_standstill(&mut self, at_ns: u64, look: Option<(u64, bool, bool)>) -> Option<u64> {
        let change = self.standstill.observe(at_ns, look);
        let source = || self.wiring.name.clone();
        match change {
            Some(standstill::Change::Began { ns }) => {
                self.emit(at_ns, Event::StandstillBegan { source: source(), seconds: seconds(ns) });
            }
            Some(standstill::Change::Ended { ns }) => {
                self.emit(at_ns, Event::StandstillEnded { source: source(), seconds: seconds(ns) });
            }
            None => {}
        }
        let mut cell = lock(&self.wiring.cell);
        cell.standstills = self.standstill.count();
        cell.standstill_ns = self.standstill.total_ns();
        cell.standstill_longest_ns = self.standstill.longest_ns();
        match change {
            Some(standstill::Change::Began { ns }) => Some(ns),
            _ => None,
        }
    }

    fn watch_recovery(&mut self, now_ns: u64, seen: &Observation) {
        let reading = &seen.reading;
        let look = Look {
            at_ns: now_ns,
            fell: !seen.resets.is_empty(),
            moved: seen.moved,
            caught_up: reading.caught_up,
            lag_ns: reading.lag_ns.filter(|_| !reading.lag_at_least && reading.unknown_partitions == 0),
        };
        let over = self.recoveries.good(look);
        if let Some(Recovery { back_ns: Some(back_ns), caught_up_ns: Some(caught_up_ns), .. }) = over
            // What had caught up when it came back is told by its coming back.
            && caught_up_ns > back_ns
        {
            let source = self.wiring.name.clone();
            let (back_seconds, caught_up_seconds) = (seconds(back_ns), seconds(caught_up_ns));
            self.emit(now_ns, Event::Recovered { source, back_seconds, caught_up_seconds });
        }
    }

    fn emit(&self, at_ns: u64, event: Event) {
        self.wiring.events.emit(at_ns, event);
    }
}

/// Without the ends of a stream that is only watched there is nothing that progress can be held against.
fn known_ends(stream: &Stream) -> Result<(), ProbeError> {
    let age_ns = stream.look_age_ns(stream.clock.now_ns());
    if age_ns < OLDEST_LOOK_NS {
        return Ok(());
    }
    let text = format!(
        "the broker has not told the end of the topic {:?} for {:.1} s: nobody knows how far the stream is",
        stream.topic,
        seconds(age_ns)
    );
    Err(ProbeError::new(ProgressErrorKind::Connect, text))
}

fn given_up(timeout: Duration) -> ProbeError {
    let text = format!("no answer within {}", humantime::format_duration(timeout));
    ProbeError::new(ProgressErrorKind::Timeout, text)
}

#[allow(clippy::cast_precision_loss)]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests;
