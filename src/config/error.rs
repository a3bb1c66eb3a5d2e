//! Where a setting came from, and what is wrong with it.

use std::fmt;
use std::path::PathBuf;

/// The layer that gave a setting its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A preset that a layer named, by the preset's name.
    Preset(String),
    /// A settings file.
    File(PathBuf),
    /// An environment variable, by its name.
    Env(String),
    /// `--set` on the command line.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Env(name) => f.write_str(name),
            Origin::Set => f.write_str("--set"),
        }
    }
}

/// One thing that is wrong with the settings. Its texts never hold a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Full dotted key, or empty when no key is to blame (a file that cannot be read).
    pub key: String,
    /// What was found, what is right, and the remedy.
    pub message: String,
    /// The layer to blame, when known.
    pub origin: Option<Origin>,
    /// Line in the file, counted from 1, when the parser tells it.
    pub line: Option<usize>,
}

impl Problem {
    /// A problem with the value at `key`; the loader adds the origin.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Problem { key: key.into(), message: message.into(), origin: None, line: None }
    }

    /// The same problem, blamed on `origin`.
    #[must_use]
    pub fn from_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            None | Some(Origin::Default) => {}
            Some(origin) => {
                write!(f, "{origin}")?;
                if let Some(line) = self.line {
                    write!(f, ":{line}")?;
                }
                f.write_str(": ")?;
            }
        }
        // A variable that matches no key has no key to name: its origin says it all.
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// All that is wrong with the settings, at once, so that one round of repair is enough.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "settings are not valid: {one}"),
            many => {
                write!(f, "settings are not valid, {} problems:", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}
