//! Settings of the store of run records.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Problem, key};

/// In the working directory, where the operator sees it.
const DEFAULT_DIR: &str = "soakd-data";

/// Where runs are recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// Folder of the run records; it is made when missing.
    pub dir: PathBuf,
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings { dir: DEFAULT_DIR.into() }
    }
}

impl StoreSettings {
    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        if self.dir.as_os_str().is_empty() {
            return vec![Problem::new(
                key(at, "dir"),
                format!("is empty; name a folder, like {DEFAULT_DIR:?}"),
            )];
        }
        Vec::new()
    }
}
