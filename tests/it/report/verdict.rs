//! How runs end: drained or not, reconciled or not, and the exit code.

use super::*;

#[test]
fn b6_a_very_short_run_has_real_rates_and_says_why_others_are_absent() {
    let mut sim = Sim::new();
    sim.source().reading = None;
    sim.source().unknown_reason = Some("no commits yet".into());
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd).tick();
    sim.at(300 * MS).load(30, 30, MS).boundary(Boundary::LoadEnd);
    sim.at(100 * MS).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let measured = report.measured.as_ref().unwrap();
    assert_eq!(measured.active_seconds, 0.3);
    close(measured.streams["main"].achieved_records_per_second, 100.0);
    let source = &measured.sources["view"];
    assert_eq!((source.lag_records, source.coverage), (None, Some(0.0)));
    assert_eq!(source.absent["lag_records"], "no commits yet");
    assert_eq!(source.ingest_records_per_second, None);
    assert_eq!(measured.processes["sut"].cpu_cores_mean, None);
    // Unknown is not caught up.
    assert_eq!(report.drain.drained, None);
    assert_eq!(report.exit_code, 1);
    assert!(
        report.verdict.reasons()[0]
            .contains("not known whether drained 0.1 s after the load: no commits yet")
    );
}

#[test]
fn b6_runs_that_never_measured_have_valid_reports() {
    // Stopped before the load.
    checked(&Sim::new().record());
    let mut sim = Sim::new();
    sim.boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!((report.started_at.clone(), report.measured.clone()), (None, None));
    assert_eq!(report.absent["measured"], "the load never began");
    // Stopped in the warm-up.
    let mut sim = Sim::new();
    sim.target(10).boundary(Boundary::LoadStart);
    sim.well(2, 10, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.absent["measured"], "the load ended during the warm-up");
    assert_eq!(report.warm_up.unwrap().streams["main"].counts.acked, 20);
    // Stopped while paused.
    let mut sim = Sim::new();
    sim.stream().paused = true;
    sim.boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd).at(3 * SECOND).tick();
    sim.at(SECOND).boundary(Boundary::LoadEnd).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let measured = report.measured.unwrap();
    assert_eq!((measured.active_seconds, measured.paused_seconds), (0.0, 4.0));
    assert_eq!(measured.streams["main"].absent["achieved_records_per_second"], "no time without a pause");
    assert_eq!(report.exit_code, 0);
    // The broker was down all the time.
    let mut sim = Sim::new();
    sim.target(10).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    for _ in 0..5 {
        sim.tick().at(SECOND).load(10, 0, MS);
    }
    sim.boundary(Boundary::LoadEnd).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.exit_code, 1);
    assert_eq!(report.verdict.reasons(), ["stream main: none of 50 due records was acked"]);
}

#[test]
fn b8_a_drain_that_timed_out_is_failed_with_what_remains() {
    for (tolerance, exit_code) in [(0, 1), (49, 1), (50, 0)] {
        let mut sim = Sim::new();
        sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
        sim.well(5, 100, MS).lag(50, MS).boundary(Boundary::LoadEnd);
        for _ in 0..10 {
            sim.at(SECOND).lag(50, SECOND).tick();
        }
        sim.boundary(Boundary::DrainEnd);
        let mut record = sim.record();
        record.run.tolerance_records.insert("view".into(), tolerance);
        let report = checked(&record);
        assert_eq!(report.exit_code, exit_code, "tolerance {tolerance}");
        assert_eq!(report.drain.drained, Some(exit_code == 0));
        assert_eq!(report.drain.sources["view"].remaining_records, Some(50));
        assert_eq!(report.drain.seconds, Some(10.0));
        if exit_code == 1 {
            let expected = format!(
                "source view: not drained 10.0 s after the load, 50 records remain (tolerance {tolerance})"
            );
            assert_eq!(report.verdict.reasons(), [expected]);
        }
    }
}

#[test]
fn b8_the_time_to_drain_is_to_the_sample_that_was_caught_up_to_stay() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(5, 100, MS).boundary(Boundary::LoadEnd);
    // Caught up, but then the flush brings more acks, and the last sample says nothing about them.
    sim.at(SECOND).lag(0, 0).tick();
    sim.at(SECOND).load(50, 50, MS).tick();
    sim.at(SECOND).lag(50, SECOND).tick();
    sim.at(SECOND).lag(0, 0).tick().at(SECOND).boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.drain.drained, Some(true));
    assert_eq!(report.drain.sources["view"].caught_up_after_seconds, Some(4.0));
}

#[test]
fn l2_a_partition_without_a_figure_is_not_caught_up() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(5, 100, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0);
    let reading = sim.source().reading.as_mut().unwrap();
    reading.unknown_partitions = 2;
    reading.caught_up = false;
    sim.boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!((report.drain.drained, report.exit_code), (None, 1));
    assert_eq!(report.drain.sources["view"].absent["drained"], "2 partitions have no figure");
}

#[test]
fn l2_a_sample_from_before_the_last_acks_does_not_say_drained() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(5, 100, MS).boundary(Boundary::LoadEnd);
    sim.at(SECOND).tick().at(SECOND).load(0, 0, MS).counters().acked += 10;
    sim.boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.drain.drained, None);
    assert_eq!(
        report.drain.sources["view"].absent["remaining_records"],
        "no sample since the last records were acked"
    );
}

#[test]
fn p6_acked_ties_out_with_the_broker_or_the_run_failed() {
    let run = |change: fn(&mut RunRecord)| {
        let mut sim = Sim::new();
        sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
        sim.well(10, 100, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
        let mut record = sim.record();
        change(&mut record);
        let report = checked(&record);
        (report.streams["main"].reconciliation.result, report.exit_code, report)
    };
    let (result, exit, report) = run(|_| {});
    assert_eq!((result, exit), (Reconciled::Agrees, 0));
    assert_eq!(report.streams["main"].reconciliation.in_broker, Some(1_000));
    assert_eq!(report.drain.undelivered_records, 0);
    let (result, exit, _) = run(|record| {
        marks(record)[0].end -= 3;
    });
    assert_eq!((result, exit), (Reconciled::Missing, 1));
    // A surplus elsewhere hides nothing.
    let (result, exit, report) = run(|record| {
        marks(record)[0].end -= 3;
        marks(record)[1].end += 3;
    });
    assert_eq!((result, exit), (Reconciled::Missing, 1));
    assert_eq!(report.verdict.reasons(), ["stream main: the broker lacks 3 of 1000 acked records"]);
    let (result, exit, _) = run(|record| marks(record)[2].end += 4);
    assert_eq!((result, exit), (Reconciled::Surplus, 1));
    let (result, exit, _) = run(|record| {
        marks(record)[2].end += 4;
        failed(record, "outcome_unknown", 4);
    });
    assert_eq!((result, exit), (Reconciled::Agrees, 0));
    let (result, exit, report) = run(|record| {
        marks(record)[2].end += 4;
        failed(record, "timed_out", 4);
    });
    assert_eq!((result, exit), (Reconciled::SurplusOfFailed, 0));
    assert!(report.remarks.iter().any(|remark| remark.contains("4 records failed: timed out")));
    let (result, exit, report) = run(|record| record.streams.get_mut("main").unwrap().watermarks = None);
    assert_eq!((result, exit), (Reconciled::NotReconciled, 0));
    assert!(report.remarks.iter().any(|remark| remark.contains("not reconciled")));
    let (_, exit, _) = run(|record| record.undelivered_records = 9);
    assert_eq!(exit, 1);
    let (_, exit, report) = run(|record| failed(record, "too_large", 1));
    assert_eq!((exit, report.verdict.reasons()[0].as_str()), (1, "stream main: 1 records failed: too large"));
}

fn marks(record: &mut RunRecord) -> &mut Vec<Watermarks> {
    record.streams.get_mut("main").unwrap().watermarks.as_mut().unwrap()
}

fn failed(record: &mut RunRecord, reason: &str, count: u64) {
    record.streams.get_mut("main").unwrap().totals.failed.insert(reason.into(), count);
}

#[test]
fn a_limited_generator_goes_before_a_failed_run() {
    let run = |limited_ns: u64, undelivered: u64| {
        let mut sim = Sim::new();
        sim.target(10).boundary(Boundary::LoadStart);
        // The warm-up does not count.
        sim.counters().limited_ns[0] = 50 * SECOND;
        sim.boundary(Boundary::WarmUpEnd).well(100, 10, MS);
        sim.counters().limited_ns[0] += limited_ns;
        sim.boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
        let mut record = sim.record();
        record.undelivered_records = undelivered;
        checked(&record)
    };
    assert_eq!(run(SECOND, 0).exit_code, 0);
    assert_eq!(run(SECOND, 1).exit_code, 1);
    let report = run(SECOND + 100 * MS, 1);
    assert_eq!((report.exit_code, report.verdict.reasons().len()), (4, 2));
    assert_eq!(report.generator_limited_share, Some(0.011));
}
