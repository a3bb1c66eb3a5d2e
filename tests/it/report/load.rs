//! Phases, segments, rates and outages.

use super::*;

#[test]
fn b4_the_warm_up_is_in_no_summary_and_both_counts_are_there() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart);
    sim.well(10, 100, 500 * MS).boundary(Boundary::WarmUpEnd);
    sim.well(30, 100, 5 * MS).boundary(Boundary::LoadEnd);
    sim.at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let warm_up = &report.warm_up.as_ref().unwrap().streams["main"];
    let measured = &report.measured.as_ref().unwrap().streams["main"];
    assert_eq!((warm_up.counts.acked, measured.counts.acked), (1_000, 3_000));
    assert_eq!(report.streams["main"].totals.acked, 4_000);
    assert!(measured.ack_from_intended.unwrap().max_seconds < 0.006);
    assert_eq!(measured.ack_from_intended.unwrap().count, 3_000);
    assert!(warm_up.ack_from_intended.unwrap().p50_seconds > 0.4);
    assert_eq!((report.verdict.clone(), report.exit_code), (Verdict::Good, 0));
    assert_eq!(report.measured.as_ref().unwrap().from_seconds, 10.0);
}

#[test]
fn b7_averages_are_over_the_run_and_percentiles_merged_not_averaged() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(20, 100, 2 * MS).target(1_000).boundary(Boundary::RateChange);
    sim.well(5, 1_000, 200 * MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0);
    sim.boundary(Boundary::DrainEnd);
    let report = sim.report();
    let measured = &report.measured.as_ref().unwrap().streams["main"];
    close(measured.achieved_records_per_second, 280.0);
    close(measured.target_records_per_second, 280.0);
    assert_eq!(measured.rate_sustained, Some(true));
    // 2,000 of 2 ms and 5,000 of 200 ms: an average of the two medians would be 101 ms.
    let ack = measured.ack_from_intended.unwrap();
    assert!(ack.p50_seconds > 0.199, "{ack:?}");
    let rates: Vec<f64> = report
        .segments
        .iter()
        .map(|segment| segment.figures.streams["main"].achieved_records_per_second.unwrap())
        .collect();
    assert_eq!(rates, [100.0, 1_000.0]);
}

#[test]
fn h2_a_rate_change_makes_a_segment_and_resets_nothing() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(10, 100, MS).target(300).boundary(Boundary::RateChange);
    for _ in 0..10 {
        sim.tick().at(SECOND).load(300, 300, 30 * MS).lag(50, 2 * SECOND);
    }
    sim.target(100).boundary(Boundary::RateChange);
    sim.well(10, 100, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.segments.len(), 3);
    let figure = |index: usize| {
        let figures = &report.segments[index].figures;
        let (stream, source) = (&figures.streams["main"], &figures.sources["view"]);
        (
            stream.target_records_per_second.unwrap(),
            stream.counts.acked,
            stream.ack_from_intended.unwrap().count,
            source.lag_records.unwrap().max,
        )
    };
    assert_eq!(figure(0), (100.0, 1_000, 1_000, 0.0));
    assert_eq!(figure(1), (300.0, 3_000, 3_000, 50.0));
    assert_eq!(figure(2), (100.0, 1_000, 1_000, 0.0));
    assert!(report.segments[1].figures.streams["main"].ack_from_intended.unwrap().p50_seconds > 0.029);
    assert_eq!(report.segments[1].figures.sources["view"].lag_seconds.unwrap().p50, 2.0);
    assert_eq!(report.measured.unwrap().streams["main"].counts.acked, 5_000);
}

#[test]
fn z1_segments_are_capped_and_the_rest_is_merged_and_said() {
    let mut sim = Sim::new();
    sim.target(1).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    for _ in 0..1_200 {
        sim.at(SECOND).load(1, 1, MS).boundary(Boundary::RateChange);
    }
    sim.at(SECOND).boundary(Boundary::LoadEnd).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.segments.len(), 1_000);
    assert_eq!((report.segments_merged, report.segments[999].merged), (201, 201));
    assert_eq!(report.segments[999].figures.streams["main"].counts.acked, 201);
    let acked: u64 = report.segments.iter().map(|part| part.figures.streams["main"].counts.acked).sum();
    assert_eq!(acked, 1_200);
    assert!(report.remarks.iter().any(|remark| remark.starts_with("201 segments")));
    assert!(text(&report).contains("... and 980 more in the JSON"));
}

#[test]
fn r8_a_missed_rate_is_not_sustained_and_its_first_second_is_named() {
    let mut sim = Sim::new();
    sim.target(5_000).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(3, 5_000, MS);
    for _ in 0..17 {
        sim.tick().at(SECOND).load(5_000, 50, 2 * SECOND).lag(0, 0);
    }
    sim.boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let stream = &report.measured.as_ref().unwrap().streams["main"];
    assert_eq!(stream.rate_sustained, Some(false));
    assert_eq!((stream.first_missed_second, stream.missed_seconds), (Some(3.0), 17.0));
    close(stream.target_records_per_second, 5_000.0);
    close(stream.achieved_records_per_second, 792.5);
    assert!(report.remarks[0].contains("not sustained, first missed 3.0 s after"), "{:?}", report.remarks);
}

#[test]
fn r8_records_that_fail_miss_the_rate_and_slow_acks_do_not() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd).tick();
    // All of a linger of two seconds is in flight when the load ends.
    sim.at(2 * SECOND).counters().scheduled = 200;
    sim.counters().sent = 200;
    sim.counters().in_flight = 200;
    sim.boundary(Boundary::RateChange);
    sim.at(2 * SECOND).counters().scheduled = 400;
    sim.counters().sent = 400;
    sim.counters().in_flight = 200;
    sim.counters().failed[FailReason::TimedOut as usize] = 200;
    sim.boundary(Boundary::LoadEnd).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let sustained = |index: usize| report.segments[index].figures.streams["main"].rate_sustained;
    assert_eq!((sustained(0), sustained(1)), (Some(true), Some(false)));
}

#[test]
fn h3_a_pause_is_in_no_average_and_gives_up_no_rate() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(10, 100, MS);
    sim.target(0).stream().paused = true;
    sim.counters().scheduled += 3;
    sim.counters().dropped[DropReason::Paused as usize] += 3;
    sim.boundary(Boundary::Pause);
    for _ in 0..90 {
        sim.tick().at(SECOND).lag(400, SECOND);
    }
    sim.target(100).stream().paused = false;
    sim.lag(0, 0).boundary(Boundary::Resume);
    sim.well(10, 100, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let measured = report.measured.as_ref().unwrap();
    assert_eq!((measured.active_seconds, measured.paused_seconds), (20.0, 90.0));
    let stream = &measured.streams["main"];
    close(stream.achieved_records_per_second, 100.0);
    close(stream.target_records_per_second, 100.0);
    assert_eq!((stream.rate_sustained, stream.missed_seconds), (Some(true), 0.0));
    // The lag of the pause is the news of its own segment.
    assert_eq!(measured.sources["view"].lag_records.unwrap().max, 0.0);
    assert_eq!(report.segments[1].figures.sources["view"].lag_records.unwrap().p50, 400.0);
    assert_eq!(report.segments[1].began_by, "paused");
    assert_eq!(report.segments[1].figures.streams["main"].achieved_records_per_second, None);
}

#[test]
fn p3_an_outage_is_listed_once_with_start_and_end() {
    let mut sim = Sim::new();
    sim.target(500).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(10, 500, MS).tick();
    for second in 0..60 {
        sim.at(SECOND).load(500, 0, MS);
        let (stopped, in_flight) = match second {
            // The lane needs some seconds to be sure, and a rebuilt client has nothing in flight for a moment.
            0..5 => (false, 200),
            30..32 => (false, 0),
            _ => (true, 200),
        };
        sim.stream().acks_stopped = stopped;
        sim.counters().in_flight = in_flight;
        sim.tick();
    }
    sim.stream().acks_stopped = false;
    sim.counters().in_flight = 0;
    sim.well(10, 500, MS).tick().boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0);
    sim.boundary(Boundary::DrainEnd);
    let report = sim.report();
    let stream = &report.streams["main"];
    assert_eq!((stream.outages.len(), stream.outages_total), (1, 1));
    let outage = &stream.outages[0];
    assert_eq!((outage.outage.start_seconds, outage.outage.end_seconds), (10.0, Some(71.0)));
    assert_eq!(outage.seconds, Some(61.0));
}

#[test]
fn an_interim_report_is_unfinished_and_disturbs_nothing() {
    let mut sim = Sim::new();
    sim.target(10).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd).well(5, 10, MS);
    let latencies = [("main".to_owned(), sim.latencies.clone())].into();
    let record = sim.collector.interim(&sim.snapshot, &latencies, BTreeMap::new());
    let report = checked(&record);
    assert!(!report.finished && report.drain.drained.is_none() && report.load_ended_at.is_none());
    assert_eq!(report.measured.unwrap().streams["main"].counts.acked, 50);
    sim.well(5, 10, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    assert_eq!(report.measured.unwrap().streams["main"].counts.acked, 100);
    assert_eq!((report.finished, report.exit_code), (true, 0));
}
