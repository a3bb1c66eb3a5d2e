//! From the client's reports to what the lane has published.

use super::super::silence::Told;
use super::{Lane, add};
use crate::core::histogram::Runs;
use crate::core::marker::Fate;
use crate::core::stream::{LaneState, PartitionState};
use crate::kafka::raw::NO_OFFSET;

/// What is known of the offsets of a run of reports.
#[derive(Debug, Default)]
struct Placed {
    /// One was not told, and those after it count on from nothing.
    untold: bool,
}

impl Placed {
    /// Gives the offset of a record that was not acked at or above the head. Acks come in the log's order, so that one below the
    /// head means that the log begins again.
    #[cold]
    fn below_head(&mut self, partition: &mut PartitionState, offset: u64) -> u64 {
        self.untold |= offset == NO_OFFSET;
        if self.untold {
            // The timeline counts it and learns nothing else.
            return partition.head.next_offset.saturating_sub(1);
        }
        partition.begins_again(offset);
        offset
    }
}

impl Lane {
    /// Counts the reports that came. They come in runs: of one partition, with the same times.
    pub(super) fn read_reports(&mut self, state: &mut LaneState, now_ns: u64) -> Option<Told> {
        if let Some(markers) = &mut self.markers {
            markers.publish(state);
        }
        let (counters, mut acked) = (&mut self.counters, 0);
        let LaneState { ack_from_intended, ack_from_sent, partitions, .. } = state;
        let (mut from_intended, mut from_sent) = (Runs::new(ack_from_intended), Runs::new(ack_from_sent));
        for run in self.client.reports().chunk_by(|one, next| one.record.partition == next.record.partition) {
            let Some(first) = run.first() else { continue };
            let partition = partitions.entry(first.record.partition).or_default();
            let mut placed = Placed::default();
            for report in run {
                let record = report.record;
                let offset = match report.outcome {
                    Ok(offset) if offset >= partition.head.next_offset && offset != NO_OFFSET => offset,
                    Ok(offset) => placed.below_head(partition, offset),
                    Err(reason) => {
                        add(&mut counters.failed, reason as usize, 1);
                        if record.marker {
                            partition.markers.report(record.sequence, Fate::Lost);
                        }
                        continue;
                    }
                };
                acked += 1;
                counters.bytes_acked += u64::from(record.bytes);
                from_intended.record(report.reported_ns.saturating_sub(record.intended_ns));
                from_sent.record(report.reported_ns.saturating_sub(record.sent_ns));
                let head = &mut partition.head;
                head.next_offset = head.next_offset.max(offset + 1);
                if record.marker {
                    partition.markers.report(record.sequence, Fate::Acked);
                } else {
                    head.last_sequence = head.last_sequence.max(Some(record.sequence));
                }
                // A marker's number is not the stream's sequence: it has an offset, and the last record's sequence.
                let sequence = if record.marker { head.last_sequence.unwrap_or(0) } else { record.sequence };
                partition.timeline.acked(offset, sequence, record.intended_ns, now_ns);
                head.acked += 1;
            }
        }
        counters.acked += acked;
        self.client.forget_reports();
        self.silence.look(now_ns, self.client.in_flight(), acked > 0)
    }
}
