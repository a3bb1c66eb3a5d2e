//! The machine that this program runs on: load, CPU, memory, space on a disk, bytes of the network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use procfs::net::{DeviceStatus, InterfaceDeviceStatus};
use procfs::{CpuTime, FromBufReadSI, FromRead, KernelStats, LoadAverage, Meminfo};
use tokio_util::sync::CancellationToken;

use super::looks::looks;
use crate::config::read_file;
use crate::core::clock::Clock;
use crate::core::lock::lock;
use crate::core::machine::{CpuTimes, MachineStatus};

/// Four small files: a second costs nothing and shows bursts.
const INTERVAL: Duration = Duration::from_secs(1);
/// /proc/stat of a machine with a thousand CPUs and as many interrupts.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Watches this machine and keeps its cell of the board up to date.
#[derive(Debug)]
pub struct MachineWatch {
    proc_root: PathBuf,
    sys_root: PathBuf,
    disk: PathBuf,
    cpu: Option<CpuTimes>,
    network: Option<BTreeMap<String, (u64, u64)>>,
    status: MachineStatus,
    cell: Arc<Mutex<MachineStatus>>,
    clock: Clock,
}

impl MachineWatch {
    /// Prepares the watching; `disk` is a folder of the file system whose space is watched. Nothing is read yet.
    #[must_use]
    pub fn new(disk: PathBuf, cell: Arc<Mutex<MachineStatus>>, clock: Clock) -> Self {
        Self::at("/proc".into(), "/sys".into(), disk, cell, clock)
    }

    fn at(
        proc_root: PathBuf,
        sys_root: PathBuf,
        disk: PathBuf,
        cell: Arc<Mutex<MachineStatus>>,
        clock: Clock,
    ) -> Self {
        let status = MachineStatus::default();
        Self { proc_root, sys_root, disk, cpu: None, network: None, status, cell, clock }
    }

    /// Looks every second until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        // The disk may be one that hangs.
        looks(self, INTERVAL, Self::look, "the machine is not watched any more", stop).await;
    }

    /// Looks once, now, on this thread, and writes the cell.
    pub fn look(&mut self) {
        let troubled = self.status.error.is_some();
        match self.read() {
            Ok(()) => self.status.error = None,
            Err(error) => {
                if !troubled {
                    tracing::warn!(error, "the machine cannot be watched");
                }
                self.status.lose(error);
            }
        }
        self.status.looked_ns = Some(self.clock.now_ns());
        lock(&self.cell).clone_from(&self.status);
    }

    fn read(&mut self) -> Result<(), String> {
        let system = procfs::current_system_info();
        let stat = KernelStats::from_buf_read(&*bytes(&self.proc_root.join("stat"))?, system)
            .map_err(|error| unreadable(&self.proc_root.join("stat"), &error))?;
        let load: LoadAverage = parsed(&self.proc_root.join("loadavg"))?;
        let memory: Meminfo = parsed(&self.proc_root.join("meminfo"))?;
        // Of this process's network namespace.
        let devices: InterfaceDeviceStatus = parsed(&self.proc_root.join("net/dev"))?;
        let devices = real_devices(devices.0.into_values(), &self.sys_root.join("class/net"));
        self.take_cpu(cpu_times(&stat.total));
        self.take_network(devices);
        self.status.up = true;
        self.status.cpus = u32::try_from(stat.cpu_time.len()).ok().filter(|cpus| *cpus > 0);
        self.status.load1 = Some(f64::from(load.one));
        self.status.memory_total_bytes = Some(memory.mem_total);
        self.status.memory_available_bytes = memory.mem_available;
        let space = space(&self.disk);
        self.status.disk_total_bytes = space.map(|space| space.total);
        self.status.disk_free_bytes = space.map(|space| space.free);
        Ok(())
    }

    /// Counts from the first look on; what falls (the kernel's iowait does at times) adds nothing.
    fn take_cpu(&mut self, now: CpuTimes) {
        let Some(last) = self.cpu else {
            self.cpu = Some(now);
            return;
        };
        let grown = now.with(last, u64::saturating_sub);
        self.status.cpu = Some(self.status.cpu.unwrap_or_default().with(grown, u64::saturating_add));
        // The highest that was seen: what comes back after a fall was counted already.
        self.cpu = Some(now.with(last, u64::max));
    }

    /// By device: one that comes or goes must not look like traffic.
    fn take_network(&mut self, now: BTreeMap<String, (u64, u64)>) {
        if let Some(last) = &self.network {
            let (mut received, mut sent) = (0_u64, 0_u64);
            for (name, (in_bytes, out_bytes)) in &now {
                let Some((last_in, last_out)) = last.get(name) else { continue };
                received = received.saturating_add(in_bytes.saturating_sub(*last_in));
                sent = sent.saturating_add(out_bytes.saturating_sub(*last_out));
            }
            let add = |sum: Option<u64>, more: u64| Some(sum.unwrap_or(0).saturating_add(more));
            self.status.network_received_bytes = add(self.status.network_received_bytes, received);
            self.status.network_sent_bytes = add(self.status.network_sent_bytes, sent);
        }
        self.network = Some(now);
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    read_file(path, MAX_FILE_BYTES).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn parsed<T: FromRead>(path: &Path) -> Result<T, String> {
    T::from_read(&*bytes(path)?).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &procfs::ProcError) -> String {
    format!("cannot make sense of {}: {error}", path.display())
}

fn cpu_times(total: &CpuTime) -> CpuTimes {
    let ns = |ticks: u64| {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(procfs::ticks_per_second().max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    // Guests are in user and nice already.
    CpuTimes {
        user_ns: ns(total.user.saturating_add(total.nice)),
        system_ns: ns(total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0)),
        iowait_ns: ns(total.iowait.unwrap_or(0)),
        steal_ns: ns(total.steal.unwrap_or(0)),
        idle_ns: ns(total.idle),
    }
}

/// Bytes received and sent by device: those with hardware (or a hypervisor's) behind them, else, within a container that has
/// none, all but loopback. A bridge or a bond would count the same bytes again.
fn real_devices(all: impl Iterator<Item = DeviceStatus>, folder: &Path) -> BTreeMap<String, (u64, u64)> {
    let all: BTreeMap<String, (u64, u64)> = all
        .filter(|device| device.name != "lo")
        .map(|device| (device.name, (device.recv_bytes, device.sent_bytes)))
        .collect();
    let real: BTreeSet<String> =
        all.keys().filter(|name| folder.join(name).join("device").exists()).cloned().collect();
    if real.is_empty() {
        return all;
    }
    all.into_iter().filter(|(name, _)| real.contains(name)).collect()
}

/// Space of a file system, in bytes.
#[derive(Debug, Clone, Copy)]
struct Space {
    total: u64,
    free: u64,
}

/// Of the folder, or of what it will be made in: a store's folder is made when a run begins.
fn space(folder: &Path) -> Option<Space> {
    let folder = std::path::absolute(folder).ok()?;
    let found = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
    Some(Space {
        total: found.f_blocks.saturating_mul(found.f_frsize),
        free: found.f_bavail.saturating_mul(found.f_frsize),
    })
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
