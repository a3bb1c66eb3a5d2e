//! When each record is due, exact to the record over months.
//!
//! `A(t) = base + ∫ rate dt`, and record n = 0, 1, … is due when `A(t) ≥ n`. A phase `[start, until)` excludes
//! its end, so that 30/s for 30 s is 900 records: numbers 0 to 899. Rates are integers (millionths of a record a
//! second), times are integers (nanoseconds), so `A` is an integer in units of 10^-15 record and nothing is ever
//! rounded but an instant, down to the nanosecond.
//!
//! A worked example: 3/s from t = 0. `A(1 s)` = 3, so records 0, 1, 2 are due before 1 s, at 0 ms, 333 ms, 666 ms. At
//! 1.1 s (`A` = 3.3; record 3 was due at 1 s) the rate becomes 10/s: a new phase begins with base 3.3 and record 4 is
//! due 0.07 s later. The past is never priced again and the fraction 0.3 is carried.
//!
//! [`Schedule`] is the side of the operator: it turns changes of rate, pauses and the end into [`Phase`]s. Each lane
//! follows the phases with a [`super::walk::Walk`]. Both live on different threads; what keeps the numbers exact is
//! the order of two steps: a lane reads the clock *before* it locks the schedule to look for new phases, and a change
//! reads the clock *inside* that lock. So a lane that has not seen a change has only walked to instants before it.

use std::collections::VecDeque;

use super::counters::DropReason;
use super::rate::Rate;

/// One record in the unit of [`Phase::base`].
pub const RECORD: u128 = 1_000_000_000_000_000;

/// A stretch of constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// First instant of the phase (monotonic).
    pub start_ns: u64,
    /// `A(start)` in 10^-15 records.
    pub base: u128,
    /// Rate of the phase.
    pub rate: Rate,
    /// From here on nothing more becomes due: the planned end of the load, `u64::MAX` when there is none.
    pub until_ns: u64,
    /// What was due before the phase and not sent yet is given up for this reason.
    pub cut: Option<DropReason>,
}

impl Phase {
    /// `A(t)` for an instant of this phase.
    #[must_use]
    pub fn accrued(&self, at_ns: u64) -> u128 {
        let elapsed_ns = at_ns.min(self.until_ns).saturating_sub(self.start_ns);
        self.base + u128::from(self.rate.micros()) * u128::from(elapsed_ns)
    }

    /// How many records are due before an instant of this phase.
    #[must_use]
    pub fn due(&self, at_ns: u64) -> u64 {
        records(self.accrued(at_ns))
    }

    /// How many records were due before the phase.
    #[must_use]
    pub fn first(&self) -> u64 {
        records(self.base)
    }
}

/// Record n is due before t when `A(t) > n`, so that the number of such records is `A(t)` rounded up.
fn records(accrued: u128) -> u64 {
    u64::try_from(accrued.div_ceil(RECORD)).unwrap_or(u64::MAX)
}

/// The schedule of one stream.
#[derive(Debug, Default)]
pub struct Schedule {
    configured: Rate,
    rate: Rate,
    rate_changed_ns: u64,
    /// Only this stream is paused.
    paused: bool,
    /// The whole load is paused: the run's clock stands still.
    held: bool,
    stopped: bool,
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
}

impl Schedule {
    /// A schedule that has not begun. `limit_ns` is the length of the load without pauses, `max_records` its size; both
    /// are exact to the record.
    #[must_use]
    pub fn new(rate: Rate, lanes: usize, limit_ns: Option<u64>, max_records: Option<u64>) -> Self {
        Self { configured: rate, rate, limit_ns, max_records, seen: vec![0; lanes], ..Self::default() }
    }

    /// Begins the load: record 0 is due now.
    pub fn start(&mut self, now_ns: u64) {
        if self.phases.is_empty() && !self.stopped {
            self.rate_changed_ns = now_ns;
            self.running_since = (!self.held).then_some(now_ns);
            self.push(now_ns, None);
        }
    }

    /// Sets the rate; returns whether that changed anything. A paused stream takes it up when it is resumed. Rate 0
    /// gives the backlog up, as a pause does.
    pub fn set_rate(&mut self, now_ns: u64, rate: Rate) -> bool {
        if rate == self.rate || self.stopped {
            return false;
        }
        self.rate = rate;
        self.rate_changed_ns = now_ns;
        let cut = (rate.is_zero() && !self.is_paused()).then_some(DropReason::Paused);
        self.change(now_ns, cut);
        true
    }

    /// Pauses or resumes this stream alone; the run's clock goes on. Returns whether that changed anything.
    pub fn set_paused(&mut self, now_ns: u64, paused: bool) -> bool {
        if paused == self.paused || self.stopped {
            return false;
        }
        let cut = (paused && !self.is_paused()).then_some(DropReason::Paused);
        self.paused = paused;
        self.change(now_ns, cut);
        true
    }

    /// Pauses or resumes the whole load: the run's clock stops with it. Returns whether that changed anything.
    pub fn set_held(&mut self, now_ns: u64, held: bool) -> bool {
        if held == self.held || self.stopped {
            return false;
        }
        let cut = (held && !self.is_paused()).then_some(DropReason::Paused);
        if !self.ended(now_ns) && !self.phases.is_empty() {
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
        if !self.stopped {
            self.push(now_ns, Some(DropReason::Stopped));
            self.stopped = true;
        }
    }

    fn change(&mut self, now_ns: u64, cut: Option<DropReason>) {
        if !self.phases.is_empty() && !self.ended(now_ns) {
            self.push(now_ns, cut);
        }
    }

    fn push(&mut self, now_ns: u64, cut: Option<DropReason>) {
        let base = self.phases.back().map_or(0, |last| last.accrued(now_ns));
        let stop = cut == Some(DropReason::Stopped);
        let rate = if self.is_paused() || stop { Rate::ZERO } else { self.rate };
        let until_ns = match (stop, self.held, self.limit_ns) {
            (true, _, _) => now_ns,
            (_, false, Some(limit_ns)) => now_ns.saturating_add(limit_ns.saturating_sub(self.ran_ns(now_ns))),
            _ => u64::MAX,
        };
        self.phases.push_back(Phase { start_ns: now_ns, base, rate, until_ns, cut });
        self.forget();
    }

    /// Drops the phases that every lane has taken over; the current one stays.
    fn forget(&mut self) {
        let seen_by_all = self.seen.iter().copied().min().unwrap_or(u64::MAX);
        while self.phases.len() > 1 && self.forgotten < seen_by_all {
            self.phases.pop_front();
            self.forgotten += 1;
        }
    }

    /// Hands a lane the phases that it has not seen, oldest first.
    pub fn catch_up(&mut self, lane: usize, mut take: impl FnMut(Phase)) {
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

    /// How many records are due before now.
    #[must_use]
    pub fn due(&self, now_ns: u64) -> u64 {
        let due = self.phases.back().map_or(0, |last| last.due(now_ns));
        due.min(self.max_records.unwrap_or(u64::MAX))
    }

    /// Whether nothing more will become due: stopped, or at the limit of time or records.
    #[must_use]
    pub fn ended(&self, now_ns: u64) -> bool {
        let over = self.phases.back().is_some_and(|last| now_ns >= last.until_ns);
        self.stopped || over || self.max_records.is_some_and(|max| self.due(now_ns) >= max)
    }

    /// Instants before this one belong to the running load, those of phases that were cut short included; 0 before the
    /// start, while paused, and when the load was stopped or is as large as it may get.
    #[must_use]
    pub fn live_until_ns(&self, now_ns: u64) -> u64 {
        let complete = self.max_records.is_some_and(|max| self.due(now_ns) >= max);
        match self.phases.back() {
            Some(last) if !self.stopped && !self.is_paused() && !complete => last.until_ns,
            _ => 0,
        }
    }

    /// How long the load has run, without pauses of the whole load.
    #[must_use]
    pub fn ran_ns(&self, now_ns: u64) -> u64 {
        let running_ns = self.running_since.map_or(0, |since| now_ns.saturating_sub(since));
        let ran_ns = self.ran_ns + running_ns;
        self.limit_ns.map_or(ran_ns, |limit| ran_ns.min(limit))
    }

    /// The rate that is followed now: 0 before the start, while paused and after the end.
    #[must_use]
    pub fn target_now(&self, now_ns: u64) -> Rate {
        match self.phases.back() {
            Some(last) if !self.ended(now_ns) => last.rate,
            _ => Rate::ZERO,
        }
    }

    /// The rate that was last set, whether paused or not.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The rate of the settings.
    #[must_use]
    pub const fn configured_rate(&self) -> Rate {
        self.configured
    }

    /// Whether this stream or the whole load is paused.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.paused || self.held
    }

    /// Whether the whole load is paused.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// When the rate was last set (monotonic); the start of the load counts.
    #[must_use]
    pub const fn rate_changed_ns(&self) -> u64 {
        self.rate_changed_ns
    }

    /// The size limit of the load, if there is one.
    #[must_use]
    pub const fn max_records(&self) -> Option<u64> {
        self.max_records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rate(records_per_second: f64) -> Rate {
        Rate::from_per_second(records_per_second).unwrap()
    }

    #[test]
    fn r4_thirty_a_second_for_thirty_seconds_is_nine_hundred() {
        let mut schedule = Schedule::new(rate(30.0), 1, Some(30 * SECOND), None);
        schedule.start(17);
        assert_eq!(schedule.due(17), 0);
        assert_eq!(schedule.due(18), 1);
        assert!(!schedule.ended(16 + 30 * SECOND));
        assert!(schedule.ended(17 + 30 * SECOND));
        assert_eq!(schedule.due(u64::MAX), 900);
    }

    #[test]
    fn r7_rate_zero_is_nothing_at_all() {
        let mut schedule = Schedule::new(Rate::ZERO, 1, None, None);
        schedule.start(0);
        assert_eq!(schedule.due(u64::MAX), 0);
        schedule.set_rate(5 * SECOND, rate(1.0));
        assert_eq!(schedule.due(6 * SECOND), 1);
        schedule.set_rate(6 * SECOND, Rate::ZERO);
        assert_eq!(schedule.due(u64::MAX), 1);
    }

    #[test]
    fn a_pause_of_the_load_stops_its_clock_and_is_no_debt() {
        let mut schedule = Schedule::new(rate(10.0), 1, Some(10 * SECOND), None);
        schedule.start(0);
        assert!(schedule.set_held(4 * SECOND, true));
        assert!(!schedule.set_held(5 * SECOND, true), "a second pause is harmless");
        assert_eq!(schedule.due(3_600 * SECOND), 40);
        assert!(!schedule.ended(3_600 * SECOND), "a paused run does not end");
        assert!(schedule.set_held(100 * SECOND, false));
        assert_eq!(schedule.due(u64::MAX), 100);
        assert!(schedule.ended(106 * SECOND));
        assert_eq!(schedule.ran_ns(200 * SECOND), 10 * SECOND);
    }

    #[test]
    fn the_load_is_live_from_its_start_to_its_end_but_for_pauses() {
        let mut schedule = Schedule::new(Rate::ZERO, 1, Some(10 * SECOND), Some(25));
        assert_eq!(schedule.live_until_ns(0), 0);
        schedule.start(5);
        assert_eq!(schedule.live_until_ns(SECOND), 5 + 10 * SECOND, "at rate 0, too");
        schedule.set_paused(SECOND, true);
        assert_eq!(schedule.live_until_ns(SECOND), 0);
        schedule.set_paused(2 * SECOND, false);
        schedule.set_held(2 * SECOND + 5, true);
        schedule.set_held(4 * SECOND + 5, false);
        assert_eq!(schedule.live_until_ns(5 * SECOND), 5 + 12 * SECOND);
        schedule.set_rate(5 * SECOND, rate(10.0));
        assert_eq!(schedule.live_until_ns(7 * SECOND), 5 + 12 * SECOND);
        assert_eq!(schedule.live_until_ns(8 * SECOND), 0, "complete");
        let mut schedule = Schedule::new(rate(1.0), 1, None, None);
        schedule.start(0);
        assert_eq!(schedule.live_until_ns(SECOND), u64::MAX);
        schedule.stop(SECOND);
        assert_eq!(schedule.live_until_ns(SECOND), 0);
    }

    #[test]
    fn a_pause_of_one_stream_lets_the_clock_run() {
        let mut schedule = Schedule::new(rate(10.0), 1, Some(10 * SECOND), None);
        schedule.start(0);
        schedule.set_paused(4 * SECOND, true);
        schedule.set_paused(8 * SECOND, false);
        assert_eq!(schedule.due(u64::MAX), 60);
    }

    #[test]
    fn the_target_follows_pause_limit_and_stop() {
        let mut schedule = Schedule::new(rate(10.0), 1, None, Some(25));
        assert_eq!(schedule.target_now(0), Rate::ZERO);
        schedule.start(0);
        assert_eq!(schedule.target_now(1), rate(10.0));
        schedule.set_held(SECOND, true);
        assert_eq!((schedule.target_now(SECOND), schedule.rate()), (Rate::ZERO, rate(10.0)));
        schedule.set_held(SECOND, false);
        assert_eq!(schedule.due(100 * SECOND), 25);
        assert!(schedule.ended(100 * SECOND));
        let mut schedule = Schedule::new(rate(10.0), 1, None, None);
        schedule.start(0);
        schedule.stop(SECOND);
        assert_eq!((schedule.due(u64::MAX), schedule.target_now(SECOND)), (10, Rate::ZERO));
        assert!(!schedule.set_rate(2 * SECOND, rate(5.0)), "after a stop nothing changes");
    }

    #[test]
    fn phases_are_kept_only_until_every_lane_has_seen_them() {
        let mut schedule = Schedule::new(rate(1.0), 2, None, None);
        schedule.start(0);
        for i in 1..1000 {
            schedule.set_rate(i, rate(1.0 + i as f64));
            let mut taken = 0;
            schedule.catch_up(0, |_| taken += 1);
            assert!(taken > 0);
        }
        assert_eq!(schedule.phases.len(), 1000);
        let mut bases = Vec::new();
        schedule.catch_up(1, |phase| bases.push(phase.base));
        assert_eq!(bases.len(), 1000);
        assert!(bases.is_sorted());
        assert_eq!(schedule.phases.len(), 1);
        schedule.catch_up(1, |_| panic!("nothing is new"));
    }
}
