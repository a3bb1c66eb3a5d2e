//! Latencies: Prometheus buckets for `/metrics` and an HDR histogram for exact quantiles, both bounded, so that
//! nothing grows with the number of records. Percentiles are merged from histograms, never averaged.

use hdrhistogram::Histogram;

/// Upper bounds of the Prometheus buckets in microseconds: six a decade (each 1.46 to 1.48 times the one
/// before) from 100 µs to beyond 10 min.
pub const BOUNDS_MICROS: [u64; 42] = [
    100,
    147,
    215,
    316,
    464,
    681,
    1_000,
    1_470,
    2_150,
    3_160,
    4_640,
    6_810,
    10_000,
    14_700,
    21_500,
    31_600,
    46_400,
    68_100,
    100_000,
    147_000,
    215_000,
    316_000,
    464_000,
    681_000,
    1_000_000,
    1_470_000,
    2_150_000,
    3_160_000,
    4_640_000,
    6_810_000,
    10_000_000,
    14_700_000,
    21_500_000,
    31_600_000,
    46_400_000,
    68_100_000,
    100_000_000,
    147_000_000,
    215_000_000,
    316_000_000,
    464_000_000,
    681_000_000,
];

/// The longest latency that is told apart: one hour, in microseconds. Longer ones are counted as clipped.
pub const MAX_MICROS: u64 = 3_600_000_000;

/// A cumulative latency distribution.
#[derive(Debug, Clone)]
pub struct Latency {
    buckets: Buckets,
    hdr: Histogram<u64>,
    clipped: u64,
}

/// The Prometheus side of a distribution: cheap to copy at a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    /// Observations by bucket (not cumulative); the last is everything above the highest bound.
    pub counts: [u64; BOUNDS_MICROS.len() + 1],
    /// Sum of all observations in nanoseconds.
    pub sum_ns: u128,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { counts: [0; BOUNDS_MICROS.len() + 1], sum_ns: 0 }
    }
}

impl Buckets {
    /// Number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Records one observation.
    pub fn record(&mut self, latency_ns: u64) {
        // Rounded up for the buckets: 100.5 µs is not "at most 100 µs".
        let micros_up = latency_ns.div_ceil(1_000);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros_up);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum_ns += u128::from(latency_ns);
    }

    /// Adds another distribution.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.sum_ns += other.sum_ns;
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// An empty distribution from 1 µs to 1 h with three digits.
    #[must_use]
    #[allow(clippy::expect_used)] // the bounds are constants that the crate accepts; a test constructs one
    pub fn new() -> Self {
        let hdr = Histogram::new_with_bounds(1, MAX_MICROS, 3).expect("constant bounds are valid");
        Self { buckets: Buckets::default(), hdr, clipped: 0 }
    }

    /// Records one latency.
    pub fn record(&mut self, latency_ns: u64) {
        let micros = latency_ns / 1_000;
        self.buckets.record(latency_ns);
        self.clipped += u64::from(micros > MAX_MICROS);
        self.hdr.saturating_record(micros);
    }

    /// The Prometheus side.
    #[must_use]
    pub const fn buckets(&self) -> &Buckets {
        &self.buckets
    }

    /// Adds another distribution.
    pub fn add(&mut self, other: &Self) {
        self.buckets.add(&other.buckets);
        self.clipped += other.clipped;
        // Both have the same bounds, so that the addition cannot fail.
        let _ = self.hdr.add(&other.hdr);
    }

    /// What came after an earlier state of the same distribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut rest = self.clone();
        for (mine, theirs) in rest.buckets.counts.iter_mut().zip(earlier.buckets.counts) {
            *mine = mine.saturating_sub(theirs);
        }
        rest.buckets.sum_ns = rest.buckets.sum_ns.saturating_sub(earlier.buckets.sum_ns);
        rest.clipped = rest.clipped.saturating_sub(earlier.clipped);
        // `earlier` is a prefix of `self`, so that no count goes below zero.
        let _ = rest.hdr.subtract(&earlier.hdr);
        rest
    }

    /// Quantiles of the distribution, `None` while it is empty.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        if self.hdr.is_empty() {
            return None;
        }
        let seconds = |micros: u64| micros as f64 / 1e6;
        let quantile = |q| seconds(self.hdr.value_at_quantile(q).min(self.hdr.max()));
        let count = self.hdr.len();
        Some(LatencySummary {
            count,
            mean_seconds: self.buckets.sum_ns as f64 / 1e9 / count as f64,
            p50_seconds: quantile(0.5),
            p90_seconds: quantile(0.9),
            p99_seconds: quantile(0.99),
            p999_seconds: quantile(0.999),
            p9999_seconds: quantile(0.9999),
            max_seconds: seconds(self.hdr.max()),
            clipped: self.clipped,
        })
    }
}

/// Quantiles with three significant digits, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs)] // the names say what and in which unit
pub struct LatencySummary {
    pub count: u64,
    pub mean_seconds: f64,
    pub p50_seconds: f64,
    pub p90_seconds: f64,
    pub p99_seconds: f64,
    pub p999_seconds: f64,
    pub p9999_seconds: f64,
    pub max_seconds: f64,
    /// Observations above one hour, counted at one hour.
    pub clipped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_by_at_least_root_two_and_at_most_one_and_a_half() {
        for pair in BOUNDS_MICROS.windows(2) {
            let ratio = pair[1] as f64 / pair[0] as f64;
            assert!((1.414..=1.5).contains(&ratio), "{pair:?}: {ratio}");
        }
        assert_eq!(BOUNDS_MICROS[0], 100);
        assert!(BOUNDS_MICROS.last().is_some_and(|last| *last >= 600_000_000));
    }

    #[test]
    fn a_bound_belongs_to_its_bucket_and_sums_are_exact() {
        let mut latency = Latency::new();
        for ns in [100_000, 100_001, 3_600_000_000_000, 9_000_000_000_000] {
            latency.record(ns);
        }
        assert_eq!(latency.buckets().counts[..2], [1, 1]);
        assert_eq!(latency.buckets().counts[BOUNDS_MICROS.len()], 2);
        assert_eq!(latency.buckets().sum_ns, 12_600_000_200_001);
        let summary = latency.summary().unwrap();
        assert_eq!((summary.count, summary.clipped), (4, 1));
    }

    #[test]
    fn merged_and_subtracted_distributions_equal_the_recorded_one() {
        let (mut first, mut second, mut both) = (Latency::new(), Latency::new(), Latency::new());
        for i in 0..10_000_u64 {
            let ns = (i * 7919) % 5_000_000 + 1;
            if i % 3 == 0 {
                first.record(ns)
            } else {
                second.record(ns)
            }
            both.record(ns);
        }
        let mut merged = first.clone();
        merged.add(&second);
        assert_eq!(merged.summary(), both.summary());
        assert_eq!(both.since(&first).buckets(), second.buckets());
        assert_eq!(Latency::new().summary(), None);
    }
}
