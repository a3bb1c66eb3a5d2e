//! Values. Every format carries partition and sequence, so that a system that stores the value can be asked how far
//! it is.

use super::Facts;
use super::hash::{GOLDEN, mix};
use super::settings::ValueSettings;

/// Makes the values of a stream.
#[derive(Debug, Clone)]
pub struct Values {
    seed: u64,
    format: Format,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Random { size: usize },
    Json { size: usize, connect_schema: bool },
}

/// Bytes in front of a random value: sequence, partition and intended time, big-endian.
const RANDOM_HEAD: usize = 20;

/// The schema that Kafka Connect's JSON converter wants beside each value.
const CONNECT_HEAD: &[u8] = br#"{"schema":{"type":"struct","optional":false,"fields":[{"field":"id","type":"int64","optional":false},{"field":"partition","type":"int32","optional":false},{"field":"sequence","type":"int64","optional":false},{"field":"intended_ms","type":"int64","optional":false},{"field":"text","type":"string","optional":false}]},"payload":"#;

impl Values {
    /// Values from a seed.
    #[must_use]
    pub fn new(seed: u64, settings: &ValueSettings) -> Self {
        let format = match settings {
            ValueSettings::Random(random) => Format::Random { size: random.size as usize },
            ValueSettings::Json(json) => {
                Format::Json { size: json.size as usize, connect_schema: json.connect_schema }
            }
        };
        Self { seed, format }
    }

    /// Writes the value of a record.
    pub fn write(&self, facts: &Facts, value: &mut Vec<u8>) {
        value.clear();
        // Each record has a stream of random numbers of its own, found without making those before it.
        let random = Random(mix(self.seed.wrapping_add(facts.sequence.wrapping_mul(GOLDEN))));
        match self.format {
            Format::Random { size } => write_random(facts, size, random, value),
            Format::Json { size, connect_schema: false } => write_json(facts, size, random, value),
            Format::Json { size, connect_schema: true } => {
                value.extend_from_slice(CONNECT_HEAD);
                write_json(facts, size.saturating_sub(1), random, value);
                value.push(b'}');
            }
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
}

fn write_random(facts: &Facts, size: usize, mut random: Random, value: &mut Vec<u8>) {
    value.reserve(size.max(RANDOM_HEAD) + 8);
    value.extend_from_slice(&facts.sequence.to_be_bytes());
    value.extend_from_slice(&facts.partition.to_be_bytes());
    value.extend_from_slice(&facts.intended_ms.to_be_bytes());
    while value.len() < size {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.truncate(size);
}

fn write_json(facts: &Facts, size: usize, mut random: Random, value: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    let field = |value: &mut Vec<u8>, name: &[u8], digits: &str| {
        value.extend_from_slice(name);
        value.extend_from_slice(digits.as_bytes());
    };
    field(value, br#"{"id":"#, number.format(facts.key_id));
    field(value, br#","partition":"#, number.format(facts.partition));
    field(value, br#","sequence":"#, number.format(facts.sequence));
    field(value, br#","intended_ms":"#, number.format(facts.intended_ms));
    value.extend_from_slice(br#","text":""#);
    // Letters that JSON need not escape: 6 bits each, ten of a number.
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -";
    let end = size.saturating_sub(2);
    while value.len() < end {
        let mut bits = random.next();
        for _ in 0..10.min(end - value.len()) {
            value.push(LETTERS.get((bits & 63) as usize).copied().unwrap_or(b' '));
            bits >>= 6;
        }
    }
    value.extend_from_slice(br#""}"#);
}

#[cfg(test)]
mod tests {
    use super::super::settings::{JsonValueSettings, RandomValueSettings};
    use super::*;

    const FACTS: Facts = Facts { sequence: 77, partition: 3, key_id: 9, intended_ms: 1_700_000_000_123 };

    fn write(settings: &ValueSettings, facts: &Facts) -> Vec<u8> {
        let mut value = vec![1, 2, 3];
        Values::new(5, settings).write(facts, &mut value);
        value
    }

    #[test]
    fn json_carries_the_facts_and_is_padded_to_size() {
        for size in [0, 1, 150, 151, 4000] {
            let settings = ValueSettings::Json(JsonValueSettings { size, connect_schema: false });
            let value = write(&settings, &FACTS);
            let json: serde_json::Value = serde_json::from_slice(&value).unwrap();
            assert_eq!(json["id"], 9);
            assert_eq!(json["partition"], 3);
            assert_eq!(json["sequence"], 77);
            assert_eq!(json["intended_ms"], 1_700_000_000_123_u64);
            assert!(size <= 100 || value.len() == size as usize, "{size}: {}", value.len());
        }
    }

    #[test]
    fn the_envelope_of_connect_holds_the_same_object_and_describes_all_of_it() {
        let settings = ValueSettings::Json(JsonValueSettings { size: 700, connect_schema: true });
        let value = write(&settings, &FACTS);
        assert_eq!(value.len(), 700);
        let json: serde_json::Value = serde_json::from_slice(&value).unwrap();
        let described: Vec<&str> = json["schema"]["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f["field"].as_str().unwrap())
            .collect();
        let mut held: Vec<&str> = json["payload"].as_object().unwrap().keys().map(String::as_str).collect();
        held.sort_by_key(|name| described.iter().position(|field| field == name));
        assert_eq!(described, held);
        assert_eq!(json["payload"]["sequence"], 77);
    }

    #[test]
    fn random_values_have_their_size_and_differ_from_record_to_record() {
        for size in [0, 7, 20, 21, 500] {
            let settings = ValueSettings::Random(RandomValueSettings { size });
            assert_eq!(write(&settings, &FACTS).len(), size as usize);
        }
        let settings = ValueSettings::Random(RandomValueSettings { size: 100 });
        let (one, two) = (write(&settings, &FACTS), write(&settings, &Facts { sequence: 78, ..FACTS }));
        assert_eq!(one[..8], 77_u64.to_be_bytes());
        assert_eq!(one[8..12], 3_u32.to_be_bytes());
        assert_ne!(one[20..], two[20..]);
    }
}
