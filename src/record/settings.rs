//! Settings of what is sent: keys and values.

pub mod avro;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::avro::AvroValueSettings;
use crate::config::{Problem, key};

/// Enough distinct keys that no cache of the system under test holds them all by luck.
const DEFAULT_CARDINALITY: u64 = 1_000_000;
/// The size of a 64-bit id.
const DEFAULT_KEY_SIZE_BYTES: u32 = 8;
/// The size of a small event; results are usually quoted for 100 B to 1 KB.
const DEFAULT_VALUE_SIZE_BYTES: u32 = 500;
/// Room for the number of any key in base 256; fewer bytes could make two keys the same.
const MIN_KEY_SIZE_BYTES: u32 = 1;
/// Far more than anybody sends through Kafka. What client and broker take is theirs to say (`message.max.bytes`).
const MAX_SIZE_BYTES: u32 = 100 << 20;

/// The keys of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeySettings {
    /// auto (that of the value, when it has a key of its own, else uniform), none (no key), sequential (0, 1, 2, … and around again), uniform (each key equally likely) or value (taken from the value).
    pub kind: KeyKind,
    /// Number of distinct keys.
    pub cardinality: u64,
    /// Size of a key in bytes.
    pub size: u32,
}

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// That of the value, when it has a key of its own, else uniform.
    #[default]
    Auto,
    /// No key.
    None,
    /// 0, 1, 2, … and around again after `cardinality` keys.
    Sequential,
    /// Each of `cardinality` keys is equally likely.
    Uniform,
    /// Taken from the value, for values that have a key of their own.
    Value,
}

impl Default for KeySettings {
    fn default() -> Self {
        KeySettings {
            kind: KeyKind::default(),
            cardinality: DEFAULT_CARDINALITY,
            size: DEFAULT_KEY_SIZE_BYTES,
        }
    }
}

impl KeySettings {
    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str, value: &ValueSettings) -> Vec<Problem> {
        let mut problems = Vec::new();
        match self.kind_for(value) {
            KeyKind::None => return problems,
            KeyKind::Value if !value.has_key() => {
                problems.push(Problem::new(
                    key(at, "kind"),
                    "\"value\" needs values that have a key of their own; use another kind",
                ));
                return problems;
            }
            KeyKind::Value => return problems,
            KeyKind::Auto | KeyKind::Sequential | KeyKind::Uniform => {}
        }
        if self.cardinality == 0 {
            problems.push(Problem::new(
                key(at, "cardinality"),
                "0 leaves no key to send; use 1 or more, or kind = \"none\"",
            ));
        }
        if !(MIN_KEY_SIZE_BYTES..=MAX_SIZE_BYTES).contains(&self.size) {
            problems.push(Problem::new(
                key(at, "size"),
                format!("{} is not a size of a key; use {MIN_KEY_SIZE_BYTES} to {MAX_SIZE_BYTES} bytes, or kind = \"none\"", self.size),
            ));
        } else if self.size < 8 && self.cardinality > 1 << (8 * self.size) {
            problems.push(Problem::new(
                key(at, "size"),
                format!(
                    "{} bytes cannot hold {} distinct keys; make the keys longer or cardinality smaller",
                    self.size, self.cardinality
                ),
            ));
        }
        problems
    }

    /// The kind that is used with these values.
    pub fn kind_for(&self, value: &ValueSettings) -> KeyKind {
        match self.kind {
            KeyKind::Auto if value.has_key() => KeyKind::Value,
            KeyKind::Auto => KeyKind::Uniform,
            kind => kind,
        }
    }

    /// Whether a key can come twice among the first `records` records (`None`: no end is known).
    pub fn repeats(&self, records: Option<u64>, value: &ValueSettings) -> bool {
        match self.kind_for(value) {
            KeyKind::None => false,
            KeyKind::Auto | KeyKind::Uniform | KeyKind::Value => true,
            KeyKind::Sequential => records.is_none_or(|records| records > self.cardinality),
        }
    }
}

/// The values of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ValueSettings {
    /// Random bytes that no codec can shrink.
    Random(RandomValueSettings),
    /// A JSON object with the record's stream, partition, sequence, key and intended time.
    Json(JsonValueSettings),
    /// Avro for a schema of yours, with made-up values and the record's facts.
    Avro(Box<AvroValueSettings>),
}

/// Values of random bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RandomValueSettings {
    /// Size of a value in bytes.
    pub size: u32,
}

/// Values of JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JsonValueSettings {
    /// Size in bytes up to which a value is padded; 0 is no padding.
    pub size: u32,
    /// Wrap the object in Kafka Connect's `{"schema": …, "payload": …}` envelope.
    pub connect_schema: bool,
}

impl Default for RandomValueSettings {
    fn default() -> Self {
        RandomValueSettings { size: DEFAULT_VALUE_SIZE_BYTES }
    }
}

impl Default for ValueSettings {
    fn default() -> Self {
        ValueSettings::Random(RandomValueSettings::default())
    }
}

impl ValueSettings {
    /// Whether the values have a key of their own.
    pub const fn has_key(&self) -> bool {
        match self {
            ValueSettings::Random(_) | ValueSettings::Json(_) | ValueSettings::Avro(_) => false,
        }
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let size = match self {
            ValueSettings::Random(RandomValueSettings { size })
            | ValueSettings::Json(JsonValueSettings { size, .. }) => size,
            ValueSettings::Avro(avro) => return avro.problems(at),
        };
        if *size <= MAX_SIZE_BYTES {
            return Vec::new();
        }
        vec![Problem::new(
            key(at, "size"),
            format!("{size} is too large; use at most {MAX_SIZE_BYTES} bytes"),
        )]
    }
}
