//! Which records of a stream's one sequence a lane owns.

use crate::core::walk::Owner;
use crate::record::Maker;

/// The lane's share of the sequence.
pub(super) struct Share {
    pub(super) maker: Maker,
    pub(super) lanes: u32,
    pub(super) index: u32,
    /// Where keys are written, so that none is allocated.
    pub(super) key: Vec<u8>,
}

impl Share {
    pub(super) const fn new(maker: Maker, lanes: u32, index: u32) -> Self {
        Self { maker, lanes, index, key: Vec::new() }
    }
}

impl Owner for Share {
    fn count(&mut self, from: u64, to: u64) -> u64 {
        if self.lanes == 1 {
            return to.saturating_sub(from);
        }
        let (maker, key) = (&mut self.maker, &mut self.key);
        (from..to).filter(|record| maker.key(*record, key).partition % self.lanes == self.index).count()
            as u64
    }
}
