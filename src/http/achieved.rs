//! Rates that were achieved over the last seconds: counters kept once a second, compared with those of now.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use crate::core::counters::Counters;
use crate::core::lock::lock;
use crate::core::status::{Board, Snapshot};

/// The window that rates are averaged over. One point more may be kept, so that there is one at its far end.
const WINDOW_NS: u64 = 5_000_000_000;
/// A shorter time than this between two readings gives no rate.
const SHORTEST_NS: u64 = 200_000_000;

/// What was achieved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    /// Records acked a second.
    pub(super) achieved_records_per_second: f64,
    /// Records handed to the client a second.
    pub(super) sent_records_per_second: f64,
    /// Time that both are averaged over.
    pub(super) achieved_over_seconds: f64,
}

/// Acked and sent by stream.
type Counts = BTreeMap<String, (u64, u64)>;

/// Counters of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Achieved {
    points: Mutex<VecDeque<(u64, Counts)>>,
}

impl Achieved {
    /// Keeps the counters of now; to be called once a second.
    pub(super) fn sample(&self, board: &Board) {
        let snapshot = board.snapshot();
        self.keep(snapshot.now_ns, counts(&snapshot));
    }

    fn keep(&self, now_ns: u64, counts: Counts) {
        let mut points = lock(&self.points);
        points.push_back((now_ns, counts));
        // The second point is old enough to be the far end: the first is not needed.
        while points.get(1).is_some_and(|(at_ns, _)| now_ns.saturating_sub(*at_ns) >= WINDOW_NS) {
            points.pop_front();
        }
    }

    /// What each stream has achieved up to the snapshot; a stream is missing while there is no time to average over.
    pub(super) fn rates(&self, snapshot: &Snapshot) -> BTreeMap<String, Rates> {
        self.rates_of(snapshot.now_ns, &counts(snapshot))
    }

    fn rates_of(&self, now_ns: u64, counts: &Counts) -> BTreeMap<String, Rates> {
        let points = lock(&self.points);
        let Some((from_ns, before)) = points.front() else { return BTreeMap::new() };
        let over_ns = now_ns.saturating_sub(*from_ns);
        if over_ns < SHORTEST_NS {
            return BTreeMap::new();
        }
        let seconds = over_ns as f64 / 1e9;
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let rates = counts.iter().filter_map(|(name, (acked, sent))| {
            let (acked_then, sent_then) = before.get(name)?;
            let rates = Rates {
                achieved_records_per_second: rate(*acked, *acked_then),
                sent_records_per_second: rate(*sent, *sent_then),
                achieved_over_seconds: seconds,
            };
            Some((name.clone(), rates))
        });
        rates.collect()
    }
}

fn counts(snapshot: &Snapshot) -> Counts {
    let counts = snapshot.streams.iter();
    let of_the_rate = |counters: &Counters| {
        (counters.without_markers(counters.acked), counters.without_markers(counters.sent))
    };
    counts.map(|(name, stream)| (name.clone(), of_the_rate(&stream.counters))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main(acked: u64, sent: u64) -> Counts {
        BTreeMap::from([("main".to_owned(), (acked, sent))])
    }

    #[test]
    fn rates_are_those_of_the_last_seconds_only() {
        let achieved = Achieved::default();
        assert!(achieved.rates_of(0, &main(0, 0)).is_empty());
        // 100/s for a minute, then 10/s.
        for second in 0..=120_u64 {
            let acked = second.min(60) * 100 + second.saturating_sub(60) * 10;
            achieved.keep(second * 1_000_000_000, main(acked, acked + 5));
            assert!(lock(&achieved.points).len() <= 6, "bounded");
        }
        let rates = achieved.rates_of(120_500_000_000, &main(6605, 6610))["main"];
        assert!((rates.achieved_records_per_second - 10.0).abs() < 0.1, "{rates:?}");
        assert!((rates.sent_records_per_second - 10.0).abs() < 0.1, "{rates:?}");
        assert!((rates.achieved_over_seconds - 5.5).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn b6_too_short_a_time_gives_no_rate() {
        let achieved = Achieved::default();
        achieved.keep(0, main(0, 0));
        assert!(achieved.rates_of(1_250_000, &main(833, 833)).is_empty());
        let rates = achieved.rates_of(1_000_000_000, &main(100, 100))["main"];
        assert!((rates.achieved_records_per_second - 100.0).abs() < 1e-9, "{rates:?}");
    }
}
