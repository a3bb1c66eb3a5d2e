//! Records of known workloads, with keys of their own.

mod bytes;
pub mod campus;
mod orders;
mod popular;
pub mod tracking;
mod tracking_avro;
mod xapi;
mod ycsb;

use super::format::Of;
use super::format::{BuildError, Format};
use super::hash::seed_of;
use super::settings::{PresetEncoding, PresetName, PresetValueSettings};
use crate::config::key;

/// The maker of a preset's records.
///
/// # Errors
/// When the settings name none, or a schema registry does not take its schema.
pub fn format(of: Of<'_>, settings: &PresetValueSettings) -> Result<Box<dyn Format>, BuildError> {
    let missing = |name: &str| BuildError::new(key(of.at, name), "kind = \"preset\" needs it");
    Ok(match settings.name.ok_or_else(|| missing("name"))? {
        PresetName::Fillseq => Box::new(bytes::Bytes::fillseq(of.seed, settings)),
        PresetName::Upsert => Box::new(bytes::Bytes::upsert(of.seed, settings)),
        PresetName::Ycsb => Box::new(ycsb::Ycsb::new(of.seed, settings)),
        PresetName::OpenedxTracking => match settings.encoding.unwrap_or_default() {
            PresetEncoding::Json => Box::new(tracking::TrackingJson::new(of.seed, settings)),
            PresetEncoding::Avro => Box::new(tracking_avro::TrackingAvro::new(of, settings)?),
        },
        PresetName::Xapi => Box::new(xapi::Xapi::new(of.seed, settings)),
        PresetName::Orders => {
            let table = settings.table.ok_or_else(|| missing("table"))?;
            Box::new(orders::Orders::new(of.seed, table, settings))
        }
    })
}

#[cfg(test)]
mod tests;
