//! What is sent. Record n of a stream is a function of (seed, stream, n) alone: it does not depend on rate, lanes or
//! restarts, so that any record can be made again. Golden records in the tests pin the bytes.

pub mod avro;
pub mod file;
pub mod format;
pub mod hash;
pub mod headers;
pub mod json;
pub mod key;
mod marker;
pub mod preset;
pub mod random;
pub mod settings;
pub mod shuffle;
pub mod size;
pub mod template;
pub mod text;
pub mod value;
pub mod zipf;

#[cfg(test)]
mod tests;

use std::ffi::CString;

use format::{BuildError, Format, MakeError, Of};
use hash::{Random, mix, name_hash, unit};
use headers::{Headers, MAX_HEADERS};
use key::Keys;
use marker::MarkerKeys;
use settings::{HeaderSettings, KeyKind, KeySettings, ValueSettings};

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
    /// Nothing may be written anywhere, a schema registry among others: `soakd check` only looks.
    pub look_only: bool,
    /// The topic's partitions.
    pub partitions: u32,
    /// The keys.
    pub key: &'a KeySettings,
    /// The values.
    pub value: &'a ValueSettings,
    /// The headers.
    pub headers: &'a HeaderSettings,
    /// Whether there are markers.
    pub markers: bool,
    /// The number of records after which the stream ends, if it does.
    pub records: Option<u64>,
}

/// Makes the records of one stream.
#[derive(Debug)]
pub struct Maker {
    keys: Keys,
    /// Keys come from the value.
    own_keys: bool,
    format: Box<dyn Format>,
    partitions: u32,
    /// Share of the records without a value, and the seed that decides which.
    tombstones: f64,
    tombstone_seed: u64,
    /// The headers that are the same in every record.
    fixed_headers: Headers,
    sequence_header: bool,
    max_header_bytes: usize,
    markers: MarkerKeys,
}

/// The header with the run's id.
const RUN_HEADER: &std::ffi::CStr = c"soakd-run";
/// The header with the sequence in decimal digits.
const SEQUENCE_HEADER: &std::ffi::CStr = c"soakd-sequence";

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

impl Facts {
    /// The facts that take the most room in every format of text: numbers with the most digits.
    pub(crate) const LONGEST: Self = Self {
        sequence: u64::MAX,
        partition: u32::MAX,
        key_id: u64::MAX,
        intended_ms: i64::MIN,
        marker: true,
    };
}

impl Maker {
    /// A maker for a stream.
    ///
    /// # Errors
    /// When a file or schema that the settings name cannot be used, when there are more headers than a record takes, or
    /// when the keys leave no room for those of markers.
    pub fn new(wanted: &Wanted<'_>) -> Result<Self, BuildError> {
        let at = |name| crate::config::key(wanted.at, name);
        // One hash for each purpose, so that they are independent of each other.
        let seed = mix(wanted.seed ^ name_hash(wanted.seed_name));
        let at_value = at("value");
        let of = Of {
            seed: mix(seed ^ 2),
            at: &at_value,
            topic: wanted.topic,
            run_id: wanted.run_id,
            look_only: wanted.look_only,
        };
        let kind = wanted.key.kind_for(wanted.value);
        let keys = Keys::new(mix(seed ^ 1), kind, wanted.key, wanted.records);
        let own_keys = kind == KeyKind::Value;
        let format = value::format(of, wanted.value)?;
        let partitions = wanted.partitions.max(1);
        let markers = if wanted.markers {
            let own = own_keys.then_some(format.as_ref());
            MarkerKeys::find(&at("key"), &keys, own, partitions)?
        } else {
            MarkerKeys::default()
        };
        let mut maker = Self {
            keys,
            own_keys,
            format,
            partitions,
            tombstones: wanted.value.tombstones(),
            tombstone_seed: mix(seed ^ 3),
            fixed_headers: fixed_headers(wanted),
            sequence_header: wanted.headers.sequence,
            max_header_bytes: 0,
            markers,
        };
        maker.measure_headers(&at("headers"))?;
        Ok(maker)
    }

    /// The same maker for another lane.
    #[must_use]
    pub fn for_lane(&self) -> Self {
        Self {
            keys: self.keys.clone(),
            format: self.format.for_lane(),
            fixed_headers: self.fixed_headers.clone(),
            markers: self.markers.clone(),
            ..*self
        }
    }

    /// Writes the key of a record into `key` (left empty when there is none) and tells its number and partition:
    /// murmur2 of the key modulo the partitions, as Kafka's Java client does, or the sequence modulo the partitions.
    pub fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Keyed {
        key.clear();
        let id = if self.own_keys { self.format.key(sequence, key) } else { self.keys.write(sequence, key) };
        match id {
            Some(id) => Keyed { id, partition: hash::partition(key, self.partitions) },
            None => Keyed { id: sequence, partition: (sequence % u64::from(self.partitions)) as u32 },
        }
    }

    /// Whether records have keys.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        self.own_keys || !self.keys.is_none()
    }

    /// The number and the key of a partition's markers; none when the stream has no markers. A marker is made like any other
    /// record, with `marker` set in its facts, its own number as sequence and this number as `key_id`.
    #[must_use]
    pub fn marker_key(&self, partition: u32) -> Option<(u64, &[u8])> {
        self.markers.get(partition)
    }

    /// Writes the value of a record into `value`. A marker always has one.
    ///
    /// # Errors
    /// When the record cannot be made now.
    pub fn value(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<Payload, MakeError> {
        value.clear();
        if self.tombstones > 0.0 && !facts.marker {
            let chance = unit(Random::of(self.tombstone_seed, facts.sequence).next());
            if chance < self.tombstones {
                return Ok(Payload::Tombstone);
            }
        }
        self.format.write(facts, value)?;
        Ok(Payload::Value)
    }

    /// Writes the headers of a record: the fixed ones, those of the format, its sequence.
    pub fn headers(&mut self, facts: &Facts, headers: &mut Headers) {
        headers.copy_from(&self.fixed_headers);
        self.format.headers(facts, headers);
        if self.sequence_header {
            headers.push(SEQUENCE_HEADER, itoa::Buffer::new().format(facts.sequence).as_bytes());
        }
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

    /// The largest record that this maker makes (key, value and headers), in bytes.
    #[must_use]
    pub fn max_record_bytes(&self) -> usize {
        let key = if self.own_keys { self.format.max_key_bytes() } else { self.keys.max_bytes() };
        key.max(self.markers.max_bytes()) + self.format.max_bytes() + self.max_header_bytes
    }

    /// Looks how many headers there are, and how large they can be.
    fn measure_headers(&mut self, at: &str) -> Result<(), BuildError> {
        let partition = self.partitions - 1;
        let facts =
            |number| Facts { sequence: number, partition, key_id: number, intended_ms: 0, marker: false };
        let mut headers = Headers::default();
        for number in [0, u64::MAX] {
            self.headers(&facts(number), &mut headers);
            if headers.len() > MAX_HEADERS {
                let message = format!(
                    "{} headers, with those that belong to the value, are too many; use at most {MAX_HEADERS}",
                    headers.len()
                );
                return Err(BuildError::new(at, message));
            }
            self.max_header_bytes = self.max_header_bytes.max(headers.bytes());
        }
        Ok(())
    }
}

/// The headers that are the same in every record.
fn fixed_headers(wanted: &Wanted<'_>) -> Headers {
    let mut headers = Headers::default();
    if wanted.headers.run {
        headers.push(RUN_HEADER, wanted.run_id.as_bytes());
    }
    for (name, value) in &wanted.headers.custom {
        // The settings refuse names with a zero byte.
        if let Ok(name) = CString::new(name.as_str()) {
            headers.push(&name, value.as_bytes());
        }
    }
    headers
}
