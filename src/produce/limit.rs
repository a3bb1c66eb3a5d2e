//! Who kept the load from what the schedule says: the broker or soakd itself. Only the second voids a run.
//!
//! Late while the client has room is soakd's doing. Late while in flight is at its cap is the broker's, whose acks are slow
//! or absent; but for two cases in which it looks so only because soakd's own threads do not run: they get no CPU (acks that
//! are there are not read), or the whole process was stopped for a while. Acks that do not come at all are the broker's
//! in any case.

use crate::core::counters::LimitedBy;

/// Records later than this are not what the schedule says. A lane that was not run for so long was stopped.
const LATE_NS: u64 = 100_000_000;
/// The load is back on schedule when nothing is older than this…
const ON_TIME_NS: u64 = 50_000_000;
/// …for this long.
const SETTLED_NS: u64 = 200_000_000;

/// A load that is late by soakd's own doing and then blocked by the broker for this long is late by the broker's…
const BLAME_NS: u64 = 1_000_000_000;
/// …or for this long without any ack: a burst that soakd has caused itself is acked.
const ABSENT_NS: u64 = 300_000_000;
/// Acks that are absent for so long are the broker's fault even while soakd's threads get no CPU: some would have been read.
const ABSENT_STARVED_NS: u64 = 3_000_000_000;

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
    /// How long records were in flight and none was acked, beyond the client's linger.
    pub(super) silent_ns: u64,
    /// soakd's own threads did not get the CPU that they wanted.
    pub(super) starved: bool,
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
    looked_ns: Option<u64>,
    /// The running stall.
    stall: Option<Stall>,
    /// The broker held the load back since the backlog was last empty.
    broker_to_blame: bool,
    episode: Option<Episode>,
    on_time_since_ns: Option<u64>,
}

/// A time in which the client or the cap on records in flight took no more.
#[derive(Debug, Clone, Copy)]
struct Stall {
    began_ns: u64,
    felt_ns: u64,
    /// Since then soakd's threads had the CPU that they wanted: before that nobody knows whose stall it was.
    awake_since_ns: Option<u64>,
}

impl Stall {
    /// Whether it is the broker's, in a time that is otherwise soakd's.
    fn is_brokers(&self, seen: &Seen) -> bool {
        let silent_ns = seen.silent_ns.min(self.felt_ns - self.began_ns);
        match self.awake_since_ns {
            None => seen.silent_ns >= ABSENT_STARVED_NS,
            Some(since_ns) => silent_ns >= ABSENT_NS || self.felt_ns.saturating_sub(since_ns) >= BLAME_NS,
        }
    }
}

impl Limits {
    /// At most two changes: from one to blame to the other.
    pub(super) fn observe(&mut self, seen: Seen) -> [Option<Change>; 2] {
        let now_ns = seen.now_ns;
        let gap_ns = now_ns.saturating_sub(self.looked_ns.replace(now_ns).unwrap_or(now_ns));
        // What was due while this thread was stopped is late by that, whether or not there is room for it now.
        let was_stopped = gap_ns > LATE_NS && seen.oldest_ns.saturating_sub(gap_ns) <= LATE_NS;
        self.follow_stall(&seen, was_stopped);
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
            let stall = self.stall.filter(|_| episode.by == LimitedBy::Generator);
            if stall.is_some_and(|stall| stall.is_brokers(&seen)) {
                *episode = Episode { by: LimitedBy::Broker, from_ns: episode.until_ns, until_ns: now_ns };
                self.broker_to_blame = true;
                return [Some(Change::Left(LimitedBy::Generator)), Some(Change::Entered(LimitedBy::Broker))];
            }
            // Until it shows whose a stall is, its time is nobody's. Else an outage that begins in a moment of a busy machine
            // would void the run.
            if stall.is_none() || seen.starved {
                episode.until_ns = now_ns;
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

    fn follow_stall(&mut self, seen: &Seen, was_stopped: bool) {
        let now_ns = seen.now_ns;
        self.stall = self.stall.filter(|stall| now_ns.saturating_sub(stall.felt_ns) < SETTLED_NS);
        // At "max" too: what is left of it when it ends is late by the client's limit.
        if seen.blocked {
            let began_ns = self.stall.map_or(now_ns, |stall| stall.began_ns);
            let awake_since_ns = self.stall.and_then(|stall| stall.awake_since_ns).or(Some(now_ns));
            let awake_since_ns = awake_since_ns.filter(|_| !seen.starved);
            self.stall = Some(Stall { began_ns, felt_ns: now_ns, awake_since_ns });
            let own = was_stopped || (seen.starved && seen.silent_ns < ABSENT_STARVED_NS);
            self.broker_to_blame |= !own && self.episode.is_none();
        } else {
            // A backlog that the broker caused is the broker's until it is worked off.
            self.broker_to_blame &= seen.oldest_ns > ON_TIME_NS || self.stall.is_some();
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
        Seen {
            now_ns: now_ms * MS,
            oldest_ns: oldest_ms * MS,
            blocked,
            claims: false,
            dropped_late: false,
            silent_ns: 0,
            starved: false,
        }
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
        assert_eq!(limits.episode(), episode(LimitedBy::Generator, 1000, 4000), "not known yet");
        for ms in 4900..5200 {
            assert_eq!(limits.observe(seen(ms, 2000, false)), NOTHING);
        }
        assert_eq!(limits.episode(), episode(LimitedBy::Generator, 1000, 5199), "it was soakd's own burst");
    }

    #[test]
    fn a_daemon_that_was_stopped_is_the_generator_although_it_wakes_with_its_queue_full() {
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(1000, 10, false)), NOTHING);
        assert_eq!(limits.observe(seen(4000, 3010, true)), entered(LimitedBy::Generator));
        // But a broker that had stopped before stays the one to blame.
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(1000, 10, true)), NOTHING);
        assert_eq!(limits.observe(seen(1095, 105, true)), entered(LimitedBy::Broker));
        assert_eq!(limits.observe(seen(4000, 3010, true)), NOTHING);
    }

    /// What happened from 1001 to 9000 ms, the broker's cap being reached while soakd was late already, and how often.
    fn outage_while_late(more: impl Fn(u64, Seen) -> Seen) -> (Vec<(u64, Change)>, Option<Episode>) {
        let mut limits = Limits::default();
        assert_eq!(limits.observe(seen(1000, 110, false)), entered(LimitedBy::Generator));
        let mut happened = Vec::new();
        for ms in 1001..=9000 {
            let changes = limits.observe(more(ms, seen(ms, ms - 900, true)));
            happened.extend(changes.into_iter().flatten().map(|change| (ms, change)));
        }
        (happened, limits.episode())
    }

    #[test]
    fn an_outage_that_begins_while_soakd_is_late_is_the_brokers_from_its_beginning() {
        const CHANGES: [Change; 2] = [Change::Left(LimitedBy::Generator), Change::Entered(LimitedBy::Broker)];
        let at = |ms| CHANGES.map(|change| (ms, change)).to_vec();
        let silent = |ms: u64, seen| Seen { silent_ns: (ms - 700) * MS, ..seen };
        assert_eq!(outage_while_late(silent), (at(1301), episode(LimitedBy::Broker, 1000, 9000)));
        let slow = outage_while_late(|_, seen| seen);
        assert_eq!(slow, (at(2001), episode(LimitedBy::Broker, 1000, 9000)), "acks come, too slowly");
    }

    #[test]
    fn a_full_queue_of_a_starved_daemon_is_the_generator_and_a_dead_broker_is_not() {
        let starved = |_, seen| Seen { starved: true, silent_ns: 200 * MS, ..seen };
        assert_eq!(outage_while_late(starved), (Vec::new(), episode(LimitedBy::Generator, 890, 9000)));
        let dead = |ms: u64, seen| Seen { starved: true, silent_ns: (ms - 900) * MS, ..seen };
        let (happened, last) = outage_while_late(dead);
        assert_eq!(happened[1], (3900, Change::Entered(LimitedBy::Broker)));
        assert_eq!(last, episode(LimitedBy::Broker, 3899, 9000));
        // Late for the first time with a full queue.
        for (silent_ms, by) in [(200, LimitedBy::Generator), (3000, LimitedBy::Broker)] {
            let mut limits = Limits::default();
            let late = Seen { starved: true, silent_ns: silent_ms * MS, ..seen(1000, 110, true) };
            assert_eq!(limits.observe(late), entered(by));
        }
        // It has CPU again, and it is still full a second later.
        let for_a_while = |ms, seen| Seen { starved: ms < 3000, ..seen };
        let (happened, last) = outage_while_late(for_a_while);
        assert_eq!(happened[1], (4000, Change::Entered(LimitedBy::Broker)));
        assert_eq!(last, episode(LimitedBy::Broker, 2999, 9000));
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
