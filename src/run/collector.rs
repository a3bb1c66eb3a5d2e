//! Gathers a run's figures from snapshots, once a second and at every boundary, in memory that does not grow with
//! the run. Pure: no tokio, no clock of its own.
//!
//! Every window (a segment of constant load, a phase) begins with the cumulative counters and distributions of that
//! moment and subtracts them at its end, so that it has counts and percentiles of its own and the warm-up is in no
//! other figure. Nothing is averaged over windows.

use std::collections::BTreeMap;

use crate::core::counters::{Counters, Head};
use crate::core::slope::Growth;
use crate::core::status::Snapshot;
use crate::core::stream::Latencies;
use crate::store::record::{
    Compression, FORMAT_VERSION, Phase, RunInfo, RunRecord, Segment, StreamRecord, Watermarks,
};

mod lag;
mod outage;
mod process;
mod recovery;
mod source;
mod spread;
mod stream;
mod window;

use outage::OutageCollector;
use recovery::RecoveryCollector;
use window::WindowCollector;

/// Segments that are kept. Some kilobytes each; more than anybody reads.
const MAX_SEGMENTS: usize = 1_000;

/// What divides a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The load begins with a preload, before the run's clock does.
    PreloadStart,
    /// The load begins, or goes on after the preload, and with it the warm-up.
    LoadStart,
    /// The measured phase begins; without a warm-up right after the start.
    WarmUpEnd,
    /// The rate of a stream was changed.
    RateChange,
    /// The load, or one stream, was paused.
    Pause,
    /// The load, or one stream, goes on.
    Resume,
    /// No new load from here on; flush and drain follow.
    LoadEnd,
    /// The system under test has caught up, or the drain timeout has passed.
    DrainEnd,
}

impl Boundary {
    const fn name(self) -> &'static str {
        match self {
            Self::PreloadStart => "preload_start",
            Self::LoadStart => "load_start",
            Self::WarmUpEnd => "measuring",
            Self::RateChange => "rate_changed",
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::LoadEnd => "load_end",
            Self::DrainEnd => "drain_end",
        }
    }
}

/// How a run ended, as the snapshots do not tell.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Whether it came to its end in order.
    pub finished: bool,
    /// Why the load ended: `duration`, `records`, `signal`, `http`, ...
    pub cause: Option<String>,
    /// Records without a delivery report when the flush deadline passed.
    pub undelivered_records: u64,
    /// By stream: the broker's end offsets by partition before and after; left out when they could not be read.
    pub watermarks: BTreeMap<String, Vec<Watermarks>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Before,
    Preload,
    WarmUp,
    Measured,
    Drain,
    Over,
}

#[derive(Debug, Clone)]
struct OpenSegment {
    phase: Phase,
    began_by: Boundary,
    merged: u64,
    window: WindowCollector,
}

/// A stream from the first snapshot on.
#[derive(Debug, Clone)]
struct StreamTrack {
    begin: Counters,
    outages: OutageCollector,
    /// The last look at which not all of the acks were in: samples from before say nothing about the end.
    growing_ns: u64,
}

/// Gathers one run.
#[derive(Debug, Clone)]
pub struct Collector {
    stage: Stage,
    origin_ns: u64,
    load_ended_ns: u64,
    last: Option<Snapshot>,
    segment: Option<OpenSegment>,
    phase: Option<WindowCollector>,
    streams: BTreeMap<String, StreamTrack>,
    recoveries: BTreeMap<String, RecoveryCollector>,
    caught_up_ns: BTreeMap<String, u64>,
    heads: BTreeMap<String, Vec<Head>>,
    record: RunRecord,
}

impl Collector {
    /// A collector that has seen nothing yet.
    #[must_use]
    pub fn new(run: RunInfo) -> Self {
        let record = RunRecord {
            format_version: FORMAT_VERSION,
            soakd_version: env!("CARGO_PKG_VERSION").to_owned(),
            run,
            ..RunRecord::default()
        };
        Self {
            stage: Stage::Before,
            origin_ns: 0,
            load_ended_ns: 0,
            last: None,
            segment: None,
            phase: None,
            streams: BTreeMap::new(),
            recoveries: BTreeMap::new(),
            caught_up_ns: BTreeMap::new(),
            heads: BTreeMap::new(),
            record,
        }
    }

    /// Takes in a snapshot; call it once a second, and when a source has answered, from the start of the load
    /// to the end of the drain.
    pub fn tick(&mut self, snapshot: &Snapshot) {
        self.advance(snapshot);
    }

    /// Takes in a snapshot that divides the run, with the distributions and heads of every stream at that time.
    /// Boundaries that are left out on the way are made up for; one that comes too late changes nothing.
    pub fn boundary(
        &mut self,
        snapshot: &Snapshot,
        latencies: &BTreeMap<String, Latencies>,
        heads: BTreeMap<String, Vec<Head>>,
        why: Boundary,
    ) {
        self.advance(snapshot);
        self.heads = heads;
        match why {
            Boundary::PreloadStart => {
                if self.stage == Stage::Before {
                    self.open(snapshot, latencies, Stage::Preload, why);
                }
            }
            Boundary::LoadStart => self.start(snapshot, latencies, why),
            Boundary::WarmUpEnd => {
                self.start(snapshot, latencies, why);
                self.measure(snapshot, latencies);
            }
            Boundary::RateChange | Boundary::Pause | Boundary::Resume => {
                self.cut(snapshot, latencies, why);
            }
            Boundary::LoadEnd => self.end_load(snapshot, latencies),
            Boundary::DrainEnd => {
                self.end_load(snapshot, latencies);
                self.end_drain(snapshot, latencies);
            }
        }
    }

    /// How the memory of each process grows in the measured phase; empty outside of it.
    #[must_use]
    pub fn memory_slopes(&mut self) -> BTreeMap<String, Growth> {
        let measured = self.phase.as_mut().filter(|_| self.stage == Stage::Measured);
        measured.map(WindowCollector::memory_slopes).unwrap_or_default()
    }

    /// The run so far, for a report before its end. Copies everything, so not for every second.
    #[must_use]
    pub fn interim(
        &self,
        snapshot: &Snapshot,
        latencies: &BTreeMap<String, Latencies>,
        heads: BTreeMap<String, Vec<Head>>,
    ) -> RunRecord {
        let mut copy = self.clone();
        let load_has_ended = self.stage >= Stage::Drain;
        copy.boundary(snapshot, latencies, heads, Boundary::DrainEnd);
        let mut record = copy.finish(Ending::default());
        record.finished_at = None;
        if !load_has_ended {
            record.load_ended_at = None;
            record.drain = None;
        }
        record
    }

    /// The record of the run, after [`Boundary::DrainEnd`].
    #[must_use]
    pub fn finish(mut self, ending: Ending) -> RunRecord {
        let Ending { finished, cause, undelivered_records, mut watermarks } = ending;
        self.record.finished = finished;
        self.record.cause = cause;
        self.record.undelivered_records = undelivered_records;
        let Some(last) = self.last.take() else { return self.record };
        for (name, stream) in &last.streams {
            let track = self.streams.get(name);
            let (outages, outages_total) = track.map(|track| track.outages.found()).unwrap_or_default();
            let begin = track.map(|track| track.begin).unwrap_or_default();
            let heads = self.heads.get(name).map(Vec::as_slice).unwrap_or_default();
            let found = StreamRecord {
                topic: stream.topic.clone(),
                totals: stream::counts_between(&begin, &stream.counters),
                backlog: stream.counters.backlog,
                in_flight: stream.counters.in_flight,
                compression: Compression {
                    codec: stream.wire.codec.as_deref().unwrap_or_default().to_owned(),
                    payload_bytes: stream.wire.payload_bytes,
                    batch_bytes: stream.wire.batch_bytes,
                },
                partitions: heads.iter().map(stream::partition).collect(),
                outages,
                outages_total,
                watched_records: stream.watched_records,
                watermarks: watermarks.remove(name),
            };
            self.record.streams.insert(name.clone(), found);
        }
        for (name, source) in &last.sources {
            let found = self.source(name, source, last.clock);
            self.record.sources.insert(name.clone(), found);
        }
        let happened = last.events.iter().filter(|(_, count)| *count > 0);
        self.record.events = happened.map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        self.record
    }

    fn advance(&mut self, now: &Snapshot) {
        if self.stage == Stage::Over {
            return;
        }
        if let Some(last) = self.last.take() {
            if let Some(segment) = &mut self.segment {
                segment.window.advance(&last, now);
            }
            if let Some(phase) = &mut self.phase {
                phase.advance(&last, now);
            }
            for (name, track) in &mut self.streams {
                let Some(stream) = now.streams.get(name) else { continue };
                track.outages.advance(now, stream, self.origin_ns);
                let acked_before = last.streams.get(name).map_or(0, |stream| stream.counters.acked);
                if stream.counters.acked > acked_before {
                    track.growing_ns = last.now_ns;
                }
            }
            for (name, recoveries) in &mut self.recoveries {
                now.sources.get(name).into_iter().for_each(|source| recoveries.advance(source));
            }
        }
        if self.stage == Stage::Drain {
            for (name, source) in &now.sources {
                if self.caught_up(source) {
                    self.caught_up_ns.entry(name.clone()).or_insert(now.now_ns);
                } else {
                    self.caught_up_ns.remove(name);
                }
            }
        }
        self.last = Some(now.clone());
    }

    fn start(&mut self, now: &Snapshot, latencies: &BTreeMap<String, Latencies>, why: Boundary) {
        if self.stage == Stage::Preload {
            self.close_segment(latencies);
            let preload = self.phase.take();
            self.record.preload = preload.map(|phase| phase.close(self.origin_ns, latencies));
            self.stage = Stage::WarmUp;
            self.phase = Some(WindowCollector::new(now, latencies, false));
            self.open_segment(now, latencies, why);
        } else if self.stage == Stage::Before {
            self.open(now, latencies, Stage::WarmUp, why);
        }
    }

    /// The first boundary.
    fn open(&mut self, now: &Snapshot, latencies: &BTreeMap<String, Latencies>, stage: Stage, why: Boundary) {
        self.stage = stage;
        self.origin_ns = now.now_ns;
        self.record.started_at = Some(now.clock.rfc3339(now.now_ns));
        for (name, stream) in &now.streams {
            let track = StreamTrack {
                begin: stream.counters,
                outages: OutageCollector::new(now.now_ns, stream.counters.acked),
                growing_ns: now.now_ns,
            };
            self.streams.insert(name.clone(), track);
        }
        let sources = now.sources.iter();
        self.recoveries =
            sources.map(|(name, source)| (name.clone(), RecoveryCollector::new(source))).collect();
        self.phase = Some(WindowCollector::new(now, latencies, false));
        self.open_segment(now, latencies, why);
    }

    fn measure(&mut self, now: &Snapshot, latencies: &BTreeMap<String, Latencies>) {
        if self.stage != Stage::WarmUp {
            return;
        }
        self.close_segment(latencies);
        // A warm-up of no length is no warm-up.
        let warm_up = self.phase.take().filter(|phase| phase.began_ns() < now.now_ns);
        self.record.warm_up = warm_up.map(|phase| phase.close(self.origin_ns, latencies));
        self.stage = Stage::Measured;
        self.record.measuring_at = Some(now.clock.rfc3339(now.now_ns));
        self.phase = Some(WindowCollector::new(now, latencies, false));
        self.open_segment(now, latencies, Boundary::WarmUpEnd);
    }

    fn cut(&mut self, now: &Snapshot, latencies: &BTreeMap<String, Latencies>, why: Boundary) {
        let Some(segment) = &mut self.segment else { return };
        // Two changes at one moment make one segment.
        if segment.window.began_ns() == now.now_ns {
            return;
        }
        if self.record.segments.len() + 1 >= MAX_SEGMENTS {
            segment.merged += 1;
            self.record.segments_merged += 1;
            return;
        }
        self.close_segment(latencies);
        self.open_segment(now, latencies, why);
    }

    fn end_load(&mut self, now: &Snapshot, latencies: &BTreeMap<String, Latencies>) {
        if self.stage >= Stage::Drain {
            return;
        }
        self.close_segment(latencies);
        let ended = self.phase.take().map(|phase| phase.close(self.origin_ns, latencies));
        match self.stage {
            Stage::Preload => self.record.preload = ended,
            Stage::WarmUp => self.record.warm_up = ended,
            Stage::Measured => self.record.measured = ended,
            Stage::Before | Stage::Drain | Stage::Over => {}
        }
        if self.stage != Stage::Before {
            self.record.load_ended_at = Some(now.clock.rfc3339(now.now_ns));
            self.phase = Some(WindowCollector::new(now, latencies, true));
        }
        self.stage = Stage::Drain;
        self.load_ended_ns = now.now_ns;
    }

    fn end_drain(&mut self, now: &Snapshot, latencies: &BTreeMap<String, Latencies>) {
        if self.stage == Stage::Over {
            return;
        }
        self.record.drain = self.phase.take().map(|phase| phase.close(self.origin_ns, latencies));
        self.record.finished_at = Some(now.clock.rfc3339(now.now_ns));
        self.stage = Stage::Over;
    }

    fn open_segment(&mut self, now: &Snapshot, latencies: &BTreeMap<String, Latencies>, began_by: Boundary) {
        let phase = match self.stage {
            Stage::Preload => Phase::Preload,
            Stage::Measured => Phase::Measured,
            _ => Phase::WarmUp,
        };
        let window = WindowCollector::new(now, latencies, true);
        self.segment = Some(OpenSegment { phase, began_by, merged: 0, window });
    }

    fn close_segment(&mut self, latencies: &BTreeMap<String, Latencies>) {
        let Some(segment) = self.segment.take() else { return };
        let window = segment.window.close(self.origin_ns, latencies);
        // Without length there is nothing to tell: a run without a warm-up has none as its first segment.
        if window.to_seconds > window.from_seconds {
            self.record.segments.push(Segment {
                phase: segment.phase,
                began_by: segment.began_by.name().to_owned(),
                merged: segment.merged,
                window,
            });
        }
    }
}
