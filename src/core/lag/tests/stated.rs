//! Lag as the system states it.

use super::*;

#[test]
fn stated_records_are_taken_as_they_are_and_give_an_age() {
    let mut world = World::new(2, 50);
    world.load(1000, 0, MS);
    let mut tracker = LagTracker::new(ValueKind::LagRecords, 0, OnReset::True);
    for progress in [Progress::Total(200), by_partition([Some(100), Some(100)])] {
        let seen = world.observe(&mut tracker, 3 * S, progress);
        let Reading { lag_records, lag_ns, progress_records, stated, .. } = seen.reading;
        assert_eq!((lag_records, progress_records, stated), (Some(200), Some(800.0), true));
        let lag_ns = lag_ns.unwrap();
        assert!((2200 * MS..=2200 * MS + POINT_NS).contains(&lag_ns), "{lag_ns}");
        assert!(!seen.reading.lag_at_least && seen.resets.is_empty());
    }
    // More than this run has sent.
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(5000));
    assert_eq!((seen.reading.lag_records, seen.reading.progress_records), (Some(5000), Some(0.0)));
    assert!(seen.reading.lag_at_least && seen.resets.is_empty());
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(0));
    assert!(seen.reading.caught_up && seen.reading.lag_ns == Some(0));
}

#[test]
fn stated_seconds_are_the_greatest_of_the_partitions_and_tell_no_records() {
    let world = World::new(2, 0);
    let mut tracker = LagTracker::new(ValueKind::LagSeconds, 1, OnReset::True);
    let seen = world.observe(&mut tracker, 9 * S, by_partition([Some(3 * S), Some(2 * S)]));
    let Reading { lag_records, lag_ns, progress_records, stated, caught_up, .. } = seen.reading;
    assert_eq!((lag_records, lag_ns, progress_records), (None, Some(3 * S), None));
    assert!(stated && !caught_up && seen.unknown_reason.is_none());
    assert_eq!(seen.partitions.len(), 2);
    let seen = world.observe(&mut tracker, 9 * S, Progress::Total(S));
    assert_eq!((seen.reading.lag_ns, seen.reading.caught_up), (Some(S), true), "one second is tolerated");
    let seen = world.observe(&mut tracker, 9 * S, by_partition([None, None]));
    assert_eq!((seen.reading.lag_ns, seen.unknown_reason.as_deref()), (None, Some("no value yet")));
}

#[test]
fn s8_a_stated_lag_shows_whether_the_system_moves() {
    let mut world = World::new(1, 0);
    let mut records = LagTracker::new(ValueKind::LagRecords, 0, OnReset::True);
    let mut seconds = LagTracker::new(ValueKind::LagSeconds, 0, OnReset::True);
    for second in 1..20_u64 {
        world.load(100, second * S, MS);
        // It keeps up, then stands still from second 10 on, then reads again from the start in second 15.
        let behind = match second {
            1..=9 => 50,
            10..=14 => 50 + (second - 10) * 100,
            _ => 1450 - (second - 15) * 300,
        };
        let seen = world.observe(&mut records, second * S, Progress::Total(behind));
        let expected = !(10..=15).contains(&second);
        assert_eq!(seen.moved, expected || second == 10, "records in second {second}");
        // Whole seconds, cut off.
        let lag_ns = match second {
            1..=9 => S,
            _ => (second - 9) * S,
        };
        let seen = world.observe(&mut seconds, second * S + second % 3 * 300 * MS, Progress::Total(lag_ns));
        assert!(second > 10 || seen.moved || second % 3 == 0, "seconds in second {second}");
        assert!(second <= 11 || !seen.moved, "seconds in second {second}");
    }
    assert_eq!(records.resets(), 0);
}

#[test]
fn s8_a_system_that_stands_still_and_looks_at_the_broker_at_its_own_times_does_not_move() {
    let mut world = World::new(1, 0);
    let mut tracker = LagTracker::new(ValueKind::LagRecords, 0, OnReset::True);
    let mut moved = Vec::new();
    for second in 1..30_u64 {
        world.load(600, second * S, S / 600);
        // Its lag is of a look up to 40 ms ago; it has done 300 records.
        let behind = second * 600 - 300 - (second * 7) % 25;
        moved.push(world.observe(&mut tracker, (second + 1) * S, Progress::Total(behind)).moved);
    }
    assert_eq!(moved.iter().filter(|moved| **moved).count(), 1, "the first look: {moved:?}");
}
