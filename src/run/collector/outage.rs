//! Times without acks, found from snapshots: they begin with the last ack before, not when somebody noticed.

use crate::core::status::Snapshot;
use crate::core::stream::StreamSnapshot;
use crate::store::record::{Outage, seconds};

/// A broker that is away every minute for a day fits.
const MAX_KEPT: usize = 1_000;

/// Finds a stream's outages.
#[derive(Debug, Clone)]
pub(super) struct OutageCollector {
    acked: u64,
    /// The last look that saw an ack come in, or nothing in flight.
    fine_ns: u64,
    open: bool,
    kept: Vec<Outage>,
    total: u64,
}

impl OutageCollector {
    pub(super) const fn new(now_ns: u64, acked: u64) -> Self {
        Self { acked, fine_ns: now_ns, open: false, kept: Vec::new(), total: 0 }
    }

    /// Looks at the stream once more.
    pub(super) fn advance(&mut self, snapshot: &Snapshot, stream: &StreamSnapshot, origin_ns: u64) {
        let grew = stream.counters.acked > self.acked;
        self.acked = stream.counters.acked;
        // Only an ack ends an outage: when the client is rebuilt in it, nothing is in flight for a moment, and it is
        // still the same one.
        if grew && !stream.acks_stopped {
            self.end(snapshot, origin_ns);
        }
        if stream.acks_stopped && !self.open {
            self.begin(snapshot, origin_ns);
        }
        if grew || stream.counters.in_flight == 0 {
            self.fine_ns = snapshot.now_ns;
        }
    }

    fn begin(&mut self, snapshot: &Snapshot, origin_ns: u64) {
        self.open = true;
        self.total += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push(Outage {
                start_seconds: seconds(self.fine_ns.saturating_sub(origin_ns)),
                start_at: snapshot.clock.rfc3339(self.fine_ns),
                end_seconds: None,
                end_at: None,
            });
        }
    }

    fn end(&mut self, snapshot: &Snapshot, origin_ns: u64) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        if let Some(outage) = self.kept.last_mut().filter(|outage| outage.end_seconds.is_none()) {
            outage.end_seconds = Some(seconds(snapshot.now_ns.saturating_sub(origin_ns)));
            outage.end_at = Some(snapshot.clock.rfc3339(snapshot.now_ns));
        }
    }

    /// The outages that were kept, and how many there were.
    pub(super) fn found(&self) -> (Vec<Outage>, u64) {
        (self.kept.clone(), self.total)
    }
}
