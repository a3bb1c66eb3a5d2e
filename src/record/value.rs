//! The formats of values, one line each. Every format carries partition and sequence where it can, so that a system that
//! stores the value can be asked how far it is.

use super::avro::Avro;
use super::file::File;
use super::format::{BuildError, Format, Of};
use super::json::Json;
use super::preset;
use super::random::RandomBytes;
use super::settings::ValueSettings;
use super::template::Template;

/// The maker of values that the settings want.
///
/// # Errors
/// When a file or schema that they name cannot be used.
pub fn format(of: Of<'_>, settings: &ValueSettings) -> Result<Box<dyn Format>, BuildError> {
    Ok(match settings {
        ValueSettings::Random(random) => Box::new(RandomBytes::new(of.seed, random)),
        ValueSettings::Json(json) => Box::new(Json::new(of.seed, json)),
        ValueSettings::Template(template) => Box::new(Template::new(of, template)?),
        ValueSettings::File(file) => Box::new(File::new(of, file)?),
        ValueSettings::Avro(avro) => Box::new(Avro::new(of, avro)?),
        ValueSettings::Preset(preset) => preset::format(of, preset)?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Facts;
    use super::*;

    /// A record for the tests of the formats.
    pub(crate) const FACTS: Facts =
        Facts { sequence: 77, partition: 3, key_id: 9, intended_ms: 1_700_000_000_123, marker: false };

    /// The value of a record.
    pub(crate) fn write(settings: &ValueSettings, facts: &Facts) -> Vec<u8> {
        let mut value = Vec::new();
        let of = Of { seed: 5, at: "streams.main.value", topic: "t", run_id: "r", look_only: false };
        format(of, settings).unwrap().write(facts, &mut value).unwrap();
        value
    }
}
