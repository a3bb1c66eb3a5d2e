//! What the ingestor keeps: the last value of each key, bounded, and how far it has read each partition.

use std::collections::{BTreeMap, HashMap};

/// More keys than any demo shows, few enough for a laptop.
const DEFAULT_MAX_KEYS: usize = 1_000_000;
/// Bounds memory where the values are large.
const DEFAULT_MAX_BYTES: usize = 256 * 1024 * 1024;
/// What a row costs besides key and value, about: two boxes, their heap blocks and the map's slot.
const ROW_OVERHEAD_BYTES: usize = 96;

/// How much a table may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLimits {
    /// Number of keys.
    pub max_keys: usize,
    /// Keys, values and what a row costs besides, in bytes.
    pub max_bytes: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self { max_keys: DEFAULT_MAX_KEYS, max_bytes: DEFAULT_MAX_BYTES }
    }
}

/// How far one partition was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionProgress {
    /// The offset that will be read next.
    pub next_offset: u64,
    /// The offset that was committed last; `None` before the first commit.
    pub committed_offset: Option<u64>,
    /// Records that the broker dropped before they were read: offsets that were jumped over.
    pub gap_records: u64,
    /// How often offsets were jumped over.
    pub gaps: u64,
}

/// The upsert table and the positions that belong to it.
#[derive(Debug)]
pub struct Table {
    limits: TableLimits,
    rows: HashMap<Box<[u8]>, Box<[u8]>>,
    held_bytes: usize,
    ingested: u64,
    not_kept: u64,
    partitions: BTreeMap<u32, PartitionProgress>,
}

impl Table {
    /// An empty table over partitions `0..partitions`, each read from offset 0.
    #[must_use]
    pub fn new(limits: TableLimits, partitions: u32) -> Self {
        Self {
            limits,
            rows: HashMap::new(),
            held_bytes: 0,
            ingested: 0,
            not_kept: 0,
            partitions: (0..partitions).map(|partition| (partition, PartitionProgress::default())).collect(),
        }
    }

    /// Takes in one record: a value replaces the key's row, no value deletes it, no key leaves no row. A record whose offset
    /// was read before changes nothing. Returns whether it was new.
    pub fn apply(&mut self, partition: u32, offset: u64, key: Option<&[u8]>, value: Option<&[u8]>) -> bool {
        let progress = self.partitions.entry(partition).or_default();
        let Some(jumped) = offset.checked_sub(progress.next_offset) else { return false };
        if jumped > 0 {
            progress.gaps += 1;
            progress.gap_records += jumped;
        }
        progress.next_offset = offset + 1;
        self.ingested += 1;
        match (key, value) {
            (Some(key), Some(value)) => self.upsert(key, value),
            (Some(key), None) => self.delete(key),
            (None, _) => {}
        }
        true
    }

    fn upsert(&mut self, key: &[u8], value: &[u8]) {
        let old = self.rows.get(key).map_or(0, |old| row_bytes(key, old));
        let held_bytes = self.held_bytes - old + row_bytes(key, value);
        let one_more_key = old == 0 && self.rows.len() >= self.limits.max_keys;
        // A row that is there is never left with a value that is not the last one.
        if one_more_key || (held_bytes > self.limits.max_bytes && held_bytes > self.held_bytes) {
            self.delete(key);
            self.not_kept += 1;
            return;
        }
        self.held_bytes = held_bytes;
        match self.rows.get_mut(key) {
            Some(row) => *row = value.into(),
            None => {
                self.rows.insert(key.into(), value.into());
            }
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if let Some(old) = self.rows.remove(key) {
            self.held_bytes -= row_bytes(key, &old);
        }
    }

    /// Notes what the broker has acknowledged as committed.
    pub fn committed(&mut self, offsets: &BTreeMap<u32, u64>) {
        for (partition, offset) in offsets {
            self.partitions.entry(*partition).or_default().committed_offset = Some(*offset);
        }
    }

    /// The next offsets of the partitions that were read further than was committed.
    #[must_use]
    pub fn to_commit(&self) -> BTreeMap<u32, u64> {
        self.partitions
            .iter()
            .filter(|(_, progress)| progress.next_offset > progress.committed_offset.unwrap_or(0))
            .map(|(partition, progress)| (*partition, progress.next_offset))
            .collect()
    }

    /// The last value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.rows.get(key).map(AsRef::as_ref)
    }

    /// Number of keys with a row.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.rows.len()
    }

    /// Bytes held, about.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Records ingested: kept or not, each counts.
    #[must_use]
    pub const fn ingested(&self) -> u64 {
        self.ingested
    }

    /// Records that were ingested and not kept because the table was full.
    #[must_use]
    pub const fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// How much the table may hold.
    #[must_use]
    pub const fn limits(&self) -> TableLimits {
        self.limits
    }

    /// How far each partition was read.
    #[must_use]
    pub const fn partitions(&self) -> &BTreeMap<u32, PartitionProgress> {
        &self.partitions
    }
}

const fn row_bytes(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + ROW_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(max_keys: usize, max_bytes: usize) -> Table {
        Table::new(TableLimits { max_keys, max_bytes }, 2)
    }

    #[test]
    fn the_last_value_of_a_key_stays() {
        let mut table = table(10, 10_000);
        table.apply(0, 0, Some(b"a"), Some(b"1"));
        table.apply(0, 1, Some(b"a"), Some(b"22"));
        table.apply(1, 0, Some(b"b"), Some(b"3"));
        table.apply(1, 1, None, Some(b"4"));
        assert_eq!((table.get(b"a"), table.get(b"b")), (Some(&b"22"[..]), Some(&b"3"[..])));
        assert_eq!((table.keys(), table.ingested()), (2, 4));
        table.apply(1, 2, Some(b"b"), None);
        assert_eq!((table.get(b"b"), table.keys(), table.ingested()), (None, 1, 5));
        assert_eq!(table.held_bytes(), 3 + ROW_OVERHEAD_BYTES);
    }

    #[test]
    fn offsets_that_are_jumped_over_are_counted_as_expired() {
        let mut table = table(10, 10_000);
        table.apply(0, 0, None, None);
        table.apply(0, 1, None, None);
        assert_eq!(table.partitions()[&0].gap_records, 0);
        table.apply(0, 1_002, None, None);
        table.apply(0, 1_003, None, None);
        table.apply(0, 1_014, None, None);
        // What was dropped before the first read counts too.
        table.apply(1, 7, None, None);
        let progress = |partition| table.partitions()[&partition];
        assert_eq!((progress(0).gaps, progress(0).gap_records, progress(0).next_offset), (2, 1_010, 1_015));
        assert_eq!((progress(1).gaps, progress(1).gap_records), (1, 7));
        assert_eq!(table.ingested(), 6);
    }

    #[test]
    fn a_record_that_comes_again_is_not_counted_again() {
        let mut table = table(10, 10_000);
        assert!(table.apply(0, 0, Some(b"a"), Some(b"1")));
        assert!(table.apply(0, 1, Some(b"a"), Some(b"2")));
        assert!(!table.apply(0, 0, Some(b"a"), Some(b"1")));
        assert_eq!((table.ingested(), table.get(b"a")), (2, Some(&b"2"[..])));
    }

    #[test]
    fn z1_a_table_that_is_full_counts_what_it_does_not_keep() {
        let mut by_keys = table(100, usize::MAX);
        for n in 0..1_000_u64 {
            by_keys.apply(0, n, Some(&n.to_be_bytes()), Some(b"v"));
        }
        assert_eq!((by_keys.keys(), by_keys.ingested(), by_keys.not_kept()), (100, 1_000, 900));
        // Keys that are there go on being replaced.
        by_keys.apply(0, 1_000, Some(&7_u64.to_be_bytes()), Some(b"w"));
        assert_eq!(by_keys.get(&7_u64.to_be_bytes()), Some(&b"w"[..]));

        let mut by_bytes = table(usize::MAX, 100_000);
        for n in 0..1_000_u64 {
            by_bytes.apply(0, n, Some(&n.to_be_bytes()), Some(&[0; 1_000]));
            assert!(by_bytes.held_bytes() <= 100_000);
        }
        assert!(by_bytes.not_kept() > 900, "{}", by_bytes.not_kept());
        // A value that grows beyond the limit takes its row away rather than leave an old value.
        by_bytes.apply(0, 1_000, Some(&0_u64.to_be_bytes()), Some(&[0; 100_001]));
        assert_eq!(by_bytes.get(&0_u64.to_be_bytes()), None);
        assert!(by_bytes.held_bytes() <= 100_000);
    }

    #[test]
    fn l2_only_what_was_read_is_committed() {
        let mut table = table(10, 10_000);
        assert!(table.to_commit().is_empty());
        table.apply(1, 0, None, None);
        assert_eq!(table.to_commit(), BTreeMap::from([(1, 1)]));
        table.committed(&BTreeMap::from([(1, 1)]));
        assert!(table.to_commit().is_empty());
        assert_eq!(table.partitions()[&0].committed_offset, None);
    }
}
