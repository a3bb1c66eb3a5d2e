//! The run, and the daemon's own process.

use super::{Kind, Metric};
use crate::core::status::RunState;

pub(super) static RUN: &[Metric] = &[
    Metric {
        name: "soakd_build_info",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["version", "profile"],
        help: "Always 1; version and build profile of this soakd. Figures of a debug build say nothing about speed.",
        collect: |_, out| {
            let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
            out.value(&[env!("CARGO_PKG_VERSION"), profile], 1.0);
        },
    },
    Metric {
        name: "soakd_run_info",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["run", "name"],
        help: "Always 1; id and name of the current run. No other metric has the run label: join on this one.",
        collect: |snapshot, out| out.value(&[&snapshot.run.id, &snapshot.run.name], 1.0),
    },
    Metric {
        name: "soakd_run_state",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["state"],
        help: "1 for the state that the run is in and 0 for all others.",
        collect: |snapshot, out| {
            for state in RunState::ALL {
                out.count(&[state.name()], u64::from(state == snapshot.run.state));
            }
        },
    },
    Metric {
        name: "soakd_run_start_timestamp_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: &[],
        help: "Wall time at which the load of the current run began, in seconds since 1970; absent before.",
        collect: |snapshot, out| {
            if let Some(started_ns) = snapshot.run.started_ns {
                out.value(&[], snapshot.clock.wall_seconds(started_ns));
            }
        },
    },
    Metric {
        name: "soakd_heartbeat_total",
        kind: Kind::Counter,
        unit: "1",
        labels: &[],
        help: "Beats of the run loop, one a second: it stops when the daemon answers but no longer works.",
        collect: |snapshot, out| out.count(&[], snapshot.heartbeats),
    },
    Metric {
        name: "soakd_events_total",
        kind: Kind::Counter,
        unit: "1",
        labels: &["kind"],
        help: "Events by kind, counted when they happen; the record holds them with their details.",
        collect: |snapshot, out| {
            for (kind, count) in &snapshot.events {
                out.count(&[kind], *count);
            }
        },
    },
];

/// Read by the prometheus crate from `/proc/self`, not from a snapshot.
const fn process(name: &'static str, kind: Kind, unit: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, unit, labels: &[], help, collect: |_, _| {} }
}

pub(super) static PROCESS: &[Metric] = &[
    process(
        "process_cpu_seconds_total",
        Kind::Counter,
        "seconds",
        "CPU time of soakd in user and system mode, in whole seconds. From /proc/self/stat.",
    ),
    process("process_open_fds", Kind::Gauge, "1", "Open file descriptors of soakd. From /proc/self/fd."),
    process(
        "process_max_fds",
        Kind::Gauge,
        "1",
        "Most file descriptors that soakd may have open. From /proc/self/limits.",
    ),
    process(
        "process_virtual_memory_bytes",
        Kind::Gauge,
        "bytes",
        "Address space of soakd. From /proc/self/stat.",
    ),
    process(
        "process_resident_memory_bytes",
        Kind::Gauge,
        "bytes",
        "Resident memory of soakd. From /proc/self/stat.",
    ),
    process(
        "process_start_time_seconds",
        Kind::Gauge,
        "seconds",
        "Wall time at which soakd was started, in seconds since 1970. From /proc/self/stat.",
    ),
    process("process_threads", Kind::Gauge, "1", "Threads of soakd. From /proc/self/stat."),
];
