//! From a progress source's answer and the stream's own acks to lag: records, seconds, uncertainty, resets.
//!
//! Heads are read before the question and after the answer; the system is compared with the middle of both, and may be
//! off by half of what was acked in between. Lag is taken per partition and never negative, so that being ahead in one
//! partition (its acks are in flight) hides nothing in another.

mod kind;
mod marker;
mod shares;
mod stated;
mod sum;
mod time;
mod track;

use std::collections::BTreeMap;

use super::clock::Clock;
use super::counters::Head;
use super::marker::Marker;
use super::timeline::{Found, Key, Timeline, find_count};
pub use kind::ValueKind;
use shares::{Partition, Shared};
use stated::Movement;
use sum::{Share, Sum, at_ns, middle};
use track::Track;

/// What it means when progress falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnReset {
    /// The system really reads again: lag is the whole distance.
    True,
    /// A statistic was lost: the fallen value is a new zero.
    Rebase,
    /// A counter of records began anew at 0 with its process: what it shows is added to what it had shown. If that were more
    /// records than are acked, it did not begin at 0, and the fallen value is a new zero.
    Counter,
    /// What was counted is gone, what was there before the run included: the whole of the lower value is this run's.
    Emptied,
}

/// What a progress source answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A value for each partition that has one; `None` where the system says "nothing yet".
    Partitions(BTreeMap<u32, Option<u64>>),
    /// One value over all partitions.
    Total(u64),
    /// The system answers, and has no figure yet: "no rows", "no commits yet".
    NoData(String),
}

/// One answered poll.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Before the question was asked (monotonic).
    pub asked_ns: u64,
    /// After the answer was there (monotonic).
    pub answered_ns: u64,
    /// Own acked heads before the question.
    pub heads_before: Vec<Head>,
    /// Own acked heads after the answer.
    pub heads_after: Vec<Head>,
    /// By partition: the number of the newest marker that was acked before the question. Only looked at for markers.
    pub markers_before: Vec<Option<u64>>,
    /// The answer.
    pub progress: Progress,
}

/// The figures of one good sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// When the sample was taken: the middle of the poll (monotonic).
    pub at_ns: u64,
    /// Records that the system has ingested since the start, by its own account (for offsets: offsets).
    pub progress_records: Option<f64>,
    /// Records acked and not ingested.
    pub lag_records: Option<u64>,
    /// Age of the oldest of them in nanoseconds.
    pub lag_ns: Option<u64>,
    /// The age is only a lower bound.
    pub lag_at_least: bool,
    /// How far the lag may be off because the head moved during the poll.
    pub uncertainty_records: f64,
    /// Records that retention removed before they were ingested.
    pub expired_records: u64,
    /// Partitions without data.
    pub unknown_partitions: u32,
    /// Lag is within the source's tolerance.
    pub caught_up: bool,
    /// The lag is what the system states, not what soakd makes of its progress.
    pub stated: bool,
}

/// One partition's share of a reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PartitionLag {
    /// The partition.
    pub partition: u32,
    /// What the source answered, in the unit of its [`ValueKind`]; `None` when it has nothing for this partition.
    pub value: Option<u64>,
    /// Records acked and not ingested.
    pub lag_records: Option<u64>,
    /// Age of the oldest of them in nanoseconds.
    pub lag_ns: Option<u64>,
    /// The age is only a lower bound.
    pub lag_at_least: bool,
    /// Records that retention removed before they were ingested.
    pub expired_records: u64,
}

/// Where a sample's records are looked up.
pub trait Records {
    /// The oldest acked record of a partition that is not ingested.
    fn find(&self, partition: u32, key: Key) -> Option<Found>;
    /// The timelines of all partitions.
    fn timelines(&self) -> Vec<Timeline>;
    /// The remembered markers of a partition with a number above the given one (all when there is none), oldest first.
    fn markers_after(&self, partition: u32, number: Option<u64>) -> Vec<Marker>;
}

/// What one sample showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// The figures.
    pub reading: Reading,
    /// Why there is no lag although the source answered.
    pub unknown_reason: Option<String>,
    /// Values that fell, one entry a partition: (from, to). However many fell in one sample, it is one reset: see
    /// [`Self::reset`].
    pub resets: Vec<(u64, u64)>,
    /// Progress is not what it was in the last good sample.
    pub moved: bool,
    /// The reading by partition, in order; empty when the source gave one value over all of them.
    pub partitions: Vec<PartitionLag>,
    /// Of markers: how long each one that this sample showed for the first time took from its intended time, in nanoseconds.
    pub freshness_ns: Vec<u64>,
    /// Of markers: age of the oldest acked one that is not visible, in nanoseconds; 0 when all are.
    pub oldest_unseen_ns: Option<u64>,
    /// Of event times: how far the newest one lies in the future, in nanoseconds. Another clock is ahead then.
    pub ahead_ns: Option<u64>,
}

impl Observation {
    /// The reset of this sample, if there was one: the sums over the partitions that fell.
    #[must_use]
    pub fn reset(&self) -> Option<(u64, u64)> {
        self.resets
            .iter()
            .copied()
            .reduce(|sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
    }
}

/// What a [`LagTracker`] has learnt that its source will not tell again. A few numbers a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct TrackerMemory {
    total: Track,
    partitions: BTreeMap<u32, Track>,
    resets: u64,
}

/// Follows one progress source.
///
/// - **Offsets**: lag is `head - progress` in offsets, so transaction markers and foreign records count; that is what
///   `tolerance` is for. What retention removed (below the log start) is expired, not lag.
/// - **Sequence**: lag in records by the timeline. A partition that showed a sequence before it had an acked record of
///   this run shows an earlier run's rows; it is unknown until it shows one that this run has acked.
/// - **Count**: the first good value's surplus over the records acked by then is the baseline: before the first ack all of
///   it, later nothing unless there are more rows than records. A baseline is never lowered again, so that lag
///   is rather shown too high than too low. With far more rows than records the count is of something else, and lag is
///   unknown.
/// - **Event time**: every record that was intended up to the newest time visible counts as ingested, by the timeline.
///   With one time over all partitions a partition that is behind the others does not show. A time in the future is
///   taken as now.
///   More than five minutes ahead is no clock's fault: the value is something else, and lag is unknown.
/// - **Marker**: lag in seconds is the age of the oldest acked marker that is not visible; records are not known. A
///   partition without a value shows none. A number above all that were sent is an earlier run's.
/// - **Stated lag** is taken as it is. From records follow progress (head minus lag) and seconds (by the timeline), from
///   seconds neither; `tolerance` is in seconds there. It has no baseline and no resets.
/// - **Resets**: a value that falls is a reset. With [`OnReset::True`] the lower value counts as it is. With
///   [`OnReset::Rebase`] progress goes on from where it was; what was ingested between the last two samples is not in it.
///   With [`OnReset::Counter`] what was ingested since the counter's process began anew is, as in Prometheus' `increase`.
///   With [`OnReset::Emptied`] the lower value counts as it is, and the baseline is 0 from then on.
/// - **Tolerance**: lag within it is shown as it is in records, counts as caught up (unless a partition is unknown) and
///   has no age: a residual that is no record would else grow older for ever.
#[derive(Debug)]
pub struct LagTracker {
    kind: ValueKind,
    tolerance: u64,
    on_reset: OnReset,
    total: Track,
    partitions: BTreeMap<u32, Track>,
    resets: u64,
    clock: Option<Clock>,
    movement: Movement,
}

impl LagTracker {
    /// A tracker that has seen nothing. `tolerance` is in records (for offsets: offsets), over all partitions.
    #[must_use]
    pub fn new(kind: ValueKind, tolerance: u64, on_reset: OnReset) -> Self {
        Self {
            kind,
            tolerance,
            on_reset,
            total: Track::default(),
            partitions: BTreeMap::new(),
            resets: 0,
            clock: None,
            movement: Movement::default(),
        }
    }

    /// With the clock that event times are turned into monotonic ones by; without one they are taken as such in milliseconds.
    #[must_use]
    pub const fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// What the source's figure means.
    #[must_use]
    pub const fn kind(&self) -> ValueKind {
        self.kind
    }

    /// Samples in which progress fell.
    #[must_use]
    pub const fn resets(&self) -> u64 {
        self.resets
    }

    /// The total count that is not this run's, once a good sample has shown one.
    #[must_use]
    pub fn baseline(&self) -> Option<u64> {
        self.total.baseline()
    }

    /// What a restart has to know: baselines, and what was carried over resets. For the run's record.
    #[must_use]
    pub fn memory(&self) -> TrackerMemory {
        TrackerMemory { total: self.total.clone(), partitions: self.partitions.clone(), resets: self.resets }
    }

    /// Goes on from before a restart: a value that fell meanwhile is a reset, and what was there before the run still is.
    #[must_use]
    pub fn with_memory(mut self, memory: TrackerMemory) -> Self {
        TrackerMemory { total: self.total, partitions: self.partitions, resets: self.resets } = memory;
        self
    }

    /// Takes one answered poll. Values that make no sense (ahead of everything, partitions that the stream does not have)
    /// give lag 0 or are passed over; they never overflow.
    pub fn observe(&mut self, sample: &Sample, records: &dyn Records) -> Observation {
        let observation = match (&sample.progress, self.kind) {
            (progress, ValueKind::Marker) => self.observe_markers(sample, progress, records),
            (Progress::NoData(reason), _) => {
                no_data(sample, self.unknown(sample, &BTreeMap::new()), reason.clone())
            }
            (progress, ValueKind::EventTime) if self.far_ahead_ns(sample, progress).is_some() => {
                let ahead_ns = self.far_ahead_ns(sample, progress);
                let reason = format!(
                    "the newest time lies {} s in the future: is it in milliseconds, in UTC, and a record's own time?",
                    ahead_ns.unwrap_or(0) / 1_000_000_000
                );
                let unknown = self.unknown(sample, &BTreeMap::new());
                Observation { ahead_ns, ..no_data(sample, unknown, reason) }
            }
            (progress, ValueKind::LagSeconds) => self.observe_stated_seconds(sample, progress),
            (Progress::Total(lag), ValueKind::LagRecords) => self.observe_stated_total(sample, *lag, records),
            (Progress::Total(count), ValueKind::Count) => self.observe_total(sample, *count, records),
            (Progress::Total(time), ValueKind::EventTime) => self.observe_time(sample, *time, records),
            (Progress::Partitions(values), _) => self.observe_partitions(sample, values, records),
            (Progress::Total(value), _) if sample.heads_after.len() == 1 => {
                self.observe_partitions(sample, &BTreeMap::from([(0, Some(*value))]), records)
            }
            (Progress::Total(_), _) => {
                let reason = format!(
                    "one {} without its partition, and the stream has {} partitions",
                    if self.kind == ValueKind::Sequence { "sequence" } else { "offset" },
                    sample.heads_after.len()
                );
                no_data(sample, self.unknown(sample, &BTreeMap::new()), reason)
            }
        };
        self.resets += u64::from(!observation.resets.is_empty());
        let mut observation = observation;
        if observation.reading.lag_records.is_some() {
            let unseen = sample.heads_after.iter().fold(0_u64, |sum, head| sum.saturating_add(head.unseen));
            observation.reading.uncertainty_records += unseen as f64;
        }
        observation
    }

    fn observe_total(&mut self, sample: &Sample, count: u64, records: &dyn Records) -> Observation {
        let sum = |heads: &[Head]| heads.iter().fold(0_u64, |sum, head| sum.saturating_add(head.acked));
        let (before, after) = (sum(&sample.heads_before), sum(&sample.heads_after));
        // The first one is the baseline, whatever it is.
        let counted = self.total.baseline().map_or(0, |_| self.total.progress(count));
        if counted > most_counted(after) {
            let reason = format!(
                "{counted} are counted since the beginning, and {after} records are acked: does it count something else?"
            );
            return no_data(sample, self.unknown(sample, &BTreeMap::new()), reason);
        }
        let taken = self.total.take(count, after, self.kind, self.on_reset);
        let lag = middle(before, after).saturating_sub(taken.progress);
        let oldest = if lag > 0 { find_count(&records.timelines(), taken.progress) } else { None };
        let mut sum = Sum::new(sample);
        sum.add(&Share { progress: taken.progress, lag, expired: 0, oldest }, before, after);
        let resets = taken.fell_from.map(|from| (from, count)).into_iter().collect();
        Observation {
            reading: sum.reading(0, self.tolerance),
            unknown_reason: None,
            resets,
            moved: taken.moved,
            ..Observation::default()
        }
    }

    fn observe_partitions(
        &mut self,
        sample: &Sample,
        values: &BTreeMap<u32, Option<u64>>,
        records: &dyn Records,
    ) -> Observation {
        let mut sum = Sum::new(sample);
        let mut observation = Observation::default();
        let mut earlier_run = 0;
        for (partition, before, after) in heads(sample) {
            let Some(value) = values.get(&partition).copied().flatten() else {
                observation.partitions.push(PartitionLag { partition, ..PartitionLag::default() });
                continue;
            };
            let track = self.partitions.entry(partition).or_default();
            let taken = track.take(value, after.acked, self.kind, self.on_reset);
            observation.moved |= taken.moved;
            observation.resets.extend(taken.fell_from.map(|from| (from, value)));
            if self.kind == ValueKind::Sequence && track.shows_earlier_run(value, after) {
                earlier_run += 1;
                let value = Some(value);
                observation.partitions.push(PartitionLag { partition, value, ..PartitionLag::default() });
                continue;
            }
            let find = |key| records.find(partition, key);
            let of = Partition { sample, before, after, find: &find };
            let Shared { share, heads, ahead_ns } = self.share(&of, value, taken.progress);
            observation.ahead_ns = observation.ahead_ns.max(ahead_ns);
            sum.add(&share, heads.0, heads.1);
            observation.partitions.push(share.of_partition(partition, value, sample));
        }
        let unknown = self.unknown(sample, values) + earlier_run;
        if sum.shares == 0 {
            let reason = if earlier_run > 0 { EARLIER_RUN.to_owned() } else { self.nothing(values) };
            let Observation { resets, partitions, .. } = observation;
            return Observation { resets, partitions, ..no_data(sample, unknown, reason) };
        }
        let reading = sum.reading(unknown, self.tolerance);
        if self.kind.is_stated() {
            return self.stated(sample, reading, observation.partitions);
        }
        Observation { reading, ..observation }
    }

    /// Partitions without a value that should have one: nothing to ingest is not unknown.
    fn unknown(&self, sample: &Sample, values: &BTreeMap<u32, Option<u64>>) -> u32 {
        let missing = heads(sample)
            .filter(|(partition, _, head)| {
                let empty = head.acked == 0
                    && match self.kind {
                        ValueKind::NextOffset | ValueKind::LastOffset => head.next_offset <= head.log_start,
                        _ => true,
                    };
                !empty && values.get(partition).copied().flatten().is_none()
            })
            .count();
        u32::try_from(missing).unwrap_or(u32::MAX)
    }

    fn nothing(&self, values: &BTreeMap<u32, Option<u64>>) -> String {
        match (self.kind, values.values().any(Option::is_some)) {
            (_, true) => {
                format!("values only for partitions that the stream does not have: {:?}", values.keys())
            }
            _ if values.is_empty() => "no rows".to_owned(),
            (ValueKind::NextOffset | ValueKind::LastOffset, _) => "no commits yet".to_owned(),
            _ => "no value yet".to_owned(),
        }
    }
}

/// The most that a count of acked records can be: some are counted before their acks are here, and a system that delivers at
/// least once counts some twice. What is more than that counts something else, and a lag of 0 would be made up.
const fn most_counted(acked: u64) -> u64 {
    acked.saturating_mul(2).saturating_add(1_000_000)
}

const EARLIER_RUN: &str = "sequences that this run has not acked: rows of an earlier run; use a fresh table, or let the query \
                           see only this run's rows";

/// Each partition with its heads before and after.
fn heads(sample: &Sample) -> impl Iterator<Item = (u32, &Head, &Head)> {
    (0_u32..).zip(&sample.heads_after).map(|(partition, after)| {
        // Of a log that began again meanwhile there is nothing before.
        let before = sample.heads_before.get(partition as usize);
        (partition, before.filter(|before| before.restarts == after.restarts).unwrap_or(after), after)
    })
}

fn no_data(sample: &Sample, unknown_partitions: u32, reason: String) -> Observation {
    let reading = Reading { at_ns: at_ns(sample), unknown_partitions, ..Reading::default() };
    Observation { reading, unknown_reason: Some(reason), ..Observation::default() }
}

#[cfg(test)]
mod tests;
