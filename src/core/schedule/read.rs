//! What a schedule says of itself.

use std::sync::Arc;

use super::{Plan, Schedule, Stage};
use crate::core::pace::Pace;
use crate::core::profile::Profile;
use crate::core::rate::RECORD;

/// The profile that a schedule follows, and where in it it is.
#[derive(Debug, Clone)]
pub struct Position {
    /// The profile.
    pub profile: Arc<Profile>,
    /// Its clock, in nanoseconds; none before it begins.
    pub at_ns: Option<u64>,
}

/// How many records the plan has asked for, for figures over time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Planned {
    /// `A`, in records; what is sent at "max" is not in it.
    pub records: f64,
    /// For this instant (monotonic).
    pub at_ns: u64,
    /// Whether the rate moves all the time, so that the pace of one moment says nothing about a second.
    pub moving: bool,
}

impl Schedule {
    /// How many records are due before now.
    #[must_use]
    pub fn due(&mut self, now_ns: u64) -> u64 {
        self.advance(now_ns);
        let Some(last) = self.phases.back().copied() else { return 0 };
        let due = if last.shape.is_max() {
            self.furthest(&last)
        } else {
            self.arrivals.due(last.origin, &mut self.cursor, last.accrued(now_ns)).max(last.first)
        };
        due.min(self.max_records.unwrap_or(u64::MAX))
    }

    /// Whether nothing more will become due: stopped, or at the limit of time or records.
    #[must_use]
    pub fn ended(&mut self, now_ns: u64) -> bool {
        self.advance(now_ns);
        match self.stage {
            Stage::Stopped => true,
            Stage::Before | Stage::Preload => false,
            Stage::Running => {
                self.phases.back().is_some_and(|last| now_ns >= last.until_ns)
                    || self.max_records.is_some_and(|max| self.complete(now_ns, max))
            }
        }
    }

    /// Whether so many records are due; at "max" in every lane, because what another lane has claimed may be far ahead.
    fn complete(&mut self, now_ns: u64, max_records: u64) -> bool {
        match self.phases.back() {
            Some(last) if last.shape.is_max() => self.claimed.iter().all(|claimed| *claimed >= max_records),
            _ => self.due(now_ns) >= max_records,
        }
    }

    /// Whether the load is at "max", where records become due as they are claimed, before they are handed over.
    #[must_use]
    pub fn is_at_max(&self) -> bool {
        self.phases.back().is_some_and(|last| last.shape.is_max())
    }

    /// When the run's clock began (monotonic), if it has.
    #[must_use]
    pub const fn started_ns(&self) -> Option<u64> {
        self.started_ns
    }

    /// Instants before this one belong to the running load: its planned end; 0 before the run's clock begins, while paused,
    /// and when the load was stopped or is as large as it may get.
    #[must_use]
    pub fn live_until_ns(&mut self, now_ns: u64) -> u64 {
        let complete = self.max_records.is_some_and(|max| self.due(now_ns) >= max);
        self.advance(now_ns);
        match self.phases.back() {
            Some(last) if self.stage == Stage::Running && !self.is_paused() && !complete => last.until_ns,
            _ => 0,
        }
    }

    /// The run's clock, however long the load is to be.
    pub(super) fn clock_ns(&self, now_ns: u64) -> u64 {
        self.ran_ns + self.running_since.map_or(0, |since| now_ns.saturating_sub(since))
    }

    /// How long the load has run, without the preload and pauses of the whole load.
    #[must_use]
    pub fn ran_ns(&self, now_ns: u64) -> u64 {
        self.clock_ns(now_ns).min(self.limit_ns.unwrap_or(u64::MAX))
    }

    /// The pace that is followed now: 0 before the start, while paused and after the end.
    #[must_use]
    pub fn target_now(&mut self, now_ns: u64) -> Pace {
        if self.ended(now_ns) {
            return Pace::default();
        }
        self.phases
            .back()
            .map_or(Pace::default(), |last| last.shape.pace(now_ns.saturating_sub(last.start_ns)))
    }

    /// The pace that is set, whether paused or not: of a profile the one of this moment.
    #[must_use]
    pub fn pace(&self, now_ns: u64) -> Pace {
        match &self.plan {
            Plan::Pace(pace) => *pace,
            Plan::Profile { profile, begins_ns } => {
                profile.pace(self.clock_ns(now_ns).saturating_sub(*begins_ns))
            }
        }
    }

    /// The highest pace that the plan comes to; that of the preload while it lasts.
    #[must_use]
    pub fn peak(&self) -> Pace {
        match &self.plan {
            _ if self.stage == Stage::Preload && self.preload > 0 => Pace::Max,
            Plan::Pace(pace) => *pace,
            Plan::Profile { profile, .. } => profile.peak(),
        }
    }

    /// The pace of the settings; of a profile its highest.
    #[must_use]
    pub const fn configured_pace(&self) -> Pace {
        self.configured
    }

    /// The profile that is followed, if one is.
    #[must_use]
    pub fn position(&self, now_ns: u64) -> Option<Position> {
        let Plan::Profile { profile, begins_ns } = &self.plan else { return None };
        let at_ns = (self.stage != Stage::Before && self.stage != Stage::Preload)
            .then(|| self.clock_ns(now_ns).checked_sub(*begins_ns))
            .flatten();
        Some(Position { profile: Arc::clone(profile), at_ns })
    }

    /// How many records the plan has asked for up to now.
    #[must_use]
    pub fn planned(&mut self, now_ns: u64) -> Planned {
        self.advance(now_ns);
        let accrued = self.phases.back().map_or(0, |last| last.accrued(now_ns));
        let moving = match &self.plan {
            Plan::Pace(_) => false,
            Plan::Profile { .. } => self.piece(self.clock_ns(now_ns)).moving,
        };
        Planned { records: accrued as f64 / RECORD as f64, at_ns: now_ns, moving }
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

    /// When the rate was last set, or a segment of a profile began (monotonic); the start of the load counts.
    #[must_use]
    pub const fn rate_changed_ns(&self) -> u64 {
        self.rate_changed_ns
    }

    /// The size limit of the load, preload included, if there is one.
    #[must_use]
    pub const fn max_records(&self) -> Option<u64> {
        self.max_records
    }

    /// Records that are sent before the run's clock begins.
    #[must_use]
    pub const fn preload(&self) -> u64 {
        self.preload
    }

    /// How records arrive.
    #[must_use]
    pub const fn arrivals(&self) -> crate::core::arrivals::Arrivals {
        self.arrivals
    }
}
