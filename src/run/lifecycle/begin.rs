//! How a load begins, from the preload to the run's clock, and how its planned changes become events.

use super::{Run, Surroundings};
use crate::core::event::Event;
use crate::core::lock::lock;
use crate::core::schedule::{Change, Schedule};
use crate::core::status::RunState;
use crate::run::collector::Boundary;

impl<S: Surroundings> Run<S> {
    /// Begins the warm-up, or the measured phase when there is none.
    pub(super) fn start_clock(&mut self) {
        // Without a warm-up there is one boundary: no warm-up of some microseconds stands in the report.
        let warmup_ns = lock(&self.board.run).warmup_ns;
        self.begin(if warmup_ns == 0 { Boundary::WarmUpEnd } else { Boundary::LoadStart }, Schedule::start);
        let mut run = lock(&self.board.run);
        run.clock_began_ns = Some(self.board.clock.now_ns());
        run.state = RunState::WarmUp;
    }

    /// Lets every schedule begin.
    pub(super) fn begin(&mut self, why: Boundary, begin: fn(&mut Schedule, u64)) {
        // Seen before the first record, so that none is in front of the figures.
        let mut before = self.board.snapshot();
        let (latencies, heads) = self.distributions();
        for (name, stream) in &self.board.streams {
            let mut schedule = lock(&stream.schedule);
            let now_ns = self.board.clock.now_ns();
            begin(&mut schedule, now_ns);
            if let Some(seen) = before.streams.get_mut(name) {
                seen.target = schedule.target_now(now_ns);
                seen.planned = schedule.planned(now_ns);
            }
        }
        self.collector.boundary(&before, &latencies, heads, why);
    }

    /// Starts the run's clock when everything of the preload has its report, good or bad.
    pub(super) fn follow_preload(&mut self) {
        let loaded = self.board.streams.values().all(|stream| {
            let counters = stream.snapshot().counters;
            let (preload, paused) = {
                let schedule = lock(&stream.schedule);
                (schedule.preload(), schedule.is_paused())
            };
            !paused && counters.scheduled >= preload && counters.backlog + counters.in_flight == 0
        });
        if loaded {
            self.start_clock();
            self.follow_clock();
        }
    }

    /// Tells of the segments of profiles that have begun.
    pub(super) fn follow_profiles(&self) {
        for (name, stream) in &self.board.streams {
            let mut schedule = lock(&stream.schedule);
            let changes = schedule.take_changes(self.board.clock.now_ns());
            drop(schedule);
            for Change { at_ns, from, to } in changes {
                let event = Event::RateChanged {
                    stream: name.clone(),
                    from_records_per_second: from,
                    to_records_per_second: to,
                };
                self.board.events.emit(at_ns, event);
            }
        }
    }
}
