//! Settings of values: one kind among many.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::avro::AvroValueSettings;
use super::{
    FileValueSettings, MAX_SIZE_BYTES, PresetValueSettings, RandomValueSettings, TemplateValueSettings,
    share_problem,
};
use crate::config::{Problem, key};

/// The values of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ValueSettings {
    /// Random bytes, of which a share can be compressed.
    Random(RandomValueSettings),
    /// A JSON object with the record's stream, partition, sequence, key and intended time.
    Json(JsonValueSettings),
    /// Values from a template of JSON.
    Template(TemplateValueSettings),
    /// The lines of a file, one a record.
    File(FileValueSettings),
    /// Avro for a schema of yours, with made-up values and the record's facts.
    Avro(Box<AvroValueSettings>),
    /// Records of a known workload, with keys of their own.
    Preset(PresetValueSettings),
}

/// Values of JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JsonValueSettings {
    /// Size in bytes up to which a value is padded; 0 is no padding.
    pub size: u32,
    /// Wrap the object in Kafka Connect's `{"schema": …, "payload": …}` envelope.
    pub connect_schema: bool,
    /// Share of the records, from 0 to 1, that have no value and so delete their key.
    pub tombstones: f64,
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
            ValueSettings::Random(_)
            | ValueSettings::Json(_)
            | ValueSettings::Template(_)
            | ValueSettings::Avro(_) => false,
            ValueSettings::File(file) => file.key_field.is_some(),
            ValueSettings::Preset(_) => true,
        }
    }

    /// Whether the values' own key can come twice among the first `records` records (`None`: no end is known).
    pub(super) fn key_repeats(&self, records: Option<u64>) -> bool {
        match self {
            ValueSettings::Preset(preset) => preset.key_repeats(records),
            _ => true,
        }
    }

    /// Share of the records that have no value.
    pub fn tombstones(&self) -> f64 {
        match self {
            ValueSettings::Random(random) => random.tombstones,
            ValueSettings::Json(json) => json.tombstones,
            ValueSettings::Template(template) => template.tombstones,
            ValueSettings::File(file) => file.tombstones,
            ValueSettings::Avro(avro) => avro.tombstones,
            ValueSettings::Preset(preset) => preset.tombstones,
        }
    }

    /// Bytes of a value in the mean, about, as a codec leaves them.
    pub fn typical_bytes(&self) -> f64 {
        match self {
            ValueSettings::Random(random) => random.size.mean_bytes() * (1.0 - random.compressibility),
            ValueSettings::Json(json) => f64::from(json.size),
            ValueSettings::Template(template) => template.typical_bytes(),
            // Only reading it could tell; a line of a log or a small document.
            ValueSettings::File(_) => 500.0,
            // Only the schema could tell; Avro is short.
            ValueSettings::Avro(_) => 150.0,
            ValueSettings::Preset(preset) => preset.typical_bytes(),
        }
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = match self {
            ValueSettings::Random(random) => random.problems(at),
            ValueSettings::Json(json) => json.problems(at),
            ValueSettings::Template(template) => template.problems(at),
            ValueSettings::File(file) => file.problems(at),
            ValueSettings::Avro(avro) => avro.problems(at),
            ValueSettings::Preset(preset) => preset.problems(at),
        };
        problems.extend(share_problem(at, "tombstones", self.tombstones()));
        problems
    }
}

impl JsonValueSettings {
    fn problems(&self, at: &str) -> Vec<Problem> {
        let message = || format!("{} is too large; use at most {MAX_SIZE_BYTES} bytes", self.size);
        let large = self.size > MAX_SIZE_BYTES;
        large.then(|| Problem::new(key(at, "size"), message())).into_iter().collect()
    }
}
