//! Records of known workloads, with keys of their own.

mod bytes;
pub mod campus;
mod orders;
mod popular;
pub mod tracking;
mod xapi;
mod ycsb;

use super::format::{BuildError, Format};
use super::hash::mix;
use super::settings::{PresetName, PresetValueSettings};
use super::value::Of;
use crate::config::key;

/// Turns the seed of the records into that of the markers, whose numbers are the same and whose ids must not be.
const MARKER_SEED: u64 = 0x006d_6172_6b65_7273;

/// The maker of a preset's records.
///
/// # Errors
/// When the settings name none.
pub fn format(of: Of<'_>, settings: &PresetValueSettings) -> Result<Box<dyn Format>, BuildError> {
    let missing = |name: &str| BuildError::new(key(of.at, name), "kind = \"preset\" needs it");
    Ok(match settings.name.ok_or_else(|| missing("name"))? {
        PresetName::Fillseq => Box::new(bytes::Bytes::fillseq(of.seed, settings)),
        PresetName::Upsert => Box::new(bytes::Bytes::upsert(of.seed, settings)),
        PresetName::Ycsb => Box::new(ycsb::Ycsb::new(of.seed, settings)),
        PresetName::OpenedxTracking => Box::new(tracking::TrackingJson::new(of.seed, settings)),
        PresetName::Xapi => Box::new(xapi::Xapi::new(of.seed, settings)),
        PresetName::Orders => {
            let table = settings.table.ok_or_else(|| missing("table"))?;
            Box::new(orders::Orders::new(of.seed, table, settings))
        }
    })
}

/// The seed of a record: markers have numbers of their own, which must not give them the ids of records.
const fn seed_of(seed: u64, marker: bool) -> u64 {
    if marker { mix(seed ^ MARKER_SEED) } else { seed }
}

#[cfg(test)]
mod tests;
