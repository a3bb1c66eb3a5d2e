//! How long a stream's load was held back and by whom, and how often the broker did it: one account for all lanes, so
//! that two lanes that are late at the same time are late once, and no figure can exceed the time that has passed.

use super::counters::LimitedBy;

/// Lanes that are held back again within this time are in the same stall.
const SAME_STALL_NS: u64 = 200_000_000;

/// The account of one stream. Lanes look at it only while they are held back or late.
#[derive(Debug, Clone, Default)]
pub struct HeldBack {
    /// By [`LimitedBy`], in the order of `ALL`.
    by: [Union; LimitedBy::ALL.len()],
    stalls: u64,
    stall_felt_ns: Option<u64>,
    own: Own,
}

/// What is known of soakd itself: see [`OwnHealth`](super::own::OwnHealth).
#[derive(Debug, Clone, Default)]
struct Own {
    starved: bool,
    limited: bool,
    text: String,
}

/// The union of the lanes' episodes: none of them is counted twice.
#[derive(Debug, Clone, Copy, Default)]
struct Union {
    /// Lanes that are limited now.
    lanes: u32,
    /// Length of all stretches but the last.
    before_ns: u64,
    /// Where the stretch before the last ended: the last one cannot reach back beyond it.
    floor_ns: u64,
    /// The last stretch.
    from_ns: u64,
    until_ns: u64,
}

impl HeldBack {
    /// A lane has become limited; returns whether the stream was not, so that it is worth an event.
    pub fn enter(&mut self, by: LimitedBy) -> bool {
        let Some(union) = self.by.get_mut(by as usize) else { return false };
        union.lanes = union.lanes.saturating_add(1);
        union.lanes == 1
    }

    /// A lane is not limited any more; returns how long the stream was (nanoseconds) when it was the last one.
    pub fn leave(&mut self, by: LimitedBy) -> Option<u64> {
        let union = self.by.get_mut(by as usize)?;
        union.lanes = union.lanes.saturating_sub(1);
        (union.lanes == 0).then(|| union.until_ns.saturating_sub(union.from_ns))
    }

    /// A lane was limited from one instant to another (monotonic). To be told again and again while it lasts, with the
    /// same beginning.
    pub fn limited(&mut self, by: LimitedBy, from_ns: u64, until_ns: u64) {
        if let Some(union) = self.by.get_mut(by as usize) {
            union.add(from_ns, until_ns);
        }
    }

    /// Takes in how soakd itself is: its threads are short of CPU, it is the limit of the stream, and what was measured, in
    /// words.
    pub fn set_own(&mut self, starved: bool, limited: bool, text: &str) {
        (self.own.starved, self.own.limited) = (starved, limited);
        if self.own.text != text {
            text.clone_into(&mut self.own.text);
        }
    }

    /// Whether soakd's own threads are short of CPU.
    #[must_use]
    pub const fn is_starved(&self) -> bool {
        self.own.starved
    }

    /// Whether soakd itself is the limit now, be the lanes late or not.
    #[must_use]
    pub const fn own_limit(&self) -> bool {
        self.own.limited
    }

    /// What was last measured of soakd itself, in words; empty before.
    #[must_use]
    pub fn own_text(&self) -> &str {
        &self.own.text
    }

    /// The broker takes no more from a lane just now.
    pub fn blocked(&mut self, now_ns: u64) {
        let same = self.stall_felt_ns.is_some_and(|felt_ns| now_ns.saturating_sub(felt_ns) < SAME_STALL_NS);
        self.stalls += u64::from(!same);
        self.stall_felt_ns = self.stall_felt_ns.max(Some(now_ns));
    }

    /// Time limited in nanoseconds, by [`LimitedBy`], the running episode included. Never falls.
    #[must_use]
    pub fn limited_ns(&self) -> [u64; LimitedBy::ALL.len()] {
        self.by.map(|union| union.before_ns + union.until_ns.saturating_sub(union.from_ns))
    }

    /// How often the broker began to hold the load back.
    #[must_use]
    pub const fn stalls(&self) -> u64 {
        self.stalls
    }
}

impl Union {
    fn add(&mut self, from_ns: u64, until_ns: u64) {
        if until_ns <= from_ns {
            return;
        }
        if from_ns > self.until_ns {
            self.before_ns += self.until_ns - self.from_ns;
            (self.floor_ns, self.from_ns, self.until_ns) = (self.until_ns, from_ns, until_ns);
        } else {
            self.from_ns = self.from_ns.min(from_ns.max(self.floor_ns));
            self.until_ns = self.until_ns.max(until_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATOR: LimitedBy = LimitedBy::Generator;

    #[test]
    fn lanes_that_are_late_together_are_late_once() {
        let mut held = HeldBack::default();
        assert!(held.enter(GENERATOR) && !held.enter(GENERATOR), "one event for both");
        for now in 101..=200 {
            held.limited(GENERATOR, 100, now);
            held.limited(GENERATOR, 90, now);
            assert_eq!(held.limited_ns(), [now - 90, 0]);
        }
        assert_eq!((held.leave(GENERATOR), held.leave(GENERATOR)), (None, Some(110)));
        held.limited(GENERATOR, 300, 350);
        held.limited(GENERATOR, 150, 360);
        assert_eq!(held.limited_ns(), [110 + 160, 0], "a stretch never reaches back into the one before");
        held.limited(LimitedBy::Broker, 340, 350);
        assert_eq!(held.limited_ns(), [270, 10]);
    }

    #[test]
    fn a_broker_that_stops_all_lanes_is_one_stall() {
        let mut held = HeldBack::default();
        for ms in 0..1000 {
            held.blocked(ms * 1_000_000);
            held.blocked(ms * 1_000_000 + 7);
        }
        assert_eq!(held.stalls(), 1);
        held.blocked(1_300_000_000);
        assert_eq!(held.stalls(), 2);
    }
}
