//! Freshness, and lag in seconds, by the markers that are visible.

use std::collections::BTreeMap;

use super::sum::at_ns;
use super::{LagTracker, Observation, PartitionLag, Progress, Reading, Records, Sample, heads, no_data};
use crate::core::marker::Fate;

const EARLIER_RUN: &str = "numbers of markers that this run has not sent: rows of an earlier run; use a fresh table, or let the \
                           query see only this run's rows";

impl LagTracker {
    /// The newest marker of each partition. A partition without a value shows none, because a marker that is visible has
    /// a row.
    pub(super) fn observe_markers(
        &mut self,
        sample: &Sample,
        progress: &Progress,
        records: &dyn Records,
    ) -> Observation {
        let values = match progress {
            Progress::Partitions(values) => values.clone(),
            Progress::Total(number) if sample.heads_after.len() == 1 => BTreeMap::from([(0, Some(*number))]),
            Progress::Total(_) => {
                let partitions = sample.heads_after.len();
                let reason =
                    format!("one marker without its partition, and the stream has {partitions} partitions");
                return no_data(sample, self.unknown(sample, &BTreeMap::new()), reason);
            }
            Progress::NoData(_) => BTreeMap::new(),
        };
        let mut seen = Observation::default();
        let (mut oldest_unseen_ns, mut earlier_run, mut known) = (0, 0, 0_u32);
        for (partition, ..) in heads(sample) {
            let value = values.get(&partition).copied().flatten();
            let mut shown = PartitionLag { partition, value, ..PartitionLag::default() };
            match self.markers_of(sample, partition, value, records, &mut seen) {
                Some(unseen_ns) => {
                    known += 1;
                    oldest_unseen_ns = oldest_unseen_ns.max(unseen_ns);
                    shown.lag_ns = Some(unseen_ns);
                }
                None => earlier_run += 1,
            }
            seen.partitions.push(shown);
        }
        if known == 0 {
            let Observation { resets, partitions, .. } = seen;
            return Observation {
                resets,
                partitions,
                ..no_data(sample, earlier_run, EARLIER_RUN.to_owned())
            };
        }
        seen.oldest_unseen_ns = Some(oldest_unseen_ns);
        seen.reading = Reading {
            at_ns: at_ns(sample),
            lag_ns: Some(oldest_unseen_ns),
            unknown_partitions: earlier_run,
            caught_up: oldest_unseen_ns == 0 && earlier_run == 0,
            ..Reading::default()
        };
        seen
    }

    /// Age of the oldest marker of a partition that was acked before the question and is not visible, 0 when there is none;
    /// `None` when the number is an earlier run's.
    fn markers_of(
        &mut self,
        sample: &Sample,
        partition: u32,
        value: Option<u64>,
        records: &dyn Records,
        seen: &mut Observation,
    ) -> Option<u64> {
        let track = self.partitions.entry(partition).or_default();
        let (before, highest) = (track.last(), track.highest());
        // After a fall those in between are looked for again, and not counted as new.
        let from = if value < before { value } else { before };
        let sent = records.markers_after(partition, from);
        if let Some(value) = value
            && Some(value) > before
            && sent.last().is_none_or(|newest| newest.number < value)
        {
            return None;
        }
        if let Some(value) = value {
            let taken = track.take(value, 0, self.kind, self.on_reset);
            seen.moved |= taken.moved;
            seen.resets.extend(taken.fell_from.map(|from| (from, value)));
        }
        let new = sent.iter().filter(|marker| Some(marker.number) <= value && Some(marker.number) > highest);
        seen.freshness_ns.extend(new.map(|marker| sample.answered_ns.saturating_sub(marker.intended_ns)));
        let acked_before = sample.markers_before.get(partition as usize).copied().flatten();
        let unseen = sent.iter().find(|marker| {
            Some(marker.number) > value && marker.fate == Fate::Acked && Some(marker.number) <= acked_before
        });
        Some(unseen.map_or(0, |marker| at_ns(sample).saturating_sub(marker.intended_ns)))
    }
}
