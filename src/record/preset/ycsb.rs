//! `ycsb`: records of the Yahoo! Cloud Serving Benchmark: ten fields of random text under keys like
//! `user6284781860667377211`, as a JSON object.

use super::super::Facts;
use super::super::format::{Format, MakeError};
use super::super::hash::{GOLDEN, Random, below, mix};
use super::super::settings::PresetValueSettings;
use super::super::text::{NUMBER_BYTES, facts_fields, letters, number};
use super::seed_of;

/// `fieldcount` and `fieldlength` of YCSB's core workloads.
const FIELDS: u8 = 10;
const FIELD_BYTES: u32 = 100;
const RECORDS: u64 = 1_000_000;

/// Records of YCSB.
#[derive(Debug, Clone)]
pub(super) struct Ycsb {
    seed: u64,
    key_seed: u64,
    records: u64,
    field_bytes: usize,
}

impl Ycsb {
    pub(super) fn new(seed: u64, settings: &PresetValueSettings) -> Self {
        Self {
            seed,
            key_seed: mix(seed ^ 1),
            records: settings.cardinality.unwrap_or(RECORDS).max(1),
            field_bytes: settings.size.unwrap_or(FIELD_BYTES) as usize,
        }
    }

    fn record(&self, sequence: u64) -> u64 {
        below(mix(self.key_seed.wrapping_add(sequence.wrapping_mul(GOLDEN))), self.records)
    }
}

/// The key of a record with YCSB's `insertorder=hashed`: its 64-bit FNV hash without the sign.
fn write_key(record: u64, out: &mut Vec<u8>) {
    let hash = record.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    out.extend_from_slice(b"user");
    number(hash.cast_signed().unsigned_abs(), out);
}

impl Format for Ycsb {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        value.reserve(self.max_bytes());
        value.extend_from_slice(b"{\"ycsb_key\":\"");
        if facts.marker {
            self.marker_key(facts.key_id, value);
        } else {
            write_key(self.record(facts.sequence), value);
        }
        value.push(b'"');
        let mut random = Random::of(seed_of(self.seed, facts.marker), facts.sequence);
        for field in 0..FIELDS {
            value.extend_from_slice(b",\"field");
            value.push(b'0' + field);
            value.extend_from_slice(b"\":\"");
            letters(self.field_bytes, &mut random, value);
            value.push(b'"');
        }
        facts_fields(facts, value);
        value.push(b'}');
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        let facts = 13 + 10 + 12 + 20 + 15 + 20;
        13 + 6 + NUMBER_BYTES + 1 + usize::from(FIELDS) * (12 + self.field_bytes) + facts + 1
    }

    fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let record = self.record(sequence);
        write_key(record, key);
        Some(record)
    }

    fn marker_key(&self, id: u64, key: &mut Vec<u8>) {
        key.extend_from_slice(b"marker");
        number(id, key);
    }

    fn max_key_bytes(&self) -> usize {
        4 + NUMBER_BYTES
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
