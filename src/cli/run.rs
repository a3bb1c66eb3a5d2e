//! `soakd run`: the daemon, its status line, its report and its exit code.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::config::SettingsArgs;
use super::logs::LogArgs;
use super::{Outcome, USAGE};
use crate::app::{self, Hooks, Started};
use crate::config::{self, Loaded};
use crate::core::clock::wall_now;
use crate::core::lock::lock;
use crate::core::status::Snapshot;
use crate::report::{self, line, line::LineState};
use crate::settings::Settings;
use crate::store::record::RunRecord;
use crate::store::{RunFolder, Store, run_id};

/// Arguments of `soakd run`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunArgs {
    /// The layers
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// Plain logs get the classic line this often.
const CLASSIC_EVERY_SECONDS: u64 = 10;

/// Runs the daemon to its end.
#[must_use]
pub fn run(args: &RunArgs, logs: &LogArgs) -> Outcome {
    let loaded =
        config::environment().and_then(|env| Settings::load(&args.settings.files, env, &args.settings.sets));
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Outcome::error(USAGE, &error),
    };
    if let Err(error) = logs.start() {
        return Outcome::error(USAGE, &error);
    }
    loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let shown = shown_settings(&loaded);
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::error(3, &format!("cannot start the runtime: {error}")),
    };
    let id = run_id(&loaded.settings.run.name, wall_now());
    let folder = Store::open(&loaded.settings.store.dir).and_then(|store| store.create_run(&id));
    let folder = folder
        .map_err(|error| tracing::warn!(error = %error, "the run goes on and will not be recorded"))
        .ok();
    // A second run in the same second has a folder, and so an id, of its own.
    let id = folder.as_ref().map_or(id, |folder| folder.id().to_owned());
    let outcome = runtime.block_on(daemon(loaded.settings, shown, id, folder, |_| {}));
    // What still blocks (a client that waits for a dead broker) must not hold the end.
    runtime.shutdown_background();
    outcome
}

/// Settings and origins for `GET /api/v1/status`, secrets redacted.
#[must_use]
pub fn shown_settings(loaded: &Loaded<Settings>) -> Value {
    let origins: serde_json::Map<String, Value> =
        loaded.origins.iter().map(|(key, origin)| (key.clone(), Value::from(origin.to_string()))).collect();
    let values = serde_json::to_value(&loaded.settings).unwrap_or_default();
    serde_json::json!({ "values": values, "origins": origins })
}

/// The daemon with its status lines and its report, for `run` and `demo`; without a folder nothing is written to disk.
pub async fn daemon(
    settings: Settings,
    shown: Value,
    id: String,
    folder: Option<RunFolder>,
    mut started: impl FnMut(&Started) + Send + 'static,
) -> Outcome {
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let terminal = std::io::stdout().is_terminal();
    let lines = Arc::new(Mutex::new(Lines { state: LineState::default(), terminal, seconds: 0 }));
    let (sample, show, end) = (Arc::clone(&lines), Arc::clone(&lines), Arc::clone(&lines));
    let judged = Arc::clone(&outcome);
    let unused = folder.clone();
    let hooks = Hooks {
        started: Box::new(move |now| {
            tracing::info!(run = now.run_id, http = %now.http, "the load begins");
            started(now);
        }),
        sample: Box::new(move |snapshot| lock(&sample).state.sample(snapshot)),
        show: Box::new(move |snapshot| lock(&show).show(snapshot)),
        finished: Box::new(move |record, last| {
            lock(&end).end(last);
            let (found, verdict) = finish(&record, folder.as_ref());
            *lock(&judged) = found;
            verdict
        }),
    };
    if let Err(error) = app::run(settings, shown, id, hooks).await {
        if let Some(folder) = unused {
            folder.discard();
        }
        return Outcome::error(error.exit_code(), &error);
    }
    lock(&outcome).clone()
}

/// Judges, writes and shows the report of a finished run.
fn finish(record: &RunRecord, folder: Option<&RunFolder>) -> (Outcome, String) {
    let report = report::summarize(record);
    let unwritten = match folder.map(|folder| folder.write_report(&report)) {
        Some(Ok(path)) => {
            tracing::info!(report = %path.display(), "report written");
            None
        }
        Some(Err(error)) => {
            tracing::error!(error = %error, "the report cannot be written; it follows on standard output only");
            Some(error.to_string())
        }
        None => None,
    };
    let verdict = &report.verdict;
    // At once, not at the daemon's end: an idle daemon goes on.
    let _ = write!(std::io::stdout(), "{}", report::text(&report));
    if let Some(reason) = unwritten {
        let _ = writeln!(std::io::stdout(), "\nNOT RECORDED: {reason}");
    }
    (Outcome { code: verdict.exit_code(), ..Outcome::default() }, verdict.name().to_owned())
}

/// The status lines.
struct Lines {
    state: LineState,
    terminal: bool,
    seconds: u64,
}

impl Lines {
    fn show(&mut self, snapshot: &Snapshot) {
        self.state.observe(snapshot);
        self.seconds += 1;
        let mut out = std::io::stdout().lock();
        // A closed pipe must not end the load.
        let _ = if self.terminal {
            write!(out, "\r\x1b[2K{}", line::live(snapshot, &self.state, width())).and_then(|()| out.flush())
        } else if self.seconds.is_multiple_of(CLASSIC_EVERY_SECONDS) {
            writeln!(out, "{}", line::classic(snapshot, &self.state))
        } else {
            Ok(())
        };
    }

    /// The last line stays, above the report.
    fn end(&mut self, last: &Snapshot) {
        self.state.observe(last);
        let mut out = std::io::stdout().lock();
        let wipe = if self.terminal { "\r\x1b[2K" } else { "" };
        let _ = writeln!(out, "{wipe}{}", line::classic(last, &self.state));
    }
}

/// Columns of the terminal; 80 when it does not say.
fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}
