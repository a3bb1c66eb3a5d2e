//! The load: lanes and what watches them, and the run's view of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::{Hooks, StartError};
use crate::core::lock::lock;
use crate::core::status::{Board, Snapshot};
use crate::core::walk::Overload;
use crate::kafka::client::reader;
use crate::kafka::settings::KafkaSettings;
use crate::kafka::topic::{self, TopicInfo};
use crate::kafka::watch::{TopicHealth, Watch};
use crate::produce::lane::{Finish, Lane, LaneError, LaneHandles, LaneSettings};
use crate::produce::settings::{OverloadPolicy, OverloadSettings, StreamSettings};
use crate::record::Maker;
use crate::run::lifecycle::Surroundings;
use crate::settings::Settings;
use crate::store::record::{RunRecord, Watermarks};

/// How long the end waits for the watch over the topics.
const WATCH_END: Duration = Duration::from_secs(5);
/// How long the end waits for the broker's watermarks.
const WATERMARKS_TIMEOUT: Duration = Duration::from_secs(10);
/// Records later than this are dropped by the policy `skip`.
const SKIP_NS: u64 = 100_000_000;

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The overload policy in the terms of the schedule.
fn overload(settings: &OverloadSettings) -> Overload {
    let max_debt_ns = match settings.policy {
        OverloadPolicy::CatchUp => Some(ns(settings.max_debt.get())),
        OverloadPolicy::Skip => Some(SKIP_NS),
        OverloadPolicy::Wait => None,
    };
    Overload { max_debt_ns, max_catch_up_milli: (settings.max_catch_up * 1000.0).round() as u64 }
}

/// How the lanes of a stream produce.
pub(super) fn lane_settings(kafka: &Arc<KafkaSettings>, stream: &StreamSettings) -> LaneSettings {
    LaneSettings {
        kafka: Arc::clone(kafka),
        overload: overload(&stream.overload),
        max_in_flight: stream.max_in_flight,
        marker_interval_ns: stream.marker.interval.map(|interval| ns(interval.get())),
    }
}

/// The lanes and what watches them, built and not yet running.
pub(super) struct Load {
    kafka: Arc<KafkaSettings>,
    board: Arc<Board>,
    lanes: Vec<Lane>,
    finishes: Vec<Arc<Finish>>,
    watch: Watch,
    watch_stop: Arc<AtomicBool>,
}

impl Load {
    pub(super) fn build(
        settings: &Settings,
        kafka: &Arc<KafkaSettings>,
        board: &Arc<Board>,
        makers: &BTreeMap<String, Maker>,
    ) -> Result<Self, StartError> {
        let (mut lanes, mut finishes, mut topics) = (Vec::new(), Vec::new(), Vec::new());
        for (name, stream) in &board.streams {
            let Some(of) = settings.streams.get(name) else { continue };
            let health = Arc::new(TopicHealth::default());
            topics.push((Arc::clone(stream), Arc::clone(&health)));
            let Some(maker) = makers.get(name).filter(|_| stream.produced) else { continue };
            let finish = Arc::new(Finish::default());
            let lane_settings = lane_settings(kafka, of);
            for index in 0..stream.lanes.len() {
                let handles = LaneHandles {
                    stream: Arc::clone(stream),
                    health: Arc::clone(&health),
                    events: Arc::clone(&board.events),
                    finish: Arc::clone(&finish),
                };
                lanes.push(Lane::new(handles, lane_settings.clone(), index, maker.for_lane())?);
            }
            finishes.push(finish);
        }
        let watch_stop = Arc::new(AtomicBool::new(false));
        let watch = Watch::new(kafka, topics, Arc::clone(&board.events), Arc::clone(&watch_stop))
            .map_err(LaneError::Client)?;
        Ok(Self { kafka: Arc::clone(kafka), board: Arc::clone(board), lanes, finishes, watch, watch_stop })
    }

    pub(super) fn start(
        self,
        hooks: Hooks,
        topics: &BTreeMap<String, TopicInfo>,
    ) -> Result<(Running, Watching), StartError> {
        let mut threads = Vec::new();
        for lane in self.lanes {
            let name = format!("lane-{}", threads.len());
            threads.push(thread::Builder::new().name(name).spawn(move || lane.run())?);
        }
        let watch = self.watch;
        let thread = thread::Builder::new().name("kafka-watch".to_owned()).spawn(move || watch.run())?;
        let watching = Watching { stop: self.watch_stop, thread };
        let starts = topics
            .iter()
            .map(|(name, info)| (name.clone(), info.watermarks.iter().map(|(_, high)| *high).collect()));
        let (kafka, board, finishes) = (self.kafka, self.board, self.finishes);
        let starts = starts.collect();
        Ok((Running { kafka, board, finishes, threads, starts, hooks }, watching))
    }
}

/// The running load, as the run sees it.
pub(super) struct Running {
    kafka: Arc<KafkaSettings>,
    board: Arc<Board>,
    finishes: Vec<Arc<Finish>>,
    threads: Vec<thread::JoinHandle<()>>,
    starts: BTreeMap<String, Vec<u64>>,
    hooks: Hooks,
}

impl Surroundings for Running {
    fn finish_by(&self, deadline_ns: u64) {
        self.finishes.iter().for_each(|finish| finish.set(deadline_ns));
    }

    fn watermarks(&self) -> JoinHandle<BTreeMap<String, Vec<Watermarks>>> {
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
        tokio::task::spawn_blocking(read)
    }

    fn sample(&mut self, snapshot: &Snapshot) {
        (self.hooks.sample)(snapshot);
    }

    fn show(&mut self, snapshot: &Snapshot) {
        (self.hooks.show)(snapshot);
    }

    fn finished(&mut self, record: RunRecord, last: &Snapshot) -> String {
        (self.hooks.finished)(record, last)
    }

    fn broken(&self) -> Option<String> {
        // A stream that is only watched has no threads.
        let produced = self.board.streams.values().filter(|stream| stream.produced);
        let mut lanes = produced.flat_map(|stream| &stream.lanes);
        let broken = self.threads.iter().any(|thread| {
            let lane = lanes.next();
            // In this order: a lane may end between the two looks.
            thread.is_finished() && lane.is_some_and(|lane| !lock(lane).done)
        });
        broken.then(|| "a producer thread has died (a bug: please report it with the log)".to_owned())
    }
}

/// The watch over the topics, in a thread of its own.
pub(super) struct Watching {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Watching {
    /// Ends it. It ends its client within its own timeouts; one that hangs in it all the same must not hold the end for
    /// ever.
    pub(super) async fn end(self) {
        self.stop.store(true, Ordering::Release);
        let ended = async {
            while !self.thread.is_finished() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(WATCH_END, ended).await.is_err() {
            tracing::warn!("leaving the watch over the topics behind: its client did not answer");
        }
    }
}
