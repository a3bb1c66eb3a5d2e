//! Cgroups of version 2: real ones with real burners where it is about time and members, captured files where it is about
//! controllers that a machine may not have (memory, throttling, I/O).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use soakd::core::event::Event;
use soakd::process::LocalProcessSettings;

use super::burner::{Burner, Spec, Truth, dir, wait_for};
use super::{Watched, found, restarted};
use crate::daemon;
use crate::mock::MockKafka;

/// A cgroup of this machine; removed when dropped, after its burners.
struct RealCgroup {
    root: PathBuf,
    name: String,
}

impl RealCgroup {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        let root = root.into_iter().find(|root| root.join("cgroup.controllers").exists());
        let root = root.expect("this machine has no cgroup file system of version 2: mount one");
        let name = format!("soakd-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let group = Self { root, name };
        group.make();
        group
    }

    fn folder(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    fn make(&self) {
        let made = std::fs::create_dir(self.folder());
        made.unwrap_or_else(|error| panic!("cannot make {}, run as root: {error}", self.folder().display()));
    }

    fn add(&self, pid: u32) {
        std::fs::write(self.folder().join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// Once nobody is in it.
    fn remove(&self) {
        wait_for("an empty cgroup", || std::fs::remove_dir(self.folder()).is_ok());
    }

    /// All CPU time in seconds, as the kernel has it: user, system.
    fn cpu(&self) -> (f64, f64) {
        let text = std::fs::read_to_string(self.folder().join("cpu.stat")).unwrap();
        let of = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim().parse::<f64>().unwrap() / 1e6
        };
        (of("user_usec "), of("system_usec "))
    }

    fn settings(&self) -> LocalProcessSettings {
        LocalProcessSettings {
            cgroup: Some(Path::new("/").join(&self.name)),
            ..LocalProcessSettings::default()
        }
    }
}

impl Drop for RealCgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(self.folder());
    }
}

#[test]
fn a_cgroups_cpu_is_the_kernels_own_and_its_members_are_summed_up() {
    let group = RealCgroup::new();
    let mut watched = Watched::new(group.settings());
    let error = watched.look().unwrap_err().to_string();
    assert!(error.contains("no process is in the cgroup /soakd-test-"), "{error}");

    let folder = dir();
    let first = Burner::start(&folder, "burner", &Spec { threads: 1, mib: 40, ..Spec::default() });
    let second = Burner::start(&folder, "burner", &Spec { mib: 30, ..Spec::default() });
    group.add(first.pid());
    group.add(second.pid());
    let from = Instant::now();
    let low = group.cpu();
    let seen = watched.look().unwrap();
    let high = group.cpu();
    assert_eq!((seen.status.cpu_user_ns, seen.status.cpu_cores), (None, None), "the first is not published");
    assert!(
        seen.remarks.iter().any(|text| text.contains("no CPU controller")) || group.root.ends_with("cgroup")
    );
    std::thread::sleep(Duration::from_secs(1));
    let until_low = group.cpu();
    let status = watched.look().unwrap().status;
    let until_high = group.cpu();
    let elapsed = from.elapsed().as_secs_f64();
    let cpu = (status.cpu_user_ns.unwrap() as f64 / 1e9, status.cpu_system_ns.unwrap() as f64 / 1e9);
    for (seen, least, most) in [
        (cpu.0, until_low.0 - high.0, until_high.0 - low.0),
        (cpu.1, until_low.1 - high.1, until_high.1 - low.1),
    ] {
        assert!(seen >= least - 1e-3 && seen <= most + 1e-3, "{seen} s, in truth {least} to {most}");
    }
    assert!(cpu.0 > 0.05, "the burner burns: {cpu:?}");
    // One thread is one core at most.
    let cores = status.cpu_cores.unwrap();
    assert!(cores > (cpu.0 + cpu.1) / elapsed * 0.85 && cores < 1.15, "{cores} cores");

    let truth = [first.pid(), second.pid()].map(Truth::of);
    assert_eq!(status.processes, 2);
    assert_eq!(status.threads.unwrap(), truth.iter().map(|one| one.threads).sum::<u64>());
    let rss: u64 = truth.iter().map(|one| one.rss_bytes).sum();
    let seen = status.memory_rss_bytes.unwrap();
    assert!(seen.abs_diff(rss) < rss / 10 && rss > 70 << 20, "{seen} bytes, in truth {rss}");
    assert!(status.memory_pss_bytes.unwrap() > 70 << 20 && status.open_fds.unwrap() >= 6);
    assert_eq!(status.pid, Some(first.pid()));
}

#[test]
fn a_cgroup_whose_members_are_all_others_and_one_that_is_made_again_are_restarts() {
    let group = RealCgroup::new();
    let folder = dir();
    let spec = Spec { threads: 1, ..Spec::default() };
    let start = || {
        let burner = Burner::start(&folder, "burner", &spec);
        group.add(burner.pid());
        burner
    };
    let mut watched = Watched::new(group.settings());
    let (first, second) = (start(), start());
    watched.look().unwrap();
    let all = || group.cpu().0 + group.cpu().1;
    let begin = all();
    // The older one ends: the cgroup goes on.
    let (first_pid, second_pid) = (first.pid(), second.pid());
    drop(first);
    let status = watched.look().unwrap().status;
    assert_eq!((status.pid, status.processes, status.restarts), (Some(second_pid), 1, 0));
    // All end, and others come before the next look.
    drop(second);
    let third = start();
    let before = group.cpu();
    let status = watched.look().unwrap().status;
    assert_eq!((status.pid, status.restarts), (Some(third.pid()), 1));
    assert!(status.cpu_ns().unwrap() > 0, "the cgroup's own counters go on: {status:?} of {before:?}");
    let third_pid = third.pid();

    // It is emptied, which is a loss, removed, and made anew: its counters begin at 0 and ours do not.
    drop(third);
    let used = all() - begin;
    watched.look().unwrap_err();
    group.remove();
    let error = watched.look().unwrap_err().to_string();
    assert!(error.contains("there is no cgroup /soakd-test-"), "{error}");
    let lost = watched.status();
    assert!(!lost.up && lost.pid.is_none() && lost.memory_rss_bytes.is_none() && lost.cpu_cores.is_none());
    let counted = lost.cpu_ns().unwrap();
    let seconds = counted as f64 / 1e9;
    assert!(seconds >= used - 1e-5, "what it used up to its end is counted: {seconds} s, in truth {used}");
    group.make();
    let fourth = start();
    let status = watched.look().unwrap().status;
    assert_eq!((status.pid, status.restarts, status.cpu_ns()), (Some(fourth.pid()), 2, Some(counted)));
    wait_for("time used by the fourth", || watched.look().unwrap().status.cpu_ns().unwrap() > counted);
    drop(fourth);
    let lost = || Event::ProcessLost { process: "sut".into() };
    assert_eq!(
        watched.events(),
        [found(first_pid), restarted(third_pid), lost(), restarted(status.pid.unwrap())]
    );
    group.remove();
}

/// A captured tree of a machine with all controllers, whose files are written anew as time goes by.
struct Captured {
    dir: tempfile::TempDir,
    pid: u32,
}

impl Captured {
    fn new(pid: u32) -> Self {
        let captured = Self { dir: tempfile::tempdir().unwrap(), pid };
        captured.write("cgroup.controllers", "cpu io memory pids");
        captured.tell(0, 0);
        captured
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // In one step: it is read meanwhile.
        std::fs::write(path.with_extension("new"), text).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    }

    /// So many milliseconds later in every counter, and so many kills.
    fn tell(&self, ms: u64, kills: u64) {
        let write = |name: &str, text: String| self.write(&format!("system.slice/sut.service/{name}"), &text);
        let us = ms * 1_000;
        write(
            "cpu.stat",
            format!(
                "usage_usec {}\nuser_usec {}\nsystem_usec {us}\nnr_throttled 1\nthrottled_usec {us}\n",
                3 * us,
                2 * us
            ),
        );
        write("memory.current", format!("{}\n", (100 << 20) + ms));
        write("memory.peak", format!("{}\n", (200 << 20) + ms));
        write("memory.stat", format!("anon 1\ninactive_file {}\n", 40 << 20));
        write("memory.max", "536870912\n".into());
        write("memory.events", format!("oom 9\noom_kill {}\n", 5 + kills));
        write("io.stat", format!("8:0 rbytes={} wbytes={} rios=1\n", 1_000 + ms, 2_000 + 2 * ms));
        write("pids.current", "3\n".into());
        write("cgroup.events", "populated 1\nfrozen 0\n".into());
        write("cgroup.procs", format!("{}\n", self.pid));
    }
}

#[test]
fn every_figure_of_a_captured_unit_moves_with_its_file() {
    let burner = Burner::start(&dir(), "burner", &Spec::default());
    let captured = Captured::new(burner.pid());
    let mut watched = Watched::new(LocalProcessSettings {
        unit: Some("sut.service".into()),
        cgroup_root: captured.dir.path().into(),
        ..LocalProcessSettings::default()
    });
    let first = watched.look().unwrap();
    assert!(first.remarks.is_empty(), "{:?}", first.remarks);
    assert_eq!((first.status.cpu_throttled_ns, first.status.oom_kills), (None, None));
    captured.tell(700, 2);
    let status = watched.look().unwrap().status;
    assert_eq!((status.cpu_user_ns, status.cpu_system_ns), (Some(1_400_000_000), Some(700_000_000)));
    assert_eq!((status.cpu_throttled_ns, status.oom_kills), (Some(700_000_000), Some(2)));
    assert_eq!((status.io_read_bytes, status.io_written_bytes), (Some(700), Some(1_400)));
    assert_eq!(status.memory_cgroup_bytes, Some((100 << 20) + 700));
    assert_eq!(status.memory_cgroup_peak_bytes, Some((200 << 20) + 700));
    assert_eq!(status.memory_working_set_bytes, Some((60 << 20) + 700));
    assert_eq!(status.memory_limit_bytes, Some(512 << 20));
    assert_eq!((status.pid, status.processes), (Some(burner.pid()), 1));
}

#[test]
fn every_metric_of_a_process_is_moved_by_what_it_is_about() {
    let burner = Burner::start(&dir(), "burner", &Spec { threads: 1, ..Spec::default() });
    let captured = Captured::new(burner.pid());
    let kafka = MockKafka::start(1);
    let processes = format!(
        "[processes.unit]\nkind = \"local\"\nunit = \"sut.service\"\ncgroup_root = {:?}\ninterval = \"50ms\"\n\
         [processes.pid]\nkind = \"local\"\npid = {}\ninterval = \"50ms\"\n",
        captured.dir.path(),
        burner.pid()
    );
    let daemon = daemon::start(&kafka.settings("", "", &processes));
    let unit = |name: &str, labels: &str| format!("sut_{name}{{process=\"unit\"{labels}}}");
    // Two looks: what the files said before is not counted.
    daemon.wait_metric(10, &unit("oom_kills_total", ""), |kills| kills == 0.0);
    captured.tell(900, 3);
    for (name, labels, value) in [
        ("up", "", 1.0),
        ("cpu_seconds_total", ",mode=\"user\"", 1.8),
        ("cpu_seconds_total", ",mode=\"system\"", 0.9),
        ("cpu_throttled_seconds_total", "", 0.9),
        ("memory_bytes", ",kind=\"cgroup\"", f64::from((100 << 20) + 900)),
        ("memory_bytes", ",kind=\"cgroup_peak\"", f64::from((200 << 20) + 900)),
        ("memory_bytes", ",kind=\"working_set\"", f64::from((60 << 20) + 900)),
        ("memory_limit_bytes", "", f64::from(512 << 20)),
        ("io_bytes_total", ",direction=\"read\"", 900.0),
        ("io_bytes_total", ",direction=\"written\"", 1_800.0),
        ("oom_kills_total", "", 3.0),
        ("restarts_total", "", 0.0),
    ] {
        let series = unit(name, labels);
        daemon.wait_metric(10, &series, |seen| seen == value);
    }
    let pid = |name: &str, labels: &str| format!("sut_{name}{{process=\"pid\"{labels}}}");
    let truth = Truth::of(burner.pid());
    daemon.wait_metric(10, &pid("cpu_seconds_total", ",mode=\"user\""), |seconds| seconds > 0.0);
    for kind in ["rss", "pss"] {
        let bytes = daemon.metric(&pid("memory_bytes", &format!(",kind=\"{kind}\"")));
        assert!(bytes > 1e5 && bytes <= truth.rss_bytes as f64 * 1.1, "{kind} {bytes}");
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", burner.pid())).unwrap().count();
    assert_eq!(daemon.metric(&pid("open_fds", "")), open as f64);
    assert_eq!(daemon.metric(&pid("threads", "")), truth.threads as f64);
    let start = Truth::boot_seconds() as f64 + truth.start_ticks as f64 / 100.0;
    assert!((daemon.metric(&pid("start_time_seconds", "")) - start).abs() < 1.1);
    let status = daemon.get("/api/v1/status");
    assert_eq!(status["processes"]["unit"]["memory_limit_bytes"], 512 << 20);
    assert_eq!(status["processes"]["unit"]["oom_kills"], 3);

    drop(burner);
    daemon.wait_metric(10, &pid("up", ""), |up| up == 0.0);
    let scrape = daemon.scrape();
    let has = |name: String| scrape.contains_key(&format!("soakd_{name}"));
    assert!(!has(pid("open_fds", "")), "gauges end with their process");
    assert!(has(pid("cpu_seconds_total", ",mode=\"user\"")), "counters stay");
    daemon.terminate();
}
