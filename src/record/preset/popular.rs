//! Choosing among few by Zipf's law, in whole numbers only.

use std::sync::Arc;

use super::super::hash::below;

/// The share of the first, of 2^40; sums of a million of them stay below 2^45.
const FIRST: u64 = 1 << 40;

/// Ranks 0, 1, 2, … where rank r comes in proportion to 1 / (r + 1).
#[derive(Debug, Clone)]
pub(super) struct Popular {
    /// Sums of the weights up to and with each rank.
    until: Arc<[u64]>,
}

impl Popular {
    /// Of `count` (at least 1) ranks; 8 bytes each.
    pub(super) fn new(count: u64) -> Self {
        let mut sum = 0;
        let until = (1..=count.max(1)).map(|rank| {
            sum += FIRST / rank;
            sum
        });
        Self { until: until.collect() }
    }

    pub(super) fn count(&self) -> u64 {
        self.until.len() as u64
    }

    /// The rank that 64 random bits choose.
    pub(super) fn rank(&self, random: u64) -> u64 {
        let ticket = below(random, self.until.last().copied().unwrap_or(1));
        self.until.partition_point(|until| *until <= ticket) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::hash::Random;
    use super::*;

    #[test]
    fn ranks_come_by_zipfs_law() {
        let (popular, mut random) = (Popular::new(1000), Random::of(1, 1));
        let mut counts = vec![0_u32; 1000];
        (0..749_000).for_each(|_| counts[popular.rank(random.next()) as usize] += 1);
        // The sum of 1/r up to 1000 is 7.485: rank r is expected 100,000 / r times. Six deviations.
        for rank in [1, 2, 3, 10, 100, 1000] {
            let expected = 749_000.0 / 7.4855 / f64::from(rank);
            let off = (f64::from(counts[rank as usize - 1]) - expected).abs();
            assert!(off < 6.0 * expected.sqrt(), "{rank}: {} not {expected}", counts[rank as usize - 1]);
        }
        assert_eq!(Popular::new(1).rank(u64::MAX), 0);
        assert_eq!(popular.rank(u64::MAX), 999);
    }
}
