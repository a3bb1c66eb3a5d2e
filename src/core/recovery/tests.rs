use super::*;

const S: u64 = 1_000_000_000;

fn look(at_s: u64, lag_s: u64) -> Look {
    Look { at_ns: at_s * S, fell: false, moved: true, caught_up: lag_s == 0, lag_ns: Some(lag_s * S) }
}

/// Seen for so many seconds at two seconds of lag.
fn steady(seconds: u64) -> Recoveries {
    let mut recoveries = Recoveries::new(S);
    for second in 0..seconds {
        assert_eq!(recoveries.good(look(second, 2)), None);
    }
    assert_eq!(recoveries.last(), None);
    recoveries
}

#[test]
fn an_outage_under_load_is_over_when_lag_is_what_it_was() {
    let mut recoveries = steady(100);
    for second in 100..110 {
        recoveries.failed(second * S);
    }
    let away = Recovery { trouble: Trouble::Away, began_ns: 100 * S, back_ns: None, caught_up_ns: None };
    assert_eq!(recoveries.last(), Some(away));
    for (second, lag) in (110..117).zip([12, 11, 9, 7, 6, 5, 4]) {
        assert_eq!(recoveries.good(look(second, lag)), None);
        assert_eq!(recoveries.last().unwrap().back_ns, Some(10 * S));
    }
    // Two seconds as before, and one that an interval may hide.
    let over = Recovery { back_ns: Some(10 * S), caught_up_ns: Some(17 * S), ..away };
    assert_eq!(recoveries.good(look(117, 3)), Some(over));
    assert_eq!(recoveries.good(look(118, 2)), None);
    assert_eq!(recoveries.last(), Some(over));
}

#[test]
fn l3_a_fall_begins_one_and_more_trouble_belongs_to_it() {
    let mut recoveries = steady(50);
    assert_eq!(recoveries.good(Look { fell: true, ..look(50, 50) }), None);
    assert_eq!(
        recoveries.last(),
        Some(Recovery { trouble: Trouble::Fell, began_ns: 50 * S, back_ns: Some(0), caught_up_ns: None })
    );
    recoveries.failed(53 * S);
    assert_eq!(recoveries.last().unwrap().back_ns, None);
    recoveries.good(Look { fell: true, ..look(56, 40) });
    // Not known is not caught up.
    recoveries.good(Look { lag_ns: None, ..look(57, 1) });
    let over = Recovery {
        trouble: Trouble::Fell,
        began_ns: 50 * S,
        back_ns: Some(6 * S),
        caught_up_ns: Some(20 * S),
    };
    assert_eq!(recoveries.good(look(70, 0)), Some(over));
    // The next is another one.
    recoveries.failed(90 * S);
    assert_eq!(
        recoveries.last(),
        Some(Recovery { trouble: Trouble::Away, began_ns: 90 * S, back_ns: None, caught_up_ns: None })
    );
}

#[test]
fn a_system_that_was_never_there_does_not_come_back() {
    let mut recoveries = Recoveries::new(S);
    recoveries.failed(S);
    assert_eq!(recoveries.good(Look { fell: true, ..look(2, 9) }), None);
    assert_eq!(recoveries.last(), None);
}

#[test]
fn what_was_usual_long_ago_is_forgotten() {
    let mut recoveries = steady(10);
    recoveries.good(look(10, 500));
    for second in 11..100 {
        recoveries.good(look(second, 1));
    }
    recoveries.failed(100 * S);
    assert_eq!(recoveries.good(look(130, 30)), None);
    assert!(recoveries.good(look(140, 2)).is_some());
}

#[test]
fn a_standstill_is_over_when_it_moves_and_the_lag_is_what_it_was() {
    let mut recoveries = steady(100);
    let still = |at_s: u64, lag_s: u64| Look { moved: false, ..look(at_s, lag_s) };
    // The last movement was seen at 99 s; ten seconds without one are a standstill.
    for second in 100..109 {
        assert_eq!(recoveries.good(still(second, second - 97)), None);
        assert_eq!(recoveries.last(), None);
    }
    recoveries.stood_still(109 * S, 10 * S);
    for second in 109..120 {
        assert_eq!(recoveries.good(still(second, second - 97)), None);
    }
    let began = Recovery { trouble: Trouble::StoodStill, began_ns: 99 * S, ..Recovery::default() };
    assert_eq!(recoveries.last(), Some(began), "it does not move yet, and was never further behind before");
    assert_eq!(recoveries.good(look(120, 15)), None);
    assert_eq!(recoveries.last().unwrap().back_ns, Some(21 * S));
    assert_eq!(recoveries.good(look(125, 4)), None);
    let over = Recovery { back_ns: Some(21 * S), caught_up_ns: Some(27 * S), ..began };
    assert_eq!(recoveries.good(look(126, 3)), Some(over));
}

#[test]
fn the_peaks_before_a_flush_are_usual_and_a_failed_poll_in_a_standstill_belongs_to_it() {
    let mut recoveries = Recoveries::new(S);
    // Blocks of eight seconds.
    for second in 0..40 {
        let moved = second % 8 == 0;
        recoveries.good(Look { moved, ..look(second, 1 + second % 8) });
    }
    recoveries.stood_still(52 * S, 20 * S);
    recoveries.failed(53 * S);
    recoveries.good(Look { moved: false, ..look(54, 23) });
    assert_eq!(recoveries.last().unwrap().back_ns, None, "answering is not moving");
    assert_eq!(recoveries.good(look(60, 12)), None);
    let over = recoveries.good(look(61, 9)).unwrap();
    assert_eq!((over.began_ns, over.back_ns, over.caught_up_ns), (32 * S, Some(28 * S), Some(29 * S)));
}
