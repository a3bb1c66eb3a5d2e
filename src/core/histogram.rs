//! Latencies: Prometheus buckets for `/metrics` and a fine histogram for quantiles with three digits, both bounded, so
//! that nothing grows with the number of records. Percentiles are merged from histograms, never averaged.
//!
//! A lane records three latencies for every record, so recording is a handful of instructions: the place of a value is
//! computed, never searched, and equal latencies that follow each other (records that were handed over or reported
//! together) are recorded in one go. The fine histogram is laid out as hdrhistogram lays it out, whose recording took
//! three times as long; a test holds the two side by side.

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

/// The place of a number in a row of octaves of `1 << bits >> 1` steps each: exact below `1 << bits`.
const fn place(number: u64, bits: u32) -> usize {
    let octave = 64 - (number | ((1 << bits) - 1)).leading_zeros() - bits;
    ((octave as usize) << (bits - 1)) + (number >> octave) as usize
}

/// The least number at a place.
const fn least_at(place: usize, bits: u32) -> u64 {
    let octave = (place >> (bits - 1)).saturating_sub(1);
    ((place - (octave << (bits - 1))) as u64) << octave
}

/// Steps of the fine histogram: 1,024 an octave is three digits.
const FINE_BITS: u32 = 11;
/// Number of its places.
const FINE_PLACES: usize = place(MAX_MICROS, FINE_BITS) + 1;
/// Steps by which a bucket is found: 16 an octave are so narrow that no two bounds share one.
const COARSE_BITS: u32 = 5;
/// Number of the buckets that lie wholly below the least number of each coarse place.
#[allow(clippy::indexing_slicing)] // the compiler computes it, and refuses an index out of bounds
static BUCKETS_BELOW: [u8; place(u64::MAX, COARSE_BITS) + 1] = {
    let mut below = [0; place(u64::MAX, COARSE_BITS) + 1];
    let (mut at, mut bucket) = (0, 0);
    while at < below.len() {
        while bucket < BOUNDS_MICROS.len() && BOUNDS_MICROS[bucket] < least_at(at, COARSE_BITS) {
            bucket += 1;
        }
        below[at] = bucket as u8;
        at += 1;
    }
    below
};

/// A cumulative latency distribution.
#[derive(Debug, Clone)]
pub struct Latency {
    buckets: Buckets,
    /// Observations by the place of their microseconds.
    fine: Box<[u64]>,
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
        self.record_many(latency_ns, 1);
    }

    fn record_many(&mut self, latency_ns: u64, times: u64) {
        // Rounded up for the buckets: 100.5 µs is not "at most 100 µs".
        let micros_up = latency_ns.div_ceil(1_000);
        let below = BUCKETS_BELOW.get(place(micros_up, COARSE_BITS)).map_or(0, |below| usize::from(*below));
        let bucket = below + usize::from(BOUNDS_MICROS.get(below).is_some_and(|bound| *bound < micros_up));
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += times;
        }
        self.sum_ns += u128::from(latency_ns) * u128::from(times);
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
    pub fn new() -> Self {
        Self { buckets: Buckets::default(), fine: vec![0; FINE_PLACES].into(), clipped: 0 }
    }

    /// Records one latency.
    pub fn record(&mut self, latency_ns: u64) {
        self.record_many(latency_ns, 1);
    }

    /// Records the same latency of several records.
    pub fn record_many(&mut self, latency_ns: u64, times: u64) {
        let micros = latency_ns / 1_000;
        self.buckets.record_many(latency_ns, times);
        self.clipped += if micros > MAX_MICROS { times } else { 0 };
        if let Some(count) = self.fine.get_mut(place(micros.min(MAX_MICROS), FINE_BITS)) {
            *count += times;
        }
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
        for (mine, theirs) in self.fine.iter_mut().zip(&other.fine) {
            *mine += theirs;
        }
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
        for (mine, theirs) in rest.fine.iter_mut().zip(&earlier.fine) {
            *mine = mine.saturating_sub(*theirs);
        }
        rest
    }

    /// Quantiles of the distribution, `None` while it is empty.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        let count: u64 = self.fine.iter().sum();
        if count == 0 {
            return None;
        }
        let quantile = |q: f64| self.nth_micros((q * count as f64).ceil() as u64) as f64 / 1e6;
        Some(LatencySummary {
            count,
            mean_seconds: self.buckets.sum_ns as f64 / 1e9 / count as f64,
            p50_seconds: quantile(0.5),
            p90_seconds: quantile(0.9),
            p99_seconds: quantile(0.99),
            p999_seconds: quantile(0.999),
            p9999_seconds: quantile(0.9999),
            max_seconds: quantile(1.0),
            clipped: self.clipped,
        })
    }

    /// The n-th shortest latency in microseconds, from 1 on: the greatest that is not told apart from it.
    fn nth_micros(&self, n: u64) -> u64 {
        let mut seen = 0;
        let at = self.fine.iter().position(|count| {
            seen += count;
            seen >= n.max(1)
        });
        least_at(at.unwrap_or(FINE_PLACES - 1) + 1, FINE_BITS) - 1
    }
}

/// Records latencies that come in runs of equal ones.
#[derive(Debug)]
pub struct Runs<'a> {
    latency: &'a mut Latency,
    latency_ns: u64,
    times: u64,
}

impl<'a> Runs<'a> {
    /// Into a distribution, which has all of them when this is dropped.
    #[must_use]
    pub const fn new(latency: &'a mut Latency) -> Self {
        Self { latency, latency_ns: 0, times: 0 }
    }

    /// Records one latency.
    pub fn record(&mut self, latency_ns: u64) {
        if latency_ns != self.latency_ns {
            self.flush();
            self.latency_ns = latency_ns;
        }
        self.times += 1;
    }

    fn flush(&mut self) {
        if self.times > 0 {
            self.latency.record_many(self.latency_ns, self.times);
            self.times = 0;
        }
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.flush();
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
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

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

    proptest! {
        /// Quantiles are those of hdrhistogram, and a bucket is the first whose bound is not exceeded.
        #[test]
        fn places_are_hdrhistograms_and_buckets_those_of_the_bounds(
            values in prop::collection::vec((0_u32..43).prop_flat_map(|bits| 0_u64..=(1 << bits)), 1..300),
        ) {
            let mut hdr = Histogram::<u64>::new_with_bounds(1, MAX_MICROS, 3).unwrap();
            let (mut latency, mut counts) = (Latency::new(), [0; BOUNDS_MICROS.len() + 1]);
            let mut runs = Runs::new(&mut latency);
            for ns in &values {
                for _ in 0..ns % 3 + 1 {
                    hdr.saturating_record((ns / 1000).min(MAX_MICROS));
                    runs.record(*ns);
                    counts[BOUNDS_MICROS.partition_point(|bound| bound * 1000 < *ns)] += 1;
                }
            }
            drop(runs);
            let summary = latency.summary().unwrap();
            let quantile = |q| hdr.value_at_quantile(q).min(hdr.max()) as f64 / 1e6;
            prop_assert_eq!(latency.buckets().counts, counts);
            prop_assert_eq!((summary.count, summary.max_seconds), (hdr.len(), quantile(1.0)));
            prop_assert_eq!(
                (summary.p50_seconds, summary.p90_seconds, summary.p99_seconds, summary.p999_seconds),
                (quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999))
            );
        }
    }

    #[test]
    fn every_place_holds_the_numbers_from_its_least_one_on() {
        for bits in [COARSE_BITS, FINE_BITS] {
            for at in 1..place(u64::MAX, bits) {
                let least = least_at(at, bits);
                assert_eq!((place(least - 1, bits), place(least, bits)), (at - 1, at));
            }
        }
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
