//! Keys: a number by sequence, written in big-endian bytes.

use super::hash::{GOLDEN, below, mix};
use super::settings::{KeyKind, KeySettings};

/// Makes the keys of a stream.
#[derive(Debug, Clone)]
pub struct Keys {
    seed: u64,
    kind: KeyKind,
    cardinality: u64,
    size: usize,
}

impl Keys {
    /// Keys from a seed.
    #[must_use]
    pub fn new(seed: u64, kind: KeyKind, settings: &KeySettings) -> Self {
        Self { seed, kind, cardinality: settings.cardinality.max(1), size: settings.size as usize }
    }

    /// Whether records have no key.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self.kind, KeyKind::None | KeyKind::Value)
    }

    /// Most bytes of a key.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        if self.is_none() { 0 } else { self.size }
    }

    /// Writes the key of a record into an empty buffer and returns its number; `None` when there is no key.
    pub fn write(&self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let id = match self.kind {
            KeyKind::None | KeyKind::Value => return None,
            KeyKind::Sequential => sequence % self.cardinality,
            _ => below(mix(self.seed.wrapping_add(sequence.wrapping_mul(GOLDEN))), self.cardinality),
        };
        let bytes = id.to_be_bytes();
        // Longer keys are padded in front, shorter ones hold the low bytes: `check` refuses a size too small.
        key.resize(self.size.saturating_sub(bytes.len()), 0);
        key.extend(bytes.iter().skip(bytes.len().saturating_sub(self.size)));
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_and_keys_distinct() {
        for size in [1, 4, 8, 20] {
            let settings =
                KeySettings { kind: KeyKind::Sequential, cardinality: 256, size, ..KeySettings::default() };
            let keys = Keys::new(1, KeyKind::Sequential, &settings);
            let mut seen = std::collections::BTreeSet::new();
            let mut key = Vec::new();
            for sequence in 0..512 {
                key.clear();
                assert_eq!(keys.write(sequence, &mut key), Some(sequence % 256));
                assert_eq!(key.len(), size as usize);
                seen.insert(key.clone());
            }
            assert_eq!(seen.len(), 256);
        }
    }
}
