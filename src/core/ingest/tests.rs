use super::*;
use crate::core::lag::Reading;

const S: u64 = 1_000_000_000;

fn sample(at_ns: u64, records: u64) -> Observation {
    let reading = Reading { at_ns, progress_records: Some(records as f64), ..Reading::default() };
    Observation { reading, moved: true, ..Observation::default() }
}

fn assert_pace(ingest: &Ingest, expected: f64) {
    let pace = ingest.records_per_second().unwrap();
    assert!((pace / expected - 1.0).abs() < 0.01, "{pace} for {expected}");
}

#[test]
fn a_steady_system_has_its_pace_and_the_time_to_the_end_at_it() {
    let mut ingest = Ingest::default();
    for second in 0..2 {
        ingest.observe(&sample(second * S, second * 5000));
        assert_eq!((ingest.records_per_second(), ingest.catch_up_ns(10)), (None, None));
    }
    for second in 2..100 {
        ingest.observe(&sample(second * S, second * 5000));
        assert_pace(&ingest, 5000.0);
    }
    assert_eq!(ingest.catch_up_ns(100_000), Some(20 * S));
    assert_eq!(ingest.catch_up_ns(0), None, "nothing to catch up with");
    // Twice as fast: the window follows.
    for second in 100..140 {
        ingest.observe(&sample(second * S, 500_000 + (second - 100) * 10_000));
    }
    assert_pace(&ingest, 10_000.0);
}

#[test]
fn a_system_that_ingests_in_blocks_has_its_mean_pace_at_any_time() {
    let mut ingest = Ingest::default();
    for quarter in 0..400_u64 {
        let flushes = quarter * 250 / 7500;
        let seen =
            Observation { moved: quarter * 250 % 7500 == 0, ..sample(quarter * S / 4, flushes * 75_000) };
        ingest.observe(&seen);
        if quarter > 70 {
            assert_pace(&ingest, 10_000.0);
        }
    }
}

#[test]
fn s8_a_system_that_stops_gets_slower_and_then_has_no_pace() {
    let mut ingest = Ingest::default();
    for second in 0..20 {
        ingest.observe(&sample(second * S, second * 1000));
    }
    let mut before = ingest.records_per_second().unwrap();
    for second in 21..45 {
        ingest.observe(&Observation { moved: false, ..sample(second * S, 19_000) });
        let pace = ingest.records_per_second().unwrap();
        assert!(pace < before, "{pace} in second {second}");
        before = pace;
    }
    for second in 45..60 {
        ingest.observe(&Observation { moved: false, ..sample(second * S, 19_000) });
    }
    assert_eq!((ingest.records_per_second(), ingest.catch_up_ns(5)), (None, None));
}

#[test]
fn what_comes_after_a_long_standstill_has_its_own_pace() {
    let mut ingest = Ingest::default();
    let mut records = 0;
    for second in 0..60 {
        // It waits to be started, works, stops for fifteen seconds, and works faster.
        records += match second {
            0..10 | 20..35 => 0,
            10..20 => 400,
            _ => 1000,
        };
        ingest.observe(&Observation { moved: !(20..35).contains(&second), ..sample(second * S, records) });
        match second {
            11..20 => assert_pace(&ingest, 400.0),
            20..30 => assert!(ingest.records_per_second().unwrap() <= 400.0),
            36.. => assert_pace(&ingest, 1000.0),
            _ => {}
        }
    }
}

#[test]
fn l3_no_pace_is_taken_across_a_reset_or_a_partition_that_appears() {
    let mut ingest = Ingest::default();
    for second in 0..10 {
        ingest.observe(&sample(second * S, 100_000 + second * 500));
    }
    assert_pace(&ingest, 500.0);
    ingest.observe(&Observation { resets: vec![(104_500, 0)], ..sample(10 * S, 0) });
    assert_eq!(ingest.records_per_second(), None);
    for second in 11..14 {
        ingest.observe(&sample(second * S, (second - 10) * 500));
    }
    assert_pace(&ingest, 500.0);
    let mut appeared = sample(14 * S, 900_000);
    appeared.reading.unknown_partitions = 1;
    ingest.observe(&appeared);
    assert_eq!(ingest.records_per_second(), None);
    // No figure at all, and one that was stated and goes back by what came meanwhile.
    ingest.observe(&Observation::default());
    for (second, records) in [(20, 500), (21, 1000), (22, 1490), (23, 1480), (24, 2500)] {
        ingest.observe(&sample(second * S, records));
        assert!(ingest.records_per_second().is_none_or(|pace| pace > 0.0));
    }
    assert_pace(&ingest, 500.0);
}

#[test]
fn z1_polls_by_the_thousand_take_no_more_memory() {
    let mut ingest = Ingest::default();
    for milli in 0..100_000 {
        ingest.observe(&sample(milli * S / 1000, milli * 7));
    }
    assert!(ingest.moves.len() <= MAX_MOVES);
    assert_pace(&ingest, 7000.0);
}
