//! What is known of whole machines.

/// What a machine's CPUs spend their time with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct CpuTimes {
    /// Programs, niced ones included.
    pub user_ns: u64,
    /// The kernel, interrupts included.
    pub system_ns: u64,
    /// Idle while a disk was waited for.
    pub iowait_ns: u64,
    /// Runnable, and the hypervisor gave the CPU to somebody else.
    pub steal_ns: u64,
    /// Nothing to do.
    pub idle_ns: u64,
}

impl CpuTimes {
    /// Every mode with its label.
    #[must_use]
    pub const fn modes(&self) -> [(&'static str, u64); 5] {
        [
            ("user", self.user_ns),
            ("system", self.system_ns),
            ("iowait", self.iowait_ns),
            ("steal", self.steal_ns),
            ("idle", self.idle_ns),
        ]
    }

    /// With every mode's time combined with another's.
    #[must_use]
    pub fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            user_ns: combine(self.user_ns, other.user_ns),
            system_ns: combine(self.system_ns, other.system_ns),
            iowait_ns: combine(self.iowait_ns, other.iowait_ns),
            steal_ns: combine(self.steal_ns, other.steal_ns),
            idle_ns: combine(self.idle_ns, other.idle_ns),
        }
    }
}

/// What is known of a whole machine. Sent by agents as [`ProcessStatus`](super::status::ProcessStatus) is.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct MachineStatus {
    /// Whether the last look at it succeeded.
    pub up: bool,
    /// CPUs that the system schedules on.
    pub cpus: Option<u32>,
    /// Load average over a minute.
    pub load1: Option<f64>,
    /// CPU time of all CPUs by mode since the first look; absent until there were two looks.
    pub cpu: Option<CpuTimes>,
    /// Physical memory in bytes.
    pub memory_total_bytes: Option<u64>,
    /// Memory that programs can still have without swapping, in bytes, as the kernel estimates it.
    pub memory_available_bytes: Option<u64>,
    /// Size of the watched file system in bytes.
    pub disk_total_bytes: Option<u64>,
    /// Bytes of it that a program without privileges can still write.
    pub disk_free_bytes: Option<u64>,
    /// Bytes that the network devices received since the first look; absent until there were two looks.
    pub network_received_bytes: Option<u64>,
    /// Bytes that they sent, likewise.
    pub network_sent_bytes: Option<u64>,
    /// Why nothing is known.
    pub error: Option<String>,
    /// When the last look was over (monotonic, of the clock of whoever looked); absent before the first.
    pub looked_ns: Option<u64>,
}

impl MachineStatus {
    /// Leaves the counters, which must not fall, and nothing that would look like a reading.
    pub fn lose(&mut self, error: String) {
        *self = Self {
            cpu: self.cpu,
            network_received_bytes: self.network_received_bytes,
            network_sent_bytes: self.network_sent_bytes,
            error: Some(error),
            ..Self::default()
        };
    }
}

/// The name of the machine that soakd itself runs on.
pub const OWN_MACHINE: &str = "soakd";
