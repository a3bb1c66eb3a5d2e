//! `soakd agent`: tells of the processes of this machine, for a soakd on another.

use super::config::SettingsArgs;
use super::logs::LogArgs;
use super::{Outcome, USAGE};
use crate::app::agent;
use crate::config;
use crate::settings::agent::AgentSettings;

/// Arguments of `soakd agent`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AgentArgs {
    /// The layers
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// Runs the agent until a signal ends it.
#[must_use]
pub fn run(args: &AgentArgs, logs: &LogArgs) -> Outcome {
    let loaded = config::environment()
        .and_then(|env| AgentSettings::load(&args.settings.files, env, &args.settings.sets));
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Outcome::error(USAGE, &error),
    };
    if let Err(error) = logs.start() {
        return Outcome::error(USAGE, &error);
    }
    loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    // One thread: the agent stands beside the system that is measured.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::error(3, &format!("cannot start the runtime: {error}")),
    };
    let started = |http| tracing::info!(%http, "the agent listens");
    let ran = runtime.block_on(agent::run(&loaded.settings, started));
    // A look that hangs must not hold the end.
    runtime.shutdown_background();
    match ran {
        Ok(()) => Outcome::default(),
        Err(error) => Outcome::error(error.exit_code(), &error),
    }
}
