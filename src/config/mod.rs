//! The machinery of settings: layers, origins, types, errors with the nearest key.
//!
//! It knows no setting by name. What is allowed where comes from the JSON schema that the parts' settings derive, so one
//! description serves parsing, errors and `soakd config --schema`.
//!
//! ```text
//! files ──────► file  ─┐
//! environment ► text  ─┼─► tree (values with origins) ─► check (schema) ─► settings, origins ─► show
//! --set ──────► text  ─┘
//! ```
//!
//! The environment and `--set` are text, read as what the setting is:
//!
//! - `SOAKD__SECTION__KEY`, in upper case, with two underscores between parts. Names of streams, sources and processes match those
//!   of the files without regard to case, and `_` matches `-`; a name that no file has is lower case.
//! - A text setting keeps its text (`00123`, SQL with commas). A list of short words (`kafka.brokers`) is separated by commas; any
//!   other list takes the text as its one item; every list takes a JSON array.
//! - In a map of client properties `_` stands for `.`: `SOAKD__KAFKA__CLIENT__LINGER_MS` is `linger.ms`.
//! - An empty text means "not set" for a setting that may be so.

mod check;
mod error;
mod file;
mod pace;
mod read;
mod secret;
pub mod shape;
mod show;
mod text;
mod tree;
mod types;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::{ConfigErrors, Origin, Problem};
pub use pace::{PaceSetting, RepeatSetting};
pub use read::{open_regular, read_file};
pub use secret::{REDACTED, Secret, SecretFileError, SecretUrl, is_secret_key};
pub use types::{Duration, Properties, RateSetting};

/// Settings with their history.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    /// The values.
    pub settings: T,
    /// The layer of every value, by its dotted key.
    pub origins: BTreeMap<String, Origin>,
    /// What is odd but no error; the caller logs it.
    pub warnings: Vec<String>,
    sources: file::Sources,
}

/// Values that hold where no layer has set anything: what a preset says.
#[derive(Debug, Clone, PartialEq)]
pub struct Filling {
    /// The table that is filled in, part by part.
    pub at: Vec<String>,
    /// The preset's name.
    pub preset: String,
    /// Its values, a table.
    pub values: Value,
}

/// What presets fill in, given everything that the layers set.
pub type Fill = dyn Fn(&Value) -> Result<Vec<Filling>, Vec<Problem>>;

/// Lays defaults, presets, files (left to right), environment and `--set` over each other.
///
/// # Errors
/// Everything that is wrong, at once: unreadable files first, then unknown keys, wrong types and missing keys.
pub fn load<T: Serialize + DeserializeOwned + JsonSchema>(
    files: &[PathBuf],
    env: impl IntoIterator<Item = (String, String)>,
    sets: &[String],
    fill: &Fill,
) -> Result<Loaded<T>, ConfigErrors> {
    let mut problems = Vec::new();
    let mut sources = file::Sources::default();
    let mut tree = tree::Node::empty();
    for path in files {
        match file::read(path, &mut sources) {
            Ok(layer) => tree.lay(layer),
            Err(problem) => problems.push(problem),
        }
    }
    // Without a file nearly every key would look missing.
    if !problems.is_empty() {
        return Err(ConfigErrors(problems));
    }
    let schema = schema::<T>();
    let root = shape::Shape::new(schema.as_value());
    let warnings = text::lay_env(&mut tree, root, env, &mut problems);
    text::lay_sets(&mut tree, root, sets, &mut problems);
    let mut check = check::Check::default();
    match fill(&tree.to_value()) {
        Ok(fillings) => {
            for Filling { at, preset, values } in fillings {
                tree.lay_under(&at, tree::Node::from_value(values, &Origin::Preset(preset)));
            }
        }
        // Checked without it, whatever it would fill in would be missing too.
        Err(mut wrong) => {
            problems.append(&mut wrong);
            locate_set(&mut problems, &tree);
            locate(&mut problems, &sources);
            return Err(ConfigErrors(problems));
        }
    }
    let value = check.node(root, &tree, "");
    problems.append(&mut check.problems);
    locate(&mut problems, &sources);
    if !problems.is_empty() {
        return Err(ConfigErrors(problems));
    }
    let settings: T = serde_path_to_error::deserialize(value).map_err(|error| beyond_schema(&error))?;
    let mut keys = Vec::new();
    show::keys(&shown(&settings), "", &mut keys);
    let origin = |key: String| {
        let origin = check.origins.get(&key).cloned().unwrap_or(Origin::Default);
        (key, origin)
    };
    let origins = keys.into_iter().map(origin).collect();
    Ok(Loaded { settings, origins, warnings, sources })
}

/// JSON schema of settings, for editors and for the machinery itself.
pub fn schema<T: JsonSchema>() -> Schema {
    // Inlined, so that walking it needs no look-up of references.
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

/// The process's environment, as far as it is soakd's.
///
/// # Errors
/// When a variable of soakd's is not UTF-8.
pub fn environment() -> Result<Vec<(String, String)>, ConfigErrors> {
    of_soakd(std::env::vars_os())
}

fn of_soakd(
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, ConfigErrors> {
    let (mut pairs, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in env {
        // Other programs' variables are none of our business, whatever their encoding.
        let name = name.to_string_lossy().into_owned();
        if !text::is_ours(&name) {
            continue;
        }
        match value.into_string() {
            Ok(value) => pairs.push((name, value)),
            Err(_) => problems.push(Problem::new("", "is not UTF-8 text").from_origin(Origin::Env(name))),
        }
    }
    if problems.is_empty() { Ok(pairs) } else { Err(ConfigErrors(problems)) }
}

impl<T: Serialize> Loaded<T> {
    /// The settings as TOML with `# origin` behind each value, without secrets.
    pub fn to_toml(&self) -> String {
        show::toml_with_origins(&shown(&self.settings), &self.origins)
    }

    /// Problems with the values, blamed on the layers and lines that set them.
    #[must_use]
    pub fn blame(&self, mut problems: Vec<Problem>) -> ConfigErrors {
        for problem in problems.iter_mut().filter(|problem| problem.origin.is_none()) {
            let below = format!("{}.", problem.key);
            let near = self.origins.iter().find(|(key, origin)| {
                **origin != Origin::Default && (**key == problem.key || key.starts_with(&below))
            });
            problem.origin = near.map(|(_, origin)| origin.clone());
        }
        locate(&mut problems, &self.sources);
        ConfigErrors(problems)
    }
}

/// Blames problems on the layers that set the values; one with a missing value on the table around it.
fn locate_set(problems: &mut [Problem], tree: &tree::Node) {
    for problem in problems.iter_mut().filter(|problem| problem.origin.is_none()) {
        let mut node = tree;
        for part in text::split_key(&problem.key).unwrap_or_default() {
            let Some(child) = node.child(&part) else { break };
            node = child;
        }
        problem.origin = node.origin().cloned();
    }
}

fn locate(problems: &mut [Problem], sources: &file::Sources) {
    for problem in problems.iter_mut().filter(|problem| problem.line.is_none()) {
        if let Some(Origin::File(path)) = &problem.origin {
            problem.line = sources.line(path, &problem.key);
        }
    }
}

/// The settings as JSON. Types that hold secrets do not serialize them.
fn shown<T: Serialize>(settings: &T) -> Value {
    // Settings are tables with text keys; only a map with other keys could fail, and that shows in the first test.
    serde_json::to_value(settings).unwrap_or_default()
}

/// A rule of a type that its schema does not tell.
fn beyond_schema(error: &serde_path_to_error::Error<serde_json::Error>) -> ConfigErrors {
    let message = secret::without_quoted(&error.inner().to_string());
    ConfigErrors(vec![Problem::new(error.path().to_string(), message)])
}

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
    // A quarter of the letters wrong is a slip; more is another word.
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn the_environment_is_soakds_part_of_it() {
        let bytes = || OsString::from_vec(vec![0xff]);
        let others = [("PATH".into(), bytes()), (bytes(), bytes()), ("SOAKD__RUN__NAME".into(), "é".into())];
        assert_eq!(of_soakd(others).unwrap(), [("SOAKD__RUN__NAME".to_owned(), "é".to_owned())]);
        let error = of_soakd([("SOAKD__RUN__NAME".into(), bytes())]).unwrap_err().to_string();
        assert_eq!(error, "settings are not valid: SOAKD__RUN__NAME: is not UTF-8 text");
    }

    #[test]
    fn dotted_keys_are_quoted_like_toml() {
        assert_eq!(key("", "run"), "run");
        assert_eq!(key("kafka.client", "linger.ms"), "kafka.client.\"linger.ms\"");
        for name in ["a.b", "", "a\"b", "é", "a\u{7f}\n"] {
            assert_eq!(text::split_key(&key("x-1", name)).unwrap(), ["x-1", name]);
        }
    }

    #[test]
    fn the_nearest_word_is_suggested_else_all() {
        let known = ["timeout", "interval", "tls"];
        assert_eq!(suggest("timeouts", known), "; did you mean \"timeout\"?");
        assert_eq!(suggest("TIMEOUT", known), "; did you mean \"timeout\"?");
        assert_eq!(suggest("colour", known), "; known are timeout, interval, tls");
        assert_eq!(suggest("x", []), "");
    }
}
