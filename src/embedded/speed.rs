//! How fast the ingestor may go: a token bucket in exact integers, on injected time.

use std::time::Duration;

use crate::core::rate::Rate;

/// What one record costs, in the bucket's unit: a millionth of a record a second, for a nanosecond.
const RECORD: u128 = 1_000_000 * 1_000_000_000;
/// Allowance that was not used because there was nothing to read is kept for so long: longer than the gap between two
/// fetches, short enough that a limit stays a limit.
const KEPT_NS: u128 = 100_000_000;

/// How fast the ingestor may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Speed {
    /// Records a second; `None` is no limit.
    pub limit: Option<Rate>,
    /// Nothing is ingested while this is set; the limit is kept for later.
    pub stopped: bool,
}

/// Turns a [`Speed`] into a number of records that may be ingested now.
///
/// As long as there is something to read the limit holds exactly over any length of time, however unevenly the bucket is
/// asked; only allowance that nothing was there for is lost.
#[derive(Debug, Default)]
pub struct Bucket {
    speed: Speed,
    credit: u128,
    filled_ns: u64,
}

impl Bucket {
    /// An empty bucket.
    #[must_use]
    pub fn new(now_ns: u64, speed: Speed) -> Self {
        Self { speed, credit: 0, filled_ns: now_ns }
    }

    /// The speed that is set.
    #[must_use]
    pub const fn speed(&self) -> Speed {
        self.speed
    }

    /// Sets another speed from now on: what was due at the old one stays due up to the fraction of a record.
    pub fn set_speed(&mut self, now_ns: u64, speed: Speed) {
        self.fill(now_ns);
        // Whole records that were not taken yet belong to the old speed: stopping must stop at once.
        self.credit %= RECORD;
        self.speed = speed;
    }

    /// How many of `wanted` records may be ingested now.
    pub fn allowance(&mut self, now_ns: u64, wanted: u64) -> u64 {
        self.fill(now_ns);
        match self.speed {
            Speed { stopped: true, .. } => 0,
            Speed { limit: None, .. } => wanted,
            Speed { limit: Some(_), .. } => {
                wanted.min(u64::try_from(self.credit / RECORD).unwrap_or(u64::MAX))
            }
        }
    }

    /// Takes what was ingested out of the bucket.
    pub fn spend(&mut self, records: u64) {
        if self.speed.limit.is_some() {
            self.credit = self.credit.saturating_sub(u128::from(records) * RECORD);
        }
    }

    /// There was nothing to read: what is saved up is cut to a tenth of a second, or one record.
    pub fn nothing_to_read(&mut self) {
        if let Some(limit) = self.speed.limit {
            self.credit = self.credit.min((u128::from(limit.micros()) * KEPT_NS).max(RECORD));
        }
    }

    /// How long until a record may be ingested, at most `longest`.
    #[must_use]
    pub fn wait(&self, longest: Duration) -> Duration {
        match self.speed {
            Speed { stopped: false, limit: None } => Duration::ZERO,
            Speed { stopped: false, limit: Some(limit) } if !limit.is_zero() => {
                let missing_ns = RECORD.saturating_sub(self.credit).div_ceil(u128::from(limit.micros()));
                longest.min(Duration::from_nanos(u64::try_from(missing_ns).unwrap_or(u64::MAX)))
            }
            Speed { .. } => longest,
        }
    }

    fn fill(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        if let Speed { stopped: false, limit: Some(limit) } = self.speed {
            self.credit = self.credit.saturating_add(u128::from(limit.micros()) * u128::from(passed_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn per_second(records: f64) -> Speed {
        Speed { limit: Some(Rate::from_per_second(records).unwrap()), stopped: false }
    }

    fn ingest(bucket: &mut Bucket, now_ns: u64) -> u64 {
        let records = bucket.allowance(now_ns, u64::MAX);
        bucket.spend(records);
        records
    }

    #[test]
    fn a_limit_is_exact_however_unevenly_it_is_asked() {
        for rate in [0.5, 7.0, 333.333_333, 50_000.0] {
            let mut bucket = Bucket::new(0, per_second(rate));
            let (mut now_ns, mut step_ns, mut records) = (0, 1, 0);
            while now_ns < 3_600 * SECOND_NS {
                // From nanoseconds to a minute-long stall.
                step_ns = (step_ns * 7919 + 12_345) % (60 * SECOND_NS);
                now_ns = (now_ns + step_ns).min(3_600 * SECOND_NS);
                records += ingest(&mut bucket, now_ns);
            }
            let micros = u128::from(Rate::from_per_second(rate).unwrap().micros());
            assert_eq!(u128::from(records), 3_600 * micros / 1_000_000, "{rate}/s");
        }
    }

    #[test]
    fn stopped_is_nothing_and_no_limit_is_everything() {
        let mut bucket = Bucket::new(0, Speed::default());
        assert_eq!(ingest(&mut bucket, 1), u64::MAX);
        bucket.set_speed(SECOND_NS, Speed { stopped: true, limit: None });
        assert_eq!(ingest(&mut bucket, 100 * SECOND_NS), 0);
        assert_eq!(bucket.wait(Duration::from_millis(5)), Duration::from_millis(5));
    }

    #[test]
    fn a_stop_leaves_no_allowance_and_earns_none() {
        let mut bucket = Bucket::new(0, per_second(1_000.0));
        let stopped = Speed { stopped: true, ..per_second(1_000.0) };
        bucket.set_speed(10 * SECOND_NS, stopped);
        assert_eq!(bucket.allowance(20 * SECOND_NS, 9), 0);
        bucket.set_speed(30 * SECOND_NS, per_second(1_000.0));
        assert_eq!(bucket.allowance(30 * SECOND_NS, 9), 0);
        assert_eq!(ingest(&mut bucket, 31 * SECOND_NS), 1_000);
    }

    #[test]
    fn r6_idle_time_is_not_saved_up_for_a_burst() {
        let mut bucket = Bucket::new(0, per_second(1_000.0));
        bucket.allowance(3_600 * SECOND_NS, 1);
        bucket.nothing_to_read();
        assert_eq!(ingest(&mut bucket, 3_600 * SECOND_NS), 100);
        // A slow limit keeps the one record that it has earned.
        let mut slow = Bucket::new(0, per_second(0.5));
        slow.allowance(10 * SECOND_NS, 1);
        slow.nothing_to_read();
        assert_eq!(ingest(&mut slow, 10 * SECOND_NS), 1);
    }

    #[test]
    fn the_wait_ends_when_the_next_record_is_due() {
        let mut bucket = Bucket::new(0, per_second(4.0));
        assert_eq!(bucket.wait(Duration::from_secs(1)), Duration::from_millis(250));
        assert_eq!(bucket.wait(Duration::from_millis(5)), Duration::from_millis(5));
        assert_eq!(bucket.allowance(249_999_999, 9), 0);
        assert_eq!(bucket.allowance(250_000_000, 9), 1);
    }

    #[test]
    fn z4_a_clock_that_goes_back_takes_nothing_away() {
        let mut bucket = Bucket::new(SECOND_NS, per_second(10.0));
        assert_eq!(ingest(&mut bucket, 2 * SECOND_NS), 10);
        assert_eq!(ingest(&mut bucket, SECOND_NS), 0);
        assert_eq!(ingest(&mut bucket, 2 * SECOND_NS), 0);
        assert_eq!(ingest(&mut bucket, 3 * SECOND_NS), 10);
    }
}
