//! What engines really answer, cut to what is read and some of what is not.

use super::*;

fn inspected() -> Inspected {
    Inspected {
        id: "4f1e".into(),
        pid: Some(7),
        running: true,
        oom_killed: false,
        exit_code: 0,
        started_at: "2026-11-30T10:00:00.5Z".into(),
        memory_limit_bytes: None,
    }
}

/// Docker 28 on cgroup version 2.
const DOCKER: &str = r#"{"read":"2026-11-30T10:00:01.1Z","preread":"0001-01-01T00:00:00Z","num_procs":0,
"pids_stats":{"current":12,"limit":18446744073709551615},
"blkio_stats":{"io_service_bytes_recursive":[{"major":259,"minor":0,"op":"read","value":4096},{"major":259,"minor":0,"op":"write","value":8192},{"major":8,"minor":0,"op":"write","value":1}],"io_serviced_recursive":null},
"cpu_stats":{"cpu_usage":{"total_usage":5000000000,"usage_in_kernelmode":2000000000,"usage_in_usermode":3000000000},"system_cpu_usage":99,"online_cpus":4,"throttling_data":{"periods":5,"throttled_periods":2,"throttled_time":1500000000}},
"memory_stats":{"usage":419430400,"stats":{"active_file":1,"inactive_file":209715200},"limit":8589934592},
"networks":{"eth0":{"rx_bytes":1,"tx_bytes":2}}}"#;

#[test]
fn dockers_statistics_are_read_as_docker_stats_shows_them() {
    let stats: Stats = serde_json::from_str(DOCKER).unwrap();
    let totals = stats.totals(1, &inspected());
    assert_eq!(
        totals.counters,
        Counters {
            cpu_user_ns: Some(3_000_000_000),
            cpu_system_ns: Some(2_000_000_000),
            cpu_unsplit_ns: None,
            cpu_throttled_ns: Some(1_500_000_000),
            io_read_bytes: Some(4_096),
            io_written_bytes: Some(8_193),
            oom_kills: None,
        }
    );
    assert!((stats.cores() - 4.0).abs() < 1e-9);
    let gauges = totals.gauges;
    assert_eq!(
        (gauges.memory_cgroup_bytes, gauges.memory_working_set_bytes),
        (Some(400 << 20), Some(200 << 20))
    );
    assert_eq!((gauges.memory_rss_bytes, gauges.memory_bytes()), (None, Some(200 << 20)));
    assert_eq!((gauges.threads, gauges.memory_limit_bytes), (Some(12), None));
    assert!(
        (gauges.start_time_seconds.unwrap() - 1_796_032_800.5).abs() < 1e-3,
        "{:?}",
        gauges.start_time_seconds
    );
}

#[test]
fn x6_a_containers_limit_is_its_own_and_at_most_the_machines() {
    let stats: Stats = serde_json::from_str(DOCKER).unwrap();
    for (limit, seen) in [
        (None, None),
        (Some(1 << 30), Some(1 << 30)),
        (Some(64 << 30), Some(8 << 30)),
        (Some(0x7FFF_FFFF_FFFF_F000), None),
    ] {
        let of = Inspected { memory_limit_bytes: limit, ..inspected() };
        assert_eq!(stats.totals(1, &of).gauges.memory_limit_bytes, seen, "{limit:?}");
    }
}

#[test]
fn an_engine_that_tells_only_the_sum_and_one_without_io() {
    let text = r#"{"cpu_stats":{"cpu_usage":{"total_usage":7000}},"memory_stats":{"usage":100,"max_usage":150,"stats":{"total_inactive_file":40,"inactive_file":1}},"blkio_stats":{"io_service_bytes_recursive":null}}"#;
    let stats: Stats = serde_json::from_str(text).unwrap();
    let totals = stats.totals(1, &inspected());
    assert_eq!((totals.counters.cpu_unsplit_ns, totals.counters.cpu_user_ns), (Some(7_000), None));
    assert_eq!((totals.counters.io_read_bytes, totals.counters.cpu_throttled_ns), (None, None));
    let gauges = totals.gauges;
    assert_eq!(
        (gauges.memory_working_set_bytes, gauges.memory_cgroup_peak_bytes),
        (Some(60), Some(150)),
        "version 1"
    );
    assert!(stats.cores().is_infinite());
}

#[test]
fn a_container_that_ended_is_a_sentence() {
    let of = Inspected { running: false, oom_killed: true, exit_code: 137, ..inspected() };
    assert_eq!(
        of.ended("sut"),
        "container \"sut\" does not run: its last exit code is 137, killed for want of memory"
    );
}

#[test]
fn a_start_is_read_in_utc_and_in_a_time_zone() {
    for (text, seconds) in [
        ("2026-11-30T10:00:00Z", Some(1_796_032_800.0)),
        ("2026-11-30T10:00:00.123456789Z", Some(1_796_032_800.123_456_8)),
        ("2026-11-30T11:00:00.5+01:00", Some(1_796_032_800.5)),
        ("2026-11-30T04:30:00-05:30", Some(1_796_032_800.0)),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("soon", None),
    ] {
        let seen = seconds_since_1970(text);
        assert!(
            seen.zip(seconds).map_or(seen == seconds, |(seen, seconds)| (seen - seconds).abs() < 1e-3),
            "{text}: {seen:?}"
        );
    }
}

/// Podman 4.3.1, a container that burns one core, on a machine with both versions of cgroups.
const PODMAN: &str = r#"{"read":"2026-12-01T02:31:10.842758433Z","preread":"0001-01-01T00:00:00Z","pids_stats":{"current":1},
"blkio_stats":{"io_service_bytes_recursive":[],"io_serviced_recursive":null},"num_procs":0,"storage_stats":{},
"cpu_stats":{"cpu_usage":{"total_usage":2984971011,"percpu_usage":[2791393229,193577782],"usage_in_kernelmode":51879501,"usage_in_usermode":2933091510},"system_cpu_usage":55683248329713,"online_cpus":2,"cpu":0,"throttling_data":{"periods":0,"throttled_periods":0,"throttled_time":0}},
"memory_stats":{"usage":720896,"limit":25276502016},"networks":{"network":{"rx_bytes":0}}}"#;

#[test]
fn podmans_statistics_are_read_and_do_not_make_up_a_working_set() {
    let stats: Stats = serde_json::from_str(PODMAN).unwrap();
    let totals = stats.totals(1, &inspected());
    assert_eq!(totals.counters.cpu_user_ns, Some(2_933_091_510));
    assert_eq!(totals.counters.cpu_system_ns, Some(51_879_501));
    let gauges = totals.gauges;
    assert_eq!((gauges.memory_working_set_bytes, gauges.memory_cgroup_bytes), (None, Some(720_896)));
    assert_eq!((gauges.memory_bytes(), gauges.memory_limit_bytes), (Some(720_896), None));
}
