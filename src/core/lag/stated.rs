//! Lag as the system states it itself.

use std::collections::BTreeMap;

use super::sum::{at_ns, middle};
use super::{
    LagTracker, Observation, PartitionLag, Progress, Reading, Records, Sample, Share, Sum, heads, no_data,
};
use crate::core::counters::Head;
use crate::core::timeline::{Found, Key, find_count};

const SECOND_NS: u64 = 1_000_000_000;
/// A system's own figures of lag are as old as its last look at the broker, of which it tells nothing: for so long.
const OWN_LOOK_NS: u64 = 100_000_000;
/// Systems that state seconds state whole ones, so that less is no movement.
const SECONDS_MARGIN_NS: u64 = SECOND_NS;

/// Whether a system that states its lag has moved: what it has done by then is only known to within a margin.
#[derive(Debug, Default)]
pub(super) struct Movement {
    /// How far it was when it last moved, or the least since.
    anchor: Option<u64>,
    /// Records acked at the last sample, and when that was.
    acked: Option<(u64, u64)>,
}

impl Movement {
    /// Records acked in the time of a system's own look, by the pace since the last sample.
    fn acked_in_a_look(&mut self, acked: u64, at_ns: u64) -> u64 {
        let (before, before_ns) = self.acked.replace((acked, at_ns)).unwrap_or((acked, at_ns));
        let (records, ns) = (acked.saturating_sub(before), at_ns.saturating_sub(before_ns).max(OWN_LOOK_NS));
        let records = u128::from(records) * u128::from(OWN_LOOK_NS) / u128::from(ns);
        u64::try_from(records).unwrap_or(u64::MAX)
    }

    /// Takes how far the system is now, known to within the margin.
    pub(super) fn take(&mut self, now: u64, margin: u64) -> bool {
        let moved = self.anchor.is_none_or(|anchor| now > anchor.saturating_add(margin));
        if moved || self.anchor.is_some_and(|anchor| now < anchor) {
            self.anchor = Some(now);
        }
        moved
    }
}

impl LagTracker {
    /// One lag in records over all partitions.
    pub(super) fn observe_stated_total(
        &mut self,
        sample: &Sample,
        lag: u64,
        records: &dyn Records,
    ) -> Observation {
        let sum_of = |heads: &[Head]| heads.iter().fold(0_u64, |sum, head| sum.saturating_add(head.acked));
        let (before, after) = (sum_of(&sample.heads_before), sum_of(&sample.heads_after));
        let find = |key| match key {
            Key::Count(count) => find_count(&records.timelines(), count),
            _ => None,
        };
        let heads = [before, after].map(|acked| Head { acked, ..Head::default() });
        let mut sum = Sum::new(sample);
        sum.add(&share(lag, &heads[0], &heads[1], &find), before, after);
        self.stated(sample, sum.reading(0, self.tolerance), Vec::new())
    }

    /// A stated lag's reading, and whether the system has moved by it.
    pub(super) fn stated(
        &mut self,
        sample: &Sample,
        reading: Reading,
        partitions: Vec<PartitionLag>,
    ) -> Observation {
        let acked = |heads: &[Head]| heads.iter().fold(0_u64, |sum, head| sum.saturating_add(head.acked));
        let drift = acked(&sample.heads_after).saturating_sub(acked(&sample.heads_before));
        let progress = reading.progress_records.unwrap_or(0.0).max(0.0) as u64;
        let look = self.movement.acked_in_a_look(acked(&sample.heads_after), sample.answered_ns);
        let moved = self.movement.take(progress, drift.saturating_add(look));
        Observation {
            reading: Reading { stated: true, ..reading },
            moved,
            partitions,
            ..Observation::default()
        }
    }

    /// A lag in seconds, of each partition or of all of them: the greatest is the stream's.
    pub(super) fn observe_stated_seconds(&mut self, sample: &Sample, progress: &Progress) -> Observation {
        let (values, unknown) = match progress {
            Progress::NoData(reason) => {
                return no_data(sample, self.unknown(sample, &BTreeMap::new()), reason.clone());
            }
            Progress::Total(lag_ns) => (BTreeMap::new(), Ok(*lag_ns)),
            Progress::Partitions(values) => (values.clone(), Err(self.unknown(sample, values))),
        };
        let known = |partition: &u32| values.get(partition).copied().flatten();
        let partitions: Vec<PartitionLag> = heads(sample)
            .filter(|_| unknown.is_err())
            .map(|(partition, ..)| {
                let value = known(&partition);
                PartitionLag { partition, value, lag_ns: value, ..PartitionLag::default() }
            })
            .collect();
        let (lag_ns, unknown) = match unknown {
            Ok(total_ns) => (Some(total_ns), 0),
            Err(unknown) => (partitions.iter().filter_map(|one| one.lag_ns).max(), unknown),
        };
        let Some(lag_ns) = lag_ns else {
            let reason = self.nothing(&values);
            return Observation { partitions, ..no_data(sample, unknown, reason) };
        };
        let at_ns = at_ns(sample);
        let reading = Reading {
            at_ns,
            lag_ns: Some(lag_ns),
            unknown_partitions: unknown,
            caught_up: lag_ns <= self.tolerance.saturating_mul(SECOND_NS) && unknown == 0,
            stated: true,
            ..Reading::default()
        };
        // What it has ingested is what was intended before the lag began.
        let moved = self.movement.take(at_ns.saturating_sub(lag_ns), SECONDS_MARGIN_NS);
        Observation { reading, moved, partitions, ..Observation::default() }
    }
}

/// The share of a partition that is so many records behind, by its own account.
pub(super) fn share(lag: u64, before: &Head, after: &Head, find: &dyn Fn(Key) -> Option<Found>) -> Share {
    let head = middle(before.acked, after.acked);
    let progress = head.saturating_sub(lag);
    let oldest = if lag > 0 { find(Key::Count(progress)) } else { None };
    // More than this run has sent: records from before it are among them, and older than any of ours.
    let oldest = oldest.map(|found| Found { at_least: found.at_least || lag > head, ..found });
    Share { progress, lag, expired: 0, oldest }
}
