//! Cost of the system under test, by process.

use super::{Kind, Metric, Series, seconds};
use crate::core::slope::Growth;
use crate::core::status::{ProcessStatus, Snapshot};

/// One series for each process that has a value.
fn each(snapshot: &Snapshot, out: &mut Series, value: impl Fn(&ProcessStatus) -> Option<f64>) {
    for (name, process) in &snapshot.processes {
        if let Some(value) = value(process) {
            out.value(&[name], value);
        }
    }
}

/// A gauge of a process that is gone would go on as a flat line: it is absent instead.
fn while_up(process: &ProcessStatus, value: Option<u64>) -> Option<f64> {
    value.filter(|_| process.up).map(|value| value as f64)
}

/// One series for each process that is there and whose slope is known.
fn slope(snapshot: &Snapshot, out: &mut Series, value: impl Fn(&Growth) -> f64) {
    for (name, growth) in &snapshot.run.memory_slopes {
        if snapshot.processes.get(name).is_some_and(|process| process.up) {
            out.value(&[name], value(growth));
        }
    }
}

pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "soakd_sut_up",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["process"],
        help: "1 while the process was there at the last look, else 0.",
        collect: |snapshot, out| each(snapshot, out, |process| Some(f64::from(u8::from(process.up)))),
    },
    Metric {
        name: "soakd_sut_cpu_seconds_total",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["process", "mode"],
        help: "CPU time since soakd first saw the process, children as configured, carried over restarts; its rate is in cores. Absent until there were two looks. mode is user and system, or total alone where the source does not tell them apart. From /proc/PID/stat or the cgroup's cpu.stat.",
        collect: |snapshot, out| {
            for (name, process) in &snapshot.processes {
                let modes = [
                    ("user", process.cpu_user_ns),
                    ("system", process.cpu_system_ns),
                    ("total", process.cpu_unsplit_ns),
                ];
                for (mode, ns) in modes {
                    if let Some(ns) = ns {
                        out.value(&[name, mode], seconds(ns));
                    }
                }
            }
        },
    },
    Metric {
        name: "soakd_sut_memory_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &["process", "kind"],
        help: "Memory of the process, children as configured, by kind; absent while it is gone. rss is the sum of resident pages, shared ones counted in each process; pss divides shared ones among those who share them (read every 10 s); cgroup is what the cgroup is charged for, page cache included, cgroup_peak the most it ever was; working_set is cgroup without the inactive page cache, what docker stats shows. From /proc/PID and the cgroup's memory files.",
        collect: |snapshot, out| {
            for (name, process) in &snapshot.processes {
                let kinds = [
                    ("rss", process.memory_rss_bytes),
                    ("pss", process.memory_pss_bytes),
                    ("cgroup", process.memory_cgroup_bytes),
                    ("cgroup_peak", process.memory_cgroup_peak_bytes),
                    ("working_set", process.memory_working_set_bytes),
                ];
                for (kind, bytes) in kinds {
                    if let Some(bytes) = while_up(process, bytes) {
                        out.value(&[name, kind], bytes);
                    }
                }
            }
        },
    },
    Metric {
        name: "soakd_sut_memory_limit_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &["process"],
        help: "Memory limit of the process's cgroup, at most the machine's memory; absent without a limit and while the process is gone. From the cgroup's memory.max, those above it and /proc/meminfo.",
        collect: |snapshot, out| each(snapshot, out, |process| while_up(process, process.memory_limit_bytes)),
    },
    Metric {
        name: "soakd_sut_memory_slope_bytes_per_hour",
        kind: Kind::Gauge,
        unit: "bytes per hour",
        labels: &["process"],
        help: "How the memory of the process (resident, else of the cgroup) grows in the measured phase, since it began or the last restart: a robust slope. Absent outside of the measured phase, for the first ten seconds and while the process is gone. It means nothing unless it is larger than its error.",
        collect: |snapshot, out| slope(snapshot, out, |growth| growth.per_hour),
    },
    Metric {
        name: "soakd_sut_memory_slope_error_bytes_per_hour",
        kind: Kind::Gauge,
        unit: "bytes per hour",
        labels: &["process"],
        help: "Half the width of the 95 % interval of soakd_sut_memory_slope_bytes_per_hour, by what memory does beside the slope; the memory is flat as far as one can tell when 0 lies in it. Absent like the slope.",
        collect: |snapshot, out| slope(snapshot, out, |growth| growth.error_per_hour),
    },
    Metric {
        name: "soakd_sut_threads",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["process"],
        help: "Threads of the process, children as configured; absent while it is gone. From /proc/PID/stat.",
        collect: |snapshot, out| each(snapshot, out, |process| while_up(process, process.threads)),
    },
    Metric {
        name: "soakd_sut_open_fds",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["process"],
        help: "Open file descriptors of the process, children as configured; absent while it is gone, and where soakd may not look. From /proc/PID/fd.",
        collect: |snapshot, out| each(snapshot, out, |process| while_up(process, process.open_fds)),
    },
    Metric {
        name: "soakd_sut_io_bytes_total",
        kind: Kind::Counter,
        unit: "bytes",
        labels: &["process", "direction"],
        help: "Bytes that the process read from storage and wrote to it (direction read and written) since soakd first saw it, children as configured, carried over restarts. Absent until there were two looks, and where soakd may not look. From /proc/PID/io or the cgroup's io.stat.",
        collect: |snapshot, out| {
            for (name, process) in &snapshot.processes {
                for (direction, bytes) in
                    [("read", process.io_read_bytes), ("written", process.io_written_bytes)]
                {
                    if let Some(bytes) = bytes {
                        out.value(&[name, direction], bytes as f64);
                    }
                }
            }
        },
    },
    Metric {
        name: "soakd_sut_cpu_throttled_seconds_total",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["process"],
        help: "Time in which the CPU quota of the process's cgroup held its threads back since soakd first saw it, carried over restarts; absent where there is no cgroup with a CPU controller. From the cgroup's cpu.stat.",
        collect: |snapshot, out| each(snapshot, out, |process| process.cpu_throttled_ns.map(seconds)),
    },
    Metric {
        name: "soakd_sut_oom_kills_total",
        kind: Kind::Counter,
        unit: "1",
        labels: &["process"],
        help: "Processes of the cgroup that the kernel killed for want of memory since soakd first saw it; absent where there is no cgroup with a memory controller. From the cgroup's memory.events.",
        collect: |snapshot, out| each(snapshot, out, |process| process.oom_kills.map(|kills| kills as f64)),
    },
    Metric {
        name: "soakd_sut_start_time_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: &["process"],
        help: "Wall time at which the process was started, in seconds since 1970; absent while it is gone. From /proc/PID/stat.",
        collect: |snapshot, out| {
            each(snapshot, out, |process| process.start_time_seconds.filter(|_| process.up));
        },
    },
    Metric {
        name: "soakd_sut_restarts_total",
        kind: Kind::Counter,
        unit: "1",
        labels: &["process"],
        help: "Times that another process took the place of the watched one.",
        collect: |snapshot, out| each(snapshot, out, |process| Some(process.restarts as f64)),
    },
];
