//! A progress source over one window: lag over time with its coverage, and the rate of ingestion.

use crate::core::histogram::{Latency, LatencySummary};
use crate::core::lag::Reading;
use crate::core::status::SourceStatus;
use crate::store::record::{SourceWindow, seconds, tidy};

use super::spread::TimeSpread;
use super::stream::tidy_latency;

/// Ticks come once a second. When none came for longer, the daemon itself did not run, and nobody knows what the
/// lag was in between.
const LONGEST_TICK_NS: u64 = 2_000_000_000;

/// Samples closer together than this say little about a rate: one record more or less is a large part of it.
const SHORTEST_RATE_NS: u64 = 1_000_000_000;

/// Samples further apart than this many intervals (of at least a second) have a gap between them.
const LONGEST_GAP_INTERVALS: u64 = 5;

/// The sample that the next one is compared with.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    at_ns: u64,
    progress: f64,
    resets: u64,
    unknown_partitions: u32,
    /// Progress is what follows from a lag that the system states: it is off by what was acked since the system looked.
    stated: bool,
}

/// Collects the figures of a source.
#[derive(Debug, Clone)]
pub(super) struct SourceCollector {
    begin: SourceStatus,
    end: SourceStatus,
    seen_ns: u64,
    known_ns: u64,
    partly_known_ns: u64,
    lag_records: TimeSpread,
    lag_micros: TimeSpread,
    at_least: bool,
    /// The last sample: for the mean.
    last: Option<Anchor>,
    /// The last sample that a rate was taken from: for minimum and maximum.
    rated: Option<Anchor>,
    ingested_records: f64,
    ingest_ns: u64,
    slowest: Option<f64>,
    fastest: Option<f64>,
    unknown_reason: Option<String>,
}

impl SourceCollector {
    pub(super) fn new(begin: &SourceStatus) -> Self {
        let mut this = Self {
            begin: begin.clone(),
            end: begin.clone(),
            seen_ns: 0,
            known_ns: 0,
            partly_known_ns: 0,
            lag_records: TimeSpread::new(),
            lag_micros: TimeSpread::new(),
            at_least: false,
            last: None,
            rated: None,
            ingested_records: 0.0,
            ingest_ns: 0,
            slowest: None,
            fastest: None,
            unknown_reason: None,
        };
        this.ingest(begin);
        this
    }

    /// `now` is the source's state after `dt_ns` more.
    pub(super) fn advance(&mut self, now: &SourceStatus, dt_ns: u64) {
        self.end = now.clone();
        self.seen_ns = self.seen_ns.saturating_add(dt_ns);
        if let Some((reading, records)) = known(now) {
            let for_ns = dt_ns.min(LONGEST_TICK_NS);
            if for_ns > 0 {
                self.known_ns = self.known_ns.saturating_add(for_ns);
                if reading.unknown_partitions > 0 {
                    self.partly_known_ns = self.partly_known_ns.saturating_add(for_ns);
                }
                if let Some(records) = records {
                    self.lag_records.add(records, for_ns);
                }
                if let Some(lag_ns) = reading.lag_ns {
                    self.lag_micros.add(lag_ns / 1_000, for_ns);
                    self.at_least |= reading.lag_at_least;
                }
            }
        } else {
            self.unknown_reason = now.unknown_reason.clone().or_else(|| now.error.clone());
        }
        self.ingest(now);
    }

    /// The source's state after time that does not count (a pause).
    pub(super) fn skip(&mut self, now: &SourceStatus) {
        self.end = now.clone();
        self.last = None;
        self.rated = None;
    }

    fn ingest(&mut self, now: &SourceStatus) {
        let reading = now.reading.as_ref().filter(|_| now.up);
        let progress = reading.and_then(|reading| Some((reading, reading.progress_records?)));
        let Some((reading, progress)) = progress.filter(|(_, progress)| progress.is_finite()) else {
            self.last = None;
            self.rated = None;
            return;
        };
        let sample = Anchor {
            at_ns: reading.at_ns,
            progress,
            resets: now.resets,
            unknown_partitions: reading.unknown_partitions,
            stated: reading.stated,
        };
        let longest_ns = now.interval_ns.max(SHORTEST_RATE_NS).saturating_mul(LONGEST_GAP_INTERVALS);
        match self.last {
            Some(last) if sample.at_ns <= last.at_ns => return,
            Some(last) if !follows(&last, &sample, longest_ns) => self.rated = None,
            Some(last) => {
                self.ingested_records += sample.progress - last.progress;
                self.ingest_ns = self.ingest_ns.saturating_add(sample.at_ns - last.at_ns);
            }
            None => {}
        }
        self.last = Some(sample);
        self.rate(sample);
    }

    #[allow(clippy::cast_precision_loss)]
    fn rate(&mut self, sample: Anchor) {
        let Some(from) = self.rated else {
            self.rated = Some(sample);
            return;
        };
        let apart_ns = sample.at_ns.saturating_sub(from.at_ns);
        if apart_ns < SHORTEST_RATE_NS {
            return;
        }
        let rate = (sample.progress - from.progress).max(0.0) / (apart_ns as f64 / 1e9);
        self.slowest = Some(self.slowest.map_or(rate, |slowest| slowest.min(rate)));
        self.fastest = Some(self.fastest.map_or(rate, |fastest| fastest.max(rate)));
        self.rated = Some(sample);
    }

    pub(super) fn close(&self) -> SourceWindow {
        // The time until it was known for a standstill counts when it is known: more than a short window has, perhaps.
        let still_ns = self.end.standstill_ns.saturating_sub(self.begin.standstill_ns).min(self.seen_ns);
        let errors = |status: &SourceStatus| status.errors.iter().sum::<u64>();
        SourceWindow {
            seconds: seconds(self.seen_ns),
            known_seconds: seconds(self.known_ns),
            partly_known_seconds: seconds(self.partly_known_ns),
            polls: self.end.polls_total.saturating_sub(self.begin.polls_total),
            errors: errors(&self.end).saturating_sub(errors(&self.begin)),
            lag_records: self.lag_records.summary(1.0),
            lag_seconds: self.lag_micros.summary(1e6),
            lag_at_least: self.at_least,
            ingested_records: tidy(self.ingested_records),
            ingest_seconds: seconds(self.ingest_ns),
            ingest_min_records_per_second: self.slowest.map(tidy),
            ingest_max_records_per_second: self.fastest.map(tidy),
            resets: self.end.resets.saturating_sub(self.begin.resets),
            standstills: self.end.standstills.saturating_sub(self.begin.standstills),
            standstill_seconds: seconds(still_ns),
            unknown_reason: self.unknown_reason.clone(),
            freshness: between(freshness(&self.begin), freshness(&self.end)),
            end_to_end: between(self.begin.end_to_end.as_deref(), self.end.end_to_end.as_deref()),
            resolution_seconds: self.end.resolution_ns.map(seconds),
        }
    }
}

/// What a source of markers has shown since the start.
pub(super) fn freshness(status: &SourceStatus) -> Option<&Latency> {
    status.freshness.as_ref().map(|freshness| &*freshness.latency)
}

/// The distribution of what came between two states; absent when nothing came.
pub(super) fn between(begin: Option<&Latency>, end: Option<&Latency>) -> Option<LatencySummary> {
    let end = end?;
    let came = begin.map_or_else(|| end.summary(), |begin| end.since(begin).summary());
    came.map(tidy_latency)
}

/// The lag of a source that answers and has one, in records when it tells them. A reading that is kept over missed polls is
/// not known.
pub(super) fn known(status: &SourceStatus) -> Option<(&Reading, Option<u64>)> {
    let reading = status.reading.as_ref().filter(|_| status.up)?;
    reading.lag_records.or(reading.lag_ns).map(|_| (reading, reading.lag_records))
}

/// Whether the records between two samples were all ingested between them: no reset, no gap, the same partitions.
fn follows(last: &Anchor, next: &Anchor, longest_ns: u64) -> bool {
    next.resets == last.resets
        && next.unknown_partitions == last.unknown_partitions
        // Leaving out the falls of one that trembles would count its rises only.
        && (next.stated || next.progress >= last.progress)
        && next.at_ns - last.at_ns <= longest_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stated_lags_progress_may_tremble() {
        let at = |progress, stated| Anchor { at_ns: 1, progress, resets: 0, unknown_partitions: 0, stated };
        // Leaving the falls out, its rate would be too high.
        assert!(follows(&at(100.0, true), &at(90.0, true), 10));
        assert!(!follows(&at(100.0, false), &at(90.0, false), 10));
        assert!(follows(&at(90.0, false), &at(100.0, false), 10));
    }
}
