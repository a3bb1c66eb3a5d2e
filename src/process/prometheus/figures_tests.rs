//! What real exporters list, cut to what is read and its neighbours.

use super::*;
use crate::net::prometheus::Selector;

const CADVISOR: &str = r#"container_cpu_usage_seconds_total{cpu="cpu00",id="/docker/a",image="mz",name="sut"} 40 1764540000000
container_cpu_usage_seconds_total{cpu="cpu01",id="/docker/a",image="mz",name="sut"} 20.5 1764540000000
container_cpu_usage_seconds_total{cpu="cpu00",id="/",image="",name=""} 9000 1764540000000
container_cpu_user_seconds_total{id="/docker/a",image="mz",name="sut"} 50 1764540000000
container_cpu_system_seconds_total{id="/docker/a",image="mz",name="sut"} 10 1764540000000
container_memory_usage_bytes{id="/docker/a",image="mz",name="sut"} 1.048576e+06 1764540000000
container_memory_rss{id="/docker/a",image="mz",name="sut"} 524288 1764540000000
container_memory_working_set_bytes{id="/docker/a",image="mz",name="sut"} 786432 1764540000000
container_spec_memory_limit_bytes{id="/docker/a",image="mz",name="sut"} 9.223372036854772e+18
container_fs_reads_bytes_total{device="/dev/a",id="/docker/a",image="mz",name="sut"} 100 1764540000000
container_fs_reads_bytes_total{device="/dev/b",id="/docker/a",image="mz",name="sut"} 11 1764540000000
container_oom_events_total{id="/docker/a",image="mz",name="sut"} 2 1764540000000
container_start_time_seconds{id="/docker/a",image="mz",name="sut"} 1.7645e+09 1764540000000
"#;

const NODE: &str = r#"node_cpu_seconds_total{cpu="0",mode="idle"} 100
node_cpu_seconds_total{cpu="0",mode="iowait"} 1
node_cpu_seconds_total{cpu="0",mode="nice"} 0.5
node_cpu_seconds_total{cpu="0",mode="softirq"} 0.25
node_cpu_seconds_total{cpu="0",mode="system"} 2
node_cpu_seconds_total{cpu="0",mode="user"} 3
node_cpu_seconds_total{cpu="1",mode="idle"} 101
node_cpu_seconds_total{cpu="1",mode="user"} 4
node_cpu_guest_seconds_total{cpu="0",mode="user"} 99
node_load1 1.25
node_memory_MemTotal_bytes 2.147483648e+09
node_memory_MemAvailable_bytes 1.073741824e+09
node_filesystem_size_bytes{device="/dev/vda1",fstype="ext4",mountpoint="/"} 5000
node_filesystem_avail_bytes{device="/dev/vda1",fstype="ext4",mountpoint="/"} 4000
node_filesystem_avail_bytes{device="/dev/vdb",fstype="ext4",mountpoint="/data"} 77
node_network_receive_bytes_total{device="eth0"} 10
node_network_receive_bytes_total{device="lo"} 1000
node_network_receive_bytes_total{device="veth12"} 1000
node_network_transmit_bytes_total{device="eth0"} 20
node_boot_time_seconds 1.7e+09
"#;

fn found(series: ProcessSeries, labels: &str, text: &str) -> Result<Found, String> {
    let mut found = Found::default();
    for name in names(series) {
        let selector = Selector::parse(&format!("{name}{{{labels}}}")).unwrap();
        found.add(name, selector.find(text).unwrap())?;
    }
    Ok(found)
}

#[test]
fn a_container_of_cadvisor() {
    let series = ProcessSeries::Cadvisor;
    let found = self::found(series, r#"name="sut""#, CADVISOR).unwrap();
    assert_eq!(found.timestamp(series), Some("1764540000000"));
    let process = found.figures(series, "/").process;
    assert_eq!((process.cpu_user_ns, process.cpu_system_ns), (Some(50_000_000_000), Some(10_000_000_000)));
    assert_eq!(process.cpu_unsplit_ns, None, "never counted twice");
    assert_eq!((process.memory_rss_bytes, process.memory_cgroup_bytes), (Some(524_288), Some(1 << 20)));
    assert_eq!((process.memory_working_set_bytes, process.memory_limit_bytes), (Some(786_432), None), "x6");
    assert_eq!(
        (process.io_read_bytes, process.io_written_bytes, process.oom_kills),
        (Some(111), None, Some(2))
    );
    // Without the split: the CPUs together, or their total alone.
    let unsplit: String =
        CADVISOR.lines().filter(|line| !line.contains("_user_")).fold(String::new(), |t, l| t + l + "\n");
    let cpu = |text: &str| {
        self::found(series, r#"name="sut""#, text).unwrap().figures(series, "/").process.cpu_ns()
    };
    assert_eq!(cpu(&unsplit), Some(60_500_000_000));
    let total = unsplit
        + "container_cpu_usage_seconds_total{cpu=\"total\",id=\"/docker/a\",image=\"mz\",name=\"sut\"} 61\n";
    assert_eq!(cpu(&total), Some(61_000_000_000));
}

#[test]
fn several_things_are_refused_with_what_tells_them_apart() {
    let error = found(ProcessSeries::Cadvisor, "", CADVISOR).unwrap_err();
    assert!(
        error.contains("2 things match, which differ in id, image, name; choose one by labels"),
        "{error}"
    );
}

#[test]
fn a_machine_of_node_exporter() {
    let figures = found(ProcessSeries::Node, "", NODE).unwrap().figures(ProcessSeries::Node, "/");
    let machine = figures.machine.unwrap();
    let ms = 1_000_000;
    let cpu = CpuTimes {
        user_ns: 7_500 * ms,
        system_ns: 2_250 * ms,
        iowait_ns: 1_000 * ms,
        steal_ns: 0,
        idle_ns: 201_000 * ms,
    };
    assert_eq!((machine.cpu, machine.cpus, machine.load1), (Some(cpu), Some(2), Some(1.25)));
    assert_eq!((machine.disk_total_bytes, machine.disk_free_bytes), (Some(5000), Some(4000)));
    assert_eq!((machine.network_received_bytes, machine.network_sent_bytes), (Some(10), Some(20)));
    assert_eq!((machine.memory_total_bytes, machine.memory_available_bytes), (Some(2 << 30), Some(1 << 30)));
    assert_eq!(
        (figures.process.cpu_user_ns, figures.process.cpu_system_ns),
        (Some(7_500 * ms), Some(2_250 * ms))
    );
}

#[test]
fn m3_rubbish_is_unknown_and_not_a_figure() {
    for value in ["NaN", "+Inf", "-5", "1e400"] {
        let text = format!("process_cpu_seconds_total {value}\nprocess_resident_memory_bytes 4096\n");
        let process =
            found(ProcessSeries::Process, "", &text).unwrap().figures(ProcessSeries::Process, "/").process;
        assert_eq!((process.cpu_unsplit_ns, process.memory_rss_bytes), (None, Some(4096)), "{value}");
    }
}
