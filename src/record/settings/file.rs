//! Settings of values from a file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Problem, key};

/// The usual limit of a broker (`message.max.bytes`).
const DEFAULT_MAX_LINE_BYTES: u32 = 1_000_000;
/// A line is held in memory, with those around it.
const LARGEST_LINE_BYTES: u32 = 100 << 20;

/// The lines of a file, one a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileValueSettings {
    /// The file. It is read through once at the start; it may be larger than the memory, and must not change during the run.
    pub path: PathBuf,
    /// What a line is: json (one JSON text a line), csv (one row a line) or raw (any bytes).
    pub format: FileFormat,
    /// The first line of a CSV file names the columns and is not sent.
    pub header: bool,
    /// sequential (as in the file) or shuffled (by the seed; another order in each round, each line once a round).
    pub order: FileOrder,
    /// Begin again after the last line; false ends the stream there.
    pub r#loop: bool,
    /// Field of a JSON line (like `user.id`) or column of a CSV line (its name, or its number from 1 without a header) that is the record's key. Not set: no key from the line.
    pub key_field: Option<String>,
    /// Name of a field that is added to each JSON line and holds an object with the record's id, partition, sequence and intended_ms; a CSV line gets these four as columns at its end. Not set: lines are sent as they are.
    pub facts_field: Option<String>,
    /// Largest line in bytes; a longer one is an error at the start.
    pub max_line: u32,
    /// Share of the records, from 0 to 1, that have no value and so delete their key.
    pub tombstones: f64,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// One JSON text a line.
    #[default]
    Json,
    /// One row of comma-separated values a line.
    Csv,
    /// Any bytes.
    Raw,
}

/// In which order lines are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileOrder {
    /// As in the file.
    #[default]
    Sequential,
    /// By the seed, another order in each round.
    Shuffled,
}

impl Default for FileValueSettings {
    fn default() -> Self {
        FileValueSettings {
            path: PathBuf::new(),
            format: FileFormat::default(),
            header: true,
            order: FileOrder::default(),
            r#loop: true,
            key_field: None,
            facts_field: None,
            max_line: DEFAULT_MAX_LINE_BYTES,
            tombstones: 0.0,
        }
    }
}

impl FileValueSettings {
    /// What is wrong with the values, beyond their types.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |name: &str, message: String| problems.push(Problem::new(key(at, name), message));
        if self.path.as_os_str().is_empty() {
            refuse("path", "kind = \"file\" needs one; name a file whose lines are to be sent".into());
        }
        let raw = self.format == FileFormat::Raw;
        for (name, field) in [("key_field", &self.key_field), ("facts_field", &self.facts_field)] {
            match field.as_deref() {
                Some("") => refuse(name, "\"\" is no field; name one, or leave it out".into()),
                Some(field) if raw => refuse(
                    name,
                    format!(
                        "{field:?} cannot be a field of format = \"raw\", which has none; use \"json\" or \"csv\", or leave it out"
                    ),
                ),
                _ => {}
            }
        }
        if !(1..=LARGEST_LINE_BYTES).contains(&self.max_line) {
            refuse(
                "max_line",
                format!("{} is not a size of a line; use 1 to {LARGEST_LINE_BYTES} bytes", self.max_line),
            );
        }
        problems
    }
}
