//! The keys of markers: one for each partition, that no other record has and that falls on the partition.

use std::sync::Arc;

use super::format::{BuildError, Format};
use super::hash::partition;
use super::key::Keys;

/// The keys of a stream's markers by partition, shared among its lanes.
#[derive(Debug, Clone, Default)]
pub(super) struct MarkerKeys(Arc<[(u64, Box<[u8]>)]>);

impl MarkerKeys {
    /// Finds them. `own` makes the keys where they are the format's.
    ///
    /// # Errors
    /// When the keys have no room for more numbers than those of the records.
    pub(super) fn find(
        at: &str,
        keys: &Keys,
        own: Option<&dyn Format>,
        partitions: u32,
    ) -> Result<Self, BuildError> {
        let mut found: Vec<Option<(u64, Box<[u8]>)>> = vec![None; partitions as usize];
        let mut missing = partitions;
        let mut key = Vec::new();
        for number in keys.marker_numbers() {
            if missing == 0 {
                break;
            }
            key.clear();
            match own {
                Some(format) => format.marker_key(number, &mut key),
                None => keys.encode(number, &mut key),
            }
            if let Some(place @ None) = found.get_mut(partition(&key, partitions) as usize) {
                *place = Some((number, key.as_slice().into()));
                missing -= 1;
            }
        }
        if missing == 0 {
            return Ok(Self(found.into_iter().flatten().collect()));
        }
        let message = format!(
            "leaves no room for the keys of markers, one for each of {partitions} partitions beside those of the records: make the \
             keys longer (size) or their number smaller (cardinality, or the stream's records), or leave marker.interval out"
        );
        Err(BuildError::new(at, message))
    }

    /// The key of a partition's markers with its number.
    pub(super) fn get(&self, partition: u32) -> Option<(u64, &[u8])> {
        self.0.get(partition as usize).map(|(number, key)| (*number, key.as_ref()))
    }

    /// Most bytes of one.
    pub(super) fn max_bytes(&self) -> usize {
        self.0.iter().map(|(_, key)| key.len()).max().unwrap_or(0)
    }
}
