//! What is known of the system under test: lag, rates of ingestion, processes.

use std::sync::Arc;

use soakd::core::recovery::{Recovery, Trouble};
use soakd::report::WindowReport;

use super::*;

#[test]
fn s8_m4_unknown_time_is_coverage_and_not_good() {
    let mut sim = Sim::new();
    sim.target(10).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    for _ in 0..6 {
        sim.tick().at(SECOND).load(10, 10, MS).lag(100, SECOND);
    }
    // The source is down: the reading is kept for two more polls, and is not known all the same.
    for _ in 0..4 {
        sim.tick().at(SECOND).load(10, 10, MS).source().up = false;
    }
    sim.boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let source = &report.measured.as_ref().unwrap().sources["view"];
    assert_eq!(source.coverage, Some(0.6));
    assert_eq!(source.lag_records.unwrap().mean, 100.0);
    assert!(report.remarks.iter().any(|remark| remark.contains("known for 60.0 %")));
}

#[test]
fn l3_ingest_rates_are_not_taken_across_a_reset_or_a_gap() {
    let mut sim = Sim::new();
    sim.target(500).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    let mut progress = [100_000.0, 100_500.0, 101_000.0, 0.0, 500.0, 1_000.0].into_iter();
    for second in 0..10 {
        sim.tick().at(SECOND).load(500, 500, MS);
        let at_ns = sim.snapshot.now_ns;
        let source = sim.source();
        match second {
            // Two seconds without an answer, after which 5,000 records more are there.
            6 | 7 => source.up = false,
            8 | 9 => {
                source.up = true;
                let progress_records = Some(6_000.0 + f64::from(second - 8) * 500.0);
                source.reading =
                    Some(Reading { at_ns, progress_records, lag_records: Some(1), ..Reading::default() });
            }
            _ => {
                let progress_records = progress.next();
                source.resets = u64::from(second >= 3);
                source.reading =
                    Some(Reading { at_ns, progress_records, lag_records: Some(1), ..Reading::default() });
            }
        }
    }
    sim.boundary(Boundary::LoadEnd).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let source = &report.measured.unwrap().sources["view"];
    assert_eq!(source.resets, 1);
    assert_eq!(source.ingest_records_per_second, Some(500.0));
    assert_eq!(source.ingest_min_records_per_second, Some(500.0));
    assert_eq!(source.ingest_max_records_per_second, Some(500.0));
}

#[test]
fn l3_a_jump_over_a_reset_a_fall_or_a_silence_is_no_rate() {
    /// How the tenth sample differs from the nine before, which rose by 500 a second.
    struct Case {
        jump: f64,
        reset: bool,
        silence_seconds: u64,
    }
    let cases = [
        Case { jump: 90_000.0, reset: true, silence_seconds: 1 },
        Case { jump: -3_000.0, reset: false, silence_seconds: 1 },
        Case { jump: 90_000.0, reset: false, silence_seconds: 20 },
    ];
    for Case { jump, reset, silence_seconds } in cases {
        let mut sim = Sim::new();
        sim.target(500).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
        let mut progress = 0.0;
        for second in 0..20 {
            let tenth = second == 9;
            sim.tick().at(if tenth { silence_seconds * SECOND } else { SECOND }).load(500, 500, MS);
            progress += if tenth { jump } else { 500.0 };
            let at_ns = sim.snapshot.now_ns;
            let source = sim.source();
            source.resets += u64::from(tenth && reset);
            source.reading = Some(Reading {
                at_ns,
                progress_records: Some(progress),
                lag_records: Some(1),
                ..Reading::default()
            });
        }
        sim.boundary(Boundary::LoadEnd).boundary(Boundary::DrainEnd);
        let report = sim.report();
        let source = &report.measured.as_ref().unwrap().sources["view"];
        for rate in [
            source.ingest_records_per_second,
            source.ingest_min_records_per_second,
            source.ingest_max_records_per_second,
        ] {
            assert_eq!(rate, Some(500.0), "jump {jump}, reset {reset}, silence {silence_seconds}");
        }
    }
}

#[test]
fn r6_a_stopped_daemon_leaves_a_gap_and_no_burst() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(10, 100, MS).tick();
    // Fifteen seconds without a tick, then two at once.
    sim.at(15 * SECOND).load(1_500, 1_500, MS).lag(0, 0).tick();
    sim.at(MS).load(0, 0, MS).lag(0, 0).tick();
    sim.well(10, 100, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let source = &report.measured.as_ref().unwrap().sources["view"];
    // 22 of 35 seconds: of the 15 the sample speaks for two.
    close(source.coverage, 22.0 / 35.0);
    assert!(source.ingest_max_records_per_second.unwrap() <= 300.0, "{source:?}");
}

#[test]
fn x2_cpu_is_in_cores_and_a_restart_makes_nothing_negative() {
    let mut sim = Sim::new();
    sim.target(10).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    for second in 1..=20_u64 {
        sim.tick().at(SECOND).load(10, 10, MS).lag(0, 0);
        let process = sim.process();
        process.up = second != 10;
        process.restarts = u64::from(second > 10);
        process.cpu_user_ns = (second > 2).then_some(second * 1_500 * MS);
        process.cpu_system_ns = (second > 2).then_some(second * 500 * MS);
        process.cpu_cores = (second > 2).then_some(if second == 15 { 2.5 } else { 2.0 });
        process.memory_rss_bytes = Some(second << 20);
    }
    sim.boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let process = &report.measured.as_ref().unwrap().processes["sut"];
    close(process.cpu_cores_mean, 2.0);
    close(process.cpu_cores_peak, 2.5);
    close(process.cpu_user_seconds, 17.0 * 1.5);
    assert_eq!((process.restarts, process.coverage), (1, Some(0.95)));
    assert_eq!(process.memory_rss_bytes.unwrap().max, f64::from(20 << 20));
}

#[test]
fn freshness_of_a_phase_is_that_of_the_markers_it_showed_and_of_the_run_all_of_them() {
    let mut sim = Sim::new();
    let fresh = |sim: &mut Sim, seconds: u64| {
        let freshness = sim.source().freshness.get_or_insert_default();
        Arc::make_mut(&mut freshness.latency).record(seconds * SECOND);
    };
    let seen = |sim: &mut Sim, unseen_ns: u64| {
        let at_ns = sim.snapshot.now_ns;
        let reading =
            Reading { at_ns, lag_ns: Some(unseen_ns), caught_up: unseen_ns == 0, ..Reading::default() };
        sim.source().reading = Some(reading);
        sim.source().resolution_ns = Some(SECOND + MS);
    };
    sim.target(10).boundary(Boundary::LoadStart);
    fresh(&mut sim, 60);
    sim.tick().at(SECOND).load(10, 10, MS).boundary(Boundary::WarmUpEnd);
    for _ in 0..5 {
        sim.tick().at(SECOND).load(10, 10, MS);
        seen(&mut sim, SECOND / 2);
        fresh(&mut sim, 2);
    }
    sim.boundary(Boundary::LoadEnd);
    fresh(&mut sim, 9);
    sim.at(SECOND);
    seen(&mut sim, 0);
    sim.tick().boundary(Boundary::DrainEnd);
    let report = sim.report();
    let source = &report.measured.as_ref().unwrap().sources["view"];
    let freshness = source.freshness.unwrap();
    assert_eq!(freshness.count, 5);
    close(Some(freshness.max_seconds), 2.0);
    close(source.resolution_seconds, 1.001);
    assert_eq!((source.lag_records, source.lag_seconds.unwrap().max), (None, 0.5));
    assert!(source.absent["lag_records"].contains("seconds of lag"), "{source:?}");
    let end = &report.drain.sources["view"];
    let whole = end.freshness.unwrap();
    assert_eq!((whole.count, end.drained, end.remaining_seconds), (7, Some(true), Some(0.0)));
    close(Some(whole.max_seconds), 60.0);
    assert_eq!(report.verdict, Verdict::Good);
    let text = text(&report);
    assert!(text.contains("freshness of markers"), "{text}");
}

#[test]
fn a_source_of_seconds_alone_is_judged_by_them() {
    let mut sim = Sim::new();
    sim.target(10).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd).well(3, 10, MS);
    sim.tick().boundary(Boundary::LoadEnd).at(SECOND);
    let reading = Reading { at_ns: sim.snapshot.now_ns, lag_ns: Some(7 * SECOND), ..Reading::default() };
    sim.source().reading = Some(reading);
    sim.tick().boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.drain.drained, Some(false));
    let reasons = report.verdict.reasons();
    assert!(reasons[0].contains("the oldest that is not visible is 7.0 s old"), "{reasons:?}");
}

#[test]
fn what_the_system_came_back_from_is_listed_once_each_with_how_long_it_took() {
    let mut sim = Sim::new();
    let begins = |sim: &mut Sim, trouble: Trouble| {
        let began_ns = sim.snapshot.now_ns;
        sim.source().recovery = Some(Recovery { trouble, began_ns, ..Recovery::default() });
    };
    let goes_on = |sim: &mut Sim, back_s: Option<u64>, caught_up_s: Option<u64>| {
        let recovery = sim.source().recovery.as_mut().unwrap();
        recovery.back_ns = back_s.map(|seconds| seconds * SECOND);
        recovery.caught_up_ns = caught_up_s.map(|seconds| seconds * SECOND);
    };
    begins(&mut sim, Trouble::Away);
    goes_on(&mut sim, Some(1), Some(1));
    sim.at(SECOND).target(10).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd).well(5, 10, MS);
    begins(&mut sim, Trouble::Away);
    sim.well(4, 10, MS);
    goes_on(&mut sim, Some(4), None);
    sim.well(8, 10, MS);
    goes_on(&mut sim, Some(4), Some(12));
    sim.well(5, 10, MS);
    begins(&mut sim, Trouble::StoodStill);
    sim.well(5, 10, MS).tick().boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let end = &report.drain.sources["view"];
    let figures: Vec<_> = end
        .recoveries
        .iter()
        .map(|found| &found.recovery)
        .map(|found| (found.trouble, found.start_seconds, found.back_seconds, found.caught_up_seconds))
        .collect();
    let expected = [(Trouble::Away, 5.0, Some(4.0), Some(12.0)), (Trouble::StoodStill, 22.0, None, None)];
    assert_eq!((figures.as_slice(), end.recoveries_total), (&expected[..], 2));
    let text = text(&report);
    // As one text, because long rows are broken.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("RECOVERIES (to within a poll) source view - away from 5.0 s (20"), "{text}");
    assert!(words.contains("): back after 4.0 s, caught up after 12.0 s"), "{text}");
    assert!(words.contains("stood still from 22.0 s (20"), "{text}");
    assert!(
        words.contains("it did not move any more, it was further behind than before to the end"),
        "{text}"
    );
}

#[test]
fn no_window_stands_still_for_longer_than_it_is() {
    let mut sim = Sim::new();
    sim.target(10).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd).well(9, 10, MS).tick();
    sim.boundary(Boundary::RateChange);
    // Ten seconds without movement are a standstill from now on, nine of them before.
    sim.at(SECOND).load(10, 10, MS).lag(90, 9 * SECOND);
    (sim.source().standstills, sim.source().standstill_ns) = (1, 10 * SECOND);
    sim.tick().boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let still = |window: &WindowReport| window.sources["view"].standstill_seconds;
    assert_eq!(report.segments.iter().map(|segment| still(&segment.figures)).collect::<Vec<_>>(), [0.0, 1.0]);
    assert_eq!(still(report.measured.as_ref().unwrap()), 10.0);
}
