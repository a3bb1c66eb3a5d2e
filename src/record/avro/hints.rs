//! What the settings say about single fields, and whether it was of use.

use std::collections::BTreeMap;

use super::plan::Wrong;
use crate::config::{key, suggest};
use crate::record::settings::avro::AvroFieldSettings;

/// Bits of what a plan made use of.
pub(super) const RANGE: u8 = 1;
pub(super) const PICK: u8 = 2;
pub(super) const SIZE: u8 = 4;
pub(super) const NULLS: u8 = 8;

/// The settings of fields, by path.
pub(super) struct Hints<'a> {
    fields: &'a BTreeMap<String, AvroFieldSettings>,
    used: BTreeMap<&'a str, u8>,
}

impl<'a> Hints<'a> {
    pub(super) fn new(fields: &'a BTreeMap<String, AvroFieldSettings>) -> Self {
        Self { fields, used: BTreeMap::new() }
    }

    pub(super) fn get(&self, path: &str) -> Option<&'a AvroFieldSettings> {
        self.fields.get(path)
    }

    pub(super) fn pick(&self, path: &str) -> Option<&'a [String]> {
        self.get(path).map(|hint| hint.pick.as_slice()).filter(|pick| !pick.is_empty())
    }

    /// There is such a field.
    pub(super) fn visit(&mut self, path: &str) {
        self.used(path, 0);
    }

    /// The plan made use of a part of the hint.
    pub(super) fn used(&mut self, path: &str, part: u8) {
        if let Some((path, _)) = self.fields.get_key_value(path) {
            *self.used.entry(path).or_default() |= part;
        }
    }

    /// The key of a part of a hint, below the value's settings.
    pub(super) fn key(path: &str, name: &str) -> String {
        key(&key("fields", path), name)
    }

    /// # Errors
    /// When a hint names no field, or says what its field has no use for.
    pub(super) fn check(&self, paths: &[String]) -> Result<(), Wrong> {
        for (path, hint) in self.fields {
            let Some(used) = self.used.get(path.as_str()) else {
                let hint = suggest(path, paths.iter().map(String::as_str));
                return Err(Wrong::new(key("fields", path), format!("the schema has no such field{hint}")));
            };
            let parts = [
                ("min", hint.min.is_some(), RANGE, "is of numbers, dates and times"),
                ("max", hint.max.is_some(), RANGE, "is of numbers, dates and times"),
                ("pick", !hint.pick.is_empty(), PICK, "is of numbers, texts, enums and truth values"),
                ("size", hint.size.is_some(), SIZE, "is of texts, bytes, arrays and maps"),
                ("min_size", hint.min_size.is_some(), SIZE, "is of texts, bytes, arrays and maps"),
                ("nulls", hint.nulls.is_some(), NULLS, "is of unions with null"),
            ];
            let idle = parts.iter().find(|(_, set, part, _)| *set && used & part == 0);
            if let Some((name, _, _, of)) = idle {
                return Err(Wrong::new(
                    Hints::key(path, name),
                    format!("{of}, and this field is none; take it out"),
                ));
            }
        }
        Ok(())
    }
}
