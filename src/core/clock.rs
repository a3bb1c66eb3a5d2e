//! The one place that reads clocks. Durations are monotonic nanoseconds since the process began; wall time is
//! only used to stamp records and files, derived from one reading at start so that it never steps.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock with a fixed relation to wall time.
///
/// A restart goes on with the clock of the process before, so that times in its record stay what they are and ages go on.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    /// What the clock showed then.
    started_ns: u64,
    /// Wall time at the epoch, in nanoseconds since 1970.
    wall_epoch_ns: u64,
}

impl Clock {
    /// Starts the clock: now is 0 ns.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now(), started_ns: 0, wall_epoch_ns: wall_now_ns() }
    }

    /// Goes on with an earlier process's clock, whose [`Self::wall_epoch_ns`] and last time were kept. How long there was
    /// no process only the wall clock knows; where that was set back meanwhile, no time has passed.
    #[must_use]
    pub fn resume(wall_epoch_ns: u64, last_ns: u64) -> Self {
        let started_ns = wall_now_ns().saturating_sub(wall_epoch_ns).max(last_ns);
        Self { started: Instant::now(), started_ns, wall_epoch_ns }
    }

    /// Wall time at 0, in nanoseconds since 1970: what a record keeps to go on with the clock after a restart.
    #[must_use]
    pub const fn wall_epoch_ns(&self) -> u64 {
        self.wall_epoch_ns
    }

    /// Nanoseconds since the clock was started, by this process or the one that it goes on from.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        let elapsed_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.started_ns.saturating_add(elapsed_ns)
    }

    /// Nanoseconds since 1970, which fit until the year 2554.
    const fn wall_ns(&self, at_ns: u64) -> u64 {
        self.wall_epoch_ns.saturating_add(at_ns)
    }

    /// The wall time of an instant of this clock, in milliseconds since 1970 (Kafka's timestamp unit).
    #[must_use]
    pub fn wall_ms(&self, at_ns: u64) -> i64 {
        // Below 2^63 whatever is divided.
        (self.wall_ns(at_ns) / 1_000_000) as i64
    }

    /// The instant of this clock at a wall time in milliseconds since 1970; 0 for what was before its start.
    #[must_use]
    pub const fn at_wall_ms(&self, wall_ms: u64) -> u64 {
        wall_ms.saturating_mul(1_000_000).saturating_sub(self.wall_epoch_ns)
    }

    /// The wall time of an instant of this clock, in seconds since 1970 (Prometheus' timestamp unit).
    #[must_use]
    pub fn wall_seconds(&self, at_ns: u64) -> f64 {
        Duration::from_nanos(self.wall_ns(at_ns)).as_secs_f64()
    }

    /// The wall time of an instant of this clock as RFC 3339 in UTC with milliseconds.
    #[must_use]
    pub fn rfc3339(&self, at_ns: u64) -> String {
        let wall = UNIX_EPOCH + Duration::from_nanos(self.wall_ns(at_ns));
        humantime::format_rfc3339_millis(wall).to_string()
    }
}

/// Wall time since 1970, straight from the system.
#[allow(clippy::disallowed_methods)]
#[must_use]
pub fn wall_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn wall_now_ns() -> u64 {
    u64::try_from(wall_now().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_after_a_restart_and_never_back() {
        let first = Clock::start();
        let then_ns = first.now_ns();
        let next = Clock::resume(first.wall_epoch_ns(), then_ns);
        assert!(next.now_ns() >= then_ns && next.wall_ms(then_ns) == first.wall_ms(then_ns));
        // An hour away; the wall clock set back by an hour.
        const HOUR_NS: u64 = 3_600_000_000_000;
        let away = Clock::resume(first.wall_epoch_ns() - HOUR_NS, then_ns).now_ns();
        assert!((HOUR_NS..2 * HOUR_NS).contains(&away), "{away}");
        let back = Clock::resume(first.wall_epoch_ns() + HOUR_NS, 5 * HOUR_NS).now_ns();
        assert!((5 * HOUR_NS..6 * HOUR_NS).contains(&back), "{back}");
    }
}
