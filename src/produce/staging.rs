//! Records that are due, kept until they are handed over partition by partition.
//!
//! Why: a client that gets a record of another partition each time spends a third of its time on changing the
//! partition (its queue's lock, its memory). So a lane walks the sequence first and stages what is its own, then hands
//! over all that is staged of one partition, then of the next. Within a partition the order is the sequence's. What the
//! client does not take stays staged: it is backlog like any other due record, and goes first.
//!
//! Each partition's records are a chain through one array, so that staging and taking cost a few instructions, whether
//! two records are staged or two thousand.

/// Most records staged. At "max" a partition gets so long a run that the broker has it in large batches: with 1,024 its CPU was
/// a third higher; with 32,768 the lane's own memory costs what that gains.
pub(super) const MAX_STAGED: usize = 8192;
/// No more records are staged when their keys take this much: keys may be of any size.
const MAX_KEY_BYTES: usize = 1 << 20;

/// A due record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) sequence: u64,
    pub(super) intended_ns: u64,
    /// The number of its key.
    pub(super) key_id: u64,
    pub(super) partition: u32,
}

#[derive(Debug)]
struct Entry {
    due: Due,
    /// Where its key is.
    key: (u32, u32),
    /// The next record of the partition.
    next: u32,
}

/// The records of one partition, by their places.
#[derive(Debug, Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;
const EMPTY: Chain = Chain { first: NONE, last: NONE };

/// The staged records of a lane. Grows to [`MAX_STAGED`] and [`MAX_KEY_BYTES`] and no further.
#[derive(Debug)]
pub(super) struct Staging {
    entries: Vec<Entry>,
    keys: Vec<u8>,
    /// By partition.
    chains: Vec<Chain>,
    /// The partitions that have records, in the order in which the first one came.
    turns: Vec<u32>,
    /// The place in `turns` of the partition whose records are handed over now.
    turn: usize,
    staged: usize,
}

impl Staging {
    /// Room for the records of a topic with so many partitions.
    pub(super) fn new(partitions: u32) -> Self {
        Self {
            entries: Vec::with_capacity(MAX_STAGED),
            keys: Vec::new(),
            chains: vec![EMPTY; partitions as usize],
            turns: Vec::new(),
            turn: 0,
            staged: 0,
        }
    }

    /// Records staged and not taken.
    pub(super) const fn len(&self) -> usize {
        self.staged
    }

    /// Whether no more records can be staged before all are taken.
    pub(super) const fn is_full(&self) -> bool {
        self.entries.len() >= MAX_STAGED || self.keys.len() >= MAX_KEY_BYTES
    }

    /// Stages a record behind the others of its partition. One of a partition that the topic does not have is ignored.
    pub(super) fn push(&mut self, due: Due, key: &[u8]) {
        let Some(chain) = self.chains.get_mut(due.partition as usize) else { return };
        let place = self.entries.len() as u32;
        if chain.first == NONE {
            chain.first = place;
            self.turns.push(due.partition);
        } else if let Some(last) = self.entries.get_mut(chain.last as usize) {
            last.next = place;
        }
        chain.last = place;
        let start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.entries.push(Entry { due, key: (start, self.keys.len() as u32), next: NONE });
        self.staged += 1;
    }

    /// The record to be handed over next, with its key.
    pub(super) fn next(&mut self) -> Option<(Due, &[u8])> {
        loop {
            let partition = *self.turns.get(self.turn)?;
            let chain = self.chains.get(partition as usize)?;
            if let Some(entry) = self.entries.get(chain.first as usize) {
                let (start, end) = entry.key;
                return Some((entry.due, self.keys.get(start as usize..end as usize).unwrap_or_default()));
            }
            self.turn += 1;
        }
    }

    /// Takes the record that [`Staging::next`] showed.
    pub(super) fn take(&mut self) {
        if let Some(partition) = self.turns.get(self.turn) {
            self.take_of(*partition);
        }
    }

    fn take_of(&mut self, partition: u32) {
        let Some(chain) = self.chains.get_mut(partition as usize) else { return };
        let Some(entry) = self.entries.get(chain.first as usize) else { return };
        chain.first = entry.next;
        self.staged -= 1;
        if self.staged == 0 {
            self.clear();
        }
    }

    /// The first record of a partition: the oldest one of it.
    fn first(&self, partition: u32) -> Option<Due> {
        let chain = self.chains.get(partition as usize)?;
        self.entries.get(chain.first as usize).map(|entry| entry.due)
    }

    /// The oldest intended time.
    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.turns.iter().filter_map(|partition| self.first(*partition)).map(|due| due.intended_ns).min()
    }

    /// Gives up the records that were intended before an instant; returns how many that were.
    pub(super) fn drop_before(&mut self, at_ns: u64) -> u64 {
        let (mut dropped, mut turn) = (0, 0);
        while let Some(partition) = self.turns.get(turn).copied() {
            if self.first(partition).is_some_and(|due| due.intended_ns < at_ns) {
                self.take_of(partition);
                dropped += 1;
            } else {
                turn += 1;
            }
        }
        dropped
    }

    /// Gives up all of them; returns how many that were.
    pub(super) fn clear(&mut self) -> u64 {
        let dropped = self.staged as u64;
        for partition in self.turns.drain(..) {
            if let Some(chain) = self.chains.get_mut(partition as usize) {
                *chain = EMPTY;
            }
        }
        self.entries.clear();
        self.keys.clear();
        (self.turn, self.staged) = (0, 0);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn due(sequence: u64, partition: u32) -> Due {
        Due { sequence, intended_ns: 1000 + sequence * 10, key_id: sequence * 3, partition }
    }

    fn key(sequence: u64) -> Vec<u8> {
        vec![sequence as u8; (sequence % 5) as usize]
    }

    /// Everything in the order in which it is handed over.
    fn take_all(staging: &mut Staging) -> Vec<Due> {
        let mut taken = Vec::new();
        while let Some((due, own)) = staging.next() {
            assert_eq!(own, key(due.sequence));
            taken.push(due);
            staging.take();
        }
        taken
    }

    #[test]
    fn records_come_partition_by_partition_and_in_order_within_each() {
        let mut staging = Staging::new(3);
        for _ in 0..3 {
            for (sequence, partition) in [(0, 2), (1, 0), (2, 2), (3, 1), (4, 0), (5, 2)] {
                staging.push(due(sequence, partition), &key(sequence));
            }
            let sequences: Vec<u64> = take_all(&mut staging).iter().map(|due| due.sequence).collect();
            assert_eq!(sequences, [0, 2, 5, 1, 4, 3]);
            assert_eq!((staging.len(), staging.entries.len(), staging.keys.len()), (0, 0, 0));
        }
    }

    #[test]
    fn a_partition_that_is_not_there_is_no_record() {
        let mut staging = Staging::new(1);
        staging.push(due(0, 1), &[]);
        assert_eq!((staging.len(), staging.next()), (0, None));
    }

    proptest! {
        /// Whatever was taken, given up for its age or given up altogether in between: nothing is lost, nothing comes
        /// twice, and each partition keeps its order.
        #[test]
        fn nothing_is_lost_or_comes_twice(
            rounds in prop::collection::vec((prop::collection::vec(0_u32..5, 1..40), 0_usize..50, 0_u64..60), 1..8),
        ) {
            let (mut staging, mut sequence) = (Staging::new(5), 0);
            for (partitions, take, age) in rounds {
                let mut model: Vec<Due> = Vec::new();
                for partition in partitions {
                    model.push(due(sequence, partition));
                    staging.push(due(sequence, partition), &key(sequence));
                    sequence += 1;
                }
                let mut taken = Vec::new();
                for _ in 0..take {
                    let Some((due, _)) = staging.next() else { break };
                    taken.push(due);
                    staging.take();
                }
                let left = |taken: &[Due], model: &[Due]| -> Vec<Due> {
                    model.iter().copied().filter(|due| !taken.contains(due)).collect()
                };
                let line_ns = 1000 + (sequence - age.min(sequence)) * 10;
                let mut rest = left(&taken, &model);
                prop_assert_eq!(staging.oldest_ns(), rest.iter().map(|due| due.intended_ns).min());
                let old = rest.iter().filter(|due| due.intended_ns < line_ns).count();
                prop_assert_eq!(staging.drop_before(line_ns), old as u64);
                rest.retain(|due| due.intended_ns >= line_ns);
                prop_assert_eq!(staging.len(), rest.len());
                if age % 3 == 0 {
                    prop_assert_eq!(staging.clear(), rest.len() as u64);
                    rest.clear();
                }
                let mut last = take_all(&mut staging);
                let all = [taken, last.clone()].concat();
                for pair in all.windows(2) {
                    prop_assert!(pair[0].partition != pair[1].partition || pair[0].sequence < pair[1].sequence);
                }
                last.sort_by_key(|due| due.sequence);
                prop_assert_eq!(last, rest);
            }
        }
    }
}
