//! When each record is due, exact to the record over months.
//!
//! `A(t) = base + ∫ rate dt`, and record n = 0, 1, … is due when `A(t) ≥ n`. A phase `[start, end)` excludes
//! its end, so that 30/s for 30 s is 900 records: numbers 0 to 899. Rates are integers (millionths of a record a
//! second), times are integers (nanoseconds), so `A` is an integer in units of 10^-15 record and nothing is ever
//! rounded but an instant, down to the nanosecond. How a rate moves is a [`Shape`]; when single records are due in
//! units of `A` is [`Arrivals`].
//!
//! A worked example: 3/s from t = 0. `A(1 s)` = 3, so records 0, 1, 2 are due before 1 s, at 0 ms, 333 ms, 666 ms. At
//! 1.1 s (`A` = 3.3; record 3 was due at 1 s) the rate becomes 10/s: a new phase begins with base 3.3 and record 4 is
//! due 0.07 s later. The past is never priced again and the fraction 0.3 is carried.
//!
//! [`Schedule`] is the side of the operator: it turns changes of rate, profiles, pauses and the end into [`Phase`]s. Each
//! lane follows the phases with a [`super::walk::Walk`]. Both live on different threads; what keeps the numbers exact is
//! the order of two steps: a lane reads the clock *before* it locks the schedule to look for new phases, and a change
//! reads the clock *inside* that lock. So a lane that has not seen a change has only walked to instants before it. The phases
//! of a profile begin where the ones before them end, to the nanosecond, whoever looks first and however late.
//!
//! At "max", the one closed loop, nothing becomes due with time: a lane that has handed over what it had claims the next
//! records of the sequence ([`Schedule::claim`]). Lanes walk the one sequence side by side, no further than [`WINDOW`] apart.
//! When it ends, everything up to the furthest claim is due.

use std::collections::VecDeque;
use std::sync::Arc;

use super::arrivals::{Arrivals, Mark};
use super::counters::DropReason;
use super::pace::Pace;
use super::profile::{Piece, Profile};
use super::shape::{NOTHING, Shape};

pub use super::phase::Phase;
pub use super::rate::RECORD;

mod claim;
mod read;

pub use read::{Planned, Position};

/// How far at "max" a lane may be ahead of the slowest one, in records of the sequence: enough that none waits for another in
/// good times, and what is left when "max" ends is a moment's load.
pub const WINDOW: u64 = 65_536;
/// Shorter segments of a profile are no change that anybody is told of.
const MIN_TOLD_NS: u64 = 1_000_000_000;
/// Most changes that wait to be told.
const MAX_TOLD: usize = 1_000;

/// What is to be followed.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    /// One pace, until it is changed.
    Pace(Pace),
    /// A profile that begins when the run's clock shows so much. Before, its first rate is held.
    Profile { profile: Arc<Profile>, begins_ns: u64 },
}

/// Where the load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Before,
    /// The records before the run's clock begins.
    Preload,
    Running,
    Stopped,
}

/// A profile went from one segment to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// When (monotonic).
    pub at_ns: u64,
    /// The pace just before.
    pub from: Pace,
    /// The pace at the beginning of the segment.
    pub to: Pace,
}

/// The schedule of one stream.
#[derive(Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    plan: Plan,
    configured: Pace,
    /// Records before the run's clock begins.
    preload: u64,
    stage: Stage,
    started_ns: Option<u64>,
    rate_changed_ns: u64,
    /// Only this stream is paused.
    paused: bool,
    /// The whole load is paused: the run's clock stands still.
    held: bool,
    limit_ns: Option<u64>,
    max_records: Option<u64>,
    /// Time that the run's clock ran before `running_since`.
    ran_ns: u64,
    running_since: Option<u64>,
    /// Phases that not every lane has taken over yet, and always the current one.
    phases: VecDeque<Phase>,
    /// How many phases were dropped from the front of `phases`.
    forgotten: u64,
    /// How many phases each lane has taken over.
    seen: Vec<u64>,
    /// At "max": up to where each lane has claimed.
    claimed: Vec<u64>,
    /// Where the arrivals are counted.
    pub(super) cursor: Mark,
    told: Vec<Change>,
}

impl Schedule {
    /// A schedule that has not begun. `limit_ns` is the length of the load without pauses, `max_records` its size; both
    /// are exact to the record.
    #[must_use]
    pub fn new(pace: impl Into<Pace>, lanes: usize, limit_ns: Option<u64>, max_records: Option<u64>) -> Self {
        let pace = pace.into();
        Self {
            arrivals: Arrivals::Even,
            plan: Plan::Pace(pace),
            configured: pace,
            preload: 0,
            stage: Stage::Before,
            started_ns: None,
            rate_changed_ns: 0,
            paused: false,
            held: false,
            limit_ns,
            max_records,
            ran_ns: 0,
            running_since: None,
            phases: VecDeque::new(),
            forgotten: 0,
            seen: vec![0; lanes],
            claimed: vec![0; lanes],
            cursor: Mark::default(),
            told: Vec::new(),
        }
    }

    /// Follows a profile. Its clock begins after a warm-up of this length; until then its first rate is held.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile, warmup_ns: u64) -> Self {
        self.configured = profile.peak();
        self.plan = Plan::Profile { profile: Arc::new(profile), begins_ns: warmup_ns };
        self
    }

    /// Sends so many records at "max" before the run's clock begins. They come on top of `max_records`.
    #[must_use]
    pub fn with_preload(mut self, records: u64) -> Self {
        self.preload = records;
        self.max_records = self.max_records.map(|max| max.saturating_add(records));
        self
    }

    /// Records arrive like this.
    #[must_use]
    pub const fn with_arrivals(mut self, arrivals: Arrivals) -> Self {
        self.arrivals = arrivals;
        self
    }

    /// Begins the preload.
    pub fn start_preload(&mut self, now_ns: u64) {
        if self.stage == Stage::Before {
            self.stage = Stage::Preload;
            self.push(now_ns, None);
        }
    }

    /// Begins the load and the run's clock: the first record after the preload is due now.
    pub fn start(&mut self, now_ns: u64) {
        if matches!(self.stage, Stage::Before | Stage::Preload) {
            self.started_ns = Some(now_ns);
            self.rate_changed_ns = now_ns;
            self.running_since = (!self.held).then_some(now_ns);
            self.stage = Stage::Running;
            self.push(now_ns, None);
        }
    }

    /// Sets the pace, in place of the one before or of a profile; returns whether that changed anything. A paused stream takes
    /// it up when it is resumed. Rate 0 gives the backlog up, as a pause does.
    pub fn set_rate(&mut self, now_ns: u64, pace: impl Into<Pace>) -> bool {
        let pace = pace.into();
        if matches!(self.plan, Plan::Pace(old) if old == pace) || self.stage == Stage::Stopped {
            return false;
        }
        self.follow(now_ns, Plan::Pace(pace));
        true
    }

    /// Follows a profile from now on, before the start from the start on; returns whether that changed anything.
    pub fn set_profile(&mut self, now_ns: u64, profile: Profile) -> bool {
        if self.stage == Stage::Stopped {
            return false;
        }
        let begins_ns = self.clock_ns(now_ns);
        self.follow(now_ns, Plan::Profile { profile: Arc::new(profile), begins_ns });
        true
    }

    fn follow(&mut self, now_ns: u64, plan: Plan) {
        self.advance(now_ns);
        let zero = matches!(plan, Plan::Pace(pace) if pace.is_zero());
        self.plan = plan;
        self.rate_changed_ns = now_ns;
        if self.stage == Stage::Running {
            let cut = (zero && !self.is_paused()).then_some(DropReason::Paused);
            self.change(now_ns, cut);
        }
    }

    /// Pauses or resumes this stream alone; the run's clock goes on. Returns whether that changed anything.
    pub fn set_paused(&mut self, now_ns: u64, paused: bool) -> bool {
        if paused == self.paused || self.stage == Stage::Stopped {
            return false;
        }
        self.advance(now_ns);
        let cut = (paused && !self.is_paused()).then_some(DropReason::Paused);
        self.paused = paused;
        self.change(now_ns, cut);
        true
    }

    /// Pauses or resumes the whole load: the run's clock stops with it. Returns whether that changed anything.
    pub fn set_held(&mut self, now_ns: u64, held: bool) -> bool {
        if held == self.held || self.stage == Stage::Stopped {
            return false;
        }
        self.advance(now_ns);
        let cut = (held && !self.is_paused()).then_some(DropReason::Paused);
        if self.stage == Stage::Running && !self.ended(now_ns) {
            if held {
                self.ran_ns = self.ran_ns(now_ns);
                self.running_since = None;
            } else {
                self.running_since = Some(now_ns);
            }
        }
        self.held = held;
        self.change(now_ns, cut);
        true
    }

    /// Ends the load now and gives the backlog up.
    pub fn stop(&mut self, now_ns: u64) {
        if self.stage != Stage::Stopped {
            self.advance(now_ns);
            self.stage = Stage::Stopped;
            self.push(now_ns, Some(DropReason::Stopped));
        }
    }

    fn change(&mut self, now_ns: u64, cut: Option<DropReason>) {
        if !self.phases.is_empty() && !self.ended(now_ns) {
            self.push(now_ns, cut);
        }
    }

    /// Makes the phases that have begun by now.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(last) = self.phases.back().copied() {
            let edge_ns = last.end_ns.min(last.until_ns);
            if now_ns < edge_ns || self.stage == Stage::Stopped {
                return;
            }
            if last.until_ns <= last.end_ns {
                // At the planned end only claims are left to be settled.
                if last.shape.is_max() {
                    self.push_phase(edge_ns, NOTHING, u64::MAX, None);
                }
                return;
            }
            self.push(edge_ns, None);
            let from = last.shape.pace(edge_ns - last.start_ns);
            self.tell(edge_ns, from);
        }
    }

    /// Remembers that a segment of a profile has begun, unless it is too short to be worth it.
    fn tell(&mut self, at_ns: u64, from: Pace) {
        let clock_ns = self.clock_ns(at_ns);
        let Plan::Profile { profile, begins_ns } = &self.plan else { return };
        let Some(position_ns) = clock_ns.checked_sub(*begins_ns) else { return };
        let piece = profile.piece(position_ns);
        let to = piece.shape.pace(position_ns - piece.from_ns);
        let length_ns = profile.segments().get(piece.segment).map_or(u64::MAX, |segment| segment.length_ns);
        let same = from == to && !piece.moving;
        if piece.segment_from_ns != position_ns || length_ns < MIN_TOLD_NS || same {
            return;
        }
        self.rate_changed_ns = at_ns;
        if self.told.len() < MAX_TOLD {
            self.told.push(Change { at_ns, from, to });
        }
    }

    /// The changes that a profile made since this was last asked, oldest first.
    pub fn take_changes(&mut self, now_ns: u64) -> Vec<Change> {
        self.advance(now_ns);
        std::mem::take(&mut self.told)
    }

    /// What the plan says for an instant, in terms of the run's clock.
    fn piece(&self, clock_ns: u64) -> Piece {
        let forever = |shape| Piece {
            shape,
            from_ns: 0,
            to_ns: u64::MAX,
            segment: 0,
            cycle: 0,
            segment_from_ns: 0,
            moving: false,
        };
        let still = |pace| {
            forever(match pace {
                Pace::Steady(rate) => Shape::Constant(rate),
                Pace::Max => Shape::Max,
            })
        };
        if self.stage == Stage::Preload {
            // Without a preload of its own a stream waits for the others.
            return still(if self.preload > 0 { Pace::Max } else { Pace::default() });
        }
        match &self.plan {
            Plan::Pace(pace) => still(*pace),
            Plan::Profile { profile, begins_ns } => match clock_ns.checked_sub(*begins_ns) {
                None => Piece { to_ns: *begins_ns, ..still(profile.pace(0)) },
                Some(position_ns) => {
                    let piece = profile.piece(position_ns);
                    let (from_ns, to_ns) =
                        (piece.from_ns + begins_ns, piece.to_ns.saturating_add(*begins_ns));
                    Piece { from_ns, to_ns, ..piece }
                }
            },
        }
    }

    fn push(&mut self, at_ns: u64, cut: Option<DropReason>) {
        if self.is_paused() || self.stage == Stage::Stopped {
            return self.push_phase(at_ns, NOTHING, u64::MAX, cut);
        }
        let clock_ns = self.clock_ns(at_ns);
        let piece = self.piece(clock_ns);
        let left_ns = if piece.to_ns == u64::MAX { u64::MAX } else { piece.to_ns - clock_ns };
        let shape = piece.shape.later(clock_ns - piece.from_ns);
        self.push_phase(at_ns, shape, at_ns.saturating_add(left_ns), cut);
    }

    fn push_phase(&mut self, start_ns: u64, shape: Shape, end_ns: u64, cut: Option<DropReason>) {
        let (base, first, origin) = self.reached(start_ns);
        let until_ns = match (self.stage, self.held, self.limit_ns) {
            (Stage::Stopped, _, _) => start_ns,
            (Stage::Running, false, Some(limit_ns)) => {
                start_ns.saturating_add(limit_ns.saturating_sub(self.ran_ns(start_ns)))
            }
            _ => u64::MAX,
        };
        self.claimed.fill(first);
        self.phases.push_back(Phase { start_ns, base, first, shape, end_ns, until_ns, cut, origin });
        self.forget();
    }

    /// `A`, the number of records that were due, and where arrivals are counted from, at the end of the last phase.
    fn reached(&mut self, at_ns: u64) -> (u128, u64, Mark) {
        let Some(last) = self.phases.back().copied() else { return (0, 0, Mark::default()) };
        if !last.shape.is_max() {
            let base = last.accrued(at_ns);
            let first = self.arrivals.due(last.origin, &mut self.cursor, base).max(last.first);
            return (base, first, last.origin);
        }
        let first = self.furthest(&last);
        if first == last.first {
            return (last.base, first, last.origin);
        }
        // What was claimed has no `A` of its own: the next record is due as soon as there is a rate again.
        let base = last.base.max(u128::from(first) * RECORD);
        (base, first, Mark { record: first, at: base, epoch: last.origin.epoch + 1 })
    }

    /// Takes over where a lane has come to in the arrivals. Else the next change would count the records of hours one by one,
    /// under the lock that every lane waits for. A lane has only walked to instants before any change that is to come.
    pub fn walked(&mut self, reached: Mark) {
        let current = self.phases.back().is_some_and(|last| last.origin.epoch == reached.epoch);
        if current && (self.cursor.epoch != reached.epoch || self.cursor.record < reached.record) {
            self.cursor = reached;
        }
    }

    /// Drops the phases that every lane has taken over; the current one stays.
    fn forget(&mut self) {
        let seen_by_all = self.seen.iter().copied().min().unwrap_or(u64::MAX);
        while self.phases.len() > 1 && self.forgotten < seen_by_all {
            self.phases.pop_front();
            self.forgotten += 1;
        }
    }

    /// Hands a lane the phases that it has not seen, oldest first. `walked_ns` is the clock that the lane read before it
    /// locked the schedule. Another lane may have been here with a later one, so that phases may begin after it.
    pub fn catch_up(&mut self, lane: usize, walked_ns: u64, mut take: impl FnMut(Phase)) {
        self.advance(walked_ns);
        let newest = self.forgotten + self.phases.len() as u64;
        let Some(seen) = self.seen.get_mut(lane) else { return };
        if *seen == newest {
            return;
        }
        let skip = usize::try_from(seen.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        self.phases.iter().skip(skip).copied().for_each(&mut take);
        *seen = newest;
        self.forget();
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
