//! Settings of random values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::share_problem;
use super::size::SizeSetting;
use crate::config::Problem;

/// The size of a small event; results are usually quoted for 100 B to 1 KB.
const DEFAULT_VALUE_SIZE_BYTES: u32 = 500;

/// Values of random bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RandomValueSettings {
    /// Size of a value in bytes: a number, `{ min, max }` (each size equally likely), `{ mean, sigma }` (normal; with `min` and `max` cut off there) or a list of `{ size, weight }`.
    pub size: SizeSetting,
    /// Share of a value, from 0 to 1, that a codec can compress away: 0.5 halves it.
    pub compressibility: f64,
    /// Share of the records, from 0 to 1, that have no value and so delete their key.
    pub tombstones: f64,
}

impl Default for RandomValueSettings {
    fn default() -> Self {
        RandomValueSettings {
            size: SizeSetting::Fixed(DEFAULT_VALUE_SIZE_BYTES),
            compressibility: 0.0,
            tombstones: 0.0,
        }
    }
}

impl RandomValueSettings {
    /// What is wrong with the values, beyond their types; [`super::ValueSettings::problems`] looks at the tombstones.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = self.size.problems(at);
        problems.extend(share_problem(at, "compressibility", self.compressibility));
        problems
    }
}
