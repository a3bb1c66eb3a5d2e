//! At which `A` each record is due: evenly, or with gaps as of a Poisson process.
//!
//! Even: record n at `A = n`. Poisson: record n at the sum of n exponentially distributed gaps of mean 1, made from seed and
//! number alone. The gaps are in units of `A`, so that a change of the rate stretches them and nothing else. A record counts as
//! due *before* an instant when `A` is above its mark.

use super::rate::RECORD;

/// How records arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrivals {
    /// One record for each whole `A`.
    #[default]
    Even,
    /// Independent of each other: exponential gaps.
    Poisson {
        /// Of the stream.
        seed: u64,
    },
}

/// A record and the `A` at which it is due. A cursor over the arrivals is one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The record.
    pub record: u64,
    /// The `A`, in 10^-15 records.
    pub at: u128,
    /// Counts the times that arrivals began anew, after records were sent that no `A` stands for.
    pub epoch: u32,
}

impl Arrivals {
    /// How many records are due when so much has accrued. The cursor is left at the first one that is not; it only
    /// moves forward, so ask in ascending order. `origin` is the phase's.
    pub fn due(self, origin: Mark, cursor: &mut Mark, accrued: u128) -> u64 {
        let Self::Poisson { seed } = self else {
            return u64::try_from(accrued.div_ceil(RECORD)).unwrap_or(u64::MAX);
        };
        enter(origin, cursor);
        while cursor.at < accrued {
            step(seed, cursor);
        }
        cursor.record
    }

    /// The `A` at which a record is due. The cursor is left at it; ask in ascending order. `origin` is the phase's.
    pub fn mark(self, origin: Mark, cursor: &mut Mark, record: u64) -> u128 {
        let Self::Poisson { seed } = self else { return u128::from(record) * RECORD };
        enter(origin, cursor);
        while cursor.record < record {
            step(seed, cursor);
        }
        cursor.at
    }
}

fn enter(origin: Mark, cursor: &mut Mark) {
    if cursor.epoch != origin.epoch {
        *cursor = origin;
    }
}

fn step(seed: u64, cursor: &mut Mark) {
    cursor.record += 1;
    cursor.at += u128::from(gap(seed, cursor.record));
}

/// The gap before a record, in 10^-15 records: exponential with mean 1.
fn gap(seed: u64, record: u64) -> u64 {
    let random = scramble(seed.wrapping_add(record.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    // 53 bits above 0 and up to 1, so that the logarithm is finite.
    let uniform = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-libm::log(uniform) * RECORD as f64) as u64
}

/// The finalizer of SplitMix64: every bit of the number decides about every bit of the result.
const fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POISSON: Arrivals = Arrivals::Poisson { seed: 7 };

    /// Kolmogorov's distance of the gaps from the exponential distribution, and their mean and variance.
    #[test]
    fn gaps_are_exponential_and_counts_are_poisson() {
        let n = 200_000_u64;
        let mut gaps: Vec<f64> = (1..=n).map(|record| gap(7, record) as f64 / RECORD as f64).collect();
        let mean = gaps.iter().sum::<f64>() / n as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n as f64;
        // Five standard errors: 1/√n of the mean, √(8/n) of the variance.
        assert!((mean - 1.0).abs() < 5.0 / (n as f64).sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / n as f64).sqrt(), "{variance}");
        let next_to: f64 =
            gaps.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0)).sum::<f64>() / n as f64;
        assert!(next_to.abs() < 5.0 / (n as f64).sqrt(), "neighbours correlate: {next_to}");
        gaps.sort_by(f64::total_cmp);
        let distance = gaps.iter().enumerate().map(|(rank, gap)| {
            let expected = 1.0 - (-gap).exp();
            (expected - rank as f64 / n as f64).abs().max((expected - (rank + 1) as f64 / n as f64).abs())
        });
        // 2.2/√n is exceeded once in ten thousand samples; this one never changes.
        assert!(distance.fold(0.0, f64::max) < 2.2 / (n as f64).sqrt());
        let (mut cursor, mut before, mut counts) = (Mark::default(), 0, Vec::new());
        for unit in 1..=10_000_u128 {
            let due = POISSON.due(Mark::default(), &mut cursor, unit * 10 * RECORD);
            counts.push((due - before) as f64);
            before = due;
        }
        let mean = counts.iter().sum::<f64>() / 1e4;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((mean - 10.0).abs() < 0.16 && (variance / mean - 1.0).abs() < 0.07, "{mean} and {variance}");
    }

    /// Golden values: the same on every machine and in every version.
    #[test]
    fn marks_are_pinned() {
        let mut cursor = Mark::default();
        let marks = [0, 1, 2, 3, 1000].map(|record| POISSON.mark(Mark::default(), &mut cursor, record));
        let pinned =
            [0, 942_045_177_757_382, 5_029_118_567_452_791, 5_133_634_239_417_259, 1_012_868_410_033_933_964];
        assert_eq!(marks, pinned);
    }

    #[test]
    fn counting_and_looking_up_agree_wherever_the_cursors_are() {
        for arrivals in [Arrivals::Even, POISSON] {
            let (mut count, mut look) = (Mark::default(), Mark::default());
            for record in (0..5000).step_by(37) {
                let at = arrivals.mark(Mark::default(), &mut look, record);
                assert_eq!(arrivals.due(Mark::default(), &mut count, at), record);
                assert_eq!(arrivals.due(Mark::default(), &mut count, at + 1), record + 1);
            }
            // A new epoch counts from its origin.
            let origin = Mark { record: 6000, at: 6000 * RECORD, epoch: 1 };
            assert_eq!(arrivals.due(origin, &mut count, origin.at), 6000);
            assert_eq!(arrivals.mark(origin, &mut look, 6000), origin.at);
            assert_eq!(arrivals.due(origin, &mut count, origin.at + 1), 6001);
        }
    }
}
