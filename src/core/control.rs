//! What an operator may change while the daemon runs. HTTP and signals call this; nothing here waits.

use std::sync::{Arc, Mutex};

use super::event::Event;
use super::lock::lock;
use super::pace::Pace;
use super::profile::Profile;
use super::rate::Rate;
use super::status::{Board, RunState};
use super::stream::Stream;

/// Why a change was refused. Nothing was changed then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ControlError {
    /// No stream of this name.
    #[error("there is no stream {name:?}: the streams are {known}")]
    UnknownStream {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A rate, or the highest of a profile, is above the stream's `max_rate`.
    #[error(
        "{requested} records/s is above max_rate {max} of stream {stream:?}: ask for less, or raise streams.{stream}.max_rate"
    )]
    AboveMaxRate {
        /// The stream.
        stream: String,
        /// Records a second asked for.
        requested: f64,
        /// Records a second allowed.
        max: f64,
    },
    /// Somebody else produces the stream.
    #[error("stream {0:?} is only watched (produce = false): its load is not soakd's to change")]
    Watched(String),
    /// The load has ended.
    #[error("the run is {state}: its load cannot be changed any more")]
    RunOver {
        /// The state of the run.
        state: &'static str,
    },
}

/// Changes the load of the current run.
#[derive(Debug)]
pub struct Control {
    board: Arc<Board>,
    stop: Mutex<Option<String>>,
    /// Held during a change of several streams, so that a pause and a resume at the same time do not leave some
    /// streams paused and others not.
    changing: Mutex<()>,
}

impl Control {
    /// A control over everything on the board.
    #[must_use]
    pub const fn new(board: Arc<Board>) -> Self {
        Self { board, stop: Mutex::new(None), changing: Mutex::new(()) }
    }

    /// The board that this control changes.
    #[must_use]
    pub const fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Sets the total of all streams. Shares follow the rates that are set now, else the configured ones, else they
    /// are equal. "max" has no shares: it is set for each stream. Returns the new pace of each stream; rates add up to the total
    /// exactly.
    ///
    /// # Errors
    /// When a share is above its stream's `max_rate` or the load has ended.
    pub fn set_total_rate(&self, total: Pace) -> Result<Vec<(String, Pace)>, ControlError> {
        self.refuse_when_over()?;
        let _one_at_a_time = lock(&self.changing);
        let streams: Vec<&Arc<Stream>> = self.produced().collect();
        let paces = match total {
            Pace::Max => vec![Pace::Max; streams.len()],
            Pace::Steady(total) => split(total, &self.shares()).into_iter().map(Pace::Steady).collect(),
        };
        for (stream, pace) in streams.iter().zip(&paces) {
            refuse_above_max(stream, *pace)?;
        }
        for (stream, pace) in streams.iter().zip(&paces) {
            self.apply_pace(stream, *pace);
        }
        Ok(streams.iter().map(|stream| stream.name.clone()).zip(paces).collect())
    }

    /// The weight of each stream in a total: by what is set now, else by the settings, else equal. What runs at "max" has no
    /// rate to go by.
    fn shares(&self) -> Vec<u128> {
        let weights = |pick: &dyn Fn(&Stream) -> Pace| -> Option<Vec<u128>> {
            let streams = self.produced();
            let weights: Option<Vec<u128>> =
                streams.map(|stream| Some(u128::from(pick(stream).rate()?.micros()))).collect();
            weights.filter(|weights| weights.iter().any(|weight| *weight > 0))
        };
        let now_ns = self.board.clock.now_ns();
        weights(&|stream| lock(&stream.schedule).pace(now_ns))
            .or_else(|| weights(&|stream| lock(&stream.schedule).configured_pace()))
            .unwrap_or_else(|| vec![1; self.produced().count()])
    }

    /// Sets the pace of one stream, in place of a profile too.
    ///
    /// # Errors
    /// When there is no such stream, the rate is above its `max_rate`, or the load has ended. "max" is above no `max_rate`: who
    /// says it means it.
    pub fn set_rate(&self, name: &str, pace: Pace) -> Result<(), ControlError> {
        let stream = self.stream(name)?;
        self.refuse_when_over()?;
        refuse_above_max(stream, pace)?;
        let _one_at_a_time = lock(&self.changing);
        self.apply_pace(stream, pace);
        Ok(())
    }

    /// Lets one stream follow a profile from now on.
    ///
    /// # Errors
    /// When there is no such stream, the profile goes above its `max_rate`, or the load has ended.
    pub fn set_profile(&self, name: &str, profile: Profile) -> Result<(), ControlError> {
        let stream = self.stream(name)?;
        self.refuse_when_over()?;
        refuse_above_max(stream, profile.peak())?;
        let _one_at_a_time = lock(&self.changing);
        let shown = profile.shown().to_string();
        let mut schedule = lock(&stream.schedule);
        let now_ns = self.board.clock.now_ns();
        if schedule.set_profile(now_ns, profile) {
            drop(schedule);
            let event = Event::ProfileStarted { stream: stream.name.clone(), profile: shown };
            self.board.events.emit(now_ns, event);
        }
        Ok(())
    }

    /// Pauses the whole load (the run's clock stops too), or one stream. Pausing twice is harmless.
    ///
    /// # Errors
    /// When there is no such stream or the load has ended.
    pub fn pause(&self, name: Option<&str>) -> Result<(), ControlError> {
        self.hold(name, true)
    }

    /// Resumes what [`Control::pause`] paused. Resuming twice is harmless.
    ///
    /// # Errors
    /// When there is no such stream or the load has ended.
    pub fn resume(&self, name: Option<&str>) -> Result<(), ControlError> {
        self.hold(name, false)
    }

    /// Asks the run to stop: no new load, flush, drain, report. The first cause wins; returns whether it was this one.
    pub fn request_stop(&self, cause: &str) -> bool {
        let mut stop = lock(&self.stop);
        let first = stop.is_none();
        if first {
            *stop = Some(cause.to_owned());
        }
        first
    }

    /// Why the run was asked to stop, if it was.
    #[must_use]
    pub fn stop_requested(&self) -> Option<String> {
        lock(&self.stop).clone()
    }

    /// The streams whose load is soakd's.
    fn produced(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.board.streams.values().filter(|stream| stream.produced)
    }

    fn stream(&self, name: &str) -> Result<&Arc<Stream>, ControlError> {
        let stream = self.board.streams.get(name).ok_or_else(|| ControlError::UnknownStream {
            name: name.to_owned(),
            known: self.board.streams.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        if stream.produced { Ok(stream) } else { Err(ControlError::Watched(name.to_owned())) }
    }

    fn refuse_when_over(&self) -> Result<(), ControlError> {
        let state = lock(&self.board.run).state;
        let over =
            matches!(state, RunState::Draining | RunState::Finished) || self.stop_requested().is_some();
        if over { Err(ControlError::RunOver { state: state.name() }) } else { Ok(()) }
    }

    fn apply_pace(&self, stream: &Stream, pace: Pace) {
        // The clock is read inside the lock: every lane reads its own clock before it takes the lock, so that no
        // lane has walked past the change (see `schedule`).
        let mut schedule = lock(&stream.schedule);
        let now_ns = self.board.clock.now_ns();
        let before = schedule.pace(now_ns);
        if schedule.set_rate(now_ns, pace) {
            drop(schedule);
            self.board.events.emit(
                now_ns,
                Event::RateChanged {
                    stream: stream.name.clone(),
                    from_records_per_second: before,
                    to_records_per_second: pace,
                },
            );
        }
    }

    fn hold(&self, name: Option<&str>, hold: bool) -> Result<(), ControlError> {
        let streams = match name {
            Some(name) => vec![self.stream(name)?],
            None => self.produced().collect(),
        };
        self.refuse_when_over()?;
        let _one_at_a_time = lock(&self.changing);
        let mut changed = false;
        for stream in streams {
            let mut schedule = lock(&stream.schedule);
            let now_ns = self.board.clock.now_ns();
            changed |= match name {
                Some(_) => schedule.set_paused(now_ns, hold),
                None => schedule.set_held(now_ns, hold),
            };
        }
        if changed {
            let stream = name.map(ToOwned::to_owned);
            let event = if hold { Event::Paused { stream } } else { Event::Resumed { stream } };
            self.board.events.emit(self.board.clock.now_ns(), event);
        }
        Ok(())
    }
}

fn refuse_above_max(stream: &Stream, pace: Pace) -> Result<(), ControlError> {
    if let Some(rate) = pace.rate().filter(|rate| *rate > stream.max_rate) {
        return Err(ControlError::AboveMaxRate {
            stream: stream.name.clone(),
            requested: rate.per_second(),
            max: stream.max_rate.per_second(),
        });
    }
    Ok(())
}

/// Splits a total by weights; the shares add up to it exactly.
fn split(total: Rate, weights: &[u128]) -> Vec<Rate> {
    let sum: u128 = weights.iter().sum();
    let (mut seen, mut given) = (0_u128, 0_u64);
    weights
        .iter()
        .map(|weight| {
            seen += weight;
            // Rounding the running sum instead of each share keeps the total exact.
            let upto = u128::from(total.micros()) * seen / sum.max(1);
            let upto = u64::try_from(upto).unwrap_or(u64::MAX);
            let share = upto - given;
            given = upto;
            Rate::from_micros(share)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::core::clock::Clock;
    use crate::core::event::EventLog;
    use crate::core::schedule::Schedule;
    use crate::core::status::RunStatus;

    fn control_over(streams: usize) -> Control {
        let clock = Clock::start();
        let stream = |i: usize| {
            let name = format!("s{i}");
            let stream = Stream {
                name: name.clone(),
                topic: name.clone(),
                partitions: 1,
                produced: true,
                max_rate: Rate::from_micros(u64::MAX),
                clock,
                schedule: Mutex::new(Schedule::new(Rate::from_micros(1_000_000), 0, None, None)),
                lanes: Vec::new(),
                held_back: Mutex::default(),
            };
            (name, Arc::new(stream))
        };
        Control::new(Arc::new(Board {
            clock,
            run: Mutex::new(RunStatus { state: RunState::Measuring, ..RunStatus::starting("", "") }),
            streams: (0..streams).map(stream).collect(),
            sources: BTreeMap::new(),
            processes: BTreeMap::new(),
            machines: BTreeMap::new(),
            events: Arc::new(EventLog::default()),
            heartbeats: AtomicU64::new(0),
        }))
    }

    #[test]
    fn a_stream_that_is_only_watched_is_left_out_and_refused_by_name() {
        let mut control = control_over(3);
        let board = Arc::get_mut(&mut control.board).unwrap();
        Arc::get_mut(board.streams.get_mut("s1").unwrap()).unwrap().produced = false;
        let set = control.set_total_rate(Rate::from_micros(4_000_000).into()).unwrap();
        let half = Pace::from(Rate::from_micros(2_000_000));
        assert_eq!(set, [("s0".to_owned(), half), ("s2".to_owned(), half)]);
        let refused = control.set_rate("s1", half).unwrap_err();
        assert!(matches!(&refused, ControlError::Watched(name) if name == "s1"), "{refused}");
        control.pause(None).unwrap();
        let paused = |name: &str| lock(&control.board.streams[name].schedule).is_paused();
        assert_eq!([paused("s0"), paused("s1"), paused("s2")], [true, false, true]);
    }

    #[test]
    fn h5_a_pause_and_a_resume_at_once_leave_no_mixture() {
        let (control, both) = (control_over(500), Barrier::new(2));
        let mut mixtures = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..300 {
                    both.wait();
                    control.pause(None).unwrap();
                    both.wait();
                }
            });
            for _ in 0..300 {
                both.wait();
                control.resume(None).unwrap();
                both.wait();
                let streams = control.board.streams.values();
                let paused = streams.filter(|stream| lock(&stream.schedule).is_paused()).count();
                if paused % 500 != 0 {
                    mixtures.push(paused);
                }
            }
        });
        assert!(mixtures.is_empty(), "of 500 streams these many were paused: {mixtures:?}");
    }

    #[test]
    fn shares_add_up_exactly() {
        let total = Rate::from_micros(1_000_001);
        for weights in [vec![1, 1, 1], vec![0, 7, 13, 1], vec![5]] {
            let rates = split(total, &weights);
            assert_eq!(rates.iter().map(|rate| rate.micros()).sum::<u64>(), total.micros(), "{weights:?}");
        }
        assert_eq!(split(total, &[0, 1])[0], Rate::ZERO);
    }
}
