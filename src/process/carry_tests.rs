//! Restarts, gaps, falls and first readings of sources that count themselves: with readings given.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: f64) -> Moment {
    let from_ns = (seconds * 1e9) as u64;
    Moment { from_ns, to_ns: from_ns + 100_000 }
}

fn totals(identity: u64, user: u64, system: u64) -> Totals {
    Totals {
        identity,
        counters: Counters {
            cpu_user_ns: Some(user),
            cpu_system_ns: Some(system),
            oom_kills: Some(3),
            ..Counters::default()
        },
        gauges: ProcessStatus { pid: Some(7), processes: 2, ..ProcessStatus::default() },
        ..Totals::default()
    }
}

fn take(carry: &mut Carry, totals: &Totals, seconds: f64) -> (Change, ProcessStatus) {
    let mut status = ProcessStatus::default();
    let change = carry.take(totals, at(seconds), 4.0, &mut status);
    (change, status)
}

#[test]
fn the_first_reading_is_not_published_and_counting_begins_with_it() {
    let mut carry = Carry::default();
    let (change, first) = take(&mut carry, &totals(1, 500, 50), 10.0);
    assert_eq!((change, first.up, first.pid), (Change::Found, true, Some(7)));
    assert_eq!((first.cpu_user_ns, first.cpu_cores, first.oom_kills), (None, None, None));
    let (change, second) = take(&mut carry, &totals(1, 500 + SECOND, 50 + SECOND / 2), 11.0);
    assert_eq!(
        (change, second.cpu_user_ns, second.cpu_system_ns),
        (Change::Same, Some(SECOND), Some(SECOND / 2))
    );
    assert!((second.cpu_cores.unwrap() - 1.5).abs() < 1e-6);
    assert_eq!((second.oom_kills, second.cpu_throttled_ns), (Some(0), None), "unknown is not zero");
}

#[test]
fn another_identity_or_cpu_time_that_fell_is_a_restart_and_carries_on() {
    for (identity, user) in [(2, 900), (1, 10)] {
        let mut carry = Carry::default();
        take(&mut carry, &totals(1, 0, 0), 0.0);
        take(&mut carry, &totals(1, 700, 70), 1.0);
        let (change, after) = take(&mut carry, &totals(identity, user, 0), 2.0);
        assert_eq!((change, after.restarts, after.cpu_cores), (Change::Restarted, 1, None));
        assert_eq!((after.cpu_user_ns, after.cpu_system_ns), (Some(700), Some(70)));
        let (change, after) = take(&mut carry, &totals(identity, user + 5, 5), 3.0);
        assert_eq!((change, after.cpu_user_ns, after.cpu_system_ns), (Change::Same, Some(705), Some(75)));
    }
}

#[test]
fn a_replaced_process_whose_counters_go_on_is_a_restart_that_loses_nothing() {
    let mut carry = Carry::default();
    take(&mut carry, &totals(1, 0, 0), 0.0);
    let (change, after) = take(&mut carry, &Totals { replaced: true, ..totals(1, SECOND, 0) }, 1.0);
    assert_eq!((change, after.restarts, after.cpu_user_ns), (Change::Restarted, 1, Some(SECOND)));
    assert!((after.cpu_cores.unwrap() - 1.0).abs() < 1e-6);
}

#[test]
fn a_lost_process_leaves_counters_only_and_its_return_is_no_restart() {
    let mut carry = Carry::default();
    let mut status = ProcessStatus::default();
    assert_eq!(carry.lose(&mut status), Change::Same, "never seen is not lost");
    take(&mut carry, &totals(1, 0, 0), 0.0);
    take(&mut carry, &totals(1, 100, 0), 1.0);
    assert_eq!(carry.lose(&mut status), Change::Lost);
    let counters = ProcessStatus {
        cpu_user_ns: Some(100),
        cpu_system_ns: Some(0),
        oom_kills: Some(0),
        ..ProcessStatus::default()
    };
    assert_eq!(status, counters);
    assert_eq!(carry.lose(&mut status), Change::Same);
    let (change, back) = take(&mut carry, &totals(1, 2 * SECOND + 100, 0), 3.0);
    assert_eq!((change, back.restarts, back.cpu_user_ns), (Change::Found, 0, Some(2 * SECOND + 100)));
    assert!((back.cpu_cores.unwrap() - 1.0).abs() < 1e-3, "over the whole time: {:?}", back.cpu_cores);
}

#[test]
fn a_source_that_does_not_tell_user_from_system_has_cores_all_the_same() {
    let mut carry = Carry::default();
    let of = |ns| Totals {
        counters: Counters { cpu_unsplit_ns: Some(ns), ..Counters::default() },
        ..Totals::default()
    };
    take(&mut carry, &of(5), 0.0);
    let (_, status) = take(&mut carry, &of(5 + 2 * SECOND), 1.0);
    assert_eq!((status.cpu_unsplit_ns, status.cpu_user_ns), (Some(2 * SECOND), None));
    assert!((status.cpu_cores.unwrap() - 2.0).abs() < 1e-6);
    assert_eq!(status.cpu_ns(), Some(2 * SECOND));
}

#[test]
fn without_any_cpu_time_there_are_no_cores() {
    let mut carry = Carry::default();
    for second in 0..3_u32 {
        let (_, status) = take(&mut carry, &Totals::default(), f64::from(second));
        assert_eq!(status.cpu_cores, None);
    }
}

proptest! {
    #[test]
    fn m2_no_reading_makes_a_counter_fall_and_none_counts_more_than_was_used(
        steps in proptest::collection::vec((0_u64..3, proptest::option::of(0_u64..1_000), any::<bool>()), 1..40),
    ) {
        let mut carry = Carry::default();
        let (mut last, mut most, mut begin) = (0, 0_u64, None::<(u64, u64)>);
        for (second, (identity, user, lost)) in (0_u32..).zip(steps) {
            let mut status = ProcessStatus::default();
            if lost {
                carry.lose(&mut status);
            } else {
                let mut totals = totals(identity, 0, 0);
                (totals.counters.cpu_user_ns, totals.counters.cpu_system_ns) = (user, None);
                carry.take(&totals, at(f64::from(second)), 4.0, &mut status);
                // What was used between two readings of one identity is all that can be counted.
                if let Some(user) = user {
                    if let Some((before, at)) = begin.filter(|(before, _)| *before == identity) {
                        let _ = before;
                        most += user.saturating_sub(at);
                    }
                    begin = Some((identity, user));
                } else if begin.is_some_and(|(before, _)| before != identity) {
                    begin = None;
                }
                prop_assert!(status.cpu_cores.is_none_or(|cores| (0.0..=4.0).contains(&cores)));
            }
            let counted = status.cpu_user_ns.unwrap_or(last);
            prop_assert!(counted >= last && counted <= most, "{counted} after {last}, at most {most}");
            last = counted;
        }
    }
}
