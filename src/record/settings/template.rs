//! Settings of values from a template.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::template::{Compiled, Fixed};
use crate::config::{Problem, key};

/// Values from a template of JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TemplateValueSettings {
    /// The value as JSON with places like `{{sequence}}` or `{{int 1 100}}`; docs/values.md lists them.
    pub template: Option<String>,
    /// File that holds the template, instead of `template`.
    pub template_file: Option<PathBuf>,
    /// Share of the records, from 0 to 1, that have no value and so delete their key.
    pub tombstones: f64,
}

impl TemplateValueSettings {
    /// Bytes of a value in the mean, about.
    pub(super) fn typical_bytes(&self) -> f64 {
        const OF_A_FILE: usize = 500;
        self.template.as_ref().map_or(OF_A_FILE, String::len) as f64
    }

    /// What is wrong with the values, beyond their types.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        let problem = |name: &str, message: String| vec![Problem::new(key(at, name), message)];
        match (&self.template, &self.template_file) {
            (None, None) => problem(
                "template",
                "kind = \"template\" needs one; write template = '{\"n\": {{sequence}}}', or name a template_file".into(),
            ),
            (Some(_), Some(_)) => problem("template_file", "there is also a template; leave one of them out".into()),
            (Some(template), None) => {
                // Stand-ins: neither changes whether the template is good.
                match Compiled::new(template, Fixed { run_id: "run", topic: "topic" }) {
                    Ok(_) => Vec::new(),
                    Err(error) => problem("template", error.to_string()),
                }
            }
            (None, Some(_)) => Vec::new(),
        }
    }
}
