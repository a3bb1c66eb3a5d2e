//! From records that are due to records that the client has.

use super::super::client::{Offer, Outgoing};
use super::super::deliveries::Handed;
use super::super::staging::Due;
use super::{CHUNK, Lane, add};
use crate::core::counters::DropReason;
use crate::core::event::Event;
use crate::record::format::MakeError;
use crate::record::{Facts, Keyed};

/// Records handed over between two readings of the clock.
const CLOCK_EVERY: u64 = 64;

/// How a wake-up's hand-over went.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handover {
    /// The client or the cap on records in flight took no more.
    pub(super) blocked: bool,
    /// Age of the oldest record that was given up as too late; 0: none was.
    pub(super) dropped_ns: u64,
}

impl Lane {
    /// Hands over what is due and may be sent.
    pub(super) fn hand_over(&mut self, now_ns: u64) -> Handover {
        let dropped_ns = self.drop_late(now_ns);
        let tokens = self.pacer.tokens(now_ns);
        let room = self.in_flight_cap().saturating_sub(self.client.in_flight());
        let staged = self.staging.len() as u64;
        // Tokens are taken for what is staged now, and given back for what stays: they count what is handed over.
        let (may, capped) = if staged == 0 {
            let capped = self.stage(tokens, room);
            (self.staging.len() as u64, capped)
        } else {
            let may = staged.min(tokens).min(room);
            self.pacer.take(may);
            (may, room < staged.min(tokens))
        };
        let handed_over = self.send_staged(now_ns, may);
        self.pacer.put_back(may - handed_over);
        Handover { blocked: capped || handed_over < may, dropped_ns }
    }

    /// Gives up what has become too old; returns the age of the oldest of it, 0 when there is none.
    fn drop_late(&mut self, now_ns: u64) -> u64 {
        let reason = if self.bytes_blocked { DropReason::QueueBytes } else { DropReason::Late };
        let late = self.pacer.advance(now_ns, &mut self.share);
        let (mut records, mut oldest_ns) = (late.records, late.oldest_ns);
        if self.staging.len() > 0
            && let Some(line_ns) = self.pacer.too_old_before_ns(now_ns)
        {
            let staged_ns =
                self.staging.oldest_ns().map_or(0, |intended_ns| now_ns.saturating_sub(intended_ns));
            let staged = self.staging.drop_before(line_ns);
            records += staged;
            oldest_ns = oldest_ns.max(if staged > 0 { staged_ns } else { 0 });
        }
        add(&mut self.counters.dropped, reason as usize, records);
        oldest_ns
    }

    /// Walks the sequence and stages the lane's own records that are due, at most so many; returns whether there are
    /// more of them than that.
    fn stage(&mut self, tokens: u64, room: u64) -> bool {
        let to = self.pacer.allowed(tokens).min(self.pacer.next() + CHUNK);
        while self.pacer.next() < to && !self.staging.is_full() {
            let sequence = self.pacer.next();
            let Keyed { id: key_id, partition } = self.share.maker.key(sequence, &mut self.share.key);
            let own = self.share.lanes == 1 || partition % self.share.lanes == self.share.index;
            if own {
                if self.staging.len() as u64 >= room {
                    return true;
                }
                let intended_ns = self.pacer.intended_ns();
                self.staging.push(Due { sequence, intended_ns, key_id, partition }, &self.share.key);
            }
            self.pacer.step(own);
        }
        false
    }

    /// Hands over at most so many of the staged records; returns how many are not staged any more.
    fn send_staged(&mut self, now_ns: u64, may: u64) -> u64 {
        let clock = self.handles.stream.clock;
        let has_keys = self.share.maker.has_keys();
        let (mut sent_ns, mut until_clock) = (now_ns, CLOCK_EVERY);
        for taken in 0..may {
            let Some((due, key)) = self.staging.next() else { return taken };
            if until_clock == 0 {
                (sent_ns, until_clock) = (clock.now_ns(), CLOCK_EVERY);
            }
            until_clock -= 1;
            let Due { sequence, intended_ns, key_id, partition } = due;
            let intended_ms = clock.wall_ms(intended_ns);
            let facts = Facts { sequence, partition, key_id, intended_ms, marker: false };
            let handed = Handed { sequence, intended_ns, sent_ns, partition, bytes: 0 };
            let key = has_keys.then_some(key);
            let offer = match self.share.make(&facts) {
                Ok((value, headers)) => {
                    self.client.offer(handed, &Outgoing { key, value, headers, intended_ms })
                }
                Err(error) => Offer::Unmade(error),
            };
            match offer {
                Offer::Sent => (self.bytes_blocked, self.unmade) = (false, false),
                Offer::Unmade(error) => {
                    self.staging.take();
                    self.drop_unmade(sent_ns, &error);
                    continue;
                }
                Offer::Refused(reason) => add(&mut self.counters.failed, reason as usize, 1),
                Offer::Full => {
                    self.bytes_blocked = self.client.full_by_bytes();
                    return taken;
                }
                Offer::Dead(reason) => {
                    self.rebuild(sent_ns, &reason);
                    return taken;
                }
            }
            self.staging.take();
            self.counters.sent += 1;
            self.delays_ns.push(sent_ns.saturating_sub(intended_ns));
        }
        may
    }

    /// The lane's part of the stream's cap.
    fn in_flight_cap(&self) -> u64 {
        let (lanes, index) = (u64::from(self.share.lanes), u64::from(self.share.index));
        let cap = self.settings.in_flight_at(self.rate);
        (cap / lanes + u64::from(index < cap % lanes)).max(1)
    }

    /// Drops a record that cannot be made; tells it once.
    fn drop_unmade(&mut self, now_ns: u64, error: &MakeError) {
        add(&mut self.counters.dropped, DropReason::Unmade as usize, 1);
        if !std::mem::replace(&mut self.unmade, true) {
            let event = Event::RecordsUnmade { stream: self.stream_name(), reason: error.to_string() };
            self.handles.events.emit(now_ns, event);
        }
    }
}
