//! Tests of the settings through all layers.

mod files;
mod layers;
mod reference;
mod rules;
mod show;

use std::path::{Path, PathBuf};

use super::Settings;
use crate::config::{ConfigErrors, Loaded};

/// A file that names one of everything.
const BASE: &str = r#"
[streams.main]
rate = 100

[progress.view]
kind = "sql"
stream = "main"
url = "postgres://soakd:hunter2@sut:6875/db"
query = "SELECT 1"
value = "next_offset"

[processes.sut]
kind = "local"
name = "sut"
"#;

/// Files of a test in a folder of their own.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Files(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn pairs(env: &[(&str, &str)]) -> Vec<(String, String)> {
    env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Loads `toml` with an environment and `--set` texts.
fn load(toml: &str, env: &[(&str, &str)], sets: &[&str]) -> Result<Loaded<Settings>, ConfigErrors> {
    let files = Files::new();
    let path = files.write("soakd.toml", toml);
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Settings::load(&[path], pairs(env), &sets)
}

/// The text of all that is wrong, with the test's folder taken out.
fn refusal(toml: &str, env: &[(&str, &str)], sets: &[&str]) -> String {
    shorten(&load(toml, env, sets).expect_err("it should be refused"))
}

/// Paths of the temporary folder are noise in comparisons.
fn shorten(errors: &ConfigErrors) -> String {
    let text = errors.to_string();
    let folder = std::env::temp_dir().display().to_string();
    let mut parts = text.split(&folder);
    let first = parts.next().unwrap_or_default().to_owned();
    // Each path is FOLDER/.tmpXXXX/name.
    parts.fold(first, |text, part| {
        text + part.trim_start_matches('/').split_once('/').map_or(part, |(_, rest)| rest)
    })
}

fn file_at(loaded: &Loaded<Settings>, key: &str) -> String {
    match loaded.origins.get(key) {
        Some(crate::config::Origin::File(path)) => {
            Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
        Some(other) => other.to_string(),
        None => format!("{key} has no origin"),
    }
}
