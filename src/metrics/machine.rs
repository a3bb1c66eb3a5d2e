//! Whole machines: soakd's own, and those that agents and node_exporters tell of.

use super::{Kind, Metric, Series, seconds};
use crate::core::machine::MachineStatus;
use crate::core::status::Snapshot;

/// One series for each machine that has a value.
fn each(snapshot: &Snapshot, out: &mut Series, value: impl Fn(&MachineStatus) -> Option<f64>) {
    for (name, machine) in &snapshot.machines {
        if let Some(value) = value(machine) {
            out.value(&[name], value);
        }
    }
}

/// One series for each machine and each of two values.
fn pairs<const N: usize>(
    snapshot: &Snapshot,
    out: &mut Series,
    values: impl Fn(&MachineStatus) -> [(&'static str, Option<u64>); N],
) {
    for (name, machine) in &snapshot.machines {
        for (label, value) in values(machine) {
            if let Some(value) = value {
                out.count(&[name, label], value);
            }
        }
    }
}

pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "soakd_machine_up",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["machine"],
        help: "1 while the last look at the machine succeeded, else 0. The machine \"soakd\" is the one that soakd runs on; the others are told of by agents and exporters.",
        collect: |snapshot, out| each(snapshot, out, |machine| Some(f64::from(u8::from(machine.up)))),
    },
    Metric {
        name: "soakd_machine_cpus",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["machine"],
        help: "CPUs that the machine schedules on; absent while unknown. From /proc/stat.",
        collect: |snapshot, out| each(snapshot, out, |machine| machine.cpus.map(f64::from)),
    },
    Metric {
        name: "soakd_machine_load1",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["machine"],
        help: "Load average of the machine over a minute; absent while unknown. From /proc/loadavg.",
        collect: |snapshot, out| each(snapshot, out, |machine| machine.load1),
    },
    Metric {
        name: "soakd_machine_cpu_seconds_total",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["machine", "mode"],
        help: "CPU time of all CPUs of the machine since soakd first saw it, by mode: user, system, iowait, steal (a hypervisor gave the CPU to somebody else), idle. Absent until there were two looks. From /proc/stat.",
        collect: |snapshot, out| {
            for (name, machine) in &snapshot.machines {
                for (mode, ns) in machine.cpu.iter().flat_map(|cpu| cpu.modes()) {
                    out.value(&[name, mode], seconds(ns));
                }
            }
        },
    },
    Metric {
        name: "soakd_machine_memory_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &["machine", "kind"],
        help: "Memory of the machine: total, and available to programs without swapping; absent while unknown. From /proc/meminfo.",
        collect: |snapshot, out| {
            pairs(snapshot, out, |machine| {
                [("total", machine.memory_total_bytes), ("available", machine.memory_available_bytes)]
            });
        },
    },
    Metric {
        name: "soakd_machine_disk_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &["machine", "kind"],
        help: "Space of the file system of soakd's store, on an agent's machine of the one in its settings: total, and free for programs without privileges; absent while unknown.",
        collect: |snapshot, out| {
            pairs(snapshot, out, |machine| {
                [("total", machine.disk_total_bytes), ("free", machine.disk_free_bytes)]
            });
        },
    },
    Metric {
        name: "soakd_machine_network_bytes_total",
        kind: Kind::Counter,
        unit: "bytes",
        labels: &["machine", "direction"],
        help: "Bytes that the machine's network devices received and sent since soakd first saw it, what stays within the machine (loopback, bridges of containers) left out. Absent until there were two looks. From /proc/net/dev.",
        collect: |snapshot, out| {
            pairs(snapshot, out, |machine| {
                [("received", machine.network_received_bytes), ("sent", machine.network_sent_bytes)]
            });
        },
    },
];
