//! `soakd check`: a table of everything that a run would connect to.

use super::config::SettingsArgs;
use super::{Outcome, USAGE};
use crate::app::check::{Found, Row, check};
use crate::config;
use crate::progress::preset;
use crate::settings::Settings;

/// Arguments of `soakd check`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct CheckArgs {
    /// The layers
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Print what a preset of a progress source fills in instead, ready to be copied
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "sets"])]
    pub preset: Option<String>,
}

/// Checks and renders.
#[must_use]
pub fn run(args: &CheckArgs) -> Outcome {
    if let Some(name) = &args.preset {
        return match preset::find(name) {
            Ok(preset) => Outcome::text(preset.text()),
            Err(message) => Outcome::error(USAGE, &message),
        };
    }
    let loaded =
        config::environment().and_then(|env| Settings::load(&args.settings.files, env, &args.settings.sets));
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Outcome::error(USAGE, &error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::error(3, &format!("cannot start the runtime: {error}")),
    };
    let rows = runtime.block_on(check(&loaded.settings));
    runtime.shutdown_background();
    let mut out: String = loaded.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    out.push_str(&table(&rows));
    Outcome { out, code: exit_code(&rows), ..Outcome::default() }
}

fn exit_code(rows: &[Row]) -> u8 {
    let any = |found| rows.iter().any(|row| row.found == found);
    match (any(Found::Wrong), any(Found::Unreachable)) {
        (true, _) => USAGE,
        (false, true) => 3,
        (false, false) => 0,
    }
}

fn table(rows: &[Row]) -> String {
    let wide =
        |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let (part, name) = (wide(|row| row.part), wide(|row| &row.name));
    let line = |row: &Row| {
        let found = match row.found {
            Found::Good => "ok",
            Found::Doubtful => "warning",
            Found::Wrong => "wrong",
            Found::Unreachable => "no answer",
        };
        format!("{:part$}  {:name$}  {found:9}  {}\n", row.part, row.name, row.detail)
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_printed_or_the_known_ones_are_named() {
        let asked = |name: &str| run(&CheckArgs { preset: Some(name.into()), ..CheckArgs::default() });
        let found = asked("postgres");
        assert_eq!((found.code, found.err.as_str()), (0, ""));
        assert!(found.out.contains("[progress.postgres]\nkind = \"sql\"\n"), "{}", found.out);
        let none = asked("oracle");
        assert_eq!((none.code, none.out.as_str()), (USAGE, ""));
        assert!(none.err.starts_with("soakd: unknown preset \"oracle\"; known are "), "{}", none.err);
    }

    #[test]
    fn the_worst_row_decides_and_columns_line_up() {
        let row = |name: &str, found| Row { part: "stream", name: name.into(), found, detail: "x".into() };
        assert_eq!(exit_code(&[row("a", Found::Good), row("b", Found::Doubtful)]), 0);
        assert_eq!(exit_code(&[row("a", Found::Unreachable), row("b", Found::Good)]), 3);
        assert_eq!(exit_code(&[row("a", Found::Unreachable), row("b", Found::Wrong)]), 2);
        let text = table(&[row("a", Found::Good), row("longer", Found::Unreachable)]);
        assert_eq!(text, "stream  a       ok         x\nstream  longer  no answer  x\n");
    }
}
