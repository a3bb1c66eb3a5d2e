//! All figures between two boundaries. Phases and segments are windows of the same kind.

use std::collections::BTreeMap;

use crate::core::slope::Growth;
use crate::core::status::{RunState, Snapshot};
use crate::core::stream::Latencies;
use crate::store::record::{Window, seconds, tidy};

use super::process::ProcessCollector;
use super::source::SourceCollector;
use super::stream::StreamCollector;

/// Collects the figures of a window.
#[derive(Debug, Clone)]
pub(super) struct WindowCollector {
    from_ns: u64,
    to_ns: u64,
    paused_ns: u64,
    /// Whether lag and CPU of pauses count: in a segment of its own they are the news, in the measured phase they
    /// would dilute the averages.
    counts_pauses: bool,
    streams: BTreeMap<String, StreamCollector>,
    sources: BTreeMap<String, SourceCollector>,
    processes: BTreeMap<String, ProcessCollector>,
}

impl WindowCollector {
    pub(super) fn new(
        begin: &Snapshot,
        latencies: &BTreeMap<String, Latencies>,
        counts_pauses: bool,
    ) -> Self {
        let streams = begin.streams.iter().map(|(name, stream)| {
            let collector = StreamCollector::new(begin.now_ns, stream, latencies.get(name));
            (name.clone(), collector)
        });
        let sources = begin.sources.iter().map(|(name, source)| (name.clone(), SourceCollector::new(source)));
        let processes = begin.processes.keys().map(|name| (name.clone(), ProcessCollector::new()));
        Self {
            from_ns: begin.now_ns,
            to_ns: begin.now_ns,
            paused_ns: 0,
            counts_pauses,
            streams: streams.collect(),
            sources: sources.collect(),
            processes: processes.collect(),
        }
    }

    /// When it began.
    pub(super) const fn began_ns(&self) -> u64 {
        self.from_ns
    }

    /// Takes in what happened between two snapshots.
    pub(super) fn advance(&mut self, before: &Snapshot, now: &Snapshot) {
        let dt_ns = now.now_ns.saturating_sub(before.now_ns);
        let pause = paused(before);
        let counts = self.counts_pauses || !pause;
        self.to_ns = now.now_ns;
        if pause {
            self.paused_ns = self.paused_ns.saturating_add(dt_ns);
        }
        for (name, collector) in &mut self.streams {
            if let Some(stream) = now.streams.get(name) {
                collector.advance(before.streams.get(name), stream, now.now_ns, dt_ns);
            }
        }
        for (name, collector) in &mut self.sources {
            match now.sources.get(name) {
                Some(source) if counts => collector.advance(source, dt_ns),
                Some(source) => collector.skip(source),
                None => {}
            }
        }
        for (name, collector) in &mut self.processes {
            if let Some(process) = now.processes.get(name) {
                collector.advance(before.processes.get(name), process, now.now_ns, dt_ns, counts);
            }
        }
    }

    /// How the memory of each process grows so far, where that is known.
    pub(super) fn memory_slopes(&mut self) -> BTreeMap<String, Growth> {
        let growths =
            self.processes.iter_mut().map(|(name, process)| Some((name.clone(), process.memory_growth()?)));
        growths.flatten().collect()
    }

    /// The figures up to the last snapshot; `latencies` are the streams' distributions at that time.
    pub(super) fn close(&self, origin_ns: u64, latencies: &BTreeMap<String, Latencies>) -> Window {
        let length_ns = self.to_ns.saturating_sub(self.from_ns);
        let streams = self.streams.iter();
        Window {
            from_seconds: seconds(self.from_ns.saturating_sub(origin_ns)),
            to_seconds: seconds(self.to_ns.saturating_sub(origin_ns)),
            active_seconds: tidy(seconds(length_ns.saturating_sub(self.paused_ns))),
            paused_seconds: seconds(self.paused_ns),
            streams: streams
                .map(|(name, stream)| (name.clone(), stream.close(origin_ns, latencies.get(name))))
                .collect(),
            sources: self.sources.iter().map(|(name, source)| (name.clone(), source.close())).collect(),
            processes: self.processes.iter().map(|(name, process)| (name.clone(), process.close())).collect(),
        }
    }
}

/// Whether the whole load is paused. The streams know at once, the run's state follows.
pub(super) fn paused(snapshot: &Snapshot) -> bool {
    if snapshot.streams.is_empty() {
        return snapshot.run.state == RunState::Paused;
    }
    // Nobody pauses what others produce.
    let mut produced = snapshot.streams.values().filter(|stream| stream.watched_records.is_none()).peekable();
    produced.peek().is_some() && produced.all(|stream| stream.paused)
}
