//! Looks at the truth several times a second beside soakd's own figures, and the judgement of the one by the other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::daemon;
use crate::lag::of;
use crate::truth::{Entry, Log, Reader, wall};

const EVERY: Duration = Duration::from_millis(200);
/// How long a look may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Asks for one value a partition; `None` when there is no answer.
type Ask = Box<dyn FnMut() -> Option<Vec<u64>> + Send>;

/// What a source of soakd's is held against.
pub(crate) struct Progress {
    source: &'static str,
    ask: Ask,
    sequences: bool,
}

impl Progress {
    /// Records of the log, from its beginning: rows, or the next offset.
    pub(crate) fn records(
        source: &'static str,
        ask: impl FnMut() -> Option<Vec<u64>> + Send + 'static,
    ) -> Self {
        Self { source, ask: Box::new(ask), sequences: false }
    }

    /// The highest sequence + 1, or 0 where there is none.
    pub(crate) fn sequences(
        source: &'static str,
        ask: impl FnMut() -> Option<Vec<u64>> + Send + 'static,
    ) -> Self {
        Self { source, ask: Box::new(ask), sequences: true }
    }
}

/// Something that was true at some time between `before` and `after`.
#[derive(Debug, Clone)]
struct Look {
    before: f64,
    after: f64,
    /// By partition: how many records.
    values: Vec<u64>,
}

/// One good sample of a source, as `/metrics` shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// When it was answered (seconds since 1970).
    pub(crate) at: f64,
    /// At most how long before that it was asked.
    took: f64,
    /// Time of all polls so far.
    polled: f64,
    pub(crate) records: Option<f64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) uncertainty: f64,
    at_least: bool,
    unknown_partitions: f64,
}

impl Reading {
    /// The middle of the poll, which is what the figures are of.
    pub(crate) fn middle(&self) -> f64 {
        self.at - self.took / 2.0
    }
}

/// The looking threads.
pub(crate) struct Looks {
    stop: Arc<AtomicBool>,
    ends: JoinHandle<Vec<Look>>,
    progress: Vec<Looking>,
    scrapes: JoinHandle<()>,
    soakd: Arc<Mutex<BTreeMap<&'static str, Vec<Reading>>>>,
}

struct Looking {
    source: &'static str,
    looks: JoinHandle<Vec<Look>>,
    sequences: bool,
}

/// What was looked at.
pub(crate) struct Looked {
    ends: Vec<Look>,
    /// By source; with true where the values are sequences, which become records when the log is known.
    progress: BTreeMap<&'static str, (Vec<Look>, bool)>,
}

fn spawn(stop: &Arc<AtomicBool>, mut ask: Ask) -> JoinHandle<Vec<Look>> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut looks = Vec::new();
        while !stop.load(Ordering::Acquire) {
            let before = wall();
            if let Some(values) = ask() {
                looks.push(Look { before, after: wall(), values });
            }
            std::thread::sleep(EVERY);
        }
        looks
    })
}

impl Looks {
    /// Looks at the ends of the log, at what each source is held against, and at what soakd says of it.
    pub(crate) fn start(http: SocketAddr, log: Reader, progress: Vec<Progress>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ends = spawn(
            &stop,
            Box::new(move || Some(log.try_watermarks(PATIENCE)?.into_iter().map(|(_, high)| high).collect())),
        );
        let looking =
            |Progress { source, ask, sequences }| Looking { source, looks: spawn(&stop, ask), sequences };
        let progress: Vec<Looking> = progress.into_iter().map(looking).collect();
        let sources: Vec<&str> = progress.iter().map(|looking| looking.source).collect();
        let soakd: Arc<Mutex<BTreeMap<&str, Vec<Reading>>>> = Arc::default();
        let scrapes = {
            let (stop, soakd) = (Arc::clone(&stop), Arc::clone(&soakd));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    if let Ok(scrape) = daemon::scrape(http) {
                        let mut soakd = soakd.lock().unwrap();
                        for source in &sources {
                            let known = soakd.entry(*source).or_default();
                            let new = reading(&scrape, source, known.last());
                            known.extend(new.filter(|new| known.last().is_none_or(|last| last.at < new.at)));
                        }
                    }
                    std::thread::sleep(EVERY);
                }
            })
        };
        Self { stop, ends, progress, scrapes, soakd }
    }

    /// What soakd said so far.
    pub(crate) fn soakd(&self, source: &str) -> Vec<Reading> {
        self.soakd.lock().unwrap().get(source).cloned().unwrap_or_default()
    }

    pub(crate) fn end(self) -> Looked {
        self.stop.store(true, Ordering::Release);
        self.scrapes.join().unwrap();
        Looked {
            ends: self.ends.join().unwrap(),
            progress: self
                .progress
                .into_iter()
                .map(|looking| (looking.source, (looking.looks.join().unwrap(), looking.sequences)))
                .collect(),
        }
    }
}

fn reading(scrape: &daemon::Scrape, source: &str, last: Option<&Reading>) -> Option<Reading> {
    let series = |name: &str| scrape.get(&format!("soakd_{}", of(name, source))).copied();
    // After a failed poll the figures of the last good one stay for a while; they were taken already.
    (series("progress_up")? == 1.0).then_some(())?;
    let polled = series("progress_duration_seconds_sum")?;
    Some(Reading {
        at: series("progress_last_success_timestamp_seconds")?,
        took: polled - last.map_or(0.0, |last| last.polled),
        polled,
        records: series("lag_records"),
        seconds: series("lag_seconds"),
        uncertainty: series("lag_uncertainty_records").unwrap_or(0.0),
        at_least: series("lag_at_least") == Some(1.0),
        unknown_partitions: series("progress_unknown_partitions").unwrap_or(0.0),
    })
}

/// The looks and the whole log.
pub(crate) struct Truth {
    looked: Looked,
    log: Log,
}

/// By partition, the lowest and the highest value that may have been there at a time.
type Bounds = Vec<(u64, u64)>;

impl Truth {
    pub(crate) fn new(mut looked: Looked, log: Log) -> Self {
        let sequences = looked.progress.values_mut().filter(|(_, sequences)| *sequences);
        for look in sequences.flat_map(|(looks, _)| looks) {
            for (value, entries) in look.values.iter_mut().zip(&log.partitions) {
                *value = entries.partition_point(|entry| entry.sequence < *value) as u64;
            }
        }
        Self { looked, log }
    }

    /// Compares every good sample of soakd's with the truth and says how far they were apart.
    pub(crate) fn judge(&self, source: &str, readings: &[Reading], rate: f64) -> String {
        let (progress, _) = &self.looked.progress[source];
        let (mut widths, mut wrong) = (Vec::new(), Vec::new());
        let (mut worst_records, mut worst_seconds) = (0.0_f64, 0.0_f64);
        for reading in readings.iter().filter(|reading| reading.unknown_partitions == 0.0) {
            let (Some(records), Some(seconds)) = (reading.records, reading.seconds) else { continue };
            let (from, to) = (reading.at - reading.took - CLOCK_S, reading.at + CLOCK_S);
            let (ends, done) = (bounds(&self.looked.ends, from, to), bounds(progress, from, to));
            let (Some(ends), Some(done)) = (ends, done) else { continue };
            let (least, most) = lag(&ends, &done);
            widths.push(most - least);
            // 2 % or the sample's own uncertainty; and on a busy machine acks reach soakd after the broker has the records.
            let slack = (records * 0.02).max(reading.uncertainty).max(rate * BEHIND_S);
            let off = (least - records).max(records - most).max(0.0);
            worst_records = worst_records.max(off);
            let (youngest, oldest) = self.age(&ends, &done, from, to);
            let off_seconds = (youngest - seconds).max(seconds - oldest).max(0.0);
            worst_seconds = worst_seconds.max(off_seconds);
            if off > slack || off_seconds > (seconds * 0.02).max(BEHIND_S) || reading.at_least {
                wrong.push(format!(
                    "{reading:?}, but {least} to {most} records, {youngest:.3} to {oldest:.3} s"
                ));
            }
        }
        let compared = widths.len();
        assert!(wrong.is_empty(), "{source}: {} of {compared} are wrong: {wrong:#?}", wrong.len());
        assert!(compared > 20, "{source}: only {compared} of {} samples could be compared", readings.len());
        widths.sort_by(f64::total_cmp);
        format!(
            "by {source}, {compared} samples lie within the truth's bounds (half of them at most {:.0} records wide) \
             or outside by at most {worst_records:.0} records and {worst_seconds:.3} s",
            widths[compared / 2]
        )
    }

    /// Bounds of the age of the oldest record that is there and not ingested, at some time between `from` and `to`.
    fn age(&self, ends: &Bounds, done: &Bounds, from: f64, to: f64) -> (f64, f64) {
        let age = |entries: &[Entry], done: u64, end: u64, at: f64| {
            let entry = entries.get(done as usize).filter(|_| done < end)?;
            Some(at - entry.timestamp_ms as f64 / 1e3)
        };
        let partitions = || self.log.partitions.iter().zip(ends).zip(done);
        let least = partitions().filter_map(|((entries, end), done)| age(entries, done.1, end.0, from));
        let most = partitions().filter_map(|((entries, end), done)| age(entries, done.0, end.1, to));
        (least.fold(0.0, f64::max), most.fold(0.0, f64::max))
    }
}

/// How long after the broker soakd may learn of a record.
const BEHIND_S: f64 = 0.25;
/// How far the readings of the wall clock may be off, soakd's and the test's.
const CLOCK_S: f64 = 0.01;

/// What may have been there at some time between `from` and `to`, by the looks around it.
fn bounds(looks: &[Look], from: f64, to: f64) -> Option<Bounds> {
    let before = looks.partition_point(|look| look.after <= from).checked_sub(1)?;
    let after = looks.partition_point(|look| look.before < to);
    let (low, high) = (&looks.get(before)?.values, &looks.get(after)?.values);
    // One more on either side: an upserting sink that starts again writes older values over newer ones, so that a
    // table can go back for a moment.
    let around = looks.get(before.saturating_sub(1)..(after + 2).min(looks.len()))?;
    let grows = |one: &Look, next: &Look| one.values.iter().zip(&next.values).all(|(one, next)| one <= next);
    if around.is_sorted_by(grows) {
        return Some(low.iter().copied().zip(high.iter().copied()).collect());
    }
    let all = |partition: usize| around.iter().map(move |look| look.values[partition]);
    Some((0..low.len()).map(|one| (all(one).min().unwrap(), all(one).max().unwrap())).collect())
}

fn lag(ends: &Bounds, done: &Bounds) -> (f64, f64) {
    let pairs = || ends.iter().zip(done);
    let least: u64 = pairs().map(|(end, done)| end.0.saturating_sub(done.1)).sum();
    let most: u64 = pairs().map(|(end, done)| end.1.saturating_sub(done.0)).sum();
    (least as f64, most as f64)
}
