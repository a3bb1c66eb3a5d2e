//! A machine's figures from captured files, and from the machine that the tests run on.

use super::*;

const LOADAVG: &str = "1.25 0.50 0.25 2/345 6789\n";
const MEMINFO: &str = "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\nBuffers: 0 kB\nCached: 0 kB\nSwapCached: 0 kB\nActive: 0 kB\nInactive: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 0 kB\nSlab: 0 kB\nCommitted_AS: 0 kB\nVmallocTotal: 0 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n";

fn stat(cpu: &str) -> String {
    format!(
        "cpu  {cpu}\ncpu0 {cpu}\ncpu1 0 0 0 0 0 0 0 0 0 0\nctxt 1\nbtime 1700000000\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
    )
}

fn devices(lines: &[(&str, u64, u64)]) -> String {
    let line = |(name, received, sent): &(&str, u64, u64)| {
        format!("{name:>6}: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n")
    };
    let head = "Inter-|   Receive   |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n";
    head.to_owned() + &lines.iter().map(line).collect::<String>()
}

/// A machine of files that a test writes.
struct Captured {
    dir: tempfile::TempDir,
    watch: MachineWatch,
}

impl Captured {
    fn new(real: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (proc_root, sys_root) = (dir.path().join("proc"), dir.path().join("sys"));
        std::fs::create_dir_all(proc_root.join("net")).unwrap();
        for name in real {
            std::fs::create_dir_all(sys_root.join("class/net").join(name).join("device")).unwrap();
        }
        std::fs::write(proc_root.join("loadavg"), LOADAVG).unwrap();
        std::fs::write(proc_root.join("meminfo"), MEMINFO).unwrap();
        let disk = dir.path().join("no/such/folder/yet");
        let watch = MachineWatch::at(proc_root, sys_root, disk, Arc::default(), Clock::start());
        Self { dir, watch }
    }

    fn look(&mut self, cpu: &str, network: &[(&str, u64, u64)]) -> MachineStatus {
        let proc_root = self.dir.path().join("proc");
        std::fs::write(proc_root.join("stat"), stat(cpu)).unwrap();
        std::fs::write(proc_root.join("net/dev"), devices(network)).unwrap();
        self.watch.look();
        lock(&self.watch.cell).clone()
    }
}

#[test]
fn figures_stand_as_the_kernel_writes_them_and_counters_begin_with_the_first_look() {
    let mut machine = Captured::new(&["eth0"]);
    let network = [("lo", 9_000, 9_000), ("eth0", 1_000, 500), ("docker0", 70, 70)];
    // user nice system idle iowait irq softirq steal guest guest_nice
    let first = machine.look("1000 200 300 40000 50 6 7 80 900 90", &network);
    assert_eq!((first.up, first.cpus, first.load1), (true, Some(2), Some(1.25)));
    assert_eq!((first.memory_total_bytes, first.memory_available_bytes), (Some(16 << 20), Some(8 << 20)));
    assert!(
        first.disk_free_bytes.unwrap() <= first.disk_total_bytes.unwrap(),
        "of the nearest folder there is"
    );
    assert_eq!((first.cpu, first.network_received_bytes), (None, None), "the first reading is not published");

    let network = [("lo", 19_000, 19_000), ("eth0", 1_600, 540), ("docker0", 170, 170)];
    let second = machine.look("1100 210 330 40200 55 7 9 90 900 90", &network);
    let ms = 1_000_000;
    let expected = CpuTimes {
        user_ns: 1_100 * ms,
        system_ns: 330 * ms,
        iowait_ns: 50 * ms,
        steal_ns: 100 * ms,
        idle_ns: 2_000 * ms,
    };
    assert_eq!(second.cpu, Some(expected));
    assert_eq!((second.network_received_bytes, second.network_sent_bytes), (Some(600), Some(40)));
}

#[test]
fn m2_what_falls_or_comes_and_goes_makes_no_counter_fall_or_jump() {
    let mut machine = Captured::new(&["eth0", "eth1"]);
    machine.look("0 0 0 0 100 0 0 0 0 0", &[("eth0", 1_000, 1_000)]);
    machine.look("0 0 0 0 90 0 0 0 0 0", &[("eth0", 1_010, 1_010), ("eth1", 1 << 40, 1 << 40)]);
    let third = machine.look("0 0 0 0 105 0 0 0 0 0", &[("eth1", (1 << 40) + 5, 1 << 40)]);
    assert_eq!(third.cpu.unwrap().iowait_ns, 50_000_000, "5 ticks above the highest that was seen");
    assert_eq!(third.network_received_bytes, Some(15));
    // Away and back, counted anew by the driver.
    let fourth = machine.look("0 0 0 0 105 0 0 0 0 0", &[("eth0", 3, 3), ("eth1", 7, 7)]);
    assert_eq!((fourth.network_received_bytes, fourth.network_sent_bytes), (Some(15), Some(10)));
}

#[test]
fn within_a_container_without_real_devices_all_but_loopback_count() {
    let mut machine = Captured::new(&[]);
    machine.look("0 0 0 0 0 0 0 0 0 0", &[("lo", 0, 0), ("eth0", 0, 0)]);
    let seen = machine.look("0 0 0 0 0 0 0 0 0 0", &[("lo", 900, 900), ("eth0", 8, 4)]);
    assert_eq!((seen.network_received_bytes, seen.network_sent_bytes), (Some(8), Some(4)));
}

#[test]
fn m4_what_cannot_be_read_leaves_counters_and_a_reason() {
    let mut machine = Captured::new(&["eth0"]);
    machine.look("0 0 0 0 0 0 0 0 0 0", &[("eth0", 0, 0)]);
    machine.look("100 0 0 0 0 0 0 0 0 0", &[("eth0", 8, 8)]);
    std::fs::write(machine.dir.path().join("proc/loadavg"), "rubbish").unwrap();
    let lost = machine.look("100 0 0 0 0 0 0 0 0 0", &[("eth0", 8, 8)]);
    assert!(!lost.up && lost.load1.is_none() && lost.memory_total_bytes.is_none());
    assert_eq!((lost.cpu.unwrap().user_ns, lost.network_sent_bytes), (1_000_000_000, Some(8)));
    assert!(lost.error.unwrap().contains("loadavg"));
    std::fs::write(machine.dir.path().join("proc/loadavg"), LOADAVG).unwrap();
    let back = machine.look("300 0 0 0 0 0 0 0 0 0", &[("eth0", 9, 9)]);
    assert!(back.up && back.error.is_none());
    assert_eq!(back.cpu.unwrap().user_ns, 3_000_000_000);
}

#[test]
fn this_machine_can_be_read() {
    let mut watch = MachineWatch::new(".".into(), Arc::default(), Clock::start());
    watch.look();
    watch.look();
    let status = lock(&watch.cell).clone();
    assert!(status.up, "{status:?}");
    assert!(status.cpus.unwrap() >= 1 && status.disk_free_bytes.unwrap() > 0 && status.cpu.is_some());
}
