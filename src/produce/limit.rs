//! Who kept the load from what the schedule says: the broker or soakd itself. Only the second voids a run.

use crate::core::stream::LimitedBy;

/// Records later than this are not what the schedule says.
const LATE_NS: u64 = 100_000_000;
/// The load is back on schedule when nothing is older than this…
const ON_TIME_NS: u64 = 50_000_000;
/// …for this long.
const SETTLED_NS: u64 = 200_000_000;

/// What a lane saw at a wake-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) now_ns: u64,
    /// Age of the oldest record that is still to be sent.
    pub(super) oldest_ns: u64,
    /// The client or the cap on records in flight took no more.
    pub(super) blocked: bool,
    /// Records were given up as too late.
    pub(super) dropped_late: bool,
}

/// A change worth an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Entered(LimitedBy),
    Left(LimitedBy, u64),
}

/// Follows stalls (the broker takes no more) and limits (the load is late), with hysteresis.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// When the running stall was last felt.
    stall_ns: Option<u64>,
    stalls: u64,
    /// The broker held the load back since the backlog was last empty.
    broker_to_blame: bool,
    limited: Option<(LimitedBy, u64)>,
    on_time_since_ns: Option<u64>,
    /// Time of ended episodes.
    total_ns: [u64; LimitedBy::ALL.len()],
}

impl Limits {
    pub(super) fn observe(&mut self, seen: Seen) -> Option<Change> {
        let now_ns = seen.now_ns;
        if seen.blocked {
            self.stalls += u64::from(self.stall_ns.is_none());
            self.stall_ns = Some(now_ns);
            self.broker_to_blame = true;
        } else {
            self.stall_ns = self.stall_ns.filter(|felt_ns| now_ns.saturating_sub(*felt_ns) < SETTLED_NS);
            // A backlog that the broker caused is the broker's until it is worked off.
            self.broker_to_blame &= seen.oldest_ns > ON_TIME_NS || self.stall_ns.is_some();
        }
        match self.limited {
            None if seen.oldest_ns > LATE_NS || seen.dropped_late => {
                let by = if self.broker_to_blame { LimitedBy::Broker } else { LimitedBy::Generator };
                // The load was late from the moment that the oldest record was due.
                self.limited = Some((by, now_ns.saturating_sub(seen.oldest_ns)));
                self.on_time_since_ns = None;
                Some(Change::Entered(by))
            }
            Some((by, since_ns)) => {
                if seen.oldest_ns > ON_TIME_NS || seen.dropped_late {
                    self.on_time_since_ns = None;
                    return None;
                }
                let on_time_since_ns = *self.on_time_since_ns.get_or_insert(now_ns);
                if now_ns.saturating_sub(on_time_since_ns) < SETTLED_NS {
                    return None;
                }
                let length_ns = on_time_since_ns.saturating_sub(since_ns);
                if let Some(total_ns) = self.total_ns.get_mut(by as usize) {
                    *total_ns += length_ns;
                }
                self.limited = None;
                Some(Change::Left(by, length_ns))
            }
            None => None,
        }
    }

    /// Who limits the load now.
    pub(super) fn limited(&self) -> Option<LimitedBy> {
        self.limited.map(|(by, _)| by)
    }

    /// How often the broker began to hold the load back.
    pub(super) const fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Time limited, by [`LimitedBy`], the running episode included.
    pub(super) fn limited_ns(&self, now_ns: u64) -> [u64; LimitedBy::ALL.len()] {
        let mut total_ns = self.total_ns;
        if let Some((by, since_ns)) = self.limited
            && let Some(total_ns) = total_ns.get_mut(by as usize)
        {
            let until_ns = self.on_time_since_ns.unwrap_or(now_ns);
            *total_ns += until_ns.saturating_sub(since_ns);
        }
        total_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(now_ms: u64, oldest_ms: u64, blocked: bool) -> Seen {
        Seen { now_ns: now_ms * MS, oldest_ns: oldest_ms * MS, blocked, dropped_late: false }
    }

    #[test]
    fn a_frozen_broker_is_the_broker_until_its_backlog_is_gone() {
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(1000, 50, true)), None);
        assert_eq!(limits.observe(seen(1060, 110, true)), Some(Change::Entered(LimitedBy::Broker)));
        assert_eq!(limits.observe(seen(5000, 4000, false)), None, "catching up is still the broker's doing");
        assert_eq!(limits.observe(seen(9000, 10, false)), None);
        assert_eq!(limits.observe(seen(9200, 0, false)), Some(Change::Left(LimitedBy::Broker, 8050 * MS)));
        assert_eq!((limits.stalls(), limits.limited()), (1, None));
        assert_eq!(limits.limited_ns(9300 * MS), [0, 8050 * MS]);
    }

    #[test]
    fn a_sleeping_daemon_is_the_generator_even_when_the_burst_then_fills_the_queue() {
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(4000, 3000, false)), Some(Change::Entered(LimitedBy::Generator)));
        assert_eq!(limits.observe(seen(4001, 2900, true)), None);
        assert_eq!(limits.limited(), Some(LimitedBy::Generator));
        assert_eq!(limits.limited_ns(4001 * MS), [3001 * MS, 0]);
    }

    #[test]
    fn late_drops_limit_although_nothing_is_left_to_be_late() {
        let mut limits = Limits::default();
        let drop = Seen { dropped_late: true, ..seen(10, 0, true) };
        assert_eq!(limits.observe(drop), Some(Change::Entered(LimitedBy::Broker)));
        assert_eq!(limits.observe(seen(20, 0, false)), None);
        assert_eq!(limits.observe(seen(220, 0, false)), Some(Change::Left(LimitedBy::Broker, 10 * MS)));
    }

    #[test]
    fn a_flickering_queue_is_one_stall() {
        let mut limits = Limits::default();
        for ms in 0..100 {
            limits.observe(seen(ms, 0, ms % 3 == 0));
        }
        assert_eq!(limits.stalls(), 1);
        limits.observe(seen(400, 0, false));
        limits.observe(seen(401, 0, true));
        assert_eq!(limits.stalls(), 2);
    }

    #[test]
    fn a_backlog_of_a_hundred_milliseconds_is_nothing() {
        let mut limits = Limits::default();
        for ms in 0..1000 {
            assert_eq!(limits.observe(seen(ms, ms % 100, false)), None);
        }
    }
}
