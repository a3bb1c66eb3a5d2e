//! `fillseq` and `upsert`: random bytes under simple keys, as RocksDB's benchmark writes them.

use super::super::Facts;
use super::super::format::{Format, MakeError};
use super::super::hash::{GOLDEN, below, mix};
use super::super::random::RandomBytes;
use super::super::settings::{PresetValueSettings, RandomValueSettings, SizeSetting};
use super::super::text::padded;

/// The sizes of RocksDB's benchmark script.
const FILLSEQ_KEY_DIGITS: usize = 20;
const FILLSEQ_VALUE_BYTES: u32 = 400;
/// db_bench's own share.
const FILLSEQ_COMPRESSIBILITY: f64 = 0.5;
const UPSERT_KEY_BYTES: usize = 8;
const UPSERT_VALUE_BYTES: u32 = 500;
const UPSERT_KEYS: u64 = 1_000_000;

/// Random bytes under simple keys.
#[derive(Debug, Clone)]
pub(super) struct Bytes {
    values: RandomBytes,
    keys: Keys,
}

#[derive(Debug, Clone, Copy)]
enum Keys {
    /// In order, in 20 digits, modulo a number of keys.
    Fillseq(Option<u64>),
    /// Each of so many equally likely, in 8 bytes.
    Upsert { seed: u64, keys: u64 },
}

impl Bytes {
    pub(super) fn fillseq(seed: u64, settings: &PresetValueSettings) -> Self {
        let values = RandomValueSettings {
            size: SizeSetting::Fixed(settings.size.unwrap_or(FILLSEQ_VALUE_BYTES)),
            compressibility: FILLSEQ_COMPRESSIBILITY,
            ..RandomValueSettings::default()
        };
        Self { values: RandomBytes::new(seed, &values), keys: Keys::Fillseq(settings.cardinality) }
    }

    pub(super) fn upsert(seed: u64, settings: &PresetValueSettings) -> Self {
        let values = RandomValueSettings {
            size: SizeSetting::Fixed(settings.size.unwrap_or(UPSERT_VALUE_BYTES)),
            ..RandomValueSettings::default()
        };
        let keys = settings.cardinality.unwrap_or(UPSERT_KEYS).max(1);
        Self { values: RandomBytes::new(seed, &values), keys: Keys::Upsert { seed: mix(seed ^ 1), keys } }
    }
}

impl Format for Bytes {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        self.values.write(facts, value)
    }

    fn max_bytes(&self) -> usize {
        self.values.max_bytes()
    }

    fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        Some(match self.keys {
            Keys::Fillseq(keys) => {
                let id = keys.map_or(sequence, |keys| sequence % keys.max(1));
                padded(id, FILLSEQ_KEY_DIGITS, key);
                id
            }
            Keys::Upsert { seed, keys } => {
                let id = below(mix(seed.wrapping_add(sequence.wrapping_mul(GOLDEN))), keys);
                key.extend_from_slice(&id.to_be_bytes());
                id
            }
        })
    }

    fn marker_key(&self, number: u64, key: &mut Vec<u8>) {
        match self.keys {
            Keys::Fillseq(_) => padded(number, FILLSEQ_KEY_DIGITS, key),
            Keys::Upsert { .. } => key.extend_from_slice(&number.to_be_bytes()),
        }
    }

    fn max_key_bytes(&self) -> usize {
        match self.keys {
            Keys::Fillseq(_) => FILLSEQ_KEY_DIGITS,
            Keys::Upsert { .. } => UPSERT_KEY_BYTES,
        }
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
