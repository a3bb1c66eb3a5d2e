//! soakd's own health: whether its process has the CPU that it wants, and whether the clock can be trusted. A daemon
//! that is at its limit makes no load that says anything about the system under test.
//!
//! At its CPU limit is a process that uses all the cores that it may use, or whose cgroup is throttled in most periods of its
//! quota. A machine that is only busy is not a limit by itself: whether the load suffers from it shows in its being late.
//! But then it says why, and it says that acks which look slow may only be read late ([`OwnHealth::is_starved`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Share of the allowed cores that counts as all of them.
const ALL_CORES: f64 = 0.95;
/// Share of a quota's periods in which the group was throttled that counts as being held back.
const THROTTLED: f64 = 0.5;
/// A thread that is hardly ever asleep has no time left…
const BUSY: f64 = 0.9;
/// …and it is short of CPU when it waits for this share of the time, or when the machine's host takes so much.
const WAITED: f64 = 0.2;
/// At the limit for this long is being limited…
const ENTER_NS: u64 = 2_000_000_000;
/// …until it was not for this long.
const LEAVE_NS: u64 = 2_000_000_000;
/// What a lane sees now may come from what was measured up to this long ago.
const STARVED_FOR_NS: u64 = 1_500_000_000;

/// Cumulative figures of the own process and machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnReading {
    /// When it was read (monotonic).
    pub at_ns: u64,
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// Cores that the process may use: by its affinity and its cgroup's quota. 0: not known.
    pub allowed_cores: f64,
    /// The threads that make the load, by id.
    pub threads: BTreeMap<u32, ThreadReading>,
    /// Periods of the cgroup's quota, and those in which it was throttled; absent without a quota.
    pub quota: Option<(u64, u64)>,
    /// Ticks of all the machine's CPUs, and those that the machine's host took for others.
    pub machine_ticks: (u64, u64),
    /// Times that the wall clock was seen to be set.
    pub clock_steps: u64,
}

/// A thread since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadReading {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time that it could have run and no CPU was free.
    pub waited_ns: u64,
}

/// What came of a reading.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnChange {
    /// soakd has become the limit, for this reason.
    Entered(String),
    /// It is not any more.
    Left,
}

/// Shares between two readings.
#[derive(Debug, Clone, Copy, Default)]
struct Shares {
    of_cores: f64,
    allowed_cores: f64,
    throttled: f64,
    waited: f64,
    stolen: f64,
    thread_starved: bool,
}

/// Follows the own health, with hysteresis.
#[derive(Debug, Clone, Default)]
pub struct OwnHealth {
    last: Option<OwnReading>,
    shares: Shares,
    measured: bool,
    /// Since when it is at a limit without a break.
    at_limit_since_ns: Option<u64>,
    /// When it was last at a limit or the clock was set.
    bad_ns: u64,
    starved_ns: Option<u64>,
    /// When the running episode began.
    limited_from_ns: Option<u64>,
}

impl OwnHealth {
    /// Takes in a reading; to be told about twice a second.
    pub fn observe(&mut self, now: OwnReading) -> Option<OwnChange> {
        let last = self.last.replace(now.clone())?;
        let (from_ns, now_ns) = (last.at_ns, now.at_ns);
        if now_ns <= from_ns {
            return None;
        }
        self.shares = Shares::between(&last, &now);
        self.measured = true;
        if self.shares.is_starved() {
            self.starved_ns = Some(now_ns);
        }
        let stepped = now.clock_steps > last.clock_steps;
        let since_ns = self.shares.at_limit().then(|| self.at_limit_since_ns.unwrap_or(from_ns));
        self.at_limit_since_ns = since_ns;
        if since_ns.is_some() || stepped {
            self.bad_ns = now_ns;
        }
        if self.limited_from_ns.is_some() {
            let over = now_ns.saturating_sub(self.bad_ns) >= LEAVE_NS;
            return over.then(|| {
                self.limited_from_ns = None;
                OwnChange::Left
            });
        }
        let long = since_ns.filter(|since_ns| now_ns - since_ns >= ENTER_NS);
        // While the clock was set nobody knows how long it took: no load is sure in this time.
        let (begun_ns, reason) = match (stepped, long) {
            (true, _) => (from_ns, "the machine's clock was set".to_owned()),
            (false, Some(since_ns)) => (since_ns, self.shares.limit_text()),
            (false, None) => return None,
        };
        self.limited_from_ns = Some(begun_ns);
        Some(OwnChange::Entered(reason))
    }

    /// The running episode of being the limit: from its beginning to the last reading that showed it.
    #[must_use]
    pub fn limited(&self) -> Option<(u64, u64)> {
        self.limited_from_ns.map(|from_ns| (from_ns, self.bad_ns))
    }

    /// Whether soakd's threads were short of CPU just now, so that what looks slow may be soakd's own slowness.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        let now_ns = self.last.as_ref().map_or(0, |last| last.at_ns);
        self.starved_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < STARVED_FOR_NS)
    }

    /// What was measured last, in words: what a reader wants to know when the load is late. Empty before the second reading.
    #[must_use]
    pub fn text(&self) -> String {
        if self.measured { self.shares.text() } else { String::new() }
    }
}

impl Shares {
    #[allow(clippy::cast_precision_loss)]
    fn between(from: &OwnReading, to: &OwnReading) -> Self {
        let passed_ns = to.at_ns.saturating_sub(from.at_ns) as f64;
        let share = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        let (ticks, stolen) = (to.machine_ticks, from.machine_ticks);
        let stolen = share(ticks.1.saturating_sub(stolen.1), ticks.0.saturating_sub(stolen.0));
        let throttled = match (from.quota, to.quota) {
            (Some(from), Some(to)) => share(to.1.saturating_sub(from.1), to.0.saturating_sub(from.0)),
            _ => 0.0,
        };
        let (mut waited, mut thread_starved) = (0.0_f64, false);
        for (id, now) in &to.threads {
            let Some(before) = from.threads.get(id) else { continue };
            let waiting = now.waited_ns.saturating_sub(before.waited_ns) as f64 / passed_ns;
            let busy = now.cpu_ns.saturating_sub(before.cpu_ns) as f64 / passed_ns + waiting;
            waited = waited.max(waiting.min(1.0));
            thread_starved |= busy >= BUSY && (waiting >= WAITED || stolen >= WAITED);
        }
        let cores = to.cpu_ns.saturating_sub(from.cpu_ns) as f64 / passed_ns;
        let of_cores = if to.allowed_cores > 0.0 { cores / to.allowed_cores } else { 0.0 };
        Self { of_cores, allowed_cores: to.allowed_cores, throttled, waited, stolen, thread_starved }
    }

    fn at_limit(&self) -> bool {
        self.of_cores >= ALL_CORES || self.throttled >= THROTTLED
    }

    fn is_starved(&self) -> bool {
        self.at_limit() || self.thread_starved
    }

    fn limit_text(&self) -> String {
        format!("soakd is at the limit of its CPU: {}", self.text())
    }

    fn text(&self) -> String {
        let percent = |share: f64| (share * 100.0).clamp(0.0, 100.0);
        let mut text = String::new();
        if self.allowed_cores > 0.0 {
            let _ = write!(
                text,
                "it uses {:.0} % of the {:.2} cores that it may use, ",
                percent(self.of_cores),
                self.allowed_cores
            );
        }
        if self.throttled > 0.0 {
            let _ =
                write!(text, "its quota throttled it in {:.0} % of the periods, ", percent(self.throttled));
        }
        let _ =
            write!(text, "its threads waited for a CPU for up to {:.0} % of the time", percent(self.waited));
        if self.stolen >= 0.01 {
            let _ = write!(text, ", the machine's host took {:.0} %", percent(self.stolen));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u64 = 500_000_000;

    /// Readings every half second: cores used of two, share that the one thread ran and waited.
    struct Sim {
        health: OwnHealth,
        now: OwnReading,
    }

    impl Sim {
        fn new() -> Self {
            let threads = BTreeMap::from([(7, ThreadReading::default())]);
            let now =
                OwnReading { allowed_cores: 2.0, threads, quota: Some((0, 0)), ..OwnReading::default() };
            let mut health = OwnHealth::default();
            assert_eq!(health.observe(now.clone()), None);
            Self { health, now }
        }

        fn step(&mut self, cores: f64, ran: f64, waited: f64, throttled: u64) -> Option<OwnChange> {
            self.now.at_ns += HALF;
            self.now.cpu_ns += (cores * HALF as f64) as u64;
            let thread = self.now.threads.get_mut(&7).unwrap();
            thread.cpu_ns += (ran * HALF as f64) as u64;
            thread.waited_ns += (waited * HALF as f64) as u64;
            let (periods, before) = self.now.quota.unwrap();
            self.now.quota = Some((periods + 5, before + throttled));
            self.health.observe(self.now.clone())
        }

        fn seconds(&self) -> Option<(f64, f64)> {
            self.health.limited().map(|(from, until)| (from as f64 / 1e9, until as f64 / 1e9))
        }
    }

    #[test]
    fn all_cores_for_two_seconds_are_the_limit_from_their_beginning_until_they_are_free_again() {
        let mut sim = Sim::new();
        assert_eq!(sim.step(0.3, 0.2, 0.0, 0), None);
        for _ in 0..3 {
            assert_eq!(sim.step(1.95, 0.9, 0.0, 0), None, "a burst is no limit");
        }
        let Some(OwnChange::Entered(reason)) = sim.step(1.95, 0.9, 0.05, 0) else { panic!() };
        assert!(reason.contains("98 % of the 2.00 cores") && reason.contains("up to 5 %"), "{reason}");
        assert_eq!(sim.seconds(), Some((0.5, 2.5)));
        assert!(sim.health.is_starved());
        for _ in 0..3 {
            assert_eq!(sim.step(0.5, 0.2, 0.0, 0), None);
        }
        assert_eq!(sim.seconds(), Some((0.5, 2.5)), "the time of settling is not counted");
        assert!(!sim.health.is_starved());
        assert_eq!(sim.step(0.5, 0.2, 0.0, 0), Some(OwnChange::Left));
        assert_eq!(sim.seconds(), None);
    }

    #[test]
    fn a_throttled_group_is_the_limit_whoever_in_it_used_the_quota() {
        let mut sim = Sim::new();
        for _ in 0..3 {
            assert_eq!(sim.step(0.1, 0.1, 0.0, 3), None);
        }
        let Some(OwnChange::Entered(reason)) = sim.step(0.1, 0.1, 0.0, 3) else { panic!() };
        assert!(reason.contains("throttled it in 60 % of the periods"), "{reason}");
        let mut sim = Sim::new();
        assert!((0..20).all(|_| sim.step(0.1, 0.1, 0.0, 1).is_none()), "now and then is no limit");
    }

    #[test]
    fn a_busy_machine_starves_but_is_no_limit_by_itself() {
        let mut sim = Sim::new();
        assert!((0..20).all(|_| sim.step(0.6, 0.5, 0.45, 0).is_none()));
        assert!(sim.health.is_starved() && sim.health.text().contains("up to 45 %"), "{}", sim.health.text());
        // A client that spins because its broker is slow has all the CPU that it wants.
        let mut sim = Sim::new();
        assert!((0..20).all(|_| sim.step(1.1, 1.0, 0.02, 0).is_none()) && !sim.health.is_starved());
        // Its host took it.
        sim.now.machine_ticks = (1000, 300);
        assert_eq!(sim.step(1.0, 1.0, 0.0, 0), None);
        assert!(sim.health.is_starved() && sim.health.text().contains("host took 30 %"));
    }

    #[test]
    fn a_clock_that_is_set_is_the_limit_for_the_time_between_two_looks() {
        let mut sim = Sim::new();
        assert_eq!(sim.step(0.1, 0.1, 0.0, 0), None);
        sim.now.clock_steps += 1;
        let reason = "the machine's clock was set".to_owned();
        assert_eq!(sim.step(0.1, 0.1, 0.0, 0), Some(OwnChange::Entered(reason)));
        assert_eq!(sim.seconds(), Some((0.5, 1.0)));
        let changes: Vec<_> = (0..8).filter_map(|_| sim.step(0.1, 0.1, 0.0, 0)).collect();
        assert_eq!(changes, [OwnChange::Left]);
    }
}
