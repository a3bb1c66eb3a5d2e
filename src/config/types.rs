//! Types of settings that are written for people: durations, rates, client properties.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::secret::{REDACTED, is_secret_key};

/// A span of time, written with its unit: `"500ms"`, `"2h"`, `"1h 30m"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Duration(std::time::Duration);

impl Duration {
    /// So many whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Duration(std::time::Duration::from_secs(seconds))
    }

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Duration(std::time::Duration::from_millis(millis))
    }

    /// The span, for the code that waits.
    pub const fn get(self) -> std::time::Duration {
        self.0
    }

    /// Whether the span is nothing at all.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Reads `"500ms"` or `"1h 30m"`.
    ///
    /// # Errors
    /// A sentence with the remedy, when the text is no duration or has no unit.
    pub fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text.trim()).map(Duration).map_err(|error| {
            if text.trim().parse::<f64>().is_ok() {
                no_unit(text.trim())
            } else {
                format!("{text:?} is not a duration ({error}); write it like \"500ms\", \"10s\" or \"2h\"")
            }
        })
    }
}

/// What is said to a bare number: seconds and milliseconds are mixed up too easily to guess.
pub(super) fn no_unit(number: &str) -> String {
    format!(
        "{number} has no unit; write a duration as text with its unit, like \"{number}s\" or \"{number}ms\""
    )
}

impl From<std::time::Duration> for Duration {
    fn from(span: std::time::Duration) -> Self {
        Duration(span)
    }
}

impl From<Duration> for std::time::Duration {
    fn from(span: Duration) -> Self {
        span.0
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(self.0))
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Duration::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "duration", "examples": ["500ms", "10s", "2h"] })
    }
}

/// Records a second: a finite number, 0 or more; numeric text is accepted too.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct RateSetting(pub f64);

impl RateSetting {
    /// Reads a rate from text.
    ///
    /// # Errors
    /// A sentence that says what a rate is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        text.replace('_', "")
            .parse()
            .map_err(|_| {
                format!("{text:?} is not a number of records a second; write it like 250.5 or 10_000")
            })
            .and_then(Self::new)
    }

    /// Takes a number of records a second.
    ///
    /// # Errors
    /// When it is negative or not finite.
    pub fn new(records_per_second: f64) -> Result<Self, String> {
        if records_per_second.is_finite() && records_per_second >= 0.0 {
            // 0.0 + turns -0.0 into 0.0, which would be shown as "-0".
            Ok(RateSetting(0.0 + records_per_second))
        } else {
            Err(format!("a rate is a finite number of records a second, 0 or more, not {records_per_second}"))
        }
    }
}

impl fmt::Display for RateSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Serialize for RateSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A whole rate is shown as it is written: 10000, not 10000.0. Doubles are exact up to 2^53.
        if self.0.fract() == 0.0 && self.0 < 9e15 {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for RateSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = RateSetting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of records a second")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<RateSetting, E> {
        RateSetting::new(number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<RateSetting, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<RateSetting, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RateSetting, E> {
        RateSetting::parse(text).map_err(E::custom)
    }
}

impl JsonSchema for RateSetting {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "string"], "format": "rate", "minimum": 0 })
    }
}

/// Properties with dotted names that go to somebody else as they are (librdkafka, a topic). Values of secret names are not shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Names and values in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of one property.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(name, value)| (name, if is_secret_key(name) { REDACTED } else { value }))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Properties(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown())
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let text = |(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            Value::Number(number) => Ok((name, number.to_string())),
            Value::Bool(flag) => Ok((name, flag.to_string())),
            _ => Err(de::Error::custom(format!(
                "the property {name:?} is neither text nor number nor boolean"
            ))),
        };
        pairs.into_iter().map(text).collect::<Result<_, _>>().map(Properties)
    }
}

impl JsonSchema for Properties {
    fn schema_name() -> Cow<'static, str> {
        "Properties".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": { "type": ["string", "number", "boolean"] },
            super::shape::DOTTED: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(Duration::parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(Duration::parse("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(Duration::from_secs(7200).to_string(), "2h");
        for (text, says) in [
            ("5", "like \"5s\""),
            ("1.5", "no unit"),
            ("soon", "\"soon\" is not a duration"),
            ("", "not a duration"),
            ("-1s", "not a duration"),
        ] {
            assert!(Duration::parse(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_rate_is_finite_and_not_negative() {
        assert_eq!(serde_json::from_str::<RateSetting>("10000").unwrap(), RateSetting(10_000.0));
        for (text, rate) in [("0", 0.0), ("10_000", 10_000.0), (" 0.5 ", 0.5), ("1e3", 1000.0), ("-0", 0.0)] {
            assert_eq!(RateSetting::parse(text), Ok(RateSetting(rate)), "{text}");
        }
        for text in ["-1", "nan", "inf", "fast", ""] {
            assert!(RateSetting::parse(text).is_err(), "{text}");
        }
        assert!(RateSetting::parse("max").unwrap_err().contains("is not a number of records a second"));
        assert_eq!(serde_json::to_string(&[RateSetting(10_000.0), RateSetting(0.5)]).unwrap(), "[10000,0.5]");
    }

    #[test]
    fn properties_keep_their_text_and_hide_secrets() {
        let json = r#"{"linger.ms": 5, "compression.type": "lz4", "enable.idempotence": true, "sasl.password": "hunter2"}"#;
        let properties: Properties = serde_json::from_str(json).unwrap();
        assert_eq!(properties.get("linger.ms"), Some("5"));
        assert_eq!(properties.get("enable.idempotence"), Some("true"));
        assert_eq!(properties.get("sasl.password"), Some("hunter2"));
        let shown = format!("{properties:?} {}", serde_json::to_string(&properties).unwrap());
        assert!(shown.contains("lz4") && !shown.contains("hunter2"), "{shown}");
        assert!(serde_json::from_str::<Properties>(r#"{"a": []}"#).is_err());
    }
}
