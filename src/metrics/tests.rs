use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::core::clock::Clock;
use crate::core::counters::Counters;
use crate::core::event::KINDS;
use crate::core::histogram::Latency;
use crate::core::lag::Reading;
use crate::core::machine::{CpuTimes, MachineStatus};
use crate::core::rate::Rate;
use crate::core::recovery::{Recovery, Trouble};
use crate::core::slope::Growth;
use crate::core::status::{Freshness, ProcessStatus, RunState, RunStatus, SourceStatus};
use crate::core::stream::StreamSnapshot;

fn latency(latencies_ns: &[u64]) -> Latency {
    let mut latency = Latency::new();
    latencies_ns.iter().for_each(|ns| latency.record(*ns));
    latency
}

fn buckets(latencies_ns: &[u64]) -> Buckets {
    *latency(latencies_ns).buckets()
}

fn reading() -> Reading {
    Reading {
        at_ns: 1,
        progress_records: Some(800.0),
        lag_records: Some(100),
        lag_ns: Some(1_500_000_000),
        lag_at_least: false,
        uncertainty_records: 2.5,
        expired_records: 7,
        unknown_partitions: 1,
        caught_up: false,
        stated: false,
    }
}

/// A snapshot in which every metric has a series.
fn full() -> Snapshot {
    let counters = Counters {
        scheduled: 1000,
        sent: 950,
        acked: 900,
        failed: [1, 2, 3, 4, 5, 6],
        dropped: [10, 0, 5, 5, 0],
        backlog: 30,
        in_flight: 29,
        bytes_acked: 90_000,
        markers: 8,
        stalls: 2,
        rebuilds: 1,
        limited_ns: [0, 2_500_000_000],
    };
    assert!(counters.tie_out());
    let stream = StreamSnapshot {
        topic: "soak".into(),
        watched_records: Some(40),
        target: Rate::from_micros(12_500_000).into(),
        set_rate: Rate::from_micros(12_500_000).into(),
        counters,
        schedule_delay: buckets(&[90_000, 1_000_000, 3_600_000_000_000]),
        ack_from_intended: buckets(&[5_000_000]),
        ack_from_sent: buckets(&[4_000_000]),
        limited: [false, true],
        broker_rtt_micros: BTreeMap::from([(1, 1500)]),
        ..StreamSnapshot::default()
    };
    let source = SourceStatus {
        stream: "main".into(),
        up: true,
        errors: [1, 0, 0, 2, 0],
        last_success_ns: Some(5),
        duration: buckets(&[2_000_000]),
        reading: Some(reading()),
        standstill_ns: 4_000_000_000,
        resolution_ns: Some(1_002_000_000),
        ingest_records_per_second: Some(1234.5),
        catch_up_ns: Some(60_000_000_000),
        recovery: Some(Recovery {
            trouble: Trouble::Fell,
            began_ns: 1,
            back_ns: Some(1_500_000_000),
            caught_up_ns: Some(4_000_000_000),
        }),
        clock_ahead: 3,
        below_zero: 2,
        freshness: Some(Freshness {
            latency: Arc::new(latency(&[700_000_000, 900_000_000])),
            oldest_unseen_ns: Some(2_500_000_000),
        }),
        end_to_end: Some(Arc::new(latency(&[150_000_000]))),
        ..SourceStatus::default()
    };
    let process = ProcessStatus {
        up: true,
        cpu_user_ns: Some(1_250_000_000),
        cpu_system_ns: Some(250_000_000),
        cpu_throttled_ns: Some(750_000_000),
        memory_rss_bytes: Some(1 << 20),
        memory_pss_bytes: Some(900_000),
        memory_cgroup_bytes: Some(3 << 20),
        memory_cgroup_peak_bytes: Some(4 << 20),
        memory_working_set_bytes: Some(2 << 20),
        memory_limit_bytes: Some(8 << 20),
        threads: Some(3),
        open_fds: Some(17),
        io_read_bytes: Some(4_096),
        io_written_bytes: Some(8_192),
        oom_kills: Some(2),
        start_time_seconds: Some(1.7e9),
        restarts: 1,
        ..ProcessStatus::default()
    };
    let machine = MachineStatus {
        up: true,
        cpus: Some(4),
        load1: Some(1.5),
        cpu: Some(CpuTimes { user_ns: 2_500_000_000, idle_ns: 7_000_000_000, ..CpuTimes::default() }),
        memory_total_bytes: Some(1 << 30),
        memory_available_bytes: Some(1 << 29),
        disk_total_bytes: Some(1 << 40),
        disk_free_bytes: Some(1 << 39),
        network_received_bytes: Some(100),
        network_sent_bytes: Some(200),
        ..MachineStatus::default()
    };
    let growth = Growth { per_hour: 4096.0, error_per_hour: 1024.0, over_ns: 60_000_000_000, restarts: 0 };
    Snapshot {
        now_ns: 10,
        clock: Clock::start(),
        run: RunStatus {
            state: RunState::Measuring,
            started_ns: Some(1),
            measuring_ns: Some(2),
            memory_slopes: BTreeMap::from([("engine".to_owned(), growth)]),
            ..RunStatus::starting("steady-1", "a \"quoted\\\nname")
        },
        streams: BTreeMap::from([("main".to_owned(), stream)]),
        sources: BTreeMap::from([("view".to_owned(), source)]),
        processes: BTreeMap::from([("engine".to_owned(), process)]),
        machines: BTreeMap::from([("soakd".to_owned(), machine)]),
        events: KINDS.iter().map(|kind| (*kind, 0)).collect(),
        heartbeats: 61,
    }
}

fn render(snapshot: &Snapshot) -> String {
    Renderer::default().render(snapshot).unwrap()
}

/// The value of the one series that is written like this.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[track_caller]
fn promtool_is_content(text: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("promtool cannot be started ({error}): install the Debian package prometheus")
        });
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "promtool: {}", String::from_utf8_lossy(&said));
}

#[test]
fn catalogue_and_output_agree_in_both_directions() {
    let families = {
        let snapshot = full();
        let mut families: Vec<MetricFamily> = all().filter_map(|metric| family(metric, &snapshot)).collect();
        families.extend(ProcessCollector::for_self().collect());
        families
    };
    let shown: BTreeSet<&str> = families.iter().map(MetricFamily::name).collect();
    let promised: BTreeSet<&str> = all().map(|metric| metric.name).collect();
    assert_eq!(shown, promised);
    assert_eq!(all().count(), promised.len(), "a name stands twice in the catalogue");
    for family in &families {
        let metric = all().find(|metric| metric.name == family.name()).unwrap();
        assert_eq!(family.get_field_type(), metric.kind.proto(), "{}", metric.name);
        for series in family.get_metric() {
            let labels: Vec<&str> = series.get_label().iter().map(proto::LabelPair::name).collect();
            assert_eq!(labels, metric.labels, "{}", metric.name);
        }
        assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
        let has_run_label = metric.labels.contains(&"run");
        assert_eq!(has_run_label, metric.name == "soakd_run_info", "{}", metric.name);
    }
}

#[test]
fn promtool_check_metrics_is_clean_for_a_full_and_for_an_empty_daemon() {
    promtool_is_content(&render(&full()));
    let mut bare = full();
    bare.run.started_ns = None;
    for source in bare.sources.values_mut() {
        *source = SourceStatus { stream: "main".into(), ..SourceStatus::default() };
    }
    bare.processes.insert("engine".into(), ProcessStatus::default());
    bare.streams.insert("main".into(), StreamSnapshot::default());
    promtool_is_content(&render(&bare));
    bare.streams.clear();
    bare.sources.clear();
    bare.processes.clear();
    promtool_is_content(&render(&bare));
}

#[test]
fn invariants_hold_in_the_text() {
    let text = render(&full());
    let main = |name: &str| value(&text, &format!("{name}{{stream=\"main\"}}")).unwrap() as u64;
    let sum = |name: &str| -> u64 {
        let series: Vec<u64> = text
            .lines()
            .filter(|line| line.starts_with(&format!("{name}{{stream=\"main\",reason=")))
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        series.iter().sum()
    };
    let sent = main("soakd_records_sent_total");
    let settled = sum("soakd_records_dropped_total") + main("soakd_schedule_backlog_records");
    assert_eq!(main("soakd_records_scheduled_total"), sent + settled);
    let reported = main("soakd_records_acked_total") + sum("soakd_records_failed_total");
    assert_eq!(sent, reported + main("soakd_records_in_flight"));
}

#[test]
fn values_are_in_base_units() {
    let text = render(&full());
    let expected = [
        ("soakd_target_records_per_second{stream=\"main\"}", 12.5),
        ("soakd_lag_seconds{source=\"view\",stream=\"main\"}", 1.5),
        ("soakd_lag_records{source=\"view\",stream=\"main\"}", 100.0),
        ("soakd_lag_at_least{source=\"view\",stream=\"main\"}", 0.0),
        ("soakd_lag_uncertainty_records{source=\"view\",stream=\"main\"}", 2.5),
        ("soakd_standstill_seconds_total{source=\"view\",stream=\"main\"}", 4.0),
        ("soakd_progress_resolution_seconds{source=\"view\",stream=\"main\"}", 1.002),
        ("soakd_catch_up_seconds{source=\"view\",stream=\"main\"}", 60.0),
        ("soakd_ingest_records_per_second{source=\"view\",stream=\"main\"}", 1234.5),
        ("soakd_recovery_back_seconds{source=\"view\",stream=\"main\"}", 1.5),
        ("soakd_recovery_caught_up_seconds{source=\"view\",stream=\"main\"}", 4.0),
        ("soakd_progress_clock_ahead_total{source=\"view\",stream=\"main\"}", 3.0),
        ("soakd_progress_lag_below_zero_total{source=\"view\",stream=\"main\"}", 2.0),
        ("soakd_marker_oldest_unseen_seconds{source=\"view\",stream=\"main\"}", 2.5),
        ("soakd_freshness_seconds_count{source=\"view\",stream=\"main\"}", 2.0),
        ("soakd_freshness_seconds_sum{source=\"view\",stream=\"main\"}", 1.6),
        ("soakd_end_to_end_seconds_sum{source=\"view\",stream=\"main\"}", 0.15),
        ("soakd_broker_rtt_seconds{stream=\"main\",broker=\"1\"}", 0.0015),
        ("soakd_load_limited{stream=\"main\",by=\"broker\"}", 1.0),
        ("soakd_load_limited_seconds_total{stream=\"main\",by=\"broker\"}", 2.5),
        ("soakd_sut_cpu_seconds_total{process=\"engine\",mode=\"system\"}", 0.25),
        ("soakd_sut_cpu_throttled_seconds_total{process=\"engine\"}", 0.75),
        ("soakd_sut_memory_bytes{process=\"engine\",kind=\"pss\"}", 900_000.0),
        ("soakd_sut_memory_bytes{process=\"engine\",kind=\"cgroup\"}", 3_145_728.0),
        ("soakd_sut_memory_bytes{process=\"engine\",kind=\"cgroup_peak\"}", 4_194_304.0),
        ("soakd_sut_memory_bytes{process=\"engine\",kind=\"working_set\"}", 2_097_152.0),
        ("soakd_sut_memory_limit_bytes{process=\"engine\"}", 8_388_608.0),
        ("soakd_sut_open_fds{process=\"engine\"}", 17.0),
        ("soakd_sut_io_bytes_total{process=\"engine\",direction=\"read\"}", 4_096.0),
        ("soakd_sut_io_bytes_total{process=\"engine\",direction=\"written\"}", 8_192.0),
        ("soakd_sut_oom_kills_total{process=\"engine\"}", 2.0),
        ("soakd_sut_memory_slope_bytes_per_hour{process=\"engine\"}", 4096.0),
        ("soakd_sut_memory_slope_error_bytes_per_hour{process=\"engine\"}", 1024.0),
        ("soakd_heartbeat_total", 61.0),
        ("soakd_schedule_delay_seconds_bucket{stream=\"main\",le=\"0.0001\"}", 1.0),
        ("soakd_schedule_delay_seconds_bucket{stream=\"main\",le=\"0.001\"}", 2.0),
        ("soakd_schedule_delay_seconds_bucket{stream=\"main\",le=\"681\"}", 2.0),
        ("soakd_schedule_delay_seconds_bucket{stream=\"main\",le=\"+Inf\"}", 3.0),
        ("soakd_schedule_delay_seconds_count{stream=\"main\"}", 3.0),
        ("soakd_schedule_delay_seconds_sum{stream=\"main\"}", 3600.00109),
    ];
    for (series, wanted) in expected {
        assert_eq!(value(&text, series), Some(wanted), "{series}");
    }
}

#[test]
fn every_label_pair_of_an_error_counter_exists_from_the_start_at_0() {
    let mut snapshot = full();
    snapshot.streams.insert("main".into(), StreamSnapshot::default());
    let fresh = SourceStatus { stream: "main".into(), ..SourceStatus::default() };
    snapshot.sources.insert("view".into(), fresh);
    let text = render(&snapshot);
    for series in [
        "soakd_records_failed_total{stream=\"main\",reason=\"timed_out\"}",
        "soakd_records_failed_total{stream=\"main\",reason=\"outcome_unknown\"}",
        "soakd_records_dropped_total{stream=\"main\",reason=\"late\"}",
        "soakd_records_dropped_total{stream=\"main\",reason=\"stopped\"}",
        "soakd_progress_errors_total{source=\"view\",stream=\"main\",kind=\"bad_value\"}",
        "soakd_load_limited_seconds_total{stream=\"main\",by=\"generator\"}",
        "soakd_events_total{kind=\"process_restarted\"}",
        "soakd_standstills_total{source=\"view\",stream=\"main\"}",
    ] {
        assert_eq!(value(&text, series), Some(0.0), "{series}");
    }
}

#[test]
fn m4_unknown_is_absent_and_not_zero() {
    let mut snapshot = full();
    let source = snapshot.sources.get_mut("view").unwrap();
    source.up = false;
    source.reading = None;
    (source.catch_up_ns, source.ingest_records_per_second) = (None, None);
    source.freshness.as_mut().unwrap().oldest_unseen_ns = None;
    let process = snapshot.processes.get_mut("engine").unwrap();
    process.up = false;
    let text = render(&snapshot);
    for gone in [
        "soakd_lag_",
        "soakd_progress_records",
        "soakd_progress_unknown_partitions",
        "soakd_expired_records",
        "soakd_catch_up_seconds",
        "soakd_ingest_records_per_second",
        "soakd_marker_oldest_unseen_seconds",
        "soakd_sut_memory_",
        "soakd_sut_open_fds",
        "soakd_sut_threads",
        "soakd_sut_start_time_seconds",
    ] {
        assert!(!text.lines().any(|line| line.starts_with(gone)), "{gone}");
    }
    assert_eq!(value(&text, "soakd_progress_up{source=\"view\",stream=\"main\"}"), Some(0.0));
    assert_eq!(value(&text, "soakd_sut_up{process=\"engine\"}"), Some(0.0));
    let last_success = "soakd_progress_last_success_timestamp_seconds{source=\"view\",stream=\"main\"}";
    assert!(value(&text, last_success).is_some(), "the age of the last good sample grows on");

    // The source answers and has no figure for any partition: no lag, and the partitions are counted.
    let source = snapshot.sources.get_mut("view").unwrap();
    source.up = true;
    source.reading = Some(Reading { unknown_partitions: 4, ..Reading::default() });
    let text = render(&snapshot);
    assert!(!text.contains("\nsoakd_lag_"), "{text}");
    let unknown = "soakd_progress_unknown_partitions{source=\"view\",stream=\"main\"}";
    assert_eq!(value(&text, unknown), Some(4.0));
}

#[test]
fn m4_exactly_one_state_is_1() {
    let mut snapshot = full();
    for state in RunState::ALL {
        snapshot.run.state = state;
        let text = render(&snapshot);
        let set: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("soakd_run_state{") && line.ends_with(" 1"))
            .collect();
        assert_eq!(set, [format!("soakd_run_state{{state=\"{}\"}} 1", state.name())]);
    }
}

#[test]
fn m7_a_large_daemon_is_scraped_fast_and_with_few_series() {
    let mut snapshot = full();
    let stream = snapshot.streams["main"].clone();
    let source = snapshot.sources["view"].clone();
    for i in 0..10 {
        snapshot.streams.insert(format!("s{i}"), stream.clone());
        snapshot.sources.insert(format!("p{i}"), source.clone());
    }
    let renderer = Renderer::default();
    let begin = Instant::now();
    let text = renderer.render(&snapshot).unwrap();
    let took = begin.elapsed();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{series} series, {} bytes in {took:?}", text.len());
    assert!(series < 5000, "{series}");
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[test]
fn the_printed_catalogue_has_a_row_for_every_metric() {
    let text = markdown();
    for metric in all() {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{}` |", metric.name)));
        let row = row.unwrap_or_else(|| panic!("{} is missing", metric.name));
        assert_eq!(row.matches('|').count(), 6, "{row}");
        assert!(row.contains(metric.kind.name()) && row.contains(metric.help), "{row}");
        assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{}", metric.name);
    }
}
