//! A fixed permutation of the numbers below a bound, without a table.

use super::hash::Random;

/// Three rounds of adding a random number, folding the high half into the low one and multiplying by an odd number: each
/// step is a bijection of the numbers with so many bits. What falls beyond the bound goes round again ("cycle walking"),
/// twice at most in the mean, so that the whole is a bijection of the numbers below the bound.
#[derive(Debug, Clone)]
pub struct Shuffle {
    bound: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); 3],
}

impl Shuffle {
    /// The permutation of the numbers below `bound` (at least 1) that belongs to a seed.
    #[must_use]
    pub fn new(seed: u64, bound: u64) -> Self {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        let mask = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
        let mut random = Random::of(seed, bound);
        let rounds = [(); 3].map(|()| (random.next(), random.next() | 1));
        Self { bound, mask, shift: bits.div_ceil(2).max(1), rounds }
    }

    /// Where a number below the bound goes.
    #[must_use]
    pub fn apply(&self, mut number: u64) -> u64 {
        loop {
            for (add, multiply) in self.rounds {
                number = number.wrapping_add(add) & self.mask;
                number ^= number >> self.shift;
                number = number.wrapping_mul(multiply) & self.mask;
            }
            number ^= number >> self.shift;
            if number < self.bound {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_once(seed in any::<u64>(), bound in 1_u64..3000) {
            let shuffle = Shuffle::new(seed, bound);
            let mut seen: Vec<u64> = (0..bound).map(|number| shuffle.apply(number)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..bound));
        }

        #[test]
        fn large_bounds_hold_and_differ(seed in any::<u64>(), bound in 2_u64..=1 << 62, number in any::<u64>()) {
            let shuffle = Shuffle::new(seed, bound);
            let (one, two) = (number % bound, number.wrapping_add(1) % bound);
            prop_assert!(shuffle.apply(one) < bound);
            prop_assert!(one == two || shuffle.apply(one) != shuffle.apply(two));
        }
    }

    #[test]
    fn neighbours_are_spread_over_the_whole_range() {
        for bound in [1000, 1 << 20, 1_000_000, 1 << 62] {
            let shuffle = Shuffle::new(7, bound);
            let mut tenths = [0_u32; 10];
            for number in 0..1000 {
                tenths[(u128::from(shuffle.apply(number)) * 10 / u128::from(bound)) as usize] += 1;
            }
            // 100 expected with a deviation of 9.5; all of 1000 is exact.
            assert!(tenths.iter().all(|count| (43..157).contains(count)), "{bound}: {tenths:?}");
        }
    }
}
