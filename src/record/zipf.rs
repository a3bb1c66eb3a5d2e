//! Ranks of Zipf's law by rejection-inversion, without a table.
//!
//! W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete distributions. ACM TOMACS
//! 6 (1996). The area under h(x) = 1 / x^s is cut by a uniform number; the rank nearest to where it is cut is taken, or
//! thrown away in the rare case that the histogram does not reach so far. Exact for every exponent, 1 included, and for any
//! number of ranks; fewer than two rounds in the mean. Logarithm and exponential are the same bits on every machine.

use libm::{exp, expm1, log, log1p};

use super::hash::{Random, unit};

/// Draws ranks 1 to n, rank r in proportion to 1 / r^exponent.
#[derive(Debug, Clone)]
pub struct Zipf {
    exponent: f64,
    ranks: f64,
    /// H(1.5) − 1 and H(n + 0.5): between them the area is cut.
    from: f64,
    to: f64,
    /// A rank so near to the cut needs no further look.
    sure: f64,
}

impl Zipf {
    /// Ranks 1 to `ranks` (1 to 2^52) for an exponent of 0 or more.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf = Self { exponent, ranks: ranks.max(1) as f64, from: 0.0, to: 0.0, sure: 0.0 };
        zipf.from = zipf.area(1.5) - 1.0;
        zipf.to = zipf.area(zipf.ranks + 0.5);
        zipf.sure = 2.0 - zipf.cut(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// The next rank, counted from 0.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.to + unit(random.next()) * (self.from - self.to);
            let x = self.cut(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            if rank - x <= self.sure || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// H(x): the area under h from 1 to x.
    fn area(&self, x: f64) -> f64 {
        let log_x = log(x);
        expm1_ratio((1.0 - self.exponent) * log_x) * log_x
    }

    /// h(x).
    fn height(&self, x: f64) -> f64 {
        exp(-self.exponent * log(x))
    }

    /// The x with H(x) = `area`.
    fn cut(&self, area: f64) -> f64 {
        // Rounding may take it a hair below −1, where there is no logarithm.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        exp(log1p_ratio(t) * area)
    }
}

/// ln(1 + t) ÷ t, also at 0.
fn log1p_ratio(t: f64) -> f64 {
    if t.abs() > 1e-8 { log1p(t) / t } else { 1.0 - t * (0.5 - t / 3.0) }
}

/// (e^t − 1) ÷ t, also at 0.
fn expm1_ratio(t: f64) -> f64 {
    if t.abs() > 1e-8 { expm1(t) / t } else { 1.0 + t * 0.5 * (1.0 + t / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const DRAWS: u64 = 400_000;
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.000_000_001, 1.5, 4.0] {
            for ranks in [1_u64, 2, 50, 1000] {
                let zipf = Zipf::new(ranks, exponent);
                let mut counts = vec![0_u64; ranks as usize];
                for sequence in 0..DRAWS {
                    counts[zipf.draw(&mut Random::of(3, sequence)) as usize] += 1;
                }
                let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
                let all: f64 = (0..ranks as usize).map(weight).sum();
                let (mut chi, mut cells) = (0.0, 0.0);
                for (rank, count) in counts.iter().enumerate() {
                    let expected = DRAWS as f64 * weight(rank) / all;
                    // Chi-square is good for cells that are not nearly empty.
                    if expected >= 10.0 {
                        chi += (*count as f64 - expected).powi(2) / expected;
                        cells += 1.0;
                    }
                }
                // Mean `cells`, deviation sqrt(2 cells): six deviations.
                let most = cells + 6.0 * f64::sqrt(2.0 * cells) + 6.0;
                assert!(chi < most, "exponent {exponent}, {ranks} ranks: chi-square {chi} of {cells} cells");
            }
        }
    }

    #[test]
    fn the_largest_number_of_ranks_is_in_reach() {
        for exponent in [0.0, 0.5, 1.0, 2.0, 20.0] {
            let zipf = Zipf::new(1 << 52, exponent);
            let ranks: Vec<u64> = (0..2000).map(|n| zipf.draw(&mut Random::of(1, n))).collect();
            assert!(ranks.iter().all(|rank| *rank < 1 << 52));
            let upper_half = ranks.iter().filter(|rank| **rank >= 1 << 51).count();
            assert_eq!(upper_half > 0, exponent < 2.0, "{exponent}: {upper_half}");
        }
    }
}
