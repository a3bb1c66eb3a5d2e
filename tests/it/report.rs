//! From injected snapshots to the report: the collector's rules, the summary and the verdict together.

use std::collections::BTreeMap;

use proptest::prelude::*;
use soakd::core::clock::Clock;
use soakd::core::lag::Reading;
use soakd::core::rate::Rate;
use soakd::core::status::{ProcessStatus, RunState, RunStatus, Snapshot, SourceStatus};
use soakd::core::stream::{Counters, DropReason, FailReason, Head, Latencies, StreamSnapshot};
use soakd::report::{Reconciled, Report, Verdict, summarize, text};
use soakd::run::collector::{Boundary, Collector, Ending};
use soakd::store::record::{RunInfo, RunRecord, StreamInfo, Watermarks};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// A daemon that consists of numbers: one stream `main`, one source `view`, one process `sut`.
struct Sim {
    collector: Collector,
    snapshot: Snapshot,
    latencies: Latencies,
    heads: Vec<Head>,
}

impl Sim {
    fn new() -> Self {
        let run = RunStatus {
            id: "t-20261130T154400Z".into(),
            name: "t".into(),
            tags: BTreeMap::new(),
            state: RunState::Starting,
            started_ns: None,
            measuring_ns: None,
            finished_ns: None,
            duration_ns: None,
            warmup_ns: 0,
            cause: None,
            verdict: None,
        };
        let source = SourceStatus {
            kind: "sql",
            value: "count",
            stream: "main".into(),
            up: true,
            interval_ns: SECOND,
            ..SourceStatus::default()
        };
        let snapshot = Snapshot {
            now_ns: 5 * SECOND,
            clock: Clock::start(),
            run,
            streams: [("main".to_owned(), StreamSnapshot { topic: "soak-t".into(), ..Default::default() })].into(),
            sources: [("view".to_owned(), source)].into(),
            processes: [("sut".to_owned(), ProcessStatus { up: true, ..Default::default() })].into(),
            events: vec![("run_started", 1), ("paused", 0)],
            heartbeats: 0,
        };
        let info = RunInfo {
            id: snapshot.run.id.clone(),
            name: "t".into(),
            drain_timeout_seconds: 600.0,
            streams: [(
                "main".to_owned(),
                StreamInfo {
                    partitioner: "murmur2 of the key, as the Java client".into(),
                    limits: vec!["queue.buffering.max.messages 100,000: 10.0 s of load".into()],
                },
            )]
            .into(),
            ..RunInfo::default()
        };
        Self {
            collector: Collector::new(info),
            snapshot,
            latencies: Latencies::default(),
            heads: vec![Head::default(); 4],
        }
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.stream().counters
    }

    fn stream(&mut self) -> &mut StreamSnapshot {
        self.snapshot.streams.get_mut("main").unwrap()
    }

    fn source(&mut self) -> &mut SourceStatus {
        self.snapshot.sources.get_mut("view").unwrap()
    }

    fn process(&mut self) -> &mut ProcessStatus {
        self.snapshot.processes.get_mut("sut").unwrap()
    }

    fn target(&mut self, records_per_second: u64) -> &mut Self {
        self.stream().target = Rate::from_micros(records_per_second * 1_000_000);
        self
    }

    /// `due` records become due, `acked` of them are sent and acked after `latency_ns`; the rest is backlog.
    fn load(&mut self, due: u64, acked: u64, latency_ns: u64) -> &mut Self {
        let counters = self.counters();
        counters.scheduled += due;
        counters.sent += acked;
        counters.acked += acked;
        counters.bytes_acked += acked * 500;
        counters.backlog = counters.scheduled - counters.sent - counters.dropped_total();
        for n in 0..acked {
            self.latencies.schedule_delay.record(100_000);
            self.latencies.ack_from_intended.record(latency_ns);
            self.latencies.ack_from_sent.record(latency_ns);
            self.heads[n as usize % 4].acked += 1;
        }
        self
    }

    /// The source is `lag` records behind what is acked, `age_ns` old.
    fn lag(&mut self, lag: u64, age_ns: u64) -> &mut Self {
        let (at_ns, acked) = (self.snapshot.now_ns, self.counters().acked);
        let source = self.source();
        source.polls_total += 1;
        source.up = true;
        source.reading = Some(Reading {
            at_ns,
            progress_records: Some(acked.saturating_sub(lag) as f64),
            lag_records: Some(lag),
            lag_ns: Some(age_ns),
            caught_up: lag == 0,
            ..Reading::default()
        });
        self
    }

    fn at(&mut self, passed_ns: u64) -> &mut Self {
        self.snapshot.now_ns += passed_ns;
        self
    }

    fn tick(&mut self) -> &mut Self {
        self.collector.tick(&self.snapshot);
        self
    }

    fn boundary(&mut self, why: Boundary) -> &mut Self {
        let latencies = [("main".to_owned(), self.latencies.clone())].into();
        let heads = [("main".to_owned(), self.heads.clone())].into();
        self.collector.boundary(&self.snapshot, &latencies, heads, why);
        self
    }

    /// `seconds` seconds in which all goes well at `rate`, up to and without the last tick.
    fn well(&mut self, seconds: u64, rate: u64, latency_ns: u64) -> &mut Self {
        for _ in 0..seconds {
            self.tick().at(SECOND).load(rate, rate, latency_ns).lag(0, 0);
        }
        self
    }

    fn marks(&self) -> BTreeMap<String, Vec<Watermarks>> {
        let marks = self.heads.iter().map(|head| Watermarks { start: 7, end: 7 + head.acked });
        [("main".to_owned(), marks.collect())].into()
    }

    fn record(self) -> RunRecord {
        let ending = Ending {
            finished: true,
            cause: Some("duration".into()),
            undelivered_records: 0,
            watermarks: self.marks(),
        };
        self.collector.finish(ending)
    }

    fn report(self) -> Report {
        checked(&self.record())
    }
}

/// The report of a record, after it was checked that both read back as they were written, that every null has its
/// reason, that no number is negative and that the text fits a terminal.
fn checked(record: &RunRecord) -> Report {
    let json = serde_json::to_string(record).unwrap();
    assert_eq!(&serde_json::from_str::<RunRecord>(&json).unwrap(), record);
    let report = summarize(record);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    honest(&serde_json::from_str(&json).unwrap(), "report");
    for line in text(&report).lines() {
        assert!(line.chars().count() <= 140, "{line}");
        assert!(!line.contains("NaN") && !line.contains("inf"), "{line}");
    }
    report
}

fn honest(value: &serde_json::Value, at: &str) {
    match value {
        serde_json::Value::Object(fields) => {
            let absent = fields.get("absent").and_then(|absent| absent.as_object());
            for (field, value) in fields {
                let reason = absent.and_then(|absent| absent.get(field)).and_then(|reason| reason.as_str());
                assert_eq!(value.is_null(), reason.is_some(), "{at}.{field}: {value}, reason {reason:?}");
                assert!(reason.is_none_or(|reason| !reason.is_empty()), "{at}.{field}");
                honest(value, &format!("{at}.{field}"));
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| honest(item, at)),
        serde_json::Value::Number(number) => {
            let number = number.as_f64().unwrap();
            assert!(number.is_finite() && number >= 0.0, "{at}: {number}");
        }
        _ => {}
    }
}

fn close(one: Option<f64>, other: f64) {
    let one = one.unwrap();
    assert!((one - other).abs() <= other.abs() * 0.002, "{one} is not {other}");
}

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
    assert_eq!(measured.processes["sut"].cpu_cores_mean, None);
    // Unknown is not caught up.
    assert_eq!(report.drain.drained, None);
    assert_eq!(report.exit_code, 1);
    assert!(report.verdict.reasons()[0].contains("not known whether drained 0.1 s after the load: no commits yet"));
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
            let expected = format!("source view: not drained 10.0 s after the load, 50 records remain (tolerance {tolerance})");
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
    let stream = |record: &mut RunRecord, unknown: u64, timed_out: u64, ends: [i64; 4]| {
        let stream = record.streams.get_mut("main").unwrap();
        stream.totals.failed.insert("outcome_unknown".into(), unknown);
        stream.totals.failed.insert("timed_out".into(), timed_out);
        for (mark, change) in stream.watermarks.as_mut().unwrap().iter_mut().zip(ends) {
            mark.end = mark.end.checked_add_signed(change).unwrap();
        }
    };
    let _ = stream;
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
fn p9_the_report_prints_the_partitions_and_the_partitioner() {
    let mut sim = Sim::new();
    sim.target(40).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(30, 40, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let acked: Vec<u64> = report.streams["main"].partitions.iter().map(|partition| partition.acked).collect();
    assert_eq!(acked, [300, 300, 300, 300]);
    let text = text(&report);
    assert!(text.contains("acked by partition    300  300  300  300\n"), "{text}");
    assert!(text.contains("murmur2"), "{text}");
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
                source.reading = Some(Reading { at_ns, progress_records, lag_records: Some(1), ..Reading::default() });
            }
            _ => {
                let progress_records = progress.next();
                source.resets = u64::from(second >= 3);
                source.reading = Some(Reading { at_ns, progress_records, lag_records: Some(1), ..Reading::default() });
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
fn r6_a_stopped_daemon_leaves_a_gap_and_no_burst() {
    let mut sim = Sim::new();
    sim.target(100).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(10, 100, MS).tick();
    // Fifteen seconds without a tick, then two at once.
    sim.at(15 * SECOND).load(1_500, 1_500, MS).lag(1_500, SECOND).tick();
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

fn arbitrary_number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..10_u64, 0..1_000_000_u64, 0..(1_u64 << 50)]
}

fn arbitrary_float() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), Just(-5.0), 0.0..1e15, Just(f64::MAX)]
}

prop_compose! {
    fn arbitrary_counters()(numbers in prop::collection::vec(arbitrary_number(), 21)) -> Counters {
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().unwrap();
        Counters {
            scheduled: next(),
            sent: next(),
            acked: next(),
            failed: std::array::from_fn(|_| next()),
            dropped: std::array::from_fn(|_| next()),
            backlog: next(),
            in_flight: next(),
            bytes_acked: next(),
            stalls: next(),
            rebuilds: next(),
            limited_ns: std::array::from_fn(|_| next()),
        }
    }
}

prop_compose! {
    fn arbitrary_step()(
        passed_ns in prop_oneof![Just(0), 0..2 * SECOND, 0..1_000_000 * SECOND],
        counters in arbitrary_counters(),
        flags in prop::collection::vec(any::<bool>(), 8),
        numbers in prop::collection::vec(arbitrary_number(), 12),
        floats in prop::collection::vec(arbitrary_float(), 3),
        latencies in prop::collection::vec(any::<u64>(), 0..3),
        boundary in prop::option::of(0..7_usize),
    ) -> (u64, Counters, Vec<bool>, Vec<u64>, Vec<f64>, Vec<u64>, Option<usize>) {
        (passed_ns, counters, flags, numbers, floats, latencies, boundary)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn m3_no_input_makes_nan_negative_numbers_or_a_panic(
        steps in prop::collection::vec(arbitrary_step(), 0..12),
        drain_timeout in arbitrary_float(),
        marks in prop::option::of(prop::collection::vec((arbitrary_number(), arbitrary_number()), 0..6)),
    ) {
        const BOUNDARIES: [Boundary; 7] = [
            Boundary::LoadStart, Boundary::WarmUpEnd, Boundary::RateChange, Boundary::Pause, Boundary::Resume,
            Boundary::LoadEnd, Boundary::DrainEnd,
        ];
        let mut sim = Sim::new();
        for (passed_ns, counters, flags, numbers, floats, latencies, boundary) in steps {
            sim.at(passed_ns);
            *sim.counters() = counters;
            sim.stream().paused = flags[0];
            sim.stream().acks_stopped = flags[1];
            sim.stream().target = Rate::from_micros(numbers[0]);
            let source = sim.source();
            source.up = flags[2];
            source.polls_total = numbers[1];
            source.resets = numbers[2];
            source.standstill_ns = numbers[3];
            source.reading = flags[3].then(|| Reading {
                at_ns: numbers[4],
                progress_records: flags[4].then_some(floats[0]),
                lag_records: flags[5].then_some(numbers[5]),
                lag_ns: flags[6].then_some(numbers[6].saturating_mul(1_000)),
                caught_up: flags[7],
                expired_records: numbers[7],
                ..Reading::default()
            });
            let process = sim.process();
            process.cpu_cores = Some(floats[1]);
            process.cpu_user_ns = flags[4].then_some(numbers[8]);
            process.cpu_system_ns = flags[4].then_some(numbers[9]);
            process.memory_rss_bytes = Some(numbers[10]);
            process.restarts = numbers[11];
            for latency_ns in latencies {
                sim.latencies.ack_from_intended.record(latency_ns >> 4);
            }
            for head in &mut sim.heads {
                head.acked = numbers[0];
            }
            match boundary.and_then(|index| BOUNDARIES.get(index)) {
                Some(why) => sim.boundary(*why),
                None => sim.tick(),
            };
        }
        let mut record = sim.record();
        record.run.drain_timeout_seconds = soakd::store::record::tidy(drain_timeout);
        record.streams.values_mut().for_each(|stream| {
            stream.watermarks = marks.as_ref().map(|marks| {
                marks.iter().map(|(start, end)| Watermarks { start: *start, end: *end }).collect()
            });
        });
        checked(&record);
    }
}
