use proptest::prelude::*;

use super::*;

const S: u64 = 1_000_000_000;

#[test]
fn an_episode_is_counted_once_and_its_time_in_full() {
    let mut standstill = Standstill::new(2 * S);
    assert_eq!(standstill.observe(0, Some((100, true, false))), None);
    assert_eq!(standstill.observe(S, Some((100, false, false))), None);
    assert_eq!((standstill.count(), standstill.total_ns()), (0, 0));
    assert_eq!(standstill.observe(2 * S, Some((200, false, false))), Some(Change::Began { ns: 2 * S }));
    assert_eq!((standstill.count(), standstill.total_ns(), standstill.longest_ns()), (1, 2 * S, 2 * S));
    assert_eq!(standstill.observe(3 * S, Some((300, false, false))), None);
    assert_eq!((standstill.count(), standstill.total_ns(), standstill.longest_ns()), (1, 3 * S, 3 * S));
    // Up to the sample that shows progress again.
    assert_eq!(standstill.observe(4 * S, Some((300, true, false))), Some(Change::Ended { ns: 4 * S }));
    assert_eq!((standstill.count(), standstill.total_ns(), standstill.longest_ns()), (1, 4 * S, 4 * S));
}

#[test]
fn idle_caught_up_tolerated_or_batched_is_no_standstill() {
    let mut standstill = Standstill::new(2 * S);
    for second in 0..100 {
        // Nothing to do; a residual that counts as caught up; a figure that moves every other poll.
        assert_eq!(standstill.observe(second * S, Some((0, false, true))), None);
    }
    for second in 100..200 {
        assert_eq!(standstill.observe(second * S, Some((4, false, true))), None);
    }
    for second in 200..300 {
        assert_eq!(standstill.observe(second * S, Some((50, second % 2 == 0, false))), None);
    }
    assert_eq!((standstill.count(), standstill.total_ns()), (0, 0));
}

#[test]
fn a_system_that_ingests_in_blocks_stands_still_only_when_blocks_are_missing() {
    // A look each second at a figure that moves every 7.5 s, as ClickHouse's does.
    let blocks = |second: u64| second * 2 / 15;
    let mut standstill = Standstill::new(10 * S);
    for second in 1..600 {
        let moved = blocks(second) > blocks(second - 1);
        assert_eq!(standstill.observe(second * S, Some((1_000, moved, false))), None, "at {second} s");
    }
    for second in 600..=607 {
        standstill.observe(second * S, Some((1_000, second == 600, false)));
    }
    let told: Vec<_> = (608..=615)
        .filter_map(|second| standstill.observe(second * S, Some((1_000, false, false))))
        .collect();
    assert_eq!(told, [Change::Began { ns: 10 * S }], "two blocks did not come");
    assert_eq!(standstill.total_ns(), 15 * S);
}

#[test]
fn time_counts_from_when_all_was_ingested_and_not_while_it_is() {
    let mut standstill = Standstill::new(20 * S);
    for second in 0..=10 {
        standstill.observe(second * 10 * S, Some((0, false, true)));
    }
    standstill.observe(110 * S, Some((5, false, false)));
    assert_eq!(standstill.observe(120 * S, Some((5, false, false))), Some(Change::Began { ns: 20 * S }));
    // All ingested at once is an end too.
    assert_eq!(standstill.observe(130 * S, Some((0, true, true))), Some(Change::Ended { ns: 30 * S }));
}

#[test]
fn unknown_time_is_not_counted_and_ends_nothing() {
    let mut standstill = Standstill::new(2 * S);
    for second in 0..4 {
        standstill.observe(second * S, Some((9, second == 0, false)));
    }
    assert_eq!((standstill.count(), standstill.total_ns()), (1, 3 * S));
    for second in 4..60 {
        assert_eq!(standstill.observe(second * S, None), None);
    }
    assert_eq!(standstill.total_ns(), 3 * S);
    assert_eq!(standstill.observe(60 * S, Some((9, false, false))), None);
    assert_eq!(standstill.observe(61 * S, Some((9, false, false))), None);
    assert_eq!((standstill.count(), standstill.total_ns()), (1, 4 * S));
    standstill.observe(62 * S, None);
    assert_eq!(standstill.observe(63 * S, Some((9, true, false))), Some(Change::Ended { ns: 4 * S }));
}

proptest! {
    /// A system that moves all the time but for some pauses, looked at at any pace: each pause is found to within a poll,
    /// and none that there was not.
    #[test]
    fn every_pause_is_as_long_as_it_was_to_within_a_poll(
        interval_ms in 50_u64..3_000,
        phase_ms in 0_u64..3_000,
        pauses in prop::collection::vec((30_000_u64..60_000, 30_000_u64..90_000), 1..6),
    ) {
        const MS: u64 = 1_000_000;
        let threshold_ms = 10_000;
        let mut standstill = Standstill::new(threshold_ms * MS);
        let end_ms = pauses.iter().map(|(before, pause)| before + pause).sum::<u64>() + 30_000;
        // Progress in milliseconds of work.
        let progress = |at_ms: u64| {
            let (mut left, mut done) = (at_ms, 0);
            for (before, pause) in &pauses {
                done += left.min(*before);
                left = left.saturating_sub(*before).saturating_sub(*pause);
            }
            done + left
        };
        let (mut at_ms, mut ended, mut last) = (phase_ms, Vec::new(), 0);
        while at_ms < end_ms {
            let now = progress(at_ms);
            if let Some(Change::Ended { ns }) = standstill.observe(at_ms * MS, Some((9, now > last, false))) {
                ended.push(ns / MS);
            }
            last = now;
            at_ms += interval_ms;
        }
        prop_assert_eq!(ended.len(), pauses.len());
        prop_assert_eq!(standstill.count(), pauses.len() as u64);
        for (found, (_, pause)) in ended.iter().zip(&pauses) {
            prop_assert!(found.abs_diff(*pause) <= interval_ms, "{} for {}", found, pause);
        }
        prop_assert_eq!(standstill.total_ns() / MS, ended.iter().sum::<u64>());
        prop_assert_eq!(standstill.longest_ns() / MS, ended.iter().copied().max().unwrap_or(0));
    }
}
