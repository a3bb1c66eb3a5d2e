//! Which records of a stream's one sequence a lane owns.

use std::cell::RefCell;

use crate::core::walk::Owner;
use crate::record::Maker;

/// The lane's share of the sequence.
pub(super) struct Share {
    pub(super) maker: Maker,
    pub(super) lanes: u32,
    pub(super) index: u32,
    /// Where keys are written, so that none is allocated.
    pub(super) key: RefCell<Vec<u8>>,
}

impl Share {
    pub(super) fn new(maker: Maker, lanes: u32, index: u32) -> Self {
        Self { maker, lanes, index, key: RefCell::default() }
    }
}

impl Owner for Share {
    fn count(&self, from: u64, to: u64) -> u64 {
        if self.lanes == 1 {
            return to.saturating_sub(from);
        }
        let mut key = self.key.borrow_mut();
        (from..to).filter(|record| self.maker.key(*record, &mut key).1 % self.lanes == self.index).count()
            as u64
    }
}
