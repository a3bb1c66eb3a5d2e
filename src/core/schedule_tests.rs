//! The schedule alone: limits, pauses, targets.

use super::*;
use crate::core::rate::Rate;

const SECOND: u64 = 1_000_000_000;

fn rate(records_per_second: f64) -> Rate {
    Rate::from_per_second(records_per_second).unwrap()
}

#[test]
fn r4_thirty_a_second_for_thirty_seconds_is_nine_hundred() {
    let mut schedule = Schedule::new(rate(30.0), 1, Some(30 * SECOND), None);
    schedule.start(17);
    assert_eq!(schedule.due(17), 0);
    assert_eq!(schedule.due(18), 1);
    assert!(!schedule.ended(16 + 30 * SECOND));
    assert!(schedule.ended(17 + 30 * SECOND));
    assert_eq!(schedule.due(u64::MAX), 900);
}

#[test]
fn r7_rate_zero_is_nothing_at_all() {
    let mut schedule = Schedule::new(Rate::ZERO, 1, None, None);
    schedule.start(0);
    assert_eq!(schedule.due(u64::MAX), 0);
    schedule.set_rate(5 * SECOND, rate(1.0));
    assert_eq!(schedule.due(6 * SECOND), 1);
    schedule.set_rate(6 * SECOND, Rate::ZERO);
    assert_eq!(schedule.due(u64::MAX), 1);
}

#[test]
fn a_pause_of_the_load_stops_its_clock_and_is_no_debt() {
    let mut schedule = Schedule::new(rate(10.0), 1, Some(10 * SECOND), None);
    schedule.start(0);
    assert!(schedule.set_held(4 * SECOND, true));
    assert!(!schedule.set_held(5 * SECOND, true), "a second pause is harmless");
    assert_eq!(schedule.due(3_600 * SECOND), 40);
    assert!(!schedule.ended(3_600 * SECOND), "a paused run does not end");
    assert!(schedule.set_held(100 * SECOND, false));
    assert_eq!(schedule.due(u64::MAX), 100);
    assert!(schedule.ended(106 * SECOND));
    assert_eq!(schedule.ran_ns(200 * SECOND), 10 * SECOND);
}

#[test]
fn a_pause_of_one_stream_lets_the_clock_run() {
    let mut schedule = Schedule::new(rate(10.0), 1, Some(10 * SECOND), None);
    schedule.start(0);
    schedule.set_paused(4 * SECOND, true);
    schedule.set_paused(8 * SECOND, false);
    assert_eq!(schedule.due(u64::MAX), 60);
}

#[test]
fn the_target_follows_pause_limit_and_stop() {
    let mut schedule = Schedule::new(rate(10.0), 1, None, Some(25));
    assert_eq!(schedule.target_now(0), Pace::default());
    schedule.start(0);
    assert_eq!(schedule.target_now(1), rate(10.0).into());
    schedule.set_held(SECOND, true);
    assert_eq!((schedule.target_now(SECOND), schedule.pace(SECOND)), (Pace::default(), rate(10.0).into()));
    schedule.set_held(SECOND, false);
    assert_eq!(schedule.due(100 * SECOND), 25);
    assert!(schedule.ended(100 * SECOND));
    let mut schedule = Schedule::new(rate(10.0), 1, None, None);
    schedule.start(0);
    schedule.stop(SECOND);
    assert_eq!((schedule.due(u64::MAX), schedule.target_now(SECOND)), (10, Pace::default()));
    assert!(!schedule.set_rate(2 * SECOND, rate(5.0)), "after a stop nothing changes");
}

#[test]
fn phases_are_kept_only_until_every_lane_has_seen_them() {
    let mut schedule = Schedule::new(rate(1.0), 2, None, None);
    schedule.start(0);
    for i in 1..1000 {
        schedule.set_rate(i, rate(1.0 + i as f64));
        let mut taken = 0;
        schedule.catch_up(0, i, |_| taken += 1);
        assert!(taken > 0);
    }
    assert_eq!(schedule.phases.len(), 1000);
    let mut bases = Vec::new();
    schedule.catch_up(1, 1000, |phase| bases.push(phase.base));
    assert_eq!(bases.len(), 1000);
    assert!(bases.is_sorted());
    assert_eq!(schedule.phases.len(), 1);
    schedule.catch_up(1, 1000, |_| panic!("nothing is new"));
}

#[test]
fn the_load_is_live_from_its_start_to_its_end_but_for_pauses() {
    let mut schedule = Schedule::new(Rate::ZERO, 1, Some(10 * SECOND), Some(25));
    assert_eq!((schedule.live_until_ns(0), schedule.started_ns()), (0, None));
    schedule.start(5);
    assert_eq!(schedule.started_ns(), Some(5));
    assert_eq!(schedule.live_until_ns(SECOND), 5 + 10 * SECOND, "at rate 0, too");
    schedule.set_paused(SECOND, true);
    assert_eq!(schedule.live_until_ns(SECOND), 0);
    schedule.set_paused(2 * SECOND, false);
    schedule.set_held(2 * SECOND + 5, true);
    schedule.set_held(4 * SECOND + 5, false);
    assert_eq!(schedule.live_until_ns(5 * SECOND), 5 + 12 * SECOND);
    schedule.set_rate(5 * SECOND, rate(10.0));
    assert_eq!(schedule.live_until_ns(7 * SECOND), 5 + 12 * SECOND);
    assert_eq!(schedule.live_until_ns(8 * SECOND), 0, "complete");
    let mut schedule = Schedule::new(rate(1.0), 1, None, None).with_preload(5);
    schedule.start_preload(0);
    assert_eq!((schedule.live_until_ns(SECOND), schedule.started_ns()), (0, None));
    schedule.start(2 * SECOND);
    assert_eq!(schedule.live_until_ns(3 * SECOND), u64::MAX);
    schedule.stop(4 * SECOND);
    assert_eq!(schedule.live_until_ns(4 * SECOND), 0);
}
