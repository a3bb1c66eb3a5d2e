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
    ahead: Ahead,
}

/// What was made of a record.
pub(super) struct Made<'a> {
    /// The key that was written last.
    pub(super) key: &'a [u8],
    /// `None` is a tombstone.
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a Headers,
}

impl Share {
    pub(super) fn new(maker: Maker, lanes: u32, index: u32) -> Self {
        let (key, value, headers) = (Vec::new(), Vec::new(), Headers::default());
        Self { maker, lanes, index, key, value, headers, ahead: Ahead::default() }
    }

    /// Writes value and headers of a record.
    ///
    /// # Errors
    /// When the record cannot be made now.
    pub(super) fn make(&mut self, facts: &Facts) -> Result<Made<'_>, MakeError> {
        let payload = self.maker.value(facts, &mut self.value)?;
        self.maker.headers(facts, &mut self.headers);
        let value = (payload == Payload::Value).then_some(self.value.as_slice());
        Ok(Made { key: &self.key, value, headers: &self.headers })
    }
}

impl Owner for Share {
    fn count(&mut self, from: u64, to: u64) -> u64 {
        if self.lanes == 1 {
            return to.saturating_sub(from);
        }
        let Self { maker, key, ahead, lanes, index, .. } = self;
        let mut own =
            |record| ahead.find(record, |record| maker.key(record, key).partition % *lanes == *index);
        (from..to).filter(|record| own(*record)).count() as u64
    }
}

impl Sequence for Share {
    fn own(&mut self, sequence: u64) -> Option<(u64, u32, &[u8])> {
        // One lane owns all, which needs no division and nothing to be remembered.
        if self.lanes > 1 && self.ahead.take(sequence) == Some(false) {
            return None;
        }
        let Keyed { id, partition } = self.maker.key(sequence, &mut self.key);
        (self.lanes == 1 || partition % self.lanes == self.index).then_some((id, partition, &self.key))
    }
}

/// Records that are remembered; few in a test, which has to get beyond them.
const AHEAD: u64 = if cfg!(test) { 1 << 10 } else { 1 << 16 };

/// Which records are the lane's own, from when they were counted until they are walked, so that the keys of others' records
/// are computed once and not twice. A ring; what does not fit is computed again.
#[derive(Debug, Default)]
struct Ahead {
    own: Box<[bool]>,
    from: u64,
    to: u64,
}

impl Ahead {
    /// Whether a record is the lane's own; computed, and remembered where there is room, when that is not known.
    fn find(&mut self, record: u64, compute: impl FnOnce(u64) -> bool) -> bool {
        if let Some(own) = self.known(record) {
            return own;
        }
        let own = compute(record);
        if self.from == self.to {
            (self.from, self.to) = (record, record);
        }
        if record == self.to && self.to - self.from < AHEAD {
            if self.own.is_empty() {
                self.own = vec![false; AHEAD as usize].into();
            }
            if let Some(place) = self.own.get_mut((record % AHEAD) as usize) {
                *place = own;
                self.to += 1;
            }
        }
        own
    }

    fn known(&self, record: u64) -> Option<bool> {
        let known = (self.from..self.to).contains(&record);
        self.own.get((record % AHEAD) as usize).copied().filter(|_| known)
    }

    /// What is known of a record, which is walked now: it and those before it are forgotten.
    fn take(&mut self, record: u64) -> Option<bool> {
        let own = self.known(record);
        if record >= self.from {
            self.from = (record + 1).min(self.to);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn truth(record: u64) -> bool {
        record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 1
    }

    proptest! {
        /// Whatever is counted, given up or walked in between: the answers are right, and of records that fit each is
        /// computed once.
        #[test]
        fn what_is_remembered_is_right(steps in prop::collection::vec((0_u64..1500, 0_u64..1500, any::<bool>()), 1..12)) {
            let (mut ahead, computed) = (Ahead::default(), Cell::new(0_u64));
            let (mut next, mut counted) = (0, 0);
            let compute = |record| {
                computed.set(computed.get() + 1);
                truth(record)
            };
            let fits = steps.iter().map(|step| step.0).sum::<u64>() <= AHEAD;
            for (due, walk, give_up) in steps {
                for record in counted..counted + due {
                    prop_assert_eq!(ahead.find(record, compute), truth(record));
                }
                counted += due;
                let to = (next + walk).min(counted);
                for record in next..to {
                    if give_up {
                        prop_assert_eq!(ahead.find(record, compute), truth(record));
                    } else {
                        prop_assert!(ahead.take(record).is_none_or(|own| own == truth(record)));
                    }
                }
                next = to;
            }
            prop_assert!(!fits || computed.get() == counted, "{} of {counted}", computed.get());
        }
    }
}
