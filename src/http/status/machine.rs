//! A machine in the status.

use std::collections::BTreeMap;

use serde::Serialize;

use super::seconds;
use crate::core::machine::MachineStatus;

/// A machine as the status shows it; what is not known is null.
#[derive(Debug, Serialize)]
pub(super) struct MachineBody {
    up: bool,
    error: Option<String>,
    cpus: Option<u32>,
    load1: Option<f64>,
    /// Since soakd first saw it, by mode.
    cpu_seconds: BTreeMap<&'static str, f64>,
    memory_total_bytes: Option<u64>,
    memory_available_bytes: Option<u64>,
    disk_total_bytes: Option<u64>,
    disk_free_bytes: Option<u64>,
    network_received_bytes: Option<u64>,
    network_sent_bytes: Option<u64>,
}

pub(super) fn body(seen: MachineStatus) -> MachineBody {
    let modes = seen.cpu.iter().flat_map(|cpu| cpu.modes());
    MachineBody {
        up: seen.up,
        error: seen.error,
        cpus: seen.cpus,
        load1: seen.load1,
        cpu_seconds: modes.map(|(mode, ns)| (mode, seconds(ns))).collect(),
        memory_total_bytes: seen.memory_total_bytes,
        memory_available_bytes: seen.memory_available_bytes,
        disk_total_bytes: seen.disk_total_bytes,
        disk_free_bytes: seen.disk_free_bytes,
        network_received_bytes: seen.network_received_bytes,
        network_sent_bytes: seen.network_sent_bytes,
    }
}
