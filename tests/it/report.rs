//! From injected snapshots to the report: the collector's rules, the summary and the verdict together.

// Every figure here comes out of small whole numbers, exactly.
#![allow(clippy::float_cmp)]

mod chaos;
mod load;
mod progress;
mod shown;
mod verdict;

use std::collections::BTreeMap;

use soakd::core::clock::Clock;
use soakd::core::counters::{Counters, DropReason, FailReason, Head};
use soakd::core::lag::Reading;
use soakd::core::rate::Rate;
use soakd::core::status::{ProcessStatus, RunStatus, Snapshot, SourceStatus};
use soakd::core::stream::{Latencies, StreamSnapshot};
use soakd::report::{Reconciled, Report, Verdict, summarize, text};
use soakd::run::collector::{Boundary, Collector, Ending};
use soakd::store::record::{RunInfo, RunRecord, StreamInfo, Watermarks};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// Numbers beyond all reason (in the property test) may make a row longer than the usual 100 columns.
const WIDEST: usize = 160;

/// A daemon that consists of numbers: one stream `main`, one source `view`, one process `sut`.
struct Sim {
    collector: Collector,
    snapshot: Snapshot,
    latencies: Latencies,
    heads: Vec<Head>,
}

impl Sim {
    fn new() -> Self {
        let run = RunStatus::starting("t-20261130T154400Z", "t");
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
            streams: [("main".to_owned(), StreamSnapshot { topic: "soak-t".into(), ..Default::default() })]
                .into(),
            sources: [("view".to_owned(), source)].into(),
            machines: Default::default(),
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
        self.stream().target = Rate::from_micros(records_per_second * 1_000_000).into();
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
        assert!(line.chars().count() <= WIDEST, "{line}");
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
