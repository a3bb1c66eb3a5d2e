//! Builds everything from the settings, spawns it, waits, and stops it in order. The only place that spawns what
//! lives as long as the daemon.
//!
//! Order of the start: the HTTP port (another soakd may hold it: then nothing is touched), topics, HTTP, clients, sources
//! (each polls once), load. Order of the stop: load, flush, drain, reconciliation, report, sources and processes, HTTP
//! last, so that the final figures are still scraped.

pub mod agent;
mod build;
pub mod check;
mod load;
mod signals;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::build::{
    build_board, build_makers, build_streams, ensure_topics, marker_warnings, process_watches, run_info,
    topic_specs,
};
use self::load::Load;
use self::signals::{LEFT_AT_ONCE, Signals};
use crate::core::clock::Clock;
use crate::core::control::Control;
use crate::core::lock::lock;
use crate::core::machine::OWN_MACHINE;
use crate::core::status::{Board, ProgressErrorKind, Snapshot};
use crate::http::{HttpError, HttpListener, HttpServer};
use crate::kafka::settings::KafkaSettings;
use crate::kafka::topic::{TopicError, TopicInfo};
use crate::process::MachineWatch;
use crate::process::own::OwnWatch;
use crate::produce::lane::LaneError;
use crate::produce::profile::from_json;
use crate::progress::{Poller, ProgressError};
use crate::record::format::BuildError;
use crate::run::collector::Collector;
use crate::run::lifecycle::{Deadlines, Run};
use crate::run::settings::AfterRun;
use crate::settings::Settings;
use crate::store::record::RunRecord;

/// How long a start waits for the first poll of each source.
const FIRST_POLLS: Duration = Duration::from_secs(5);
/// Longest wait for sources and processes to end; each has shorter deadlines of its own.
const SAMPLERS_END: Duration = Duration::from_secs(10);

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
    /// A stream's records cannot be made.
    #[error(transparent)]
    Records(#[from] BuildError),
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
    /// A signal came before the load began.
    #[error("stopped by a signal during the start: nothing was produced")]
    Signal,
}

impl StartError {
    /// 2 for settings, 3 for a system that cannot be reached, 130 for a signal.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Records(error) if error.unreachable => 3,
            Self::Settings(_) | Self::Records(_) | Self::Http(_) | Self::Lane(_) | Self::Progress(_) => 2,
            Self::Topic(TopicError::Client(_)) => 2,
            Self::Topic(_) | Self::Source { .. } | Self::System(_) => 3,
            Self::Signal => LEFT_AT_ONCE,
        }
    }
}

/// Judges a finished run, given its last snapshot; returns the verdict in one word.
pub type Judge = dyn FnMut(RunRecord, &Snapshot) -> String + Send;

/// What the command line wants to know. Nothing here may block for long.
#[allow(missing_debug_implementations)] // closures
pub struct Hooks {
    /// The daemon serves and the load begins.
    pub started: Box<dyn FnMut(&Started) + Send>,
    /// Each state that the report's figures are taken from, until the run is over: each second's and each sample's.
    pub sample: Box<dyn FnMut(&Snapshot) + Send>,
    /// Once a second until the run is over: the state of everything.
    pub show: Box<dyn FnMut(&Snapshot) + Send>,
    /// The run is over, in this last state: writes and judges it; returns the verdict in one word.
    pub finished: Box<Judge>,
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
pub async fn run(
    settings: Settings,
    shown: Value,
    run_id: String,
    mut hooks: Hooks,
) -> Result<(), StartError> {
    let mut signals = Signals::new()?;
    let Daemon { board, control, topics, load, collector, sampling, serving } = tokio::select! {
        biased;
        () = signals.next() => return Err(StartError::Signal),
        started = start(&settings, shown, &run_id) => started?,
    };
    (hooks.started)(&Started { http: serving.address, run_id: run_id.clone() });
    let (surroundings, watching) = load.start(hooks, &topics)?;
    let signalled = CancellationToken::new();
    let signals = tokio::spawn(signals.watch(Arc::clone(&control), signalled.clone()));
    let deadlines = Deadlines {
        flush: settings.run.flush_timeout.get(),
        drain: if settings.progress.is_empty() { Duration::ZERO } else { settings.run.drain_timeout.get() },
    };
    let wake_sources = sampling.wake_sources.clone();
    let run = Run::new(control, board, collector, deadlines, wake_sources, surroundings, signalled);
    run.run(settings.run.after_run == AfterRun::Idle).await;

    sampling.end().await;
    watching.end().await;
    signals.abort();
    serving.stop.cancel();
    // The server has a deadline of its own.
    let _ = serving.task.await;
    Ok(())
}

/// A daemon that is ready: only the load has not begun.
struct Daemon {
    board: Arc<Board>,
    control: Arc<Control>,
    topics: BTreeMap<String, TopicInfo>,
    load: Load,
    collector: Collector,
    sampling: Sampling,
    serving: Serving,
}

/// HTTP, served until it is stopped.
struct Serving {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Sources and processes, polled until they are stopped.
struct Sampling {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    wake_sources: Vec<Arc<Notify>>,
}

async fn start(settings: &Settings, shown: Value, run_id: &str) -> Result<Daemon, StartError> {
    let listener = HttpListener::bind(&settings.http)?;
    let clock = Clock::start();
    let kafka = Arc::new(settings.kafka.clone());
    let topics = ensure_topics(Arc::clone(&kafka), topic_specs(settings, run_id)).await?;
    let makers = build_makers(settings, run_id, &topics, false).await?;
    for (stream, maker) in &makers {
        maker.warnings().iter().for_each(|warning| tracing::warn!("streams.{stream}.value: {warning}"));
    }
    for (source, warning) in marker_warnings(settings) {
        tracing::warn!("progress.{source}: {warning}");
    }
    let streams = build_streams(settings, run_id, &topics, &makers, clock)?;
    let board = Arc::new(build_board(settings, run_id, streams, clock));
    let control = Arc::new(Control::new(Arc::clone(&board)));
    let load = Load::build(settings, &kafka, &board, &makers)?;
    let collector = Collector::new(run_info(settings, run_id, &makers));
    let sampling = Sampling::start(settings, &kafka, &board)?;
    let (address, stop) = (listener.local_addr(), CancellationToken::new());
    let server = HttpServer::new(listener, Arc::clone(&control), shown, from_json);
    let serving = Serving { address, task: tokio::spawn(server.run(stop.clone())), stop };
    first_polls(&board).await?;
    Ok(Daemon { board, control, topics, load, collector, sampling, serving })
}

impl Sampling {
    fn start(
        settings: &Settings,
        kafka: &Arc<KafkaSettings>,
        board: &Arc<Board>,
    ) -> Result<Self, StartError> {
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let pollers = settings.progress.iter().map(|(name, source)| Poller::new(name, source, kafka, board));
        // All of them before the first one asks: a mistake in the last is found before anybody is bothered.
        let pollers: Vec<Poller> = pollers.collect::<Result<_, _>>()?;
        let wake_sources = pollers.iter().map(Poller::wake).collect();
        for poller in pollers {
            tasks.spawn(poller.run(stop.child_token()));
        }
        for watch in process_watches(&settings.processes, board) {
            tasks.spawn(watch.run(stop.child_token()));
        }
        if let Some(cell) = board.machines.get(OWN_MACHINE) {
            let watch = MachineWatch::new(settings.store.dir.clone(), Arc::clone(cell), board.clock);
            tasks.spawn(watch.run(stop.child_token()));
        }
        tasks.spawn(OwnWatch::new(Arc::clone(board)).run(stop.child_token()));
        Ok(Self { stop, tasks, wake_sources })
    }

    async fn end(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(SAMPLERS_END, ended).await.is_err() {
            tracing::warn!("leaving {} sources and processes behind that did not end", self.tasks.len());
        }
    }
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
        if source.hopeless {
            let error = source.error.clone().unwrap_or_default();
            return Err(StartError::Settings(format!("progress.{name}.query: {error}")));
        }
        if connect && source.polls_total == 0 {
            let error = source.error.clone().unwrap_or_else(|| "cannot be connected to".to_owned());
            return Err(StartError::Source { name: name.clone(), error });
        }
    }
    Ok(())
}
