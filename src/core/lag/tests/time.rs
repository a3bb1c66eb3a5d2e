//! Lag by event time.

use super::*;

/// A stream with a record a millisecond in turn over two partitions, from second 1 on.
fn world() -> World {
    let mut world = World::new(2, 0);
    world.load(1000, S, MS);
    world
}

fn tracker() -> LagTracker {
    LagTracker::new(ValueKind::EventTime, 0, OnReset::True)
}

#[test]
fn one_time_over_all_partitions_is_looked_up_in_each() {
    let (world, mut tracker) = (world(), tracker());
    // Everything of second 1.0 to 1.799 is visible.
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(1799));
    let records = seen.reading.lag_records.unwrap();
    assert!((200..=200 + 2 * 5).contains(&records), "{records}");
    let lag_ns = seen.reading.lag_ns.unwrap();
    assert!((1200 * MS..=1201 * MS).contains(&lag_ns), "{lag_ns}");
    assert!(seen.moved && seen.ahead_ns.is_none() && seen.partitions.is_empty());
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(1999));
    assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (Some(0), Some(0)));
    assert!(seen.reading.caught_up);
}

#[test]
fn a_time_from_before_the_run_is_no_progress_and_one_that_falls_is_a_reset() {
    let (world, mut tracker) = (world(), tracker());
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(0));
    assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (Some(1000), Some(2 * S)));
    world.observe(&mut tracker, 3 * S, Progress::Total(1500));
    let seen = world.observe(&mut tracker, 4 * S, Progress::Total(1200));
    assert_eq!((seen.reset(), tracker.resets()), (Some((1500, 1200)), 1));
}

#[test]
fn l13_a_time_in_the_future_is_taken_as_now_and_told() {
    let (world, mut tracker) = (world(), tracker());
    for progress in [Progress::Total(7000), by_partition([Some(7000), Some(1999)])] {
        let seen = world.observe(&mut tracker, 2 * S, progress);
        assert_eq!((seen.reading.lag_records, seen.reading.lag_ns), (Some(0), Some(0)));
        assert_eq!(seen.ahead_ns, Some(5 * S));
    }
    let seen = world.observe(&mut tracker, 2 * S, Progress::Total(1999));
    assert_eq!(seen.ahead_ns, None);
}

#[test]
fn a_time_that_no_clock_is_ahead_by_is_no_figure() {
    let (world, mut tracker) = (world(), tracker());
    for progress in [Progress::Total(1_799_000), by_partition([Some(1_799_000), Some(1999)])] {
        let seen = world.observe(&mut tracker, 3 * S, progress);
        assert_eq!(
            (seen.reading.lag_records, seen.reading.lag_ns, seen.reading.caught_up),
            (None, None, false)
        );
        assert!(seen.unknown_reason.unwrap().contains("1796 s in the future"));
        assert_eq!(seen.ahead_ns, Some(1796 * S));
    }
    // And leaves nothing behind.
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(1999));
    assert_eq!((seen.reading.lag_records, tracker.resets()), (Some(0), 0));
}

#[test]
fn times_since_1970_are_put_on_the_daemons_clock() {
    let (world, clock) = (world(), Clock::start());
    let mut tracker = tracker().with_clock(clock);
    let newest_ms = u64::try_from(clock.wall_ms(1799 * MS)).unwrap();
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(newest_ms));
    let lag_ns = seen.reading.lag_ns.unwrap();
    assert!((1199 * MS..=1202 * MS).contains(&lag_ns), "{lag_ns}");
    let seen = world.observe(&mut tracker, 3 * S, Progress::Total(5));
    assert_eq!(seen.reading.lag_records, Some(1000), "1970 was before the run");
}
