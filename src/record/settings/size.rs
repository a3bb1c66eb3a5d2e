//! A size that may differ from record to record.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::MAX_SIZE_BYTES;
use crate::config::shape::ANY;
use crate::config::{Problem, key};

/// A size that is drawn for each record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SizeSetting {
    /// The same for all.
    Fixed(u32),
    /// Each size from `min` to `max` bytes is equally likely.
    Uniform {
        /// The smallest size in bytes.
        min: u32,
        /// The largest size in bytes.
        max: u32,
    },
    /// Normal with this mean and deviation in bytes, cut off at `min` and `max`.
    Normal {
        /// The mean in bytes, before cutting off.
        mean: f64,
        /// The standard deviation in bytes.
        sigma: f64,
        /// Smaller sizes become this one; 0 when not set.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<u32>,
        /// Larger sizes become this one; four deviations above the mean when not set.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
    },
    /// One of several sizes.
    Weighted(Vec<WeightedSize>),
}

/// One of several sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ size, weight }")]
pub struct WeightedSize {
    /// The size in bytes.
    pub size: u32,
    /// How often it is drawn, in proportion to the other weights.
    pub weight: f64,
}

/// Deviations above the mean that sizes are cut off at.
const CUT_OFF_SIGMAS: f64 = 4.0;
/// More sizes than that are no list but a distribution.
const MAX_SIZES: usize = 1000;

impl SizeSetting {
    /// The largest size in bytes.
    #[must_use]
    pub fn max_bytes(&self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { max, .. } => *max,
            Self::Normal { max: Some(max), .. } => *max,
            // A float beyond u32 saturates, and is refused below.
            Self::Normal { mean, sigma, .. } => (mean + CUT_OFF_SIGMAS * sigma).ceil() as u32,
            Self::Weighted(sizes) => sizes.iter().map(|one| one.size).max().unwrap_or(0),
        }
    }

    /// The mean in bytes; of a normal one as if nothing were cut off.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Fixed(size) => f64::from(*size),
            Self::Uniform { min, max } => f64::midpoint(f64::from(*min), f64::from(*max)),
            Self::Normal { mean, .. } => *mean,
            Self::Weighted(sizes) => {
                let weights: f64 = sizes.iter().map(|one| one.weight).sum();
                sizes.iter().map(|one| f64::from(one.size) * one.weight / weights).sum()
            }
        }
    }

    /// What is wrong with the size `at`.size.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        let amount = |number: f64| number.is_finite() && number >= 0.0;
        let message = match self {
            Self::Uniform { min, max } if min > max => {
                format!("min = {min} is above max = {max}; exchange them")
            }
            Self::Normal { mean, sigma, .. } if !amount(*mean) || !amount(*sigma) => {
                format!("mean = {mean}, sigma = {sigma}: use numbers of 0 or more")
            }
            Self::Normal { min: Some(min), .. } if *min > self.max_bytes() => {
                format!("min = {min} is above the largest size, {}; lower it, or set max", self.max_bytes())
            }
            Self::Weighted(sizes) if sizes.is_empty() || sizes.len() > MAX_SIZES => {
                format!("{} sizes; list 1 to {MAX_SIZES}", sizes.len())
            }
            Self::Weighted(sizes) if sizes.iter().any(|one| !amount(one.weight)) => {
                "holds a weight that is negative; use numbers of 0 or more".to_owned()
            }
            Self::Weighted(sizes) if !sizes.iter().any(|one| one.weight > 0.0) => {
                "all weights are 0, so that nothing is drawn; make one larger".to_owned()
            }
            _ if self.max_bytes() > MAX_SIZE_BYTES => {
                format!("{} is too large; use at most {MAX_SIZE_BYTES} bytes", self.max_bytes())
            }
            _ => return Vec::new(),
        };
        vec![Problem::new(key(at, "size"), message)]
    }
}

/// A table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    min: Option<u32>,
    max: Option<u32>,
    mean: Option<f64>,
    sigma: Option<f64>,
}

/// An error with the name of the key, which a table that `kind` chooses loses.
fn named<E: de::Error>(message: impl fmt::Display) -> E {
    E::custom(format!("size: {message}"))
}

/// The forms of a size.
const FORMS: &str = "a number of bytes, { min, max }, { mean, sigma } or a list of { size, weight }";

/// The error for what is no size at all.
fn wrong<E: de::Error>(found: impl fmt::Display) -> E {
    named(format_args!("{found} is no size; use {FORMS}"))
}

struct SizeVisitor;

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = SizeSetting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMS)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SizeSetting, E> {
        u32::try_from(number)
            .map(SizeSetting::Fixed)
            .map_err(|_| named(format!("{number} is too large; use at most {MAX_SIZE_BYTES} bytes")))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<SizeSetting, E> {
        u64::try_from(number)
            .map_err(|_| named(format!("{number} is negative; use 0 bytes or more")))
            .and_then(|number| self.visit_u64(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<SizeSetting, E> {
        Err(wrong(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SizeSetting, E> {
        Err(wrong(format_args!("{text:?}")))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SizeSetting, A::Error> {
        match Table::deserialize(MapAccessDeserializer::new(map)).map_err(named)? {
            Table { min: Some(min), max: Some(max), mean: None, sigma: None } => {
                Ok(SizeSetting::Uniform { min, max })
            }
            Table { min, max, mean: Some(mean), sigma: Some(sigma) } => {
                Ok(SizeSetting::Normal { mean, sigma, min, max })
            }
            _ => Err(named("a table needs min and max, or mean and sigma")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sizes: A) -> Result<SizeSetting, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(sizes)).map(SizeSetting::Weighted).map_err(named)
    }
}

impl<'de> Deserialize<'de> for SizeSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

impl JsonSchema for SizeSetting {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let bytes = json_schema!({ "type": "integer", "minimum": 0, "maximum": MAX_SIZE_BYTES });
        let amount = json_schema!({ "type": "number", "minimum": 0 });
        let uniform = json_schema!({
            "type": "object", "properties": { "min": bytes, "max": bytes }, "required": ["min", "max"],
            "additionalProperties": false,
        });
        let normal = json_schema!({
            "type": "object", "properties": { "mean": amount, "sigma": amount, "min": bytes, "max": bytes },
            "required": ["mean", "sigma"], "additionalProperties": false,
        });
        let one = json_schema!({
            "type": "object", "properties": { "size": bytes, "weight": amount }, "required": ["size", "weight"],
            "additionalProperties": false,
        });
        let list = json_schema!({ "type": "array", "items": one, "minItems": 1, "maxItems": MAX_SIZES });
        json_schema!({ "anyOf": [bytes, uniform, normal, list], "format": "size", ANY: true })
    }
}
