//! The one place that reads clocks. Durations are monotonic nanoseconds since the process began; wall time is
//! only used to stamp records and files, derived from one reading at start so that it never steps.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock with a fixed relation to wall time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Instant,
    /// Wall time at the epoch, in nanoseconds since 1970.
    wall_epoch_ns: u64,
}

impl Clock {
    /// Starts the clock: now is 0 ns.
    #[must_use]
    pub fn start() -> Self {
        let wall_epoch_ns = u64::try_from(wall_now().as_nanos()).unwrap_or(u64::MAX);
        Self { epoch: Instant::now(), wall_epoch_ns }
    }

    /// Nanoseconds since the clock was started.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
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
