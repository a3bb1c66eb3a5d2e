//! Which records of a stream's one sequence a lane owns, and what is needed to make them.

use super::backlog::Sequence;
use crate::core::walk::Owner;
use crate::record::format::MakeError;
use crate::record::headers::Headers;
use crate::record::{Facts, Keyed, Maker, Payload};

/// The lane's share of the sequence.
pub(super) struct Share {
    pub(super) maker: Maker,
    pub(super) lanes: u32,
    pub(super) index: u32,
    // Where records are written, so that nothing is allocated.
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) headers: Headers,
}

impl Share {
    pub(super) fn new(maker: Maker, lanes: u32, index: u32) -> Self {
        let (key, value, headers) = (Vec::new(), Vec::new(), Headers::default());
        Self { maker, lanes, index, key, value, headers }
    }

    /// Writes value (`None` is a tombstone) and headers of a record; they are returned behind the key that was written
    /// last.
    ///
    /// # Errors
    /// When the record cannot be made now.
    pub(super) fn make(&mut self, facts: &Facts) -> Result<(&[u8], Option<&[u8]>, &Headers), MakeError> {
        let payload = self.maker.value(facts, &mut self.value)?;
        self.maker.headers(facts, &mut self.headers);
        Ok((&self.key, (payload == Payload::Value).then_some(self.value.as_slice()), &self.headers))
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

impl Sequence for Share {
    fn own(&mut self, sequence: u64) -> Option<(u64, u32, &[u8])> {
        let Keyed { id, partition } = self.maker.key(sequence, &mut self.key);
        // One lane owns all, which needs no division.
        (self.lanes == 1 || partition % self.lanes == self.index).then_some((id, partition, &self.key))
    }
}
