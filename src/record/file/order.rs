//! Which line a record is.

use super::super::hash::{below, mix};
use super::super::settings::FileOrder;
use super::super::shuffle::Shuffle;

/// The order of the lines: as in the file, or, for a shuffled one, the blocks in a random order and the lines within
/// each in a random order, both others in each round. So a file larger than the memory is still read block by block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    seed: u64,
    lines: u64,
    lines_per_block: u64,
    order: FileOrder,
}

impl Order {
    /// `lines` and `lines_per_block` are at least 1.
    pub(super) const fn new(seed: u64, lines: u64, lines_per_block: u64, order: FileOrder) -> Self {
        Self { seed, lines, lines_per_block, order }
    }

    /// The line of a record, counted from 0.
    pub(super) fn line(&self, sequence: u64) -> u64 {
        let (round, at) = (sequence / self.lines, sequence % self.lines);
        if self.order == FileOrder::Sequential {
            return at;
        }
        let per_block = self.lines_per_block;
        let (blocks, tail) = (self.lines / per_block, self.lines % per_block);
        let seed = mix(self.seed ^ mix(round));
        // The last block is shorter: it gets a random place among the others, which is what keeps this free of tables.
        let tail_at = below(mix(seed ^ 1), blocks + 1) * per_block;
        let inside = |block: u64, at: u64, len: u64| {
            block * per_block + Shuffle::new(mix(seed ^ mix(block + 2)), len).apply(at)
        };
        if at >= tail_at && at < tail_at + tail {
            return inside(blocks, at - tail_at, tail);
        }
        let at = if at < tail_at { at } else { at - tail };
        inside(Shuffle::new(seed, blocks).apply(at / per_block), at % per_block, per_block)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_round_has_each_line_once(seed: u64, lines in 1_u64..500, per_block in 1_u64..40, round in 0_u64..1000) {
            for order in [FileOrder::Sequential, FileOrder::Shuffled] {
                let order = Order::new(seed, lines, per_block, order);
                let mut seen: Vec<u64> = (0..lines).map(|at| order.line(round * lines + at)).collect();
                seen.sort_unstable();
                prop_assert!(seen.into_iter().eq(0..lines));
            }
        }
    }

    #[test]
    fn shuffled_rounds_differ_and_blocks_stay_together() {
        let order = Order::new(7, 1000, 64, FileOrder::Shuffled);
        let round = |round: u64| -> Vec<u64> { (0..1000).map(|at| order.line(round * 1000 + at)).collect() };
        assert_ne!(round(0), round(1));
        assert!(round(0).iter().zip(round(1)).filter(|(one, two)| **one == *two).count() < 20);
        let changes = round(0).windows(2).filter(|pair| pair[0] / 64 != pair[1] / 64).count();
        assert_eq!(changes, 15, "16 blocks are left one after the other");
    }
}
