//! The load of a stream as people write it: records a second, or "max".

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::types::RateSetting;

/// The word for a load without a rate.
const MAX: &str = "max";

/// Records a second, or "max": as many as the client takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PaceSetting {
    /// So many records a second.
    Rate(RateSetting),
    /// As many as the client takes.
    Max,
}

impl PaceSetting {
    /// Reads a number or the word.
    ///
    /// # Errors
    /// A sentence that says what is right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().eq_ignore_ascii_case(MAX) {
            return Ok(Self::Max);
        }
        RateSetting::parse(text).map(Self::Rate).map_err(|error| format!("{error}, or \"max\""))
    }

    /// The number; none for "max".
    #[must_use]
    pub const fn rate(self) -> Option<RateSetting> {
        match self {
            Self::Rate(rate) => Some(rate),
            Self::Max => None,
        }
    }
}

impl fmt::Display for PaceSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => rate.fmt(f),
            Self::Max => f.write_str(MAX),
        }
    }
}

impl Serialize for PaceSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Rate(rate) => rate.serialize(serializer),
            Self::Max => serializer.serialize_str(MAX),
        }
    }
}

impl<'de> Deserialize<'de> for PaceSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PaceVisitor)
    }
}

struct PaceVisitor;

impl Visitor<'_> for PaceVisitor {
    type Value = PaceSetting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of records a second, or \"max\"")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<PaceSetting, E> {
        RateSetting::new(number).map(PaceSetting::Rate).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<PaceSetting, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<PaceSetting, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PaceSetting, E> {
        PaceSetting::parse(text).map_err(E::custom)
    }
}

impl JsonSchema for PaceSetting {
    fn schema_name() -> Cow<'static, str> {
        "Pace".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "string"], "format": "pace", "minimum": 0 })
    }
}

/// How often something is repeated: a number of times, or for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatSetting {
    /// So many times in all.
    Times(u64),
    /// Without end.
    Forever,
}

const FOREVER: &str = "forever";

impl RepeatSetting {
    /// Reads a number or the word.
    ///
    /// # Errors
    /// A sentence that says what is right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case(FOREVER) {
            return Ok(Self::Forever);
        }
        let wrong =
            || format!("{text:?} is no number of times; use a whole number of 1 or more, or \"forever\"");
        text.replace('_', "").parse().ok().filter(|times| *times > 0).map(Self::Times).ok_or_else(wrong)
    }
}

impl Default for RepeatSetting {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl Serialize for RepeatSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Times(times) => serializer.serialize_u64(*times),
            Self::Forever => serializer.serialize_str(FOREVER),
        }
    }
}

impl<'de> Deserialize<'de> for RepeatSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RepeatVisitor)
    }
}

struct RepeatVisitor;

impl Visitor<'_> for RepeatVisitor {
    type Value = RepeatSetting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of times, 1 or more, or \"forever\"")
    }

    fn visit_u64<E: de::Error>(self, times: u64) -> Result<RepeatSetting, E> {
        RepeatSetting::parse(&times.to_string()).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, times: i64) -> Result<RepeatSetting, E> {
        RepeatSetting::parse(&times.to_string()).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RepeatSetting, E> {
        RepeatSetting::parse(text).map_err(E::custom)
    }
}

impl JsonSchema for RepeatSetting {
    fn schema_name() -> Cow<'static, str> {
        "Repeat".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "format": "repeat", "minimum": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_read_and_written_alike() {
        for (text, json) in [("max", "\"max\""), (" MAX ", "\"max\""), ("10_000", "10000"), ("0.5", "0.5")] {
            let pace = PaceSetting::parse(text).unwrap();
            assert_eq!(serde_json::to_string(&pace).unwrap(), json);
            assert_eq!(serde_json::from_str::<PaceSetting>(json).unwrap(), pace);
        }
        for (text, json) in [("forever", "\"forever\""), ("3", "3"), ("1_000", "1000")] {
            let repeat = RepeatSetting::parse(text).unwrap();
            assert_eq!(serde_json::to_string(&repeat).unwrap(), json);
            assert_eq!(serde_json::from_str::<RepeatSetting>(json).unwrap(), repeat);
        }
        assert!(PaceSetting::parse("fast").unwrap_err().ends_with(", or \"max\""));
        assert!(PaceSetting::parse("-1").is_err());
        for text in ["0", "-1", "1.5", "ever"] {
            assert!(RepeatSetting::parse(text).unwrap_err().contains("\"forever\""), "{text}");
        }
        assert!(serde_json::from_str::<RepeatSetting>("0").is_err());
        assert!(serde_json::from_str::<RepeatSetting>("1.5").is_err());
    }
}
