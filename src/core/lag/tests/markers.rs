//! Freshness by markers.

use super::*;
use crate::core::marker::{Fate, Markers};

/// Two partitions with markers.
#[derive(Default)]
struct Sent([Markers; 2]);

impl Records for Sent {
    fn find(&self, _: u32, _: Key) -> Option<Found> {
        None
    }

    fn timelines(&self) -> Vec<Timeline> {
        Vec::new()
    }

    fn markers_after(&self, partition: u32, number: Option<u64>) -> Vec<Marker> {
        self.0[partition as usize].after(number).copied().collect()
    }
}

impl Sent {
    /// Marker n is intended at second n; those up to this one are sent and acked in both partitions.
    fn acked(upto: u64) -> Self {
        let mut sent = Self::default();
        for number in 0..=upto {
            for markers in &mut sent.0 {
                markers.sent(number, number * S);
                markers.report(number, Fate::Acked);
            }
        }
        sent
    }

    fn observe(&self, tracker: &mut LagTracker, at_ns: u64, progress: Progress) -> Observation {
        let acked = |markers: &Markers| {
            let newest = markers.iter().rev().find(|marker| marker.fate == Fate::Acked);
            newest.map(|marker| marker.number)
        };
        let sample = Sample {
            asked_ns: at_ns,
            answered_ns: at_ns,
            heads_before: vec![Head::default(); 2],
            heads_after: vec![Head::default(); 2],
            markers_before: self.0.iter().map(acked).collect(),
            progress,
        };
        tracker.observe(&sample, self)
    }
}

fn tracker() -> LagTracker {
    LagTracker::new(ValueKind::Marker, 0, OnReset::True)
}

#[test]
fn a_marker_is_fresh_once_and_missing_until_then() {
    let mut tracker = tracker();
    let seen = Sent::acked(3).observe(&mut tracker, 4 * S, by_partition([Some(3), Some(1)]));
    assert_eq!(seen.freshness_ns, [4 * S, 3 * S, 2 * S, S, 4 * S, 3 * S]);
    assert_eq!(seen.oldest_unseen_ns, Some(2 * S), "marker 2 of partition 1");
    let Reading { lag_records, lag_ns, caught_up, .. } = seen.reading;
    assert_eq!((lag_records, lag_ns, caught_up), (None, Some(2 * S), false));
    let unseen: Vec<_> = seen.partitions.iter().map(|one| (one.value, one.lag_ns)).collect();
    assert_eq!(unseen, [(Some(3), Some(0)), (Some(1), Some(2 * S))]);
    let seen = Sent::acked(3).observe(&mut tracker, 5 * S, by_partition([Some(3), Some(3)]));
    assert_eq!(seen.freshness_ns, [3 * S, 2 * S]);
    assert_eq!((seen.oldest_unseen_ns, seen.reading.caught_up), (Some(0), true));
    let seen = Sent::acked(3).observe(&mut tracker, 9 * S, by_partition([Some(3), Some(3)]));
    assert!(seen.freshness_ns.is_empty() && !seen.moved && seen.reading.caught_up);
}

#[test]
fn no_row_means_that_no_marker_is_visible() {
    for progress in [Progress::NoData("no rows".into()), by_partition([None, None])] {
        let seen = Sent::acked(2).observe(&mut tracker(), 10 * S, progress);
        assert_eq!((seen.oldest_unseen_ns, seen.reading.lag_ns), (Some(10 * S), Some(10 * S)));
        assert_eq!(seen.unknown_reason, None);
    }
    let before_the_first = Sent::default().observe(&mut tracker(), S, Progress::NoData("no rows".into()));
    assert_eq!(before_the_first.oldest_unseen_ns, Some(0));
}

#[test]
fn what_is_lost_or_not_acked_is_not_missed_and_what_shows_all_the_same_is_fresh() {
    let mut sent = Sent::acked(1);
    for (number, fate) in [(2, Fate::Lost), (3, Fate::InFlight), (4, Fate::Acked)] {
        sent.0[0].sent(number, number * S);
        sent.0[0].report(number, fate);
    }
    let mut tracker = tracker();
    let seen = sent.observe(&mut tracker, 9 * S, by_partition([Some(1), Some(1)]));
    assert_eq!((seen.oldest_unseen_ns, seen.reading.caught_up), (Some(5 * S), false), "number 4");
    let seen = sent.observe(&mut tracker, 9 * S, by_partition([Some(3), Some(1)]));
    assert_eq!(seen.freshness_ns, [7 * S, 6 * S]);
}

#[test]
fn a_marker_acked_while_the_system_was_asked_is_not_missed() {
    let (sent, mut tracker) = (Sent::acked(5), tracker());
    let sample = Sample {
        asked_ns: 5 * S,
        answered_ns: 6 * S,
        heads_before: vec![Head::default(); 2],
        heads_after: vec![Head::default(); 2],
        markers_before: vec![Some(4), None],
        progress: by_partition([Some(4), Some(4)]),
    };
    assert_eq!(tracker.observe(&sample, &sent).oldest_unseen_ns, Some(0));
}

#[test]
fn numbers_that_this_run_has_not_sent_are_an_earlier_runs() {
    let mut tracker = tracker();
    let seen = Sent::acked(3).observe(&mut tracker, 4 * S, by_partition([Some(900), Some(3)]));
    assert_eq!((seen.reading.unknown_partitions, seen.oldest_unseen_ns), (1, Some(0)));
    assert!(!seen.reading.caught_up && seen.freshness_ns.len() == 4);
    let seen = Sent::acked(3).observe(&mut tracker, 4 * S, by_partition([Some(900), Some(900)]));
    assert_eq!((seen.reading.lag_ns, seen.oldest_unseen_ns), (None, None));
    assert!(seen.unknown_reason.unwrap().contains("earlier run"));
}

#[test]
fn markers_that_show_again_after_a_reset_are_not_fresh_again() {
    let (sent, mut tracker) = (Sent::acked(9), tracker());
    assert_eq!(sent.observe(&mut tracker, 10 * S, by_partition([Some(9), Some(9)])).freshness_ns.len(), 20);
    let seen = sent.observe(&mut tracker, 11 * S, by_partition([Some(4), Some(9)]));
    assert_eq!((seen.reset(), seen.oldest_unseen_ns), (Some((9, 4)), Some(6 * S)));
    let seen = sent.observe(&mut tracker, 12 * S, by_partition([Some(9), Some(9)]));
    assert_eq!((seen.freshness_ns.len(), seen.oldest_unseen_ns), (0, Some(0)));
}
