//! Values in Avro, made up for whatever schema is given.
//!
//! ```text
//! schema (text) --schema--> types --plan, with hints and facts--> Node tree --write--> bytes
//!        |                                                                      ^
//!        +--registry: registered or looked up under its subject--> 0, id -------+ (in front, Confluent's wire format)
//! ```
//!
//! All but the writing happens once, before the load.

pub(super) mod bytes;
mod facts;
mod hints;
mod plan;
pub(super) mod registry;
mod scalar;
pub(super) mod schema;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::Facts;
use super::format::Of;
use super::format::{BuildError, Format, MakeError};
use super::hash::{Random, seed_of};
use super::settings::avro::{AvroValueSettings, SubjectStrategy};
use crate::config::{key, read_file};
use registry::{Registry, Use};
use write::Node;

/// The largest schemas of real systems have a few hundred kilobytes.
const MAX_SCHEMA_BYTES: u64 = 4 << 20;
/// A record larger than this is a slip in the sizes.
const MAX_RECORD_BYTES: usize = 100 << 20;

/// Makes values of Avro.
#[derive(Debug, Clone)]
pub struct Avro {
    seed: u64,
    /// 0 and the schema's number, or nothing without a registry.
    prefix: Option<[u8; 5]>,
    plan: Arc<Node>,
    max_bytes: usize,
    has_sequence: bool,
}

impl Avro {
    /// Values from a seed. Reads the schema's file and asks the registry, so this may take a while.
    ///
    /// # Errors
    /// When there is no schema, the settings do not fit it, or the registry does not take it.
    pub fn new(of: Of<'_>, settings: &AvroValueSettings) -> Result<Self, BuildError> {
        let (schema_at, text) = schema_text(of.at, settings)?;
        let parsed = schema::parse(&text).map_err(|message| BuildError::new(&schema_at, message))?;
        let (plan, has_sequence) = plan::plan(&parsed, settings).map_err(|wrong| {
            let at =
                if wrong.key == "schema" { schema_at.clone() } else { format!("{}.{}", of.at, wrong.key) };
            BuildError::new(at, wrong.message)
        })?;
        let max_bytes = plan.max_bytes();
        if max_bytes > MAX_RECORD_BYTES {
            return Err(BuildError::new(
                key(of.at, "fields"),
                format!(
                    "a value may have {max_bytes} bytes, more than {MAX_RECORD_BYTES}; set smaller sizes for the schema's arrays, \
                     maps and texts"
                ),
            ));
        }
        let registry_at = key(of.at, "registry");
        let prefix =
            Registry::new(&settings.registry, SubjectStrategy::TopicName, &registry_at)?.map(|registry| {
                let name = parsed.name.as_deref();
                let of = Use { topic: of.topic, part: "value", name, look_only: of.look_only };
                registry.prefix(of, &text)
            });
        Ok(Self { seed: of.seed, prefix: prefix.transpose()?, plan: Arc::new(plan), max_bytes, has_sequence })
    }
}

/// The schema, and the key that it comes from.
fn schema_text(at: &str, settings: &AvroValueSettings) -> Result<(String, String), BuildError> {
    let Some(path) = &settings.schema_file else {
        return Ok((key(at, "schema"), settings.schema.clone().unwrap_or_default()));
    };
    let at = key(at, "schema_file");
    let text = read_file(path, MAX_SCHEMA_BYTES)
        .and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other))
        .map_err(|error| BuildError::new(&at, format!("cannot read {}: {error}", path.display())))?;
    Ok((at, text))
}

impl Format for Avro {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        if let Some(prefix) = &self.prefix {
            value.extend_from_slice(prefix);
        }
        let mut random = Random::of(seed_of(self.seed, facts.marker), facts.sequence);
        write::write(&self.plan, facts, &mut random, value)
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes + self.prefix.map_or(0, |prefix| prefix.len())
    }

    fn warnings(&self) -> Vec<String> {
        let warning = "no field of the schema holds the record's sequence, so a system that stores the values cannot be asked how far \
                       it is by them; if there is one of type long, name it in facts.sequence";
        if self.has_sequence { Vec::new() } else { vec![warning.to_owned()] }
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
