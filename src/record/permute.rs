//! A shuffled order of 0, 1, … that needs no memory: a Feistel network over the next power of four, walked on until
//! the number is inside.

use super::hash::mix;

/// Enough that neighbours have nothing in common any more.
const ROUNDS: u64 = 4;

/// A permutation of the numbers below `len`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// One of the permutations of the numbers below `len`.
    #[must_use]
    pub const fn new(len: u64, seed: u64) -> Self {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        Self { len, half_bits: if bits < 2 { 1 } else { bits.div_ceil(2) }, seed }
    }

    /// Where the number `index` goes; `index` must be below `len` (else it comes back as it is).
    #[must_use]
    pub const fn at(&self, index: u64) -> u64 {
        if index >= self.len {
            return index;
        }
        let mut number = self.network(index);
        // A power of four is less than four times the length, so this ends soon; it ends because the walk along a
        // cycle comes back to `index` at last.
        while number >= self.len {
            number = self.network(number);
        }
        number
    }

    const fn network(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        let mut round = 0;
        while round < ROUNDS {
            let hash = mix(self.seed ^ mix(right.wrapping_add(round << 40)));
            (left, right) = (right, left ^ (hash & mask));
            round += 1;
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_once(len in 1_u64..3000, seed: u64) {
            let permutation = Permutation::new(len, seed);
            let mut seen: Vec<u64> = (0..len).map(|index| permutation.at(index)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..len));
        }

        #[test]
        fn huge_ones_stay_inside(len in 1_u64.., seed: u64, index: u64) {
            let permutation = Permutation::new(len, seed);
            prop_assert!(permutation.at(index % len) < len);
        }
    }

    #[test]
    fn seeds_give_orders_that_have_nothing_in_common() {
        let len = 10_000;
        let (one, two) = (Permutation::new(len, 1), Permutation::new(len, 2));
        let same = (0..len).filter(|index| one.at(*index) == two.at(*index)).count();
        let fixed = (0..len).filter(|index| one.at(*index) == *index).count();
        let next = (1..len).filter(|index| one.at(*index) == one.at(index - 1) + 1).count();
        // One of each is expected.
        assert!(same < 10 && fixed < 10 && next < 10, "{same} {fixed} {next}");
    }
}
