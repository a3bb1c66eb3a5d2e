//! From records that are due to records that the client has.

use super::super::client::{Offer, Outgoing};
use super::super::deliveries::Handed;
use super::super::share::Made;
use super::super::staging::Due;
use super::{Lane, add};
use crate::core::counters::DropReason;
use crate::core::event::Event;
use crate::record::Facts;
use crate::record::format::MakeError;

/// Records handed over between two readings of the clock.
const CLOCK_EVERY: u64 = 64;

/// Records that cannot be made are told of again when there was none for so long: one line in a hundred of a file may
/// lack its key, and that is one story.
const UNMADE_AGAIN_NS: u64 = 10_000_000_000;

/// How a wake-up's hand-over went.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handover {
    /// The client or the cap on records in flight took no more.
    pub(super) blocked: bool,
    /// Age of the oldest record that was given up as too late; 0: none was.
    pub(super) dropped_ns: u64,
}

/// What came of an offer to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// The client took the record, or refused it for good.
    Sent,
    /// It could not be made.
    Dropped,
    /// The client takes no more at the moment.
    Blocked,
}

impl Lane {
    /// Hands over what is due and may be sent.
    pub(super) fn hand_over(&mut self, now_ns: u64) -> Handover {
        let late = self.backlog.advance(now_ns, &mut self.share);
        let reason = self.late_reason();
        add(&mut self.counters.dropped, reason as usize, late.records);
        let room = self.in_flight_cap().saturating_sub(self.client.in_flight());
        let allowed = self.backlog.allow(now_ns, room, &mut self.share);
        let untaken = allowed.records - self.send_staged(now_ns, allowed.records);
        self.backlog.settle(untaken);
        Handover { blocked: allowed.capped || untaken > 0, dropped_ns: late.oldest_ns }
    }

    /// Hands over at most so many of the staged records; returns how many are not staged any more.
    fn send_staged(&mut self, now_ns: u64, may: u64) -> u64 {
        let clock = self.handles.stream.clock;
        let has_keys = self.share.maker.has_keys();
        let (mut sent_ns, mut until_clock) = (now_ns, CLOCK_EVERY);
        for taken in 0..may {
            let Some((due, key)) = self.backlog.next() else { return taken };
            if until_clock == 0 {
                (sent_ns, until_clock) = (clock.now_ns(), CLOCK_EVERY);
            }
            until_clock -= 1;
            let Due { sequence, intended_ns, key_id, partition } = due;
            let intended_ms = clock.wall_ms(intended_ns);
            let facts = Facts { sequence, partition, key_id, intended_ms, marker: false };
            let handed = Handed { sequence, intended_ns, sent_ns, partition, bytes: 0, marker: false };
            let key = has_keys.then_some(key);
            let offer = match self.share.make(&facts) {
                Ok(Made { value, headers, .. }) => {
                    self.client.offer(handed, &Outgoing { key, value, headers, intended_ms })
                }
                Err(error) => Offer::Unmade(error),
            };
            match self.settle(offer, intended_ns, sent_ns) {
                Settled::Sent | Settled::Dropped => self.backlog.take(),
                Settled::Blocked => return taken,
            }
        }
        may
    }

    /// Counts what came of an offer.
    pub(super) fn settle(&mut self, offer: Offer, intended_ns: u64, sent_ns: u64) -> Settled {
        match offer {
            Offer::Sent => self.bytes_blocked = false,
            Offer::Unmade(error) => {
                self.drop_unmade(sent_ns, &error);
                return Settled::Dropped;
            }
            Offer::Refused(reason) => add(&mut self.counters.failed, reason as usize, 1),
            Offer::Full => {
                self.bytes_blocked = self.client.full_by_bytes();
                return Settled::Blocked;
            }
            Offer::Dead(reason) => {
                self.rebuild(sent_ns, &reason);
                return Settled::Blocked;
            }
        }
        self.counters.sent += 1;
        self.delays_ns.push(sent_ns.saturating_sub(intended_ns));
        Settled::Sent
    }

    /// Why a record is dropped that became too old.
    pub(super) const fn late_reason(&self) -> DropReason {
        if self.bytes_blocked { DropReason::QueueBytes } else { DropReason::Late }
    }

    /// The lane's part of the stream's cap.
    pub(super) fn in_flight_cap(&self) -> u64 {
        let (lanes, index) = (u64::from(self.share.lanes), u64::from(self.share.index));
        let cap = self.settings.in_flight_at(self.pace, self.record_bytes);
        (cap / lanes + u64::from(index < cap % lanes)).max(1)
    }

    /// Drops a record that cannot be made; tells it when it is the first in a while.
    fn drop_unmade(&mut self, now_ns: u64, error: &MakeError) {
        add(&mut self.counters.dropped, DropReason::Unmade as usize, 1);
        let last_ns = self.unmade_ns.replace(now_ns);
        if last_ns.is_none_or(|last_ns| now_ns.saturating_sub(last_ns) > UNMADE_AGAIN_NS) {
            let event = Event::RecordsUnmade { stream: self.stream_name(), reason: error.to_string() };
            self.handles.events.emit(now_ns, event);
        }
    }
}
