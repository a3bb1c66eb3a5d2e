//! The machinery of settings: layers, origins, types, errors with the nearest key.
//!
//! It knows no setting by name. What is allowed where comes from the JSON schema that the parts' settings derive, so one
//! description serves parsing, errors and `soakd config --schema`.

mod error;
mod secret;
pub mod shape;
mod types;

pub use error::{ConfigErrors, Origin, Problem};
pub use secret::{REDACTED, Secret, SecretFileError, SecretUrl, is_secret_key};
pub use types::{Duration, Properties, RateSetting};

/// Dotted key of `name` below `at`; a name that is no plain word is quoted, as TOML does.
pub fn key(at: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let name = if plain { name.to_owned() } else { quoted(name) };
    if at.is_empty() { name } else { format!("{at}.{name}") }
}

/// Text as a TOML basic string. JSON's escapes are TOML's too; only DEL must be escaped on top.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Whether a name of a run, stream, source or process is plain: 1 to 64 letters, digits, `_` or `-`.
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// `; did you mean "x"?` when a known word is near, else the list of known words, else nothing.
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let distance =
        |known: &str| strsim::damerau_levenshtein(&word.to_ascii_lowercase(), &known.to_ascii_lowercase());
    // A third of the letters wrong is a slip; more is another word.
    let near = known
        .iter()
        .map(|known| (distance(known), *known))
        .filter(|(far, known)| *far <= 1 + known.len() / 4)
        .min();
    match (near, known.is_empty()) {
        (Some((_, near)), _) => format!("; did you mean {near:?}?"),
        (None, false) => format!("; known are {}", known.join(", ")),
        (None, true) => String::new(),
    }
}
