//! How a run ends: no more load, flush, drain, reconciliation, report.

use tokio::time::Interval;

use super::{Run, SECOND_NS, Surroundings};
use crate::core::event::Event;
use crate::core::lock::lock;
use crate::core::rate::Rate;
use crate::core::status::RunState;
use crate::run::collector::{Boundary, Collector, Ending};

impl<S: Surroundings> Run<S> {
    /// No new load. A stop gives the backlog up; after a planned end it is worked off within its time.
    pub(super) fn end_load(&mut self, cause: &str) {
        self.stops_at_load_end = self.stops();
        let mut backlog_ns = 0;
        for stream in self.board.streams.values() {
            let mut schedule = lock(&stream.schedule);
            let now_ns = self.board.clock.now_ns();
            if schedule.ended(now_ns) {
                let rate = schedule.peak().rate().map_or(u64::MAX, Rate::micros).max(1);
                drop(schedule);
                let backlog = u128::from(stream.snapshot().counters.backlog);
                let at_rate_ns = backlog * u128::from(SECOND_NS) * 1_000_000 / u128::from(rate);
                backlog_ns = backlog_ns.max(u64::try_from(at_rate_ns).unwrap_or(u64::MAX));
            } else {
                schedule.stop(now_ns);
            }
        }
        self.surroundings.finish_by(self.flushed_ns().saturating_add(backlog_ns));
        let mut run = lock(&self.board.run);
        run.state = RunState::Draining;
        run.cause = Some(cause.to_owned());
        let run_id = run.id.clone();
        drop(run);
        self.cut(Boundary::LoadEnd);
        self.emit(Event::RunStopping { run: run_id, cause: cause.to_owned() });
    }

    /// When a flush that begins now must be over.
    fn flushed_ns(&self) -> u64 {
        let flush_ns = u64::try_from(self.deadlines.flush.as_nanos()).unwrap_or(u64::MAX);
        self.board.clock.now_ns().saturating_add(flush_ns)
    }

    /// How often a stop was asked for: by the control and by a signal.
    pub(super) fn stops(&self) -> usize {
        usize::from(self.control.stop_requested().is_some()) + usize::from(self.signalled.is_cancelled())
    }

    /// A stop was asked for when the load had ended already: it can only mean the waiting.
    fn hurried(&self) -> bool {
        self.stops() > self.stops_at_load_end
    }

    /// Waits for the lanes: for what is in flight, and after a planned end for the backlog.
    pub(super) async fn flush(&mut self, ticks: &mut Interval) {
        let planned = self.stops_at_load_end == 0;
        let mut hurried = false;
        while !self.lanes_done() {
            ticks.tick().await;
            self.each_tick();
            if planned && !hurried && self.hurried() {
                hurried = true;
                tracing::info!("stop: giving up the backlog");
                for stream in self.board.streams.values() {
                    let mut schedule = lock(&stream.schedule);
                    schedule.stop(self.board.clock.now_ns());
                }
                self.surroundings.finish_by(self.flushed_ns());
            }
        }
    }

    fn lanes_done(&self) -> bool {
        let mut lanes = self.board.streams.values().flat_map(|stream| &stream.lanes);
        lanes.all(|lane| lock(lane).done) || self.surroundings.broken().is_some()
    }

    /// Records that had no report when the lanes ended at the deadline.
    pub(super) fn undelivered(&self) -> u64 {
        self.board.streams.values().flat_map(|stream| &stream.lanes).map(|lane| lock(lane).undelivered).sum()
    }

    /// Waits until every source says that everything acked is ingested, the deadline has passed, or a stop is asked
    /// for once more.
    pub(super) async fn drain(&mut self, ticks: &mut Interval) {
        let began_ns = self.board.clock.now_ns();
        let drain_ns = u64::try_from(self.deadlines.drain.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = began_ns.saturating_add(drain_ns);
        self.wake_sources.iter().for_each(|source| source.notify_one());
        while self.board.clock.now_ns() < deadline_ns && !self.caught_up(began_ns) {
            if self.hurried() {
                tracing::info!("stop: not waiting any longer for the system under test to catch up");
                break;
            }
            ticks.tick().await;
            self.each_tick();
        }
    }

    fn caught_up(&self, since_ns: u64) -> bool {
        self.board.sources.values().all(|source| {
            let source = lock(source);
            // Others may go on writing to a stream that is only watched.
            let watched = self.board.streams.get(&source.stream).is_some_and(|stream| !stream.produced);
            watched
                || source.up && source.reading.as_ref().is_some_and(|r| r.caught_up && r.at_ns >= since_ns)
        })
    }

    pub(super) async fn finish(&mut self, ticks: &mut Interval, cause: String, undelivered_records: u64) {
        self.cut(Boundary::DrainEnd);
        let mut reading = self.surroundings.watermarks();
        // A broker that is away takes its time; the daemon lives on meanwhile.
        let watermarks = loop {
            tokio::select! {
                watermarks = &mut reading => break watermarks.unwrap_or_default(),
                _ = ticks.tick() => self.each_tick(),
            }
        };
        let finished = self.surroundings.broken().is_none();
        let ending = Ending { finished, cause: Some(cause), undelivered_records, watermarks };
        let collector = std::mem::replace(&mut self.collector, Collector::new(Default::default()));
        let last = self.board.snapshot();
        let verdict = self.surroundings.finished(collector.finish(ending), &last);
        let mut run = lock(&self.board.run);
        run.state = RunState::Finished;
        run.finished_ns = Some(self.board.clock.now_ns());
        run.verdict = Some(verdict.clone());
        let run_id = run.id.clone();
        drop(run);
        self.emit(Event::RunFinished { run: run_id, verdict });
        self.take_events();
    }
}
