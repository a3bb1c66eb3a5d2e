//! What is sent. Record n of a stream is a function of (seed, stream, n) alone: it does not depend on rate, lanes or
//! restarts, so that any record can be made again. Golden records in the tests pin the bytes.

pub mod file;
pub mod format;
pub mod hash;
pub mod headers;
pub mod json;
pub mod key;
pub mod permute;
pub mod preset;
pub mod random;
pub mod settings;
pub mod template;
pub mod text;
pub mod value;

use format::{BuildError, Format, MakeError};
use hash::{mix, name_hash};
use headers::Headers;
use key::Keys;
use settings::{KeyKind, KeySettings, ValueSettings};

/// What is wanted of a stream's records.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// Streams with the same seed name and seed send the same records.
    pub seed_name: &'a str,
    /// The full dotted key of the stream's settings, for errors.
    pub at: &'a str,
    /// The run's id, for a header.
    pub run_id: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The topic's partitions.
    pub partitions: u32,
    /// The keys.
    pub key: &'a KeySettings,
    /// The values.
    pub value: &'a ValueSettings,
}

/// Makes the records of one stream.
#[derive(Debug)]
pub struct Maker {
    keys: Keys,
    /// Keys come from the value.
    own_keys: bool,
    format: Box<dyn Format>,
    partitions: u32,
}

/// A record's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyed {
    /// The key's number; the record's sequence when it has no key.
    pub id: u64,
    /// The partition that it belongs to.
    pub partition: u32,
}

/// What was written as the value of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// The buffer holds the value.
    Value,
    /// The record has no value: it deletes its key.
    Tombstone,
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
    /// The record is a marker: `sequence` is the marker's own number and `key_id` a reserved one.
    pub marker: bool,
}

impl Maker {
    /// A maker for a stream.
    ///
    /// # Errors
    /// When a file or schema that the settings name cannot be used.
    pub fn new(wanted: &Wanted<'_>) -> Result<Self, BuildError> {
        // One hash for keys and one for values, so that they are independent of each other.
        let seed = mix(wanted.seed ^ name_hash(wanted.seed_name));
        let at = crate::config::key(wanted.at, "value");
        let of = value::Of { seed: mix(seed ^ 2), at: &at, topic: wanted.topic, run_id: wanted.run_id };
        let kind = wanted.key.kind_for(wanted.value);
        Ok(Self {
            keys: Keys::new(mix(seed ^ 1), kind, wanted.key),
            own_keys: kind == KeyKind::Value,
            format: value::format(of, wanted.value)?,
            partitions: wanted.partitions.max(1),
        })
    }

    /// The same maker for another lane.
    #[must_use]
    pub fn for_lane(&self) -> Self {
        Self { keys: self.keys.clone(), format: self.format.for_lane(), ..*self }
    }

    /// Writes the key of a record into `key` (left empty when there is none) and tells its number and partition:
    /// murmur2 of the key modulo the partitions, as Kafka's Java client does, or the sequence modulo the partitions.
    pub fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Keyed {
        key.clear();
        let id = if self.own_keys { self.format.key(sequence, key) } else { self.keys.write(sequence, key) };
        match id {
            Some(id) => Keyed { id, partition: (hash::murmur2(key) & 0x7fff_ffff) % self.partitions },
            None => Keyed { id: sequence, partition: (sequence % u64::from(self.partitions)) as u32 },
        }
    }

    /// Whether records have keys.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        self.own_keys || !self.keys.is_none()
    }

    /// Writes the value of a record into `value`.
    ///
    /// # Errors
    /// When the record cannot be made now.
    pub fn value(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<Payload, MakeError> {
        value.clear();
        self.format.write(facts, value)?;
        Ok(Payload::Value)
    }

    /// Writes the headers of a record.
    pub fn headers(&mut self, facts: &Facts, headers: &mut Headers) {
        headers.clear();
        self.format.headers(facts, headers);
    }

    /// Number of records after which the values are at their end, when they have one.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        self.format.records()
    }

    /// What may be a mistake though records can be made, each a sentence.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.format.warnings()
    }

    /// The largest record that this maker makes (key and value), in bytes.
    #[must_use]
    pub fn max_record_bytes(&self) -> usize {
        let key = if self.own_keys { self.format.max_key_bytes() } else { self.keys.max_bytes() };
        key + self.format.max_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::settings::{JsonValueSettings, KeyKind, RandomValueSettings, SizeSetting};
    use super::*;

    fn make(seed: u64, seed_name: &str, key: &KeySettings, value: &ValueSettings, partitions: u32) -> Maker {
        Maker::new(&Wanted {
            seed,
            seed_name,
            at: "streams.a",
            run_id: "r",
            topic: "t",
            partitions,
            key,
            value,
        })
        .unwrap()
    }

    fn record(maker: &mut Maker, sequence: u64) -> (u32, Vec<u8>, Vec<u8>) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let Keyed { id: key_id, partition } = maker.key(sequence, &mut key);
        let facts = Facts { sequence, partition, key_id, intended_ms: 1_700_000_000_000, marker: false };
        assert_eq!(maker.value(&facts, &mut value), Ok(Payload::Value));
        (partition, key, value)
    }

    fn keys(kind: KeyKind) -> KeySettings {
        KeySettings { kind, cardinality: 1000, ..KeySettings::default() }
    }

    fn json() -> ValueSettings {
        ValueSettings::Json(JsonValueSettings {
            size: 0,
            connect_schema: false,
            ..JsonValueSettings::default()
        })
    }

    #[test]
    fn golden_records_stay_as_they_are() {
        let mut maker = make(42, "main", &keys(KeyKind::Uniform), &json(), 4);
        let text: Vec<String> = [0, 1, 1_000_000_007]
            .into_iter()
            .map(|sequence| {
                let (partition, key, value) = record(&mut maker, sequence);
                format!("{partition} {key:?} {}", String::from_utf8(value).unwrap())
            })
            .collect();
        assert_eq!(text, GOLDEN_JSON);
        let value = ValueSettings::Random(RandomValueSettings {
            size: SizeSetting::Fixed(40),
            ..RandomValueSettings::default()
        });
        let mut maker = make(42, "main", &keys(KeyKind::Sequential), &value, 4);
        let (partition, key, value) = record(&mut maker, 1001);
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
            record(&mut make(seed, name, &keys(KeyKind::Uniform), &ValueSettings::default(), 4), 5)
        };
        assert_eq!(make(1, "a"), make(1, "a"));
        assert_ne!(make(1, "a"), make(2, "a"));
        assert_ne!(make(1, "a"), make(1, "b"));
    }

    #[test]
    fn p9_records_without_keys_go_round_robin() {
        let mut maker = make(1, "a", &keys(KeyKind::None), &ValueSettings::default(), 4);
        let mut counts = [0; 4];
        for sequence in 0..1200 {
            let (partition, key, _) = record(&mut maker, sequence);
            assert!(key.is_empty());
            counts[partition as usize] += 1;
        }
        assert_eq!(counts, [300; 4]);
    }

    #[test]
    fn uniform_keys_are_uniform_over_keys_and_partitions() {
        let mut maker = make(7, "a", &keys(KeyKind::Uniform), &ValueSettings::default(), 4);
        let (mut by_key, mut by_partition) = (vec![0_u32; 1000], [0_u32; 4]);
        let mut key = Vec::new();
        for sequence in 0..400_000 {
            let Keyed { id, partition } = maker.key(sequence, &mut key);
            by_key[id as usize] += 1;
            by_partition[partition as usize] += 1;
        }
        // 400 expected per key with a deviation of 20; six deviations are never seen by chance.
        assert!(by_key.iter().all(|count| (280..520).contains(count)), "{by_key:?}");
        assert!(by_partition.iter().all(|count| (88_000..112_000).contains(count)), "{by_partition:?}");
    }

    #[test]
    fn the_largest_record_bounds_all_others() {
        for value in [
            json(),
            ValueSettings::Json(JsonValueSettings {
                size: 300,
                connect_schema: true,
                ..JsonValueSettings::default()
            }),
        ] {
            let mut maker = make(7, "a", &keys(KeyKind::Uniform), &value, 128);
            let max = maker.max_record_bytes();
            for sequence in (0..64).map(|bit| (1_u64 << bit) - 1) {
                let (_, key, value) = record(&mut maker, sequence);
                assert!(key.len() + value.len() <= max);
            }
        }
    }
}
