//! When markers are due: at the start of the load and after every interval, as long as the load runs.

/// A regular sequence of instants, each of which is told once or, when nobody asked in time, never.
#[derive(Debug)]
pub(super) struct Ticks {
    interval_ns: u64,
    start_ns: Option<u64>,
    /// The first tick that was not asked for.
    next: u64,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) number: u64,
    /// Start + number × interval.
    pub(super) at_ns: u64,
}

impl Ticks {
    /// A tick every so often, once they are started.
    pub(super) fn new(interval_ns: u64) -> Self {
        Self { interval_ns: interval_ns.max(1), start_ns: None, next: 0 }
    }

    /// Tick 0 is now, unless it was before.
    pub(super) fn start(&mut self, at_ns: u64) {
        self.start_ns.get_or_insert(at_ns);
    }

    /// The latest tick up to now, if it was not told before and lies before `until_ns` (0 while the load is paused).
    /// Earlier ones are passed over: ticks that were slept through are not replayed, and none of a pause comes after it.
    pub(super) fn due(&mut self, now_ns: u64, until_ns: u64) -> Option<Tick> {
        let start_ns = self.start_ns?;
        let number = now_ns.checked_sub(start_ns)? / self.interval_ns;
        if number < self.next {
            return None;
        }
        self.next = number + 1;
        let at_ns = start_ns + number * self.interval_ns;
        (at_ns < until_ns).then_some(Tick { number, at_ns })
    }

    /// When the next one is due, if they are started.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.start_ns?.checked_add(self.next.checked_mul(self.interval_ns)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn ticks_come_once_each_from_the_start_on_and_none_at_the_end() {
        let mut ticks = Ticks::new(SECOND);
        assert_eq!((ticks.due(5 * SECOND, u64::MAX), ticks.next_ns()), (None, None));
        ticks.start(7);
        let end_ns = 7 + 3 * SECOND;
        let told: Vec<(u64, u64)> = (0..500)
            .filter_map(|n| ticks.due(n * SECOND / 100, end_ns))
            .map(|tick| (tick.number, tick.at_ns))
            .collect();
        assert_eq!(told, [(0, 7), (1, 7 + SECOND), (2, 7 + 2 * SECOND)], "the end is excluded");
    }

    #[test]
    fn a_tick_before_the_end_that_is_noticed_after_it_is_told() {
        let mut ticks = Ticks::new(SECOND);
        ticks.start(0);
        ticks.due(0, SECOND / 2);
        ticks.due(SECOND - 1, 3 * SECOND / 2);
        assert_eq!(ticks.due(8 * SECOND / 5, 3 * SECOND / 2).map(|tick| tick.number), Some(1));
    }

    #[test]
    fn nothing_of_a_pause_or_a_sleep_is_replayed() {
        let mut ticks = Ticks::new(SECOND);
        ticks.start(0);
        assert_eq!(ticks.due(SECOND / 2, u64::MAX).map(|tick| tick.number), Some(0));
        // Paused from 0.6 s to 3.4 s, looked at every 20 ms.
        for n in 30..170 {
            assert_eq!(ticks.due(n * SECOND / 50, 0), None);
        }
        assert_eq!(ticks.due(7 * SECOND / 2, u64::MAX), None);
        assert_eq!(ticks.next_ns(), Some(4 * SECOND));
        // Slept from 3.5 s to 9.2 s.
        let tick = ticks.due(46 * SECOND / 5, u64::MAX);
        assert_eq!(tick, Some(Tick { number: 9, at_ns: 9 * SECOND }));
        assert_eq!(ticks.due(46 * SECOND / 5 + 1, u64::MAX), None);
    }

    proptest! {
        /// However they are asked for: numbers ascend, no tick comes before its time or late by an interval or more.
        #[test]
        fn ticks_ascend_and_are_never_late_by_an_interval(
            interval in 1_u64..SECOND,
            start in 0_u64..SECOND,
            steps in prop::collection::vec(0_u64..3 * SECOND, 1..50),
        ) {
            let mut ticks = Ticks::new(interval);
            ticks.start(start);
            let (mut now, mut last) = (0, None);
            for step in steps {
                now += step;
                let expected = ticks.next_ns().is_some_and(|next| next <= now);
                let tick = ticks.due(now, u64::MAX);
                prop_assert_eq!(tick.is_some(), expected);
                if let Some(tick) = tick {
                    prop_assert_eq!(tick.at_ns, start + tick.number * interval);
                    prop_assert!(tick.at_ns <= now && now - tick.at_ns < interval);
                    prop_assert!(last.is_none_or(|last| last < tick.number));
                    last = Some(tick.number);
                }
            }
        }
    }
}
