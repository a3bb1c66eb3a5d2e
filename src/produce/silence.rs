//! Whether acks have stopped although records are in flight.

/// Acks have stopped when records are in flight and none was acked for this long (and the client's linger).
const ACKS_STOPPED_NS: u64 = 3_000_000_000;
/// A lane that did not look for this long was not running: what it missed is not the broker's silence.
const BLIND_NS: u64 = 500_000_000;

/// A change worth an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Stopped,
    /// After so many nanoseconds.
    Resumed(u64),
}

/// Follows the acks of one lane.
#[derive(Debug)]
pub(super) struct Silence {
    linger_ns: u64,
    /// The last ack, or the last look at which nothing was in flight.
    since_ns: u64,
    looked_ns: u64,
    /// The last look at which something was in flight.
    busy_ns: u64,
    /// When acks stopped.
    stopped_ns: Option<u64>,
}

impl Silence {
    pub(super) const fn new(now_ns: u64, linger_ns: u64) -> Self {
        Self { linger_ns, since_ns: now_ns, looked_ns: now_ns, busy_ns: now_ns, stopped_ns: None }
    }

    /// To be told at each wake-up, after the reports were read; `acked` when a good one was among them.
    pub(super) fn look(&mut self, now_ns: u64, in_flight: u64, acked: bool) -> Option<Told> {
        let blind_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        if blind_ns > BLIND_NS {
            self.since_ns = (self.since_ns + blind_ns).min(now_ns);
        }
        if in_flight > 0 {
            self.busy_ns = now_ns;
        }
        if acked || in_flight == 0 {
            self.since_ns = now_ns;
        }
        match self.stopped_ns {
            None if self.silent_ns(now_ns) > ACKS_STOPPED_NS => {
                self.stopped_ns = Some(self.since_ns);
                Some(Told::Stopped)
            }
            // Only an ack shows that acks come again: a client that is rebuilt, or whose records have all timed out,
            // has nothing in flight for a moment too.
            Some(stopped_ns) if acked => {
                self.stopped_ns = None;
                Some(Told::Resumed(now_ns.saturating_sub(stopped_ns)))
            }
            Some(_) if now_ns.saturating_sub(self.busy_ns) > ACKS_STOPPED_NS => {
                // Paused, say: nobody knows whether acks would come.
                self.stopped_ns = None;
                None
            }
            _ => None,
        }
    }

    /// The client is a new one: the patience with it begins anew.
    pub(super) const fn client_rebuilt(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// How long there was no ack beyond the client's linger.
    pub(super) const fn silent_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns).saturating_sub(self.linger_ns)
    }

    /// Whether acks have stopped.
    pub(super) const fn stopped(&self) -> bool {
        self.stopped_ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A look every 10 ms; what was told and when (ms).
    fn looks(
        silence: &mut Silence,
        from_ms: u64,
        to_ms: u64,
        in_flight: u64,
        acked: bool,
    ) -> Vec<(u64, Told)> {
        let looks = (from_ms..to_ms).step_by(10);
        looks.filter_map(|ms| silence.look(ms * MS, in_flight, acked).map(|told| (ms, told))).collect()
    }

    #[test]
    fn p4_only_an_ack_ends_the_silence() {
        let mut silence = Silence::new(0, 500 * MS);
        assert_eq!(looks(&mut silence, 0, 1000, 5, true), []);
        assert_eq!(looks(&mut silence, 1000, 9000, 5, false), [(4500, Told::Stopped)]);
        silence.client_rebuilt(9000 * MS);
        assert_eq!(looks(&mut silence, 9000, 9500, 0, false), [], "nothing in flight for a moment");
        assert_eq!(looks(&mut silence, 9500, 16_000, 3, false), []);
        assert!(silence.stopped());
        assert_eq!(looks(&mut silence, 16_000, 17_000, 3, true), [(16_000, Told::Resumed(15_010 * MS))]);
    }

    #[test]
    fn an_idle_lane_does_not_wait_for_acks() {
        let mut silence = Silence::new(0, 0);
        assert_eq!(looks(&mut silence, 0, 60_000, 0, false), []);
        assert_eq!(looks(&mut silence, 60_000, 64_000, 1, false).len(), 1);
        assert_eq!(looks(&mut silence, 64_000, 68_000, 0, false), [], "all failed and nothing more to send");
        assert!(!silence.stopped());
    }

    #[test]
    fn r6_a_daemon_that_slept_does_not_blame_the_broker() {
        let mut silence = Silence::new(0, 0);
        assert_eq!(looks(&mut silence, 0, 1000, 5, true), []);
        assert_eq!(looks(&mut silence, 1000, 1010, 5, false), []);
        assert_eq!(looks(&mut silence, 16_000, 16_100, 5, false), []);
        assert_eq!(looks(&mut silence, 16_100, 17_000, 5, true), []);
    }
}
