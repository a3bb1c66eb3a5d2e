//! Markers: a record to each of the lane's partitions at every tick, on top of the rate.
//!
//! They are records like any other (they wait for room in flight, take up the client's queue, and are in every counter)
//! with a number of their own instead of the stream's sequence. They go before the records that are due: while a backlog
//! is worked off, freshness is what one wants to know. A marker that cannot be sent until the next tick is dropped.

use super::super::client::{Offer, Outgoing};
use super::super::deliveries::Handed;
use super::super::share::Made;
use super::super::ticks::{Tick, Ticks};
use super::hand_over::Settled;
use super::{Lane, add};
use crate::core::counters::{Counters, DropReason};
use crate::core::stream::LaneState;
use crate::record::Facts;
use crate::record::format::MakeError;

/// The markers of a lane.
#[derive(Debug)]
pub(super) struct Markers {
    pub(super) ticks: Ticks,
    /// Markers that are due belong to instants before this one: 0 while the load is paused.
    pub(super) until_ns: u64,
    pending: Option<Pending>,
    /// Sent since the lane last published, with the partition.
    sent: Vec<(u32, Tick)>,
    /// Markers sent or dropped. A marker is never in the backlog: it counts as scheduled when it is done with.
    pub(super) scheduled: u64,
    partitions: u32,
    lanes: u32,
    index: u32,
}

/// A tick whose markers are not all sent.
#[derive(Debug, Clone, Copy)]
struct Pending {
    tick: Tick,
    /// The next one's partition.
    partition: u32,
}

impl Markers {
    /// Markers to the partitions of a lane.
    pub(super) fn new(interval_ns: u64, partitions: u32, lanes: u32, index: u32) -> Self {
        let (ticks, sent) = (Ticks::new(interval_ns), Vec::new());
        Self { ticks, until_ns: 0, pending: None, sent, scheduled: 0, partitions, lanes: lanes.max(1), index }
    }

    /// Gives up those that are due and not sent.
    pub(super) fn drop_pending(&mut self, reason: DropReason, counters: &mut Counters) {
        let Some(Pending { partition, .. }) = self.pending.take() else { return };
        let dropped = u64::from(self.partitions.saturating_sub(partition).div_ceil(self.lanes));
        add(&mut counters.dropped, reason as usize, dropped);
        self.scheduled += dropped;
    }

    /// Whether all that are due are sent.
    pub(super) const fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// Writes down those that were sent. To be done before their reports are read.
    pub(super) fn publish(&mut self, state: &mut LaneState) {
        for (partition, Tick { number, at_ns }) in self.sent.drain(..) {
            state.partitions.entry(partition).or_default().markers.sent(number, at_ns);
        }
    }

    /// Takes up the latest tick, and the partition whose marker goes next.
    fn next(&mut self, now_ns: u64, reason: DropReason, counters: &mut Counters) -> Option<Pending> {
        if let Some(tick) = self.ticks.due(now_ns, self.until_ns) {
            self.drop_pending(reason, counters);
            self.pending = Some(Pending { tick, partition: self.index });
        }
        self.pending
    }

    /// The marker of this partition is done with.
    fn step(&mut self, pending: Pending) {
        let partition = pending.partition + self.lanes;
        self.scheduled += 1;
        self.pending = (partition < self.partitions).then_some(Pending { partition, ..pending });
    }
}

impl Lane {
    /// Sends the markers that are due; returns whether some of them wait for the client.
    pub(super) fn send_markers(&mut self, now_ns: u64) -> bool {
        let reason = self.late_reason();
        let mut room = self.in_flight_cap().saturating_sub(self.client.in_flight());
        loop {
            let Some(markers) = &mut self.markers else { return false };
            let Some(pending) = markers.next(now_ns, reason, &mut self.counters) else { return false };
            if room == 0 {
                return true;
            }
            let sent_ns = self.handles.stream.clock.now_ns();
            let offer = self.offer_marker(&pending, sent_ns);
            match self.settle(offer, pending.tick.at_ns, sent_ns) {
                Settled::Sent => {
                    self.counters.markers += 1;
                    self.step_markers(pending, true);
                    room -= 1;
                }
                Settled::Dropped => self.step_markers(pending, false),
                Settled::Blocked => return true,
            }
        }
    }

    fn step_markers(&mut self, pending: Pending, sent: bool) {
        if let Some(markers) = &mut self.markers {
            if sent {
                markers.sent.push((pending.partition, pending.tick));
            }
            markers.step(pending);
        }
    }

    fn offer_marker(&mut self, pending: &Pending, sent_ns: u64) -> Offer {
        let Pending { tick: Tick { number, at_ns }, partition } = *pending;
        let share = &mut self.share;
        let Some((key_id, key)) = share.maker.marker_key(partition) else {
            return Offer::Unmade(MakeError(format!("partition {partition} has no key for markers")));
        };
        share.key.clear();
        share.key.extend_from_slice(key);
        let intended_ms = self.handles.stream.clock.wall_ms(at_ns);
        let facts = Facts { sequence: number, partition, key_id, intended_ms, marker: true };
        let handed =
            Handed { sequence: number, intended_ns: at_ns, sent_ns, partition, bytes: 0, marker: true };
        match share.make(&facts) {
            Ok(Made { key, value, headers }) => {
                self.client.offer(handed, &Outgoing { key: Some(key), value, headers, intended_ms })
            }
            Err(error) => Offer::Unmade(error),
        }
    }
}
