//! Settings of keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_SIZE_BYTES, ValueSettings, share_problem};
use crate::config::{Problem, key};

/// Enough distinct keys that no cache of the system under test holds them all by luck.
const DEFAULT_CARDINALITY: u64 = 1_000_000;
/// The size of a 64-bit id.
const DEFAULT_KEY_SIZE_BYTES: u32 = 8;
/// What YCSB takes for its zipfian and its hotspot distribution.
const DEFAULT_EXPONENT: f64 = 0.99;
const DEFAULT_HOT_KEYS: f64 = 0.2;
const DEFAULT_HOT_TRAFFIC: f64 = 0.8;
/// A steeper zipf sends one key only.
const MAX_EXPONENT: f64 = 20.0;
/// Doubles tell ranks apart up to here.
const MAX_ZIPF_CARDINALITY: u64 = 1 << 52;
/// Digits of the largest 64-bit number.
pub(in crate::record) const MAX_DIGITS: u32 = 20;
/// No sequence ever comes here: a stream would last for 30,000 years at a million records a second.
pub(in crate::record) const UNIQUE_KEYS: u64 = 1 << 62;

/// The keys of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeySettings {
    /// auto (that of the value, when it has a key of its own, else uniform), none (no key), sequential (0, 1, 2, … and around again), unique (0, 1, 2, … for ever), uniform (each key equally likely), zipf (a few keys very often, see `exponent`), hotspot (a share of the records on a share of the keys), random64 (random numbers of 64 bits that never repeat) or value (taken from the value).
    pub kind: KeyKind,
    /// Number of distinct keys of sequential, uniform, zipf and hotspot.
    pub cardinality: u64,
    /// How a key's number is written: binary (big-endian bytes), decimal (digits, as many as it takes) or padded (digits with zeros in front).
    pub format: KeyFormat,
    /// Size of a binary or padded key in bytes.
    pub size: u32,
    /// Of zipf: the key of rank r comes as often as 1 / r^exponent; 0 to 20.
    pub exponent: f64,
    /// Of hotspot: the share of the keys that is hot, from 0 to 1.
    pub hot_keys: f64,
    /// Of hotspot: the share of the records that goes to hot keys, from 0 to 1.
    pub hot_traffic: f64,
    /// Whether the numbers of keys are shuffled, always in the same way: else the hottest keys of zipf and hotspot are 0, 1, 2, …, and sequential and unique count up. Not set: true for zipf and hotspot.
    pub shuffled: Option<bool>,
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
    /// 0, 1, 2, … without an end.
    Unique,
    /// Each of `cardinality` keys is equally likely.
    Uniform,
    /// The key of rank r is as likely as 1 / r^`exponent`.
    Zipf,
    /// A share of the records goes to a share of the keys.
    Hotspot,
    /// Random numbers of 64 bits, each at most once.
    Random64,
    /// Taken from the value, for values that have a key of their own.
    Value,
}

/// How the number of a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyFormat {
    /// Big-endian bytes.
    #[default]
    Binary,
    /// Decimal digits, as many as it takes.
    Decimal,
    /// Decimal digits with zeros in front.
    Padded,
}

impl Default for KeySettings {
    fn default() -> Self {
        KeySettings {
            kind: KeyKind::default(),
            cardinality: DEFAULT_CARDINALITY,
            format: KeyFormat::default(),
            size: DEFAULT_KEY_SIZE_BYTES,
            exponent: DEFAULT_EXPONENT,
            hot_keys: DEFAULT_HOT_KEYS,
            hot_traffic: DEFAULT_HOT_TRAFFIC,
            shuffled: None,
        }
    }
}

impl KeySettings {
    /// What is wrong with the values, beyond their types. `records` is the number of records after which the stream ends.
    pub fn problems(&self, at: &str, value: &ValueSettings, records: Option<u64>) -> Vec<Problem> {
        let kind = self.kind_for(value);
        let mut problems = Vec::new();
        let mut refuse = |name: &str, message: String| problems.push(Problem::new(key(at, name), message));
        match kind {
            KeyKind::None => {
                if value.tombstones() > 0.0 {
                    let message = "none cannot go with tombstones, which delete keys; use another kind, or value.tombstones = 0";
                    refuse("kind", message.to_owned());
                }
                return problems;
            }
            KeyKind::Value if !value.has_key() => {
                refuse(
                    "kind",
                    "\"value\" needs values that have a key of their own; use another kind".to_owned(),
                );
                return problems;
            }
            KeyKind::Value => return problems,
            _ => {}
        }
        if self.cardinality == 0 {
            refuse("cardinality", "0 leaves no key to send; use 1 or more, or kind = \"none\"".to_owned());
        }
        if kind == KeyKind::Zipf && self.cardinality > MAX_ZIPF_CARDINALITY {
            refuse(
                "cardinality",
                format!("{} is too many for zipf; use at most {MAX_ZIPF_CARDINALITY}", self.cardinality),
            );
        }
        if kind == KeyKind::Zipf && !(0.0..=MAX_EXPONENT).contains(&self.exponent) {
            refuse("exponent", format!("{} is not between 0 and {MAX_EXPONENT}", self.exponent));
        }
        if matches!(kind, KeyKind::Uniform | KeyKind::Random64) && self.shuffled == Some(true) {
            refuse(
                "shuffled",
                "changes nothing where every key is as likely as any other; leave it out".to_owned(),
            );
        }
        if let Some(message) = self.size_problem(kind, records) {
            refuse("size", message);
        }
        if kind == KeyKind::Hotspot {
            problems.extend(share_problem(at, "hot_keys", self.hot_keys));
            problems.extend(share_problem(at, "hot_traffic", self.hot_traffic));
        }
        problems
    }

    /// Whether distinct keys stay distinct.
    fn size_problem(&self, kind: KeyKind, records: Option<u64>) -> Option<String> {
        if self.format == KeyFormat::Decimal {
            return None;
        }
        if !(1..=MAX_SIZE_BYTES).contains(&self.size) {
            return Some(format!(
                "{} is not a size of a key; use 1 to {MAX_SIZE_BYTES} bytes, or kind = \"none\"",
                self.size
            ));
        }
        let distinct = match kind {
            KeyKind::Unique => {
                u128::from(records.filter(|_| self.shuffled != Some(true)).unwrap_or(UNIQUE_KEYS))
            }
            KeyKind::Random64 => 1 << 64,
            _ => u128::from(self.cardinality),
        };
        if distinct <= self.capacity() {
            return None;
        }
        let unit = if self.format == KeyFormat::Padded { "digits" } else { "bytes" };
        Some(match kind {
            KeyKind::Random64 => {
                format!("{} {unit} cannot hold every number of 64 bits; use {}", self.size, self.full_size())
            }
            KeyKind::Unique => format!(
                "{} {unit} cannot hold keys that never repeat; use {}, or kind = \"sequential\" with a cardinality, or set the stream's records",
                self.size,
                self.full_size()
            ),
            _ => format!(
                "{} {unit} cannot hold {distinct} distinct keys; make the keys longer or cardinality smaller",
                self.size
            ),
        })
    }

    /// The size that holds every number of 64 bits.
    const fn full_size(&self) -> u32 {
        match self.format {
            KeyFormat::Binary => DEFAULT_KEY_SIZE_BYTES,
            KeyFormat::Decimal | KeyFormat::Padded => MAX_DIGITS,
        }
    }

    /// How many different numbers a key can hold; at most 2^64.
    #[must_use]
    pub fn capacity(&self) -> u128 {
        let base: u128 = match self.format {
            KeyFormat::Binary => 256,
            KeyFormat::Decimal => return 1 << 64,
            KeyFormat::Padded => 10,
        };
        base.checked_pow(self.size.min(MAX_DIGITS)).map_or(1 << 64, |numbers| numbers.min(1 << 64))
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
            KeyKind::None | KeyKind::Unique | KeyKind::Random64 => false,
            KeyKind::Auto | KeyKind::Uniform | KeyKind::Zipf | KeyKind::Hotspot => true,
            KeyKind::Value => value.key_repeats(records),
            KeyKind::Sequential => records.is_none_or(|records| records > self.cardinality),
        }
    }

    /// Whether the numbers of keys are shuffled.
    pub fn shuffles(&self, kind: KeyKind) -> bool {
        match kind {
            KeyKind::Zipf | KeyKind::Hotspot => self.shuffled.unwrap_or(true),
            KeyKind::Sequential | KeyKind::Unique => self.shuffled.unwrap_or(false),
            _ => false,
        }
    }

    /// Bytes of a key, at most, for estimates.
    pub fn max_bytes(&self, value: &ValueSettings) -> u32 {
        match (self.kind_for(value), self.format) {
            (KeyKind::None, _) => 0,
            (_, KeyFormat::Decimal) => MAX_DIGITS,
            _ => self.size,
        }
    }
}
