//! Settings of what is sent, a file for each topic.

pub mod avro;
mod file;
mod headers;
mod key;
mod marker;
mod preset;
mod random;
mod size;
mod template;
mod value;

pub use file::{FileFormat, FileOrder, FileValueSettings};
pub use headers::HeaderSettings;
pub use key::{KeyFormat, KeyKind, KeySettings};
pub(super) use key::{MAX_DIGITS, UNIQUE_KEYS};
pub use marker::MarkerSettings;
pub use preset::{OrdersTable, PresetEncoding, PresetName, PresetValueSettings};
pub use random::RandomValueSettings;
pub use size::{SizeSetting, WeightedSize};
pub use template::TemplateValueSettings;
pub use value::{JsonValueSettings, ValueSettings};

use crate::config::{Problem, key};

/// Far more than anybody sends through Kafka. What client and broker take is theirs to say (`message.max.bytes`).
pub(super) const MAX_SIZE_BYTES: u32 = 100 << 20;

/// A share that is no share.
fn share_problem(at: &str, name: &str, share: f64) -> Option<Problem> {
    let message = || format!("{share} is not a share; use 0 to 1, like 0.5");
    (!(0.0..=1.0).contains(&share)).then(|| Problem::new(key(at, name), message()))
}
