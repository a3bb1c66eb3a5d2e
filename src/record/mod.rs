//! What is sent. Record n of a stream is a function of (seed, stream, n) alone: it does not depend on rate, lanes or
//! restarts, so that any record can be made again. Golden records in the tests pin the bytes.

pub mod hash;
pub mod key;
pub mod settings;
pub mod value;

use hash::{mix, name_hash};
use key::Keys;
use settings::{KeySettings, ValueSettings};
use value::Values;

/// Makes the records of one stream.
#[derive(Debug, Clone)]
pub struct Maker {
    keys: Keys,
    values: Values,
    partitions: u32,
}

/// What a value says about its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The record's number in the stream.
    pub sequence: u64,
    /// The partition that it goes to.
    pub partition: u32,
    /// The number of its key; the sequence when there is no key.
    pub key_id: u64,
    /// The instant that it was due, in milliseconds since 1970.
    pub intended_ms: i64,
}

impl Maker {
    /// A maker for a stream. Streams with the same `seed_name` and seed make the same records.
    #[must_use]
    pub fn new(
        seed: u64,
        seed_name: &str,
        key: &KeySettings,
        value: &ValueSettings,
        partitions: u32,
    ) -> Self {
        // One hash for keys and one for values, so that they are independent of each other.
        let seed = mix(seed ^ name_hash(seed_name));
        let keys = Keys::new(mix(seed ^ 1), key);
        Self { keys, values: Values::new(mix(seed ^ 2), value), partitions: partitions.max(1) }
    }

    /// Writes the key of a record into `key` (left empty when there is none) and returns its number and partition:
    /// murmur2 of the key modulo the partitions, as Kafka's Java client does, or the sequence modulo the partitions.
    pub fn key(&self, sequence: u64, key: &mut Vec<u8>) -> (u64, u32) {
        let id = self.keys.write(sequence, key);
        let partition = if self.keys.is_none() {
            (sequence % u64::from(self.partitions)) as u32
        } else {
            (hash::murmur2(key) & 0x7fff_ffff) % self.partitions
        };
        (id, partition)
    }

    /// Whether records have keys.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        !self.keys.is_none()
    }

    /// Writes the value of a record into `value`.
    pub fn value(&self, facts: &Facts, value: &mut Vec<u8>) {
        self.values.write(facts, value);
    }

    /// The largest record that this maker makes (key and value), in bytes.
    #[must_use]
    pub fn max_record_bytes(&self) -> usize {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        // The last number has the most digits, and everything else has a fixed size.
        let sequence = u64::MAX;
        let (key_id, partition) = self.key(sequence, &mut key);
        let facts =
            Facts { sequence, partition: partition.max(self.partitions - 1), key_id, intended_ms: i64::MAX };
        self.value(&facts, &mut value);
        key.len() + value.len()
    }
}

#[cfg(test)]
mod tests {
    use super::settings::{JsonValueSettings, KeyKind, RandomValueSettings};
    use super::*;

    fn record(maker: &Maker, sequence: u64) -> (u32, Vec<u8>, Vec<u8>) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let (key_id, partition) = maker.key(sequence, &mut key);
        let facts = Facts { sequence, partition, key_id, intended_ms: 1_700_000_000_000 };
        maker.value(&facts, &mut value);
        (partition, key, value)
    }

    fn keys(kind: KeyKind) -> KeySettings {
        KeySettings { kind, cardinality: 1000, size: 8 }
    }

    fn json() -> ValueSettings {
        ValueSettings::Json(JsonValueSettings { size: 0, connect_schema: false })
    }

    #[test]
    fn golden_records_stay_as_they_are() {
        let maker = Maker::new(42, "main", &keys(KeyKind::Uniform), &json(), 4);
        let text: Vec<String> = [0, 1, 1_000_000_007]
            .into_iter()
            .map(|sequence| {
                let (partition, key, value) = record(&maker, sequence);
                format!("{partition} {key:?} {}", String::from_utf8(value).unwrap())
            })
            .collect();
        assert_eq!(text, GOLDEN_JSON);
        let value = ValueSettings::Random(RandomValueSettings { size: 40 });
        let maker = Maker::new(42, "main", &keys(KeyKind::Sequential), &value, 4);
        let (partition, key, value) = record(&maker, 1001);
        assert_eq!(
            (partition, key.as_slice()),
            (GOLDEN_RANDOM_PARTITION, [0, 0, 0, 0, 0, 0, 0, 1].as_slice())
        );
        assert_eq!(value, GOLDEN_RANDOM);
    }

    /// Computed once by a program of another language from the definition.
    const GOLDEN_JSON: [&str; 3] = [
        r#"0 [0, 0, 0, 0, 0, 0, 3, 155] {"id":923,"partition":0,"sequence":0,"intended_ms":1700000000000,"text":""}"#,
        r#"2 [0, 0, 0, 0, 0, 0, 0, 91] {"id":91,"partition":2,"sequence":1,"intended_ms":1700000000000,"text":""}"#,
        r#"3 [0, 0, 0, 0, 0, 0, 1, 106] {"id":362,"partition":3,"sequence":1000000007,"intended_ms":1700000000000,"text":""}"#,
    ];
    const GOLDEN_RANDOM_PARTITION: u32 = 0;
    #[rustfmt::skip]
    const GOLDEN_RANDOM: [u8; 40] = [0, 0, 0, 0, 0, 0, 3, 233, 0, 0, 0, 0, 0, 0, 1, 139, 207, 229, 104, 0, 84, 68, 119, 5, 26, 223, 107, 208, 106, 105, 14, 51, 136, 229, 145, 93, 23, 199, 13, 44];

    #[test]
    fn records_depend_on_seed_and_seed_name_and_nothing_else() {
        let make = |seed, name| {
            record(&Maker::new(seed, name, &keys(KeyKind::Uniform), &ValueSettings::default(), 4), 5)
        };
        assert_eq!(make(1, "a"), make(1, "a"));
        assert_ne!(make(1, "a"), make(2, "a"));
        assert_ne!(make(1, "a"), make(1, "b"));
    }

    #[test]
    fn p9_records_without_keys_go_round_robin() {
        let maker = Maker::new(1, "a", &keys(KeyKind::None), &ValueSettings::default(), 4);
        let mut counts = [0; 4];
        for sequence in 0..1200 {
            let (partition, key, _) = record(&maker, sequence);
            assert!(key.is_empty());
            counts[partition as usize] += 1;
        }
        assert_eq!(counts, [300; 4]);
    }

    #[test]
    fn uniform_keys_are_uniform_over_keys_and_partitions() {
        let maker = Maker::new(7, "a", &keys(KeyKind::Uniform), &ValueSettings::default(), 4);
        let (mut by_key, mut by_partition) = (vec![0_u32; 1000], [0_u32; 4]);
        let mut key = Vec::new();
        for sequence in 0..400_000 {
            let (id, partition) = maker.key(sequence, &mut key);
            by_key[id as usize] += 1;
            by_partition[partition as usize] += 1;
        }
        // 400 expected per key with a deviation of 20; six deviations are never seen by chance.
        assert!(by_key.iter().all(|count| (280..520).contains(count)), "{by_key:?}");
        assert!(by_partition.iter().all(|count| (88_000..112_000).contains(count)), "{by_partition:?}");
    }

    #[test]
    fn the_largest_record_bounds_all_others() {
        for value in [json(), ValueSettings::Json(JsonValueSettings { size: 300, connect_schema: true })] {
            let maker = Maker::new(7, "a", &keys(KeyKind::Uniform), &value, 128);
            let max = maker.max_record_bytes();
            for sequence in (0..64).map(|bit| (1_u64 << bit) - 1) {
                let (_, key, value) = record(&maker, sequence);
                assert!(key.len() + value.len() <= max);
            }
        }
    }
}
