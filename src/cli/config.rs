//! `soakd config`: effective settings with their origins, the JSON schema, and profiles drawn.

use std::path::PathBuf;

use super::drawing::{Around, draw};
use crate::config::{self, ConfigErrors, Loaded, Problem};
use crate::settings::Settings;

/// Where settings come from, on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SettingsArgs {
    /// Settings file (.toml, .yaml, .yml, .json); may be repeated, a later one overrides an earlier one
    #[arg(short = 'c', long = "config", value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// One setting, like `streams.main.rate=5000`; overrides files and environment; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// Arguments of `soakd config`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigArgs {
    /// The layers
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Print the JSON schema of settings files instead
    #[arg(long)]
    pub schema: bool,
    /// Draw the load of each stream over time instead
    #[arg(long, conflicts_with = "schema")]
    pub profile: bool,
}

/// Renders the effective settings or the schema. The environment is an argument so that tests need no real one; `main` gives
/// [`config::environment`].
///
/// A rule that the values break is a comment at the end, not an error: who looks for the layer to blame needs to see the values. `soakd
/// check` refuses them.
///
/// # Errors
/// When the layers cannot be read into settings at all.
pub fn run(
    args: &ConfigArgs,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<String, ConfigErrors> {
    if args.schema {
        return Ok(format!("{:#}\n", config::schema::<Settings>().as_value()));
    }
    if args.profile {
        return Settings::load(&args.settings.files, env, &args.settings.sets)
            .and_then(|loaded| drawings(&loaded.settings).map_err(|problems| loaded.blame(problems)));
    }
    let loaded: Loaded<Settings> = Settings::layers(&args.settings.files, env, &args.settings.sets)?;
    let mut text = loaded.to_toml();
    let problems =
        loaded.settings.validate().err().map(|problems| loaded.blame(problems).0).unwrap_or_default();
    let problems = problems.iter().map(|problem| format!("not valid: {problem}"));
    let warnings = loaded.warnings.iter().map(|warning| format!("warning: {warning}"));
    for remark in problems.chain(warnings) {
        text.push_str(&format!("\n# {}\n", remark.replace('\n', "\n# ")));
    }
    Ok(text)
}

/// The load of every stream; a rate is drawn as the profile that it is.
fn drawings(settings: &Settings) -> Result<String, Vec<Problem>> {
    let ns = |duration: config::Duration| u64::try_from(duration.get().as_nanos()).unwrap_or(u64::MAX);
    let mut drawings = Vec::new();
    for (name, stream) in &settings.streams {
        let around = Around {
            warmup_ns: ns(settings.run.warmup),
            duration_ns: settings.run.duration.map(ns),
            preload: stream.preload,
            records: stream.records,
        };
        drawings.push(draw(name, &stream.course(&config::key("streams", name))?, &around));
    }
    Ok(drawings.join("\n"))
}

/// [`run`] with the real environment, for `main`.
#[must_use]
pub fn outcome(args: &ConfigArgs) -> super::Outcome {
    match config::environment().and_then(|env| run(args, env)) {
        Ok(text) => super::Outcome::text(text),
        Err(error) => super::Outcome::error(super::USAGE, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_break_a_rule_are_shown_with_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("soakd.toml");
        std::fs::write(&path, "[streams.main]\nrate = 100\n").unwrap();
        let args = |set: &str| {
            let settings = SettingsArgs { files: vec![path.clone()], sets: vec![set.to_owned()] };
            ConfigArgs { settings, ..ConfigArgs::default() }
        };
        let env = [("SOAKD_X".to_owned(), "1".to_owned())];
        let text = run(&args("streams.main.lanes=9"), env).unwrap();
        assert!(text.contains("\nlanes = 9  # --set\n"), "{text}");
        assert!(text.contains("\n# not valid: --set: streams.main.lanes: 9 is not between"), "{text}");
        assert!(text.contains("\n# warning: the environment variable SOAKD_X is ignored"), "{text}");
        toml::from_str::<toml::Table>(&text).unwrap();
        let unknown = run(&args("streams.main.lane=9"), []).unwrap_err().to_string();
        assert!(unknown.contains("did you mean \"lanes\"?"), "{unknown}");
    }

    #[test]
    fn loads_are_drawn_and_mistakes_in_them_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("soakd.toml");
        std::fs::write(
            &path,
            "[streams.a]\nrate = 100\n[streams.b]\ntopic = \"b\"\nprofile = [{ ramp_to = 50, over = \"1m\" }]\n",
        )
        .unwrap();
        let drawn = |set: &str| {
            let settings = SettingsArgs { files: vec![path.clone()], sets: vec![set.to_owned()] };
            run(&ConfigArgs { settings, profile: true, ..ConfigArgs::default() }, [])
        };
        let text = drawn("run.duration=2m").unwrap();
        assert!(
            text.contains("stream a\n") && text.contains("  measured    12,000 records in 2min\n"),
            "{text}"
        );
        assert!(
            text.contains("stream b\n") && text.contains("  profile     1,500 records in 1min\n"),
            "{text}"
        );
        let error = drawn("streams.b.max_rate=20").unwrap_err().to_string();
        assert!(error.contains("streams.b.profile[0].ramp_to: 50 is above max_rate = 20"), "{error}");
        assert!(drawn("streams.a.rate=max").unwrap().contains("^^^"));
    }

    #[test]
    fn the_schema_tells_defaults_and_meanings() {
        let text = run(&ConfigArgs { schema: true, ..ConfigArgs::default() }, []).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
        let seed = &schema["properties"]["run"]["properties"]["seed"];
        assert_eq!(seed["default"], 42);
        assert!(seed["description"].as_str().unwrap().starts_with("Seed of keys"));
    }
}
