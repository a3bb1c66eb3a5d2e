//! Builds everything from the settings, spawns it, waits, and stops it in order. The only place that spawns what
//! lives as long as the daemon.
//!
//! Order of the start: topics, HTTP, clients, sources (each polls once), load. Order of the stop: load, flush, drain,
//! reconciliation, report, sources and processes, HTTP last, so that the final figures are still scraped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::core::clock::Clock;
use crate::core::control::Control;
use crate::core::event::EventLog;
use crate::core::rate::Rate;
use crate::core::schedule::Schedule;
use crate::core::status::{Board, ProgressErrorKind, RunState, RunStatus, Snapshot, lock};
use crate::core::stream::{Head, LaneState, PartitionState, Stream};
use crate::core::walk::Overload;
use crate::http::{HttpError, HttpServer};
use crate::kafka::client::reader;
use crate::kafka::settings::KafkaSettings;
use crate::kafka::topic::{self, TopicError, TopicInfo, TopicSpec};
use crate::kafka::watch::{TopicHealth, Watch};
use crate::process::ProcessWatch;
use crate::produce::lane::{Finish, Lane, LaneError, LaneHandles, LaneSettings};
use crate::produce::settings::{OverloadPolicy, OverloadSettings, StreamSettings};
use crate::progress::{Poller, ProgressError, initial_status};
use crate::record::Maker;
use crate::run::collector::Collector;
use crate::run::lifecycle::{Deadlines, Run, Surroundings};
use crate::run::settings::AfterRun;
use crate::settings::Settings;
use crate::store::record::{RunInfo, RunRecord, StreamInfo, Watermarks};

/// How long a start waits for the brokers.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a start waits for the first poll of each source.
const FIRST_POLLS: Duration = Duration::from_secs(5);
/// How long the end waits for the broker's watermarks.
const WATERMARKS_TIMEOUT: Duration = Duration::from_secs(10);
/// Records later than this are dropped by the policy `skip`.
const SKIP_NS: u64 = 100_000_000;
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

fn topic_name(settings: &StreamSettings, run_id: &str) -> String {
    settings.topic.replace("{run}", run_id)
}

/// The topics that the settings want, by stream.
#[must_use]
pub fn topic_specs(settings: &Settings, run_id: &str) -> BTreeMap<String, TopicSpec> {
    let spec = |stream: &StreamSettings| TopicSpec {
        name: topic_name(stream, run_id),
        create: stream.create,
        partitions: stream.partitions,
        replication_factor: stream.replication_factor,
        config: stream.topic_config.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
    };
    settings.streams.iter().map(|(name, stream)| (name.clone(), spec(stream))).collect()
}

async fn ensure_topics(
    kafka: Arc<KafkaSettings>,
    specs: BTreeMap<String, TopicSpec>,
) -> Result<BTreeMap<String, TopicInfo>, StartError> {
    let ensure = move || {
        let ensure = |(name, spec)| Ok((name, topic::ensure(&kafka, &spec, START_TIMEOUT)?));
        specs.into_iter().map(ensure).collect::<Result<_, TopicError>>()
    };
    let topics = tokio::task::spawn_blocking(ensure).await.map_err(std::io::Error::other)?;
    Ok(topics?)
}

fn rate(records_per_second: f64) -> Result<Rate, StartError> {
    Rate::from_per_second(records_per_second).map_err(|error| StartError::Settings(error.to_string()))
}

fn build_streams(
    settings: &Settings,
    run_id: &str,
    topics: &BTreeMap<String, TopicInfo>,
    clock: Clock,
) -> Result<BTreeMap<String, Arc<Stream>>, StartError> {
    let limit = settings.run.duration.map(|duration| duration.get() + settings.run.warmup.get());
    let limit_ns = limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let mut streams = BTreeMap::new();
    for (name, stream) in &settings.streams {
        let Some(info) = topics.get(name) else { continue };
        // A topic that was there already may have fewer partitions than lanes were asked for.
        let lanes = stream.lanes.min(info.partitions).max(1);
        let states = (0..lanes).map(|lane| Mutex::new(lane_state(info, lane, lanes))).collect();
        let schedule = Schedule::new(rate(stream.rate.0)?, lanes as usize, limit_ns, stream.records);
        let built = Stream {
            name: name.clone(),
            topic: topic_name(stream, run_id),
            partitions: info.partitions,
            max_rate: rate(stream.max_rate.0)?,
            clock,
            schedule: Mutex::new(schedule),
            lanes: states,
        };
        streams.insert(name.clone(), Arc::new(built));
    }
    Ok(streams)
}

/// A lane's partitions before the first ack: everything up to the broker's end is not ours.
fn lane_state(info: &TopicInfo, lane: u32, lanes: u32) -> LaneState {
    let own = (0..info.partitions).zip(&info.watermarks).filter(|(partition, _)| partition % lanes == lane);
    let partitions = own.map(|(partition, (low, high))| {
        let head = Head { next_offset: *high, baseline: *high, log_start: *low, ..Head::default() };
        (partition, PartitionState { head, ..PartitionState::default() })
    });
    LaneState { partitions: partitions.collect(), ..LaneState::default() }
}

fn build_board(
    settings: &Settings,
    run_id: &str,
    streams: BTreeMap<String, Arc<Stream>>,
    clock: Clock,
) -> Board {
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let run = RunStatus {
        id: run_id.to_owned(),
        name: settings.run.name.clone(),
        tags: settings.run.tags.clone(),
        state: RunState::Starting,
        started_ns: None,
        measuring_ns: None,
        finished_ns: None,
        duration_ns: settings.run.duration.map(|duration| ns(duration.get())),
        warmup_ns: ns(settings.run.warmup.get()),
        cause: None,
        verdict: None,
    };
    let source = |(name, source): (&String, _)| (name.clone(), Arc::new(Mutex::new(initial_status(source))));
    Board {
        clock,
        run: Mutex::new(run),
        streams,
        sources: settings.progress.iter().map(source).collect(),
        processes: settings.processes.keys().map(|name| (name.clone(), Arc::default())).collect(),
        events: Arc::new(EventLog::default()),
        heartbeats: AtomicU64::new(0),
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
        if connect && source.polls_total == 0 {
            let error = source.error.clone().unwrap_or_else(|| "cannot be connected to".to_owned());
            return Err(StartError::Source { name: name.clone(), error });
        }
    }
    Ok(())
}

/// The overload policy in the terms of the schedule.
fn overload(settings: &OverloadSettings) -> Overload {
    let max_debt_ns = match settings.policy {
        OverloadPolicy::CatchUp => {
            Some(u64::try_from(settings.max_debt.get().as_nanos()).unwrap_or(u64::MAX))
        }
        OverloadPolicy::Skip => Some(SKIP_NS),
        OverloadPolicy::Wait => None,
    };
    Overload { max_debt_ns, max_catch_up_milli: (settings.max_catch_up * 1000.0).round() as u64 }
}

fn run_info(settings: &Settings, run_id: &str) -> RunInfo {
    let stream = |stream: &StreamSettings| StreamInfo {
        partitioner: match stream.key.kind {
            crate::record::settings::KeyKind::None => "sequence modulo partitions".to_owned(),
            _ => "murmur2 of the key modulo partitions, as the Java client does".to_owned(),
        },
        limits: queue_limits(&settings.kafka, stream),
    };
    let tolerance = |source: &crate::progress::settings::SourceSettings| source.tolerance();
    RunInfo {
        id: run_id.to_owned(),
        name: settings.run.name.clone(),
        tags: settings.run.tags.clone(),
        drain_timeout_seconds: settings.run.drain_timeout.get().as_secs_f64(),
        streams: settings.streams.iter().map(|(name, settings)| (name.clone(), stream(settings))).collect(),
        tolerance_records: settings.progress.iter().map(|(n, s)| (n.clone(), tolerance(s))).collect(),
    }
}

/// What bounds the records between soakd and the broker, and how long a load each limit holds.
fn queue_limits(kafka: &KafkaSettings, stream: &StreamSettings) -> Vec<String> {
    let user = |name: &str| kafka.client.get(name).and_then(|text| text.parse::<f64>().ok());
    let per_second = stream.rate.0.max(f64::MIN_POSITIVE);
    let mut limits = Vec::new();
    let in_flight = stream.max_in_flight.map_or_else(|| per_second.max(1000.0), |max| max as f64);
    limits.push(format!("at most {in_flight:.0} records in flight: {:.1} s of load", in_flight / per_second));
    if let Some(messages) = user("queue.buffering.max.messages") {
        limits.push(format!(
            "queue.buffering.max.messages {messages:.0}: {:.1} s of load",
            messages / per_second
        ));
    }
    let maker = Maker::new(0, "", &stream.key, &stream.value, stream.partitions);
    let record_bytes = maker.max_record_bytes().max(1) as f64;
    let kbytes = user("queue.buffering.max.kbytes").unwrap_or(1_048_576.0);
    let holds = kbytes * 1024.0 / record_bytes / per_second;
    limits.push(format!("queue.buffering.max.kbytes {kbytes:.0}: {holds:.1} s of load"));
    limits
}

/// The lanes and what watches them, built and not yet running.
struct Load {
    kafka: Arc<KafkaSettings>,
    board: Arc<Board>,
    lanes: Vec<Lane>,
    finishes: Vec<Arc<Finish>>,
    watch: Watch,
    watch_stop: Arc<AtomicBool>,
}

impl Load {
    fn build(settings: &Settings, kafka: &Arc<KafkaSettings>, board: &Arc<Board>) -> Result<Self, StartError> {
        let (mut lanes, mut finishes, mut topics) = (Vec::new(), Vec::new(), Vec::new());
        for (name, stream) in &board.streams {
            let Some(of) = settings.streams.get(name) else { continue };
            let health = Arc::new(TopicHealth::default());
            let finish = Arc::new(Finish::default());
            let seed_name = of.seed_name.as_deref().unwrap_or(name);
            let maker = Maker::new(settings.run.seed, seed_name, &of.key, &of.value, stream.partitions);
            let lane_settings = LaneSettings {
                kafka: Arc::clone(kafka),
                overload: overload(&of.overload),
                max_in_flight: of.max_in_flight,
            };
            for index in 0..stream.lanes.len() {
                let handles = LaneHandles {
                    stream: Arc::clone(stream),
                    health: Arc::clone(&health),
                    events: Arc::clone(&board.events),
                    finish: Arc::clone(&finish),
                };
                lanes.push(Lane::new(handles, lane_settings.clone(), index, maker.clone())?);
            }
            finishes.push(finish);
            topics.push((Arc::clone(stream), health));
        }
        let watch_stop = Arc::new(AtomicBool::new(false));
        let watch = Watch::new(kafka, topics, Arc::clone(&watch_stop)).map_err(LaneError::Client)?;
        Ok(Self { kafka: Arc::clone(kafka), board: Arc::clone(board), lanes, finishes, watch, watch_stop })
    }

    fn start(self, hooks: Hooks, topics: &BTreeMap<String, TopicInfo>) -> Result<Running, StartError> {
        let mut threads = Vec::new();
        for lane in self.lanes {
            let name = format!("lane-{}", threads.len());
            threads.push(std::thread::Builder::new().name(name).spawn(move || lane.run())?);
        }
        let watch = self.watch;
        let watch = std::thread::Builder::new().name("kafka-watch".to_owned()).spawn(move || watch.run())?;
        let starts = topics.iter().map(|(name, info)| {
            (name.clone(), info.watermarks.iter().map(|(_, high)| *high).collect())
        });
        Ok(Running {
            kafka: self.kafka,
            board: self.board,
            finishes: self.finishes,
            threads,
            watch: Some(watch),
            watch_stop: self.watch_stop,
            starts: starts.collect(),
            hooks,
        })
    }
}

/// The running load, as the run sees it.
struct Running {
    kafka: Arc<KafkaSettings>,
    board: Arc<Board>,
    finishes: Vec<Arc<Finish>>,
    threads: Vec<JoinHandle<()>>,
    watch: Option<JoinHandle<()>>,
    watch_stop: Arc<AtomicBool>,
    starts: BTreeMap<String, Vec<u64>>,
    hooks: Hooks,
}

impl Surroundings for Running {
    fn finish_by(&self, deadline_ns: u64) {
        self.finishes.iter().for_each(|finish| finish.set(deadline_ns));
    }

    async fn watermarks(&self) -> BTreeMap<String, Vec<Watermarks>> {
        let (kafka, starts) = (Arc::clone(&self.kafka), self.starts.clone());
        let topics: Vec<_> = self.board.streams.values().map(Arc::clone).collect();
        let read = move || {
            let mut found = BTreeMap::new();
            let Ok(reader) = reader(&kafka) else { return found };
            let deadline = Instant::now() + WATERMARKS_TIMEOUT;
            for stream in topics {
                let ends = topic::watermarks(&reader, &stream.topic, stream.partitions, deadline);
                if let (Ok(ends), Some(starts)) = (ends, starts.get(&stream.name)) {
                    let pairs = starts.iter().zip(ends);
                    let marks = pairs.map(|(start, (_, end))| Watermarks { start: *start, end });
                    found.insert(stream.name.clone(), marks.collect());
                }
            }
            found
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    fn show(&mut self, snapshot: &Snapshot) {
        (self.hooks.show)(snapshot);
    }

    fn finished(&mut self, record: RunRecord) -> String {
        (self.hooks.finished)(record)
    }

    fn broken(&self) -> Option<String> {
        let mut lanes = self.board.streams.values().flat_map(|stream| &stream.lanes);
        let broken = self.threads.iter().any(|thread| {
            let done = lanes.next().is_some_and(|lane| lock(lane).done);
            thread.is_finished() && !done
        });
        broken.then(|| "a producer thread has died (a bug: please report it with the log)".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watch_stop.store(true, Ordering::Release);
        // Lanes have ended by now (the run waited for them); a watch that hangs in the client must not hold the end.
        drop(self.watch.take());
    }
}
