//! Who kept the load from what the schedule says: the broker or soakd itself. Only the second voids a run.

use crate::core::counters::LimitedBy;

/// Records later than this are not what the schedule says.
const LATE_NS: u64 = 100_000_000;
/// The load is back on schedule when nothing is older than this…
const ON_TIME_NS: u64 = 50_000_000;
/// …for this long.
const SETTLED_NS: u64 = 200_000_000;

/// A load that is late by soakd's own doing and then blocked by the broker for this long is late by the broker's.
const BLAME_NS: u64 = 1_000_000_000;

/// What a lane saw at a wake-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) now_ns: u64,
    /// Age of the oldest record that was still to be sent, those that were just given up included.
    pub(super) oldest_ns: u64,
    /// The client or the cap on records in flight took no more.
    pub(super) blocked: bool,
    /// The load is at "max".
    pub(super) claims: bool,
    /// Records were given up as too late.
    pub(super) dropped_late: bool,
}

impl Seen {
    /// Whether the load is held back: at "max" the client's limit is what it goes by.
    pub(super) const fn held_back(&self) -> bool {
        self.blocked && !self.claims
    }
}

/// A change of a lane's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Entered(LimitedBy),
    Left(LimitedBy),
}

/// A time that a lane was limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Episode {
    pub(super) by: LimitedBy,
    pub(super) from_ns: u64,
    /// So far: the load may be late again before it counts as back on schedule.
    pub(super) until_ns: u64,
}

/// Follows stalls (the broker takes no more) and limits (the load is late) of one lane, with hysteresis.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// When the running stall began and when it was last felt.
    stall_ns: Option<(u64, u64)>,
    /// The broker held the load back since the backlog was last empty.
    broker_to_blame: bool,
    episode: Option<Episode>,
    on_time_since_ns: Option<u64>,
}

impl Limits {
    /// At most two changes: from one to blame to the other.
    pub(super) fn observe(&mut self, seen: Seen) -> [Option<Change>; 2] {
        self.follow_stall(&seen);
        let now_ns = seen.now_ns;
        let Some(episode) = &mut self.episode else {
            if seen.oldest_ns <= LATE_NS && !seen.dropped_late {
                return [None, None];
            }
            let by = if self.broker_to_blame { LimitedBy::Broker } else { LimitedBy::Generator };
            // The load was late from the moment that the oldest record was due.
            let from_ns = now_ns.saturating_sub(seen.oldest_ns);
            self.episode = Some(Episode { by, from_ns, until_ns: now_ns });
            self.on_time_since_ns = None;
            return [Some(Change::Entered(by)), None];
        };
        if seen.oldest_ns > ON_TIME_NS || seen.dropped_late {
            self.on_time_since_ns = None;
            episode.until_ns = now_ns;
            let stalled_ns = self.stall_ns.map_or(0, |(began_ns, felt_ns)| felt_ns - began_ns);
            if episode.by == LimitedBy::Generator && stalled_ns >= BLAME_NS {
                // Else an outage that begins in a moment of a busy machine would void the run.
                *episode = Episode { by: LimitedBy::Broker, from_ns: now_ns, until_ns: now_ns };
                return [Some(Change::Left(LimitedBy::Generator)), Some(Change::Entered(LimitedBy::Broker))];
            }
            return [None, None];
        }
        let on_time_since_ns = *self.on_time_since_ns.get_or_insert(now_ns);
        episode.until_ns = on_time_since_ns;
        if now_ns.saturating_sub(on_time_since_ns) < SETTLED_NS {
            return [None, None];
        }
        let by = episode.by;
        self.episode = None;
        [Some(Change::Left(by)), None]
    }

    fn follow_stall(&mut self, seen: &Seen) {
        let now_ns = seen.now_ns;
        self.stall_ns = self.stall_ns.filter(|(_, felt_ns)| now_ns.saturating_sub(*felt_ns) < SETTLED_NS);
        // At "max" too: what is left of it when it ends is late by the client's limit.
        if seen.blocked {
            let began_ns = self.stall_ns.map_or(now_ns, |(began_ns, _)| began_ns);
            self.stall_ns = Some((began_ns, now_ns));
            self.broker_to_blame = true;
        } else {
            // A backlog that the broker caused is the broker's until it is worked off.
            self.broker_to_blame &= seen.oldest_ns > ON_TIME_NS || self.stall_ns.is_some();
        }
    }

    /// The running episode.
    pub(super) const fn episode(&self) -> Option<Episode> {
        self.episode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const NOTHING: [Option<Change>; 2] = [None, None];

    fn seen(now_ms: u64, oldest_ms: u64, blocked: bool) -> Seen {
        Seen { now_ns: now_ms * MS, oldest_ns: oldest_ms * MS, blocked, claims: false, dropped_late: false }
    }

    fn entered(by: LimitedBy) -> [Option<Change>; 2] {
        [Some(Change::Entered(by)), None]
    }

    fn left(by: LimitedBy) -> [Option<Change>; 2] {
        [Some(Change::Left(by)), None]
    }

    fn episode(by: LimitedBy, from_ms: u64, until_ms: u64) -> Option<Episode> {
        Some(Episode { by, from_ns: from_ms * MS, until_ns: until_ms * MS })
    }

    #[test]
    fn a_frozen_broker_is_the_broker_until_its_backlog_is_gone() {
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(1000, 50, true)), NOTHING);
        assert_eq!(limits.observe(seen(1060, 110, true)), entered(LimitedBy::Broker));
        assert_eq!(
            limits.observe(seen(5000, 4000, false)),
            NOTHING,
            "catching up is still the broker's doing"
        );
        assert_eq!(limits.observe(seen(9000, 10, false)), NOTHING);
        assert_eq!(limits.episode(), episode(LimitedBy::Broker, 950, 9000));
        assert_eq!(limits.observe(seen(9100, 0, false)), NOTHING);
        assert_eq!(limits.episode(), episode(LimitedBy::Broker, 950, 9000));
        assert_eq!(limits.observe(seen(9200, 0, false)), left(LimitedBy::Broker));
        assert_eq!(limits.episode(), None);
    }

    #[test]
    fn a_sleeping_daemon_is_the_generator_even_when_the_burst_then_fills_the_queue() {
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(4000, 3000, false)), entered(LimitedBy::Generator));
        for ms in 4001..4900 {
            assert_eq!(limits.observe(seen(ms, 2900, true)), NOTHING);
        }
        assert_eq!(limits.episode(), episode(LimitedBy::Generator, 1000, 4899));
    }

    #[test]
    fn an_outage_that_begins_while_soakd_is_late_is_the_brokers_after_a_second() {
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(1000, 110, false)), entered(LimitedBy::Generator));
        let changes: Vec<_> = (1001..=9000).map(|ms| limits.observe(seen(ms, ms - 900, true))).collect();
        let happened: Vec<_> = changes.into_iter().flatten().flatten().collect();
        assert_eq!(happened, [Change::Left(LimitedBy::Generator), Change::Entered(LimitedBy::Broker)]);
        assert_eq!(limits.episode(), episode(LimitedBy::Broker, 2001, 9000));
    }

    #[test]
    fn late_drops_limit_although_nothing_is_left_to_be_late() {
        let mut limits = Limits::default();
        let drop = Seen { dropped_late: true, ..seen(3000, 2500, true) };
        assert_eq!(limits.observe(drop), entered(LimitedBy::Broker));
        assert_eq!(
            limits.episode(),
            episode(LimitedBy::Broker, 500, 3000),
            "from when the dropped ones were due"
        );
        assert_eq!(limits.observe(seen(3010, 0, false)), NOTHING);
        assert_eq!(limits.observe(seen(3210, 0, false)), left(LimitedBy::Broker));
    }

    #[test]
    fn a_backlog_of_a_hundred_milliseconds_is_nothing() {
        let mut limits = Limits::default();
        for ms in 0..1000 {
            assert_eq!(limits.observe(seen(ms, ms % 100, false)), NOTHING);
        }
    }

    #[test]
    fn what_is_left_when_max_ends_is_late_by_the_clients_limit_and_not_before() {
        let mut limits = Limits::default();
        for ms in 0..3000 {
            let at_max = Seen { claims: true, ..seen(ms, 0, true) };
            assert!(!at_max.held_back());
            assert_eq!(limits.observe(at_max), NOTHING);
        }
        // Now the client has room, and it is the slower rate's bound on catching up that they wait for.
        assert_eq!(limits.observe(seen(3010, 150, false)), entered(LimitedBy::Broker));
        assert_eq!(limits.observe(seen(4000, 0, false)), NOTHING);
        assert_eq!(limits.observe(seen(4200, 0, false)), left(LimitedBy::Broker));
        assert_eq!(limits.observe(seen(8000, 2000, false)), entered(LimitedBy::Generator));
    }
}
