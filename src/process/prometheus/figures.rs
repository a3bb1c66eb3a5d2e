//! What the series of each exporter mean. Pure: series in, absolute figures out.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::machine::{CpuTimes, MachineStatus};
use crate::core::status::ProcessStatus;
use crate::net::prometheus::Series;
use crate::process::settings::ProcessSeries;

/// Labels that spread one thing over several series, which are added up. Series that differ in any other label are of several
/// things, and which is meant nobody knows.
const SPREAD: [&str; 5] = ["cpu", "mode", "device", "mountpoint", "fstype"];
/// Where the server's answer says which series are times; see [`super::query`].
pub(super) const PART: &str = "soakd_part";
/// A cgroup of version 1 without a limit has one of 2^63; no machine has as much.
const NO_LIMIT_BYTES: u64 = 1 << 60;
/// Devices of node_exporter that are none, by the beginnings of their names: what passes them passes a real one too, or stays within
/// the machine.
const UNREAL_DEVICES: [&str; 12] =
    ["lo", "veth", "docker", "br-", "virbr", "cni", "flannel", "cali", "tun", "tap", "bond", "ifb"];

/// Everything that is read of an exporter, the series that the others are timed by first.
pub(super) const fn names(series: ProcessSeries) -> &'static [&'static str] {
    match series {
        ProcessSeries::Process => &[
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_open_fds",
            "process_threads",
            "process_start_time_seconds",
        ],
        ProcessSeries::Cadvisor => &[
            "container_cpu_usage_seconds_total",
            "container_cpu_user_seconds_total",
            "container_cpu_system_seconds_total",
            "container_cpu_cfs_throttled_seconds_total",
            "container_memory_rss",
            "container_memory_usage_bytes",
            "container_memory_max_usage_bytes",
            "container_memory_working_set_bytes",
            "container_spec_memory_limit_bytes",
            "container_threads",
            "container_processes",
            "container_file_descriptors",
            "container_fs_reads_bytes_total",
            "container_fs_writes_bytes_total",
            "container_oom_events_total",
            "container_start_time_seconds",
        ],
        ProcessSeries::Node => &[
            "node_cpu_seconds_total",
            "node_load1",
            "node_memory_MemTotal_bytes",
            "node_memory_MemAvailable_bytes",
            "node_filesystem_size_bytes",
            "node_filesystem_avail_bytes",
            "node_network_receive_bytes_total",
            "node_network_transmit_bytes_total",
            "node_boot_time_seconds",
        ],
    }
}

/// The figures of one look, counters as the exporter counts them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// The process, container or machine; up when anything was there.
    pub(super) process: ProcessStatus,
    /// The machine, with the series of node_exporter.
    pub(super) machine: Option<MachineStatus>,
}

/// Series by name.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<&'static str, Vec<Series>>);

impl Found {
    /// Adds the series of one name.
    ///
    /// # Errors
    /// When they are of several processes.
    pub(super) fn add(&mut self, name: &'static str, series: Vec<Series>) -> Result<(), String> {
        let own = |one: &Series| -> BTreeMap<String, String> {
            let labels = one.labels.iter();
            let owned = labels.filter(|(label, _)| !SPREAD.contains(&label.as_str()) && *label != PART);
            owned.map(|(label, value)| (label.clone(), value.clone())).collect()
        };
        let things: BTreeSet<BTreeMap<String, String>> = series.iter().map(own).collect();
        if things.len() > 1 {
            let values = |label: &str| things.iter().map(|one| one.get(label)).collect::<BTreeSet<_>>().len();
            let labels: BTreeSet<&String> = things.iter().flat_map(BTreeMap::keys).collect();
            let differ: Vec<&str> =
                labels.into_iter().map(String::as_str).filter(|label| values(label) > 1).collect();
            return Err(format!(
                "the series {name} of {} things match, which differ in {}; choose one by labels",
                things.len(),
                differ.join(", ")
            ));
        }
        if !series.is_empty() {
            self.0.insert(name, series);
        }
        Ok(())
    }

    fn of(&self, name: &str) -> &[Series] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The timestamp of the series that the others are timed by, as it was written.
    pub(super) fn timestamp(&self, series: ProcessSeries) -> Option<&str> {
        self.of(names(series).first()?).first()?.timestamp.as_deref()
    }

    /// The sum over those series of a name that are taken. A value that is no number makes the figure unknown, not wrong.
    fn sum(&self, name: &str, takes: impl Fn(&Series) -> bool) -> Option<f64> {
        let mut sum = None;
        for one in self.of(name).iter().filter(|one| takes(one)) {
            let value: f64 = one.value.parse().ok()?;
            if !value.is_finite() || value < 0.0 {
                return None;
            }
            sum = Some(sum.unwrap_or(0.0) + value);
        }
        sum
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.sum(name, |_| true)
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.number(name).map(whole)
    }

    fn seconds_ns(&self, name: &str) -> Option<u64> {
        self.number(name).map(ns)
    }

    /// Reads the figures. `mountpoint` chooses the file system of a machine.
    pub(super) fn figures(&self, series: ProcessSeries, mountpoint: &str) -> Figures {
        match series {
            ProcessSeries::Process => Figures { process: self.process(), machine: None },
            ProcessSeries::Cadvisor => Figures { process: self.container(), machine: None },
            ProcessSeries::Node => self.node(mountpoint),
        }
    }

    fn process(&self) -> ProcessStatus {
        ProcessStatus {
            up: !self.is_empty(),
            processes: 1,
            cpu_unsplit_ns: self.seconds_ns("process_cpu_seconds_total"),
            memory_rss_bytes: self.count("process_resident_memory_bytes"),
            threads: self.count("process_threads"),
            open_fds: self.count("process_open_fds"),
            start_time_seconds: self.number("process_start_time_seconds"),
            ..ProcessStatus::default()
        }
    }

    fn container(&self) -> ProcessStatus {
        let user = self.seconds_ns("container_cpu_user_seconds_total");
        let system = self.seconds_ns("container_cpu_system_seconds_total");
        let split = user.is_some() && system.is_some();
        // Either all CPUs together or each for itself, and never both.
        let all = "container_cpu_usage_seconds_total";
        let is_total = |one: &Series| one.labels.get("cpu").is_some_and(|cpu| cpu == "total");
        let has_total = self.of(all).iter().any(is_total);
        let unsplit = self.sum(all, |one| !has_total || is_total(one)).map(ns);
        let limit = self.count("container_spec_memory_limit_bytes");
        ProcessStatus {
            up: !self.is_empty(),
            processes: self.count("container_processes").map_or(0, |count| u32::try_from(count).unwrap_or(0)),
            cpu_user_ns: user.filter(|_| split),
            cpu_system_ns: system.filter(|_| split),
            cpu_unsplit_ns: unsplit.filter(|_| !split),
            cpu_throttled_ns: self.seconds_ns("container_cpu_cfs_throttled_seconds_total"),
            memory_rss_bytes: self.count("container_memory_rss"),
            memory_cgroup_bytes: self.count("container_memory_usage_bytes"),
            memory_cgroup_peak_bytes: self.count("container_memory_max_usage_bytes"),
            memory_working_set_bytes: self.count("container_memory_working_set_bytes"),
            memory_limit_bytes: limit.filter(|limit| (1..NO_LIMIT_BYTES).contains(limit)),
            threads: self.count("container_threads"),
            open_fds: self.count("container_file_descriptors"),
            io_read_bytes: self.count("container_fs_reads_bytes_total"),
            io_written_bytes: self.count("container_fs_writes_bytes_total"),
            oom_kills: self.count("container_oom_events_total"),
            start_time_seconds: self.number("container_start_time_seconds"),
            ..ProcessStatus::default()
        }
    }

    fn node(&self, mountpoint: &str) -> Figures {
        let is = |label: &'static str, wanted: &'static [&'static str]| {
            move |one: &Series| one.labels.get(label).is_some_and(|value| wanted.contains(&value.as_str()))
        };
        let cpu = |modes| self.sum("node_cpu_seconds_total", is("mode", modes)).map(ns);
        let user = cpu(&["user", "nice"]);
        let system = cpu(&["system", "irq", "softirq"]);
        let times = user.zip(system).map(|(user_ns, system_ns)| CpuTimes {
            user_ns,
            system_ns,
            iowait_ns: cpu(&["iowait"]).unwrap_or(0),
            steal_ns: cpu(&["steal"]).unwrap_or(0),
            idle_ns: cpu(&["idle"]).unwrap_or(0),
        });
        let labels = self.of("node_cpu_seconds_total").iter().filter_map(|one| one.labels.get("cpu"));
        let cpus = labels.collect::<BTreeSet<_>>().len();
        let on_disk =
            |name| self.sum(name, |one| one.labels.get("mountpoint").is_some_and(|at| at == mountpoint));
        let real = |one: &Series| {
            let device = one.labels.get("device").map_or("", String::as_str);
            !UNREAL_DEVICES.iter().any(|unreal| device.starts_with(unreal))
        };
        let machine = MachineStatus {
            up: true,
            cpus: u32::try_from(cpus).ok().filter(|cpus| *cpus > 0),
            load1: self.number("node_load1"),
            cpu: times,
            memory_total_bytes: self.count("node_memory_MemTotal_bytes"),
            memory_available_bytes: self.count("node_memory_MemAvailable_bytes"),
            disk_total_bytes: on_disk("node_filesystem_size_bytes").map(whole),
            disk_free_bytes: on_disk("node_filesystem_avail_bytes").map(whole),
            network_received_bytes: self.sum("node_network_receive_bytes_total", real).map(whole),
            network_sent_bytes: self.sum("node_network_transmit_bytes_total", real).map(whole),
            ..MachineStatus::default()
        };
        let process = ProcessStatus {
            up: !self.is_empty(),
            cpu_user_ns: user,
            cpu_system_ns: system,
            start_time_seconds: self.number("node_boot_time_seconds"),
            ..ProcessStatus::default()
        };
        Figures { process, machine: Some(machine) }
    }
}

/// Seconds as nanoseconds; more than a u64 holds stays its highest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, and is not negative
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, and is not negative
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
