//! The own process on captured files (groups of both versions), and as it is.

use std::path::Path;

use super::*;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// As the kernel writes it.
#[test]
fn the_tightest_quota_of_a_captured_tree_of_version_2_counts() {
    let root = tempfile::tempdir().unwrap();
    const STAT: &str = "usage_usec 1200\nuser_usec 1000\nsystem_usec 200\nnr_periods 40\nnr_throttled 9\nthrottled_usec 77\n";
    write(
        root.path(),
        &[
            ("cgroup.controllers", "cpu memory\n"),
            ("system.slice/cpu.max", "150000 100000\n"),
            ("system.slice/cpu.stat", STAT),
            ("system.slice/soakd.service/cpu.max", "max 100000\n"),
            ("system.slice/soakd.service/cpu.stat", "nr_periods 0\n"),
        ],
    );
    let found = quota(root.path(), "0::/system.slice/soakd.service\n");
    assert_eq!(found, Some(quota::Quota { cores: 1.5, periods: 40, throttled: 9 }));
    assert_eq!(quota(root.path(), "0::/\n"), None);
    assert_eq!(quota(root.path(), "0::/other/one\n"), None);
}

#[test]
fn a_captured_tree_of_version_1_and_a_container_that_does_not_see_its_path() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        &[
            ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "25000\n"),
            ("cpu,cpuacct/docker/abc/cpu.cfs_period_us", "50000\n"),
            ("cpu,cpuacct/docker/abc/cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_time 12345\n"),
        ],
    );
    let lines = |path| format!("5:memory:{path}\n4:cpu,cpuacct:{path}\n0::{path}\n");
    let found = quota(root.path(), &lines("/docker/abc"));
    assert_eq!(found, Some(quota::Quota { cores: 0.5, periods: 7, throttled: 3 }));
    assert_eq!(quota(root.path(), &lines("/docker")), None);
    // Its own group is mounted where it sees the root.
    let inside = root.path().join("inside");
    write(&inside, &[("cpu.max", "20000 100000\n"), ("cpu.stat", "nr_periods 5\nnr_throttled 5\n")]);
    assert_eq!(quota(&inside, &lines("/docker/abc")).map(|quota| quota.cores), Some(0.2));
    assert_eq!(quota(root.path(), "rubbish\n\n1:cpu\n"), None);
}

#[test]
fn our_own_threads_and_cores_can_be_read_and_time_that_was_used_is_kept() {
    let mut source = Source::new("/proc", CGROUP_ROOT);
    let first = source.read(1, 0);
    assert!(first.allowed_cores > 0.0 && first.machine_ticks.0 > 0, "{first:?}");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let burner = std::thread::Builder::new().name("lane-test".to_owned()).spawn(move || {
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {}
        stopped.recv().ok();
    });
    let lanes = |reading: &OwnReading| reading.threads.values().map(|one| one.cpu_ns).max().unwrap_or(0);
    let begun = std::time::Instant::now();
    let mut second = source.read(2, 0);
    while lanes(&second) == 0 && begun.elapsed() < Duration::from_secs(20) {
        second = source.read(2, 0);
    }
    assert!(lanes(&second) > 0, "{second:?}");
    drop(stop);
    burner.unwrap().join().unwrap();
    let third = source.read(3, 0);
    assert!(third.cpu_ns >= second.cpu_ns && second.cpu_ns > first.cpu_ns, "{first:?} {second:?} {third:?}");
    // None of these has a file that is not there: then nothing is known, and nothing is a limit.
    let nothing = Source::new("/nowhere", "/nowhere").read(4, 0);
    assert!(nothing.threads.is_empty() && nothing.quota.is_none() && nothing.cpu_ns == 0);
}
