//! Watching real processes. What they used is read from /proc with code of our own here, none of soakd's.

mod burner;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use soakd::core::clock::Clock;
use soakd::core::event::{Event, EventLog};
use soakd::core::lock::lock;
use soakd::core::status::ProcessStatus;
use soakd::process::{LocalProcessSettings, Look, ProcessError, ProcessSettings, ProcessWatch};
use tokio_util::sync::CancellationToken;

use self::burner::{Burner, MIB, Spec, Truth, dir, wait_for};

/// A watch and what it writes to.
struct Watched {
    watch: ProcessWatch,
    cell: Arc<Mutex<ProcessStatus>>,
    events: Arc<EventLog>,
}

impl Watched {
    fn new(settings: LocalProcessSettings) -> Self {
        let (cell, events) = (Arc::new(Mutex::new(ProcessStatus::default())), Arc::new(EventLog::default()));
        let settings = ProcessSettings::Local(settings);
        let watch = ProcessWatch::new(
            "sut".into(),
            &settings,
            Arc::clone(&cell),
            Arc::clone(&events),
            Clock::start(),
        );
        Self { watch, cell, events }
    }

    fn by_pid(pid: u32, tree: bool) -> Self {
        Self::new(LocalProcessSettings { pid: Some(pid), tree, ..LocalProcessSettings::default() })
    }

    fn by_name(name: &str) -> Self {
        Self::new(LocalProcessSettings { name: Some(name.into()), ..LocalProcessSettings::default() })
    }

    fn look(&mut self) -> Result<Look, ProcessError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.watch.look())
    }

    fn status(&self) -> ProcessStatus {
        lock(&self.cell).clone()
    }

    fn events(&self) -> Vec<Event> {
        self.events.drain().into_iter().map(|stamped| stamped.event).collect()
    }

    fn cpu_seconds(&self) -> f64 {
        let status = self.status();
        (status.cpu_user_ns.unwrap() + status.cpu_system_ns.unwrap()) as f64 / 1e9
    }
}

fn found(pid: u32) -> Event {
    Event::ProcessFound { process: "sut".into(), pid: Some(pid) }
}

fn restarted(pid: u32) -> Event {
    Event::ProcessRestarted { process: "sut".into(), pid: Some(pid) }
}

fn near(value: f64, truth: f64, part: f64, slack: f64) -> bool {
    (value - truth).abs() <= truth.abs() * part + slack
}

#[test]
fn x2_two_threads_are_their_sum_in_cores() {
    let burner = Burner::start(&dir(), "burner", &Spec { threads: 2, ..Spec::default() });
    let mut watched = Watched::by_pid(burner.pid(), false);
    // The truth before and after each look bounds it from both sides, however long we had to wait for a CPU.
    let mut look = || {
        let (at, truth) = (Instant::now(), Truth::of(burner.pid()).own_seconds());
        let looked = watched.look().unwrap();
        (at, truth, looked.status, Truth::of(burner.pid()).own_seconds(), Instant::now())
    };
    let (from, from_low, first, from_high, begun) = look();
    assert_eq!((first.cpu_cores, first.cpu_user_ns), (None, None), "the first reading is not published");
    std::thread::sleep(Duration::from_secs(2));
    let (until, until_low, status, until_high, end) = look();

    let tick = 0.01;
    let (least, most) = (until_low - from_high - tick, until_high - from_low + tick);
    let (shortest, longest) = ((until - begun).as_secs_f64(), (end - from).as_secs_f64());
    let (cpu, cores) = (watched.cpu_seconds(), status.cpu_cores.unwrap());
    assert!(least > 0.1, "the burner burns: {least} s");
    assert!(cpu >= least && cpu <= most, "{cpu} s, in truth {least} to {most}");
    let (least, most) = (least / longest, most / shortest);
    assert!(cores >= least * 0.85 && cores <= most * 1.15, "{cores} cores, in truth {least} to {most}");
    let machine = std::fs::read_to_string("/proc/cpuinfo").unwrap().matches("processor\t").count();
    assert!(cores <= machine.max(1) as f64 * 1.1, "{cores} cores of {machine}");
    assert!(status.threads.unwrap() >= 3, "two threads and the main one");
}

#[test]
fn x2_no_burst_after_we_were_stopped() {
    let burner = Burner::start(&dir(), "burner", &Spec { threads: 1, ..Spec::default() });
    let sampler = Burner::start_sampler(burner.pid(), Duration::from_millis(100), Duration::from_secs(4), 0);
    std::thread::sleep(Duration::from_millis(500));
    sampler.signal("STOP");
    std::thread::sleep(Duration::from_millis(1500));
    sampler.signal("CONT");
    let seen = sampler.samples();
    // One thread is one core; 1.5 s of it in one interval of 0.1 s would be all cores of the machine.
    assert!(seen.max_cores > 0.05 && seen.max_cores < 1.3, "{seen:?}");
}

#[test]
fn x5_memory_and_threads_of_three_children_of_100_mib() {
    let spec = Spec { children: 3, child_mib: 100, ..Spec::default() };
    let burner = Burner::start(&dir(), "burner", &spec);
    assert_eq!(burner.children.len(), 3);
    let own = Truth::of(burner.pid());
    let all: Vec<Truth> = burner.children.iter().map(|pid| Truth::of(*pid)).chain([own]).collect();

    let mut single = Watched::by_pid(burner.pid(), false);
    single.look().unwrap();
    let status = single.status();
    assert_eq!(status.processes, 1);
    assert!(near(status.memory_rss_bytes.unwrap() as f64, own.rss_bytes as f64, 0.1, MIB as f64));

    let mut tree = Watched::by_pid(burner.pid(), true);
    tree.look().unwrap();
    let status = tree.status();
    assert_eq!(status.processes, 4);
    let truth: u64 = all.iter().map(|one| one.rss_bytes).sum();
    assert!(truth > 300 * MIB, "{truth}");
    let seen = status.memory_rss_bytes.unwrap();
    assert!(near(seen as f64, truth as f64, 0.1, 0.0), "{seen} bytes, in truth {truth}");
    assert_eq!(status.threads.unwrap(), all.iter().map(|one| one.threads).sum::<u64>());
}

#[test]
fn x5_short_lived_children_are_counted_once_and_nothing_falls() {
    let mut burner = Burner::start(&dir(), "burner", &Spec { churn: true, ..Spec::default() });
    let mut watched = Watched::by_pid(burner.pid(), true);
    // Some children are past already: they are not counted.
    let before = Truth::of(burner.pid()).all_seconds();
    assert!(before > 0.02, "{before} s");
    watched.look().unwrap();
    burner.start_churn();
    let (begin, mut last, mut sizes) = (Instant::now(), (0, 0), 0);
    while begin.elapsed() < Duration::from_secs(4) {
        std::thread::sleep(Duration::from_millis(100));
        watched.look().unwrap();
        let status = watched.status();
        let now = (status.cpu_user_ns.unwrap(), status.cpu_system_ns.unwrap());
        assert!(now.0 >= last.0 && now.1 >= last.1, "{now:?} after {last:?}");
        last = now;
        sizes = sizes.max(status.processes);
    }
    // Once more without a child: then the burner's own sums are the whole truth, to the tick.
    burner.stop_churn();
    let least = Truth::of(burner.pid()).all_seconds() - before;
    watched.look().unwrap();
    let most = Truth::of(burner.pid()).all_seconds() - before;
    let cpu = watched.cpu_seconds();
    assert!(sizes >= 2 && least > 0.2, "at most {sizes} processes, {least} s");
    assert!(cpu >= least - 0.03 && cpu <= most + 0.03, "{cpu} s, in truth {least} to {most}");
    assert_eq!(watched.status().restarts, 0);
}

#[test]
fn a_restart_is_found_again_by_a_name_longer_than_15_bytes() {
    let dir = dir();
    let name = format!("soakd-test-burner-{}-one", std::process::id());
    // The kernel cuts both names to the same 15 bytes.
    let twin = format!("soakd-test-burner-{}-two", std::process::id());
    let _twin = Burner::start(&dir, &twin, &Spec::default());
    let mut watched = Watched::by_name(&name);
    let error = watched.look().unwrap_err().to_string();
    assert!(error.contains(&name) && watched.status().error.unwrap() == error);
    assert!(watched.events().is_empty(), "never seen is no event");

    let first = Burner::start(&dir, &name, &Spec::default());
    watched.look().unwrap();
    let status = watched.status();
    assert_eq!((status.pid, status.error, status.restarts), (Some(first.pid()), None, 0));
    let boot = Truth::boot_seconds() as f64;
    let truth = boot + Truth::of(first.pid()).start_ticks as f64 / 100.0;
    assert!(near(status.start_time_seconds.unwrap(), truth, 0.0, 1.1));

    // Ended and started between two looks: one look knows it.
    drop(first);
    let second = Burner::start(&dir, &name, &Spec::default());
    watched.look().unwrap();
    assert_eq!((watched.status().pid, watched.status().restarts), (Some(second.pid()), 1));

    // Away for a look, then back.
    let (first, second_pid) = (watched.events(), second.pid());
    assert_eq!(first.len(), 2);
    assert_eq!(first[1], restarted(second_pid));
    drop(second);
    for _ in 0..3 {
        watched.look().unwrap_err();
    }
    let lost = watched.status();
    assert!(!lost.up && lost.pid.is_none() && lost.memory_rss_bytes.is_none() && lost.error.is_some());
    let third = Burner::start(&dir, &name, &Spec::default());
    for _ in 0..3 {
        watched.look().unwrap();
    }
    assert_eq!(watched.status().restarts, 2);
    assert_eq!(watched.events(), [Event::ProcessLost { process: "sut".into() }, restarted(third.pid())]);
}

#[test]
fn a_pid_file_is_followed_when_it_is_replaced_and_not_when_it_is_emptied() {
    let dir = dir();
    let path = dir.path().join("sut.pid");
    let first = Burner::start(&dir, "burner", &Spec::default());
    let settings = LocalProcessSettings { pid_file: Some(path.clone()), ..LocalProcessSettings::default() };
    let mut watched = Watched::new(settings);
    assert!(watched.look().unwrap_err().to_string().contains("cannot read the pid file"));
    std::fs::write(&path, format!("{}\n", first.pid())).unwrap();
    watched.look().unwrap();
    assert_eq!(watched.status().pid, Some(first.pid()));

    for text in ["", "rubbish", "4294967295"] {
        std::fs::write(&path, text).unwrap();
        watched.look().unwrap();
        assert_eq!(watched.status().pid, Some(first.pid()), "it lives, whatever the file says: {text:?}");
    }
    // The next one has taken over while the old one is still ending.
    let second = Burner::start(&dir, "burner", &Spec::default());
    std::fs::write(&path, second.pid().to_string()).unwrap();
    watched.look().unwrap();
    assert_eq!((watched.status().pid, watched.status().restarts), (Some(second.pid()), 1));

    let pid = second.pid();
    drop(second);
    let error = watched.look().unwrap_err().to_string();
    assert!(error.contains("is stale") && error.contains(&pid.to_string()), "{error}");
    std::fs::write(&path, first.pid().to_string()).unwrap();
    watched.look().unwrap();
    assert_eq!(watched.status().restarts, 2);
    let expected = [
        found(first.pid()),
        restarted(pid),
        Event::ProcessLost { process: "sut".into() },
        restarted(first.pid()),
    ];
    assert_eq!(watched.events(), expected);
}

#[test]
fn a_zombie_is_gone() {
    let mut burner = Burner::start(&dir(), "burner", &Spec::default());
    let mut watched = Watched::by_pid(burner.pid(), false);
    watched.look().unwrap();
    burner.kill_without_waiting();
    // Its main thread can be one before its other threads have ended.
    let ended = |truth: Truth| truth.state == 'Z' && truth.threads == 1;
    wait_for("a zombie", || ended(Truth::of(burner.pid())));
    let error = watched.look().unwrap_err().to_string();
    assert!(error.contains("no process has pid"), "{error}");
    assert!(!watched.status().up);
}

#[test]
fn of_several_of_one_name_the_oldest_parent_is_watched() {
    let dir = dir();
    let name = format!("soakd-test-many-{}", std::process::id());
    // Its children run the same executable.
    let first = Burner::start(&dir, &name, &Spec { children: 2, child_mib: 1, ..Spec::default() });
    let look = Watched::by_name(&name).look().unwrap();
    assert_eq!((look.status.pid, look.remarks, look.status.processes), (Some(first.pid()), vec![], 1));
    let _second = Burner::start(&dir, &name, &Spec::default());
    let look = Watched::by_name(&name).look().unwrap();
    assert_eq!(look.status.pid, Some(first.pid()));
    assert!(look.remarks[0].starts_with("1 more that match are not counted"), "{:?}", look.remarks);
}

#[test]
fn z6_no_descriptor_and_no_memory_piles_up() {
    let spec = Spec { churn: true, churn_threads: true, ..Spec::default() };
    let mut burner = Burner::start(&dir(), "burner", &spec);
    burner.start_churn();
    let sampler = Burner::start_sampler(burner.pid(), Duration::from_millis(25), Duration::from_secs(3), 120);
    let seen = sampler.samples();
    assert!(seen.looks >= 120, "{seen:?}");
    assert!(seen.last_fds <= seen.first_fds + 5, "{seen:?}");
    assert!(seen.last_rss_bytes <= seen.first_rss_bytes + 4 * MIB, "{seen:?}");
}

#[tokio::test]
async fn run_keeps_the_cell_up_to_date_until_it_is_stopped() {
    let burner = Burner::start(&dir(), "burner", &Spec::default());
    let settings = LocalProcessSettings {
        pid: Some(burner.pid()),
        interval: Duration::from_millis(20).into(),
        ..LocalProcessSettings::default()
    };
    let watched = Watched::new(settings);
    let stop = CancellationToken::new();
    let task = tokio::spawn(watched.watch.run(stop.clone()));
    let until = |ready: fn(&ProcessStatus) -> bool| {
        let cell = Arc::clone(&watched.cell);
        async move {
            let done = async {
                while !ready(&lock(&cell)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), done).await.unwrap();
        }
    };
    until(|status| status.up && status.cpu_cores.is_some()).await;
    drop(burner);
    until(|status| !status.up && status.error.is_some()).await;
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
    assert_eq!(watched.events.drain().len(), 2, "found and lost, however many looks there were");
}
