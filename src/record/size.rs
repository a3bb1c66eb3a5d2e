//! Sizes that are drawn for each record.

use std::sync::Arc;

use libm::{cos, log, sqrt};

use super::hash::{Random, below, unit};
use super::settings::SizeSetting;

/// Draws the size of each record.
#[derive(Debug, Clone)]
pub struct Sizes {
    seed: u64,
    draw: Draw,
    max: usize,
}

#[derive(Debug, Clone)]
enum Draw {
    Fixed(u32),
    Uniform {
        min: u32,
        sizes: u64,
    },
    Normal {
        mean: f64,
        sigma: f64,
        min: f64,
        max: f64,
    },
    /// The sum of the weights up to each size.
    Weighted(Arc<[(f64, u32)]>),
}

impl Sizes {
    /// Sizes from a seed.
    #[must_use]
    pub fn new(seed: u64, setting: &SizeSetting) -> Self {
        let max = setting.max_bytes();
        let draw = match setting {
            SizeSetting::Fixed(size) => Draw::Fixed(*size),
            SizeSetting::Uniform { min, max } => {
                Draw::Uniform { min: *min, sizes: u64::from(max.saturating_sub(*min)) + 1 }
            }
            SizeSetting::Normal { mean, sigma, min, .. } => {
                let min = f64::from(min.unwrap_or(0).min(max));
                Draw::Normal { mean: *mean, sigma: *sigma, min, max: f64::from(max) }
            }
            SizeSetting::Weighted(sizes) => {
                let mut sum = 0.0;
                Draw::Weighted(sizes.iter().map(|one| (add(&mut sum, one.weight), one.size)).collect())
            }
        };
        Self { seed, draw, max: max as usize }
    }

    /// The size of a record in bytes.
    #[must_use]
    pub fn of(&self, sequence: u64) -> usize {
        let random = || Random::of(self.seed, sequence);
        let size = match &self.draw {
            Draw::Fixed(size) => *size,
            Draw::Uniform { min, sizes } => min + below(random().next(), *sizes) as u32,
            Draw::Normal { mean, sigma, min, max } => {
                let size = mean + sigma * normal(&mut random());
                size.round().clamp(*min, *max) as u32
            }
            Draw::Weighted(sizes) => {
                let all = sizes.last().map_or(0.0, |(sum, _)| *sum);
                let at = unit(random().next()) * all;
                // Where rounding reaches the end, the last one with any weight is as good.
                let index = sizes.partition_point(|(sum, _)| *sum <= at);
                sizes.get(index).or_else(|| sizes.last()).map_or(0, |(_, size)| *size)
            }
        };
        size as usize
    }

    /// The largest size in bytes.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.max
    }
}

fn add(sum: &mut f64, weight: f64) -> f64 {
    *sum += weight;
    *sum
}

/// A number of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    // 1 − u, because 0 has no logarithm.
    let (one, two) = (1.0 - unit(random.next()), unit(random.next()));
    sqrt(-2.0 * log(one)) * cos(2.0 * std::f64::consts::PI * two)
}
