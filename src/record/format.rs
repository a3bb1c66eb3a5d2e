//! What every format of values is to the rest: one trait, so that a new format is one new file and one line in
//! [`super::value`].

use super::Facts;
use super::headers::Headers;

/// Why a record cannot be made now, though its settings are good: its file went away, say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MakeError(pub String);

/// Why a maker cannot be built from its settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct BuildError {
    /// The full dotted key to blame.
    pub key: String,
    /// What was found, what is right, and the remedy.
    pub message: String,
    /// Whether a system outside (a schema registry) did not answer: the settings may be good.
    pub unreachable: bool,
}

impl BuildError {
    /// A problem with the value at `key`.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), unreachable: false }
    }
}

/// What a format may need to know of its stream.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    /// Seed of the stream's values.
    pub seed: u64,
    /// The full dotted key of the value's settings, for errors.
    pub at: &'a str,
    /// The topic, for the subjects of a schema registry.
    pub topic: &'a str,
    /// The run's id, for values that say it.
    pub run_id: &'a str,
    /// Nothing may be written anywhere, a schema registry among others.
    pub look_only: bool,
}

/// Makes values, and keys where they are a part of the value. Every method is a function of the record's facts and the
/// settings: what was made before must not show (a cache may stay).
pub trait Format: std::fmt::Debug + Send {
    /// Writes the value of a record into an empty buffer. Markers are records too: a format writes their facts where it
    /// writes those of any other.
    ///
    /// # Errors
    /// When the record cannot be made now; it is then dropped and counted.
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError>;

    /// Most bytes of a value.
    fn max_bytes(&self) -> usize;

    /// Writes the key that belongs to the value of a record into an empty buffer and returns its number, for formats that
    /// have one (see `ValueSettings::has_key`). A record that cannot be made has no key; `write` then tells the error.
    fn key(&mut self, _sequence: u64, _key: &mut Vec<u8>) -> Option<u64> {
        None
    }

    /// Most bytes of such a key.
    fn max_key_bytes(&self) -> usize {
        0
    }

    /// Writes a key with a number for the markers of one partition into an empty buffer, for formats that have keys: one that
    /// no record has, and that whoever reads the keys can read.
    fn marker_key(&self, number: u64, key: &mut Vec<u8>) {
        key.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Adds the headers that belong to the format.
    fn headers(&mut self, _facts: &Facts, _headers: &mut Headers) {}

    /// Number of records after which the values are at their end.
    fn records(&self) -> Option<u64> {
        None
    }

    /// What may be a mistake though values can be made, each a sentence.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// The same for another lane.
    fn for_lane(&self) -> Box<dyn Format>;
}
