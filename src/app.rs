//! Builds everything from the settings, spawns it, waits, and stops it in order. The only place that spawns what
//! lives as long as the daemon.
//!
//! Order of the start: topics, HTTP, clients, sources (each polls once), load. Order of the stop: load, flush, drain,
//! reconciliation, report, sources and processes, HTTP last, so that the final figures are still scraped.

mod build;
pub mod check;
mod load;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::build::{build_board, build_streams, ensure_topics, run_info, topic_specs};
use self::load::Load;
use crate::core::clock::Clock;
use crate::core::control::Control;
use crate::core::status::{Board, ProgressErrorKind, Snapshot, lock};
use crate::http::{HttpError, HttpServer};
use crate::kafka::topic::TopicError;
use crate::process::ProcessWatch;
use crate::produce::lane::LaneError;
use crate::progress::{Poller, ProgressError};
use crate::run::collector::Collector;
use crate::run::lifecycle::{Deadlines, Run};
use crate::run::settings::AfterRun;
use crate::settings::Settings;
use crate::store::record::RunRecord;

/// How long a start waits for the first poll of each source.
const FIRST_POLLS: Duration = Duration::from_secs(5);
/// Exit code of a second signal.
const SECOND_SIGNAL: i32 = 130;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings cannot work.
    #[error("{0}")]
    Settings(String),
    /// A topic cannot be used, or no broker answers.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// HTTP cannot be served.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A lane cannot produce.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// A progress source cannot be set up.
    #[error(transparent)]
    Progress(#[from] ProgressError),
    /// A progress source cannot be connected to.
    #[error("progress.{name}: {error}")]
    Source {
        /// The source.
        name: String,
        /// What went wrong.
        error: String,
    },
    /// The operating system refused a thread or a signal handler.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

impl StartError {
    /// 2 for settings, 3 for a system that cannot be reached.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Settings(_) | Self::Http(_) | Self::Lane(_) | Self::Progress(_) => 2,
            Self::Topic(TopicError::Client(_)) => 2,
            Self::Topic(_) | Self::Source { .. } | Self::System(_) => 3,
        }
    }
}

/// What the command line wants to know. Nothing here may block for long.
#[allow(missing_debug_implementations)] // closures
pub struct Hooks {
    /// The daemon serves and the load begins.
    pub started: Box<dyn FnMut(&Started) + Send>,
    /// Once a second: the state of everything.
    pub show: Box<dyn FnMut(&Snapshot) + Send>,
    /// The run is over: writes and judges it; returns the verdict in one word.
    pub finished: Box<dyn FnMut(RunRecord) -> String + Send>,
}

/// Where a started daemon is found.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where HTTP is served.
    pub http: SocketAddr,
    /// The run's id.
    pub run_id: String,
}

/// Runs the daemon until its end.
///
/// # Errors
/// When it cannot start; nothing was produced then.
pub async fn run(settings: Settings, shown: Value, run_id: String, mut hooks: Hooks) -> Result<(), StartError> {
    let clock = Clock::start();
    let kafka = Arc::new(settings.kafka.clone());
    let specs = topic_specs(&settings, &run_id);
    let topics = ensure_topics(Arc::clone(&kafka), specs).await?;
    let streams = build_streams(&settings, &run_id, &topics, clock)?;
    let board = Arc::new(build_board(&settings, &run_id, streams, clock));
    let control = Arc::new(Control::new(Arc::clone(&board)));
    let http = HttpServer::bind(&settings.http, Arc::clone(&control), shown)?;
    let started = Started { http: http.local_addr(), run_id: run_id.clone() };

    let load = Load::build(&settings, &kafka, &board)?;
    let stop = CancellationToken::new();
    let mut samplers = JoinSet::new();
    let mut pollers = Vec::new();
    for (name, source) in &settings.progress {
        pollers.push(Poller::new(name, source, &kafka, &board)?);
    }
    let wake_sources = pollers.iter().map(Poller::wake).collect();
    for poller in pollers {
        samplers.spawn(poller.run(stop.child_token()));
    }
    for (name, process) in &settings.processes {
        let Some(cell) = board.processes.get(name) else { continue };
        let watch =
            ProcessWatch::new(name.clone(), process, Arc::clone(cell), Arc::clone(&board.events), clock);
        samplers.spawn(watch.run(stop.child_token()));
    }
    let http_stop = CancellationToken::new();
    let serving = tokio::spawn(http.run(http_stop.clone()));
    let idle_stop = CancellationToken::new();
    let signals = tokio::spawn(signals(Arc::clone(&control), idle_stop.clone())?);
    first_polls(&board).await?;

    (hooks.started)(&started);
    let surroundings = load.start(hooks, &topics)?;
    let collector = Collector::new(run_info(&settings, &run_id));
    let deadlines = Deadlines {
        flush: settings.run.flush_timeout.get(),
        drain: if settings.progress.is_empty() { Duration::ZERO } else { settings.run.drain_timeout.get() },
    };
    let run = Run::new(control, board, collector, deadlines, wake_sources, surroundings);
    run.run(settings.run.after_run == AfterRun::Idle, idle_stop).await;

    stop.cancel();
    while samplers.join_next().await.is_some() {}
    signals.abort();
    http_stop.cancel();
    // The server has a deadline of its own.
    let _ = serving.await;
    Ok(())
}

/// The first signal stops the run (and an idle daemon), the second leaves at once.
fn signals(
    control: Arc<Control>,
    idle_stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send, std::io::Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let mut seen = 0;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            seen += 1;
            if seen > 1 {
                tracing::warn!("second signal: leaving at once, without flush and report");
                std::process::exit(SECOND_SIGNAL);
            }
            tracing::info!("signal: stopping the run; a second one leaves at once");
            control.request_stop("signal");
            idle_stop.cancel();
        }
    })
}

/// Waits until every source was polled once, so that baselines are from before the first record. A source that cannot
/// be connected to at all is a mistake in the settings more often than not: the start fails then. One that answers
/// with an error is not: its table may come with the first record.
async fn first_polls(board: &Board) -> Result<(), StartError> {
    let deadline = Instant::now() + FIRST_POLLS;
    let waiting = || {
        board.sources.values().any(|source| {
            let source = lock(source);
            source.polls_total == 0 && source.errors.iter().all(|count| *count == 0)
        })
    };
    while waiting() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (name, source) in &board.sources {
        let source = lock(source);
        let connect = source.errors.get(ProgressErrorKind::Connect as usize).is_some_and(|count| *count > 0);
        if connect && source.polls_total == 0 {
            let error = source.error.clone().unwrap_or_else(|| "cannot be connected to".to_owned());
            return Err(StartError::Source { name: name.clone(), error });
        }
    }
    Ok(())
}

