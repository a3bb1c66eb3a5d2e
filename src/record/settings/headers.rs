//! Settings of headers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::headers::MAX_HEADERS;
use crate::config::{Problem, key};

/// Headers of every record. They cost about half of the highest rate; the value carries the same facts for nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HeaderSettings {
    /// Send the run's id as the header `soakd-run`.
    pub run: bool,
    /// Send the record's number in the stream, as decimal text, as the header `soakd-sequence`.
    pub sequence: bool,
    /// Headers that are the same in every record: names and texts.
    pub custom: BTreeMap<String, String>,
}

/// Begins the names of soakd's own headers.
const OWN: &str = "soakd-";

impl HeaderSettings {
    /// Number of headers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.custom.len() + usize::from(self.run) + usize::from(self.sequence)
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let custom = key(at, "custom");
        let name = |name: &String| {
            let message = match name.as_str() {
                "" => "is empty; a header needs a name".to_owned(),
                name if name.contains('\0') => "holds a zero byte, which no header's name may".to_owned(),
                name if name.to_ascii_lowercase().starts_with(OWN) => {
                    format!("begins with {OWN:?}, as soakd's own headers do; use another name")
                }
                _ => return None,
            };
            Some(Problem::new(key(&custom, name), message))
        };
        let mut problems: Vec<Problem> = self.custom.keys().filter_map(name).collect();
        if self.count() > MAX_HEADERS {
            let message = format!("{} headers are too many; use at most {MAX_HEADERS}", self.count());
            problems.push(Problem::new(custom, message));
        }
        problems
    }
}
