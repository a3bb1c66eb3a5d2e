//! Values that are a JSON object with the record's facts.

use super::Facts;
use super::format::{Format, MakeError};
use super::hash::Random;
use super::settings::JsonValueSettings;

/// The schema that Kafka Connect's JSON converter wants beside each value.
const CONNECT_HEAD: &[u8] = br#"{"schema":{"type":"struct","optional":false,"fields":[{"field":"id","type":"int64","optional":false},{"field":"partition","type":"int32","optional":false},{"field":"sequence","type":"int64","optional":false},{"field":"intended_ms","type":"int64","optional":false},{"field":"text","type":"string","optional":false}]},"payload":"#;

/// Makes values of JSON.
#[derive(Debug, Clone)]
pub struct Json {
    seed: u64,
    size: usize,
    connect_schema: bool,
}

impl Json {
    /// Values from a seed.
    #[must_use]
    pub const fn new(seed: u64, settings: &JsonValueSettings) -> Self {
        Self { seed, size: settings.size as usize, connect_schema: settings.connect_schema }
    }
}

impl Format for Json {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        let random = Random::of(self.seed, facts.sequence);
        if self.connect_schema {
            value.extend_from_slice(CONNECT_HEAD);
            // A marker has no field of its own there: a sink would make a column of it.
            let facts = Facts { marker: false, ..*facts };
            write_json(&facts, self.size.saturating_sub(1), random, value);
            value.push(b'}');
        } else {
            write_json(facts, self.size, random, value);
        }
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        // Everything but the numbers has a fixed size.
        let mut value = Vec::new();
        match self.clone().write(&Facts::LONGEST, &mut value) {
            Ok(()) | Err(_) => value.len(),
        }
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
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
    if facts.marker {
        // Its number is not the stream's sequence, though it stands in the same place.
        value.extend_from_slice(br#","marker":true"#);
    }
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
    use super::super::settings::ValueSettings;
    use super::super::value::tests::{FACTS, write};
    use super::*;

    #[test]
    fn json_carries_the_facts_and_is_padded_to_size() {
        for size in [0, 1, 150, 151, 4000] {
            let settings = ValueSettings::Json(JsonValueSettings {
                size,
                connect_schema: false,
                ..JsonValueSettings::default()
            });
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
    fn a_marker_says_that_it_is_one_except_in_the_envelope_of_connect() {
        for (connect_schema, size) in [(false, 0), (false, 300), (true, 0), (true, 900)] {
            let json = JsonValueSettings { size, connect_schema, ..JsonValueSettings::default() };
            let settings = ValueSettings::Json(json);
            let value = write(&settings, &Facts { marker: true, ..FACTS });
            assert!(size == 0 || value.len() == size as usize);
            let json: serde_json::Value = serde_json::from_slice(&value).unwrap();
            let said = json.get("marker").is_some_and(|marker| marker == true);
            let in_payload = json.pointer("/payload/marker").is_some();
            assert_eq!((said, in_payload), (!connect_schema, false), "{json}");
            assert!(!String::from_utf8(write(&settings, &FACTS)).unwrap().contains("marker"));
        }
    }

    #[test]
    fn the_envelope_of_connect_holds_the_same_object_and_describes_all_of_it() {
        let settings = ValueSettings::Json(JsonValueSettings {
            size: 700,
            connect_schema: true,
            ..JsonValueSettings::default()
        });
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
}
