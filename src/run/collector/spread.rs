//! A distribution over time in bounded memory: every value weighs as long as it was the last one known, so that a
//! source that answers slowly while it is behind is not heard less.

use hdrhistogram::Histogram;

use crate::store::record::{Spread, tidy};

/// Far above any lag in records or microseconds that a run can see; keeps a histogram below 300 KiB.
const HIGHEST: u64 = 1_000_000_000_000;

/// Collects values with the time that each was known for.
#[derive(Debug, Clone)]
pub(super) struct TimeSpread {
    hdr: Histogram<u64>,
    weighted_sum: f64,
    weight_ns: u64,
    max: u64,
    last: Option<u64>,
}

impl TimeSpread {
    #[allow(clippy::expect_used)] // a constant that the crate accepts
    pub(super) fn new() -> Self {
        // Grows with the largest value seen, because most lags are small and there are many windows.
        let mut hdr = Histogram::new(3).expect("three digits are valid");
        hdr.auto(true);
        Self { hdr, weighted_sum: 0.0, weight_ns: 0, max: 0, last: None }
    }

    /// `value` was known for `for_ns`.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn add(&mut self, value: u64, for_ns: u64) {
        self.last = Some(value);
        self.max = self.max.max(value);
        // Weights in milliseconds: nanoseconds would overflow a bucket after centuries only, but cost precision in
        // the sums of the quantile search.
        if self.hdr.record_n(value.min(HIGHEST), (for_ns / 1_000_000).max(1)).is_ok() {
            let for_ns = for_ns.max(1);
            self.weighted_sum += value as f64 * for_ns as f64;
            self.weight_ns = self.weight_ns.saturating_add(for_ns);
        }
    }

    /// The distribution in another unit (`per` of its units), `None` when nothing was known.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn summary(&self, per: f64) -> Option<Spread> {
        let last = self.last?;
        let quantile = |q| tidy(self.hdr.value_at_quantile(q).min(self.max) as f64 / per);
        let mean = self.weighted_sum / self.weight_ns.max(1) as f64;
        Some(Spread {
            mean: tidy(mean / per),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: tidy(self.max as f64 / per),
            last: tidy(last as f64 / per),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_weighs_as_long_as_it_was_known() {
        let mut spread = TimeSpread::new();
        assert_eq!(spread.summary(1.0), None);
        spread.add(0, 9_000_000_000);
        spread.add(1_000, 1_000_000_000);
        let summary = spread.summary(1.0).unwrap();
        assert_eq!(summary, Spread { mean: 100.0, p50: 0.0, p99: 1_000.0, max: 1_000.0, last: 1_000.0 });
        spread.add(u64::MAX, 1);
        assert!(spread.summary(1e6).unwrap().max.is_finite());
    }
}
