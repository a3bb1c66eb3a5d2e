//! Restarts, reused pids, zombies, vanished children, first readings: with readings given.

use super::*;

const MACHINE: Machine = Machine { ticks_per_second: 100, cores: 4.0, boot_seconds: 1_000_000 };
const SECOND: u64 = 1_000_000_000;

fn at(seconds: f64) -> Moment {
    let from_ns = (seconds * 1e9) as u64;
    Moment { from_ns, to_ns: from_ns + 100_000 }
}

/// A process that started at tick `pid × 10` and used so many ticks.
fn one(pid: u32, ppid: u32, user: u64, system: u64) -> ProcReading {
    ProcReading {
        pid,
        ppid,
        start_ticks: u64::from(pid) * 10,
        utime_ticks: user,
        stime_ticks: system,
        cutime_ticks: 0,
        cstime_ticks: 0,
        rss_bytes: 1 << 20,
        threads: 2,
        open_fds: Some(5),
        io: None,
        state: 'S',
    }
}

fn reaped(mut reading: ProcReading, user: u64, system: u64) -> ProcReading {
    reading.cutime_ticks = user;
    reading.cstime_ticks = system;
    reading
}

fn zombie(mut reading: ProcReading) -> ProcReading {
    (reading.state, reading.threads, reading.rss_bytes) = ('Z', 1, 0);
    reading
}

fn status(tally: &Tally) -> ProcessStatus {
    let mut status = ProcessStatus::default();
    tally.publish(&MACHINE, &mut status);
    status
}

/// Counted so far, in ticks: user and system.
fn counted(tally: &Tally) -> (u64, u64) {
    let status = status(tally);
    let tick = SECOND / 100;
    (status.cpu_user_ns.unwrap_or(0) / tick, status.cpu_system_ns.unwrap_or(0) / tick)
}

#[test]
fn the_first_reading_is_not_published_and_counting_begins_with_it() {
    let mut tally = Tally::new(false);
    assert_eq!(status(&tally), ProcessStatus::default());
    assert_eq!(tally.take(&[one(7, 1, 90_000, 5_000)], at(10.0), &MACHINE), Change::Found);
    let first = status(&tally);
    assert!(first.up && first.cpu_user_ns.is_none() && first.cpu_system_ns.is_none());
    assert!(first.cpu_cores.is_none());
    assert_eq!((first.pid, first.processes, first.threads), (Some(7), 1, Some(2)));
    assert_eq!(first.memory_rss_bytes, Some(1 << 20));
    assert_eq!(first.start_time_seconds, Some(1_000_000.7));

    assert_eq!(tally.take(&[one(7, 1, 90_120, 5_030)], at(11.0), &MACHINE), Change::Same);
    let second = status(&tally);
    assert_eq!(second.cpu_user_ns, Some(1_200_000_000));
    assert_eq!(second.cpu_system_ns, Some(300_000_000));
    assert!((second.cpu_cores.unwrap() - 1.5).abs() < 1e-6);
}

#[test]
fn x2_cores_are_taken_over_the_time_that_went_by() {
    let mut tally = Tally::new(false);
    tally.take(&[one(7, 1, 0, 0)], at(0.0), &MACHINE);
    // We were stopped for a minute: 120 CPU seconds in 60 s are 2 cores, not 120.
    tally.take(&[one(7, 1, 12_000, 0)], at(60.0), &MACHINE);
    assert!((status(&tally).cpu_cores.unwrap() - 2.0).abs() < 1e-6);
    assert_eq!(counted(&tally), (12_000, 0));
}

#[test]
fn x2_never_more_cores_than_the_machine_has() {
    let mut tally = Tally::new(true);
    tally.take(&[one(7, 1, 0, 0)], at(0.0), &MACHINE);
    // A child that was found late brings the time of earlier looks.
    tally.take(&[one(7, 1, 0, 0), one(8, 7, 3_000, 0)], at(1.0), &MACHINE);
    assert!(status(&tally).cpu_cores.unwrap() <= MACHINE.cores);
    assert_eq!(counted(&tally), (3_000, 0), "the counter is not capped");
}

#[test]
fn x2_cores_are_unknown_when_we_were_stopped_while_reading() {
    let mut tally = Tally::new(false);
    tally.take(&[one(7, 1, 0, 0)], at(0.0), &MACHINE);
    // Clock read, stopped for 3 s, process read: 3.1 CPU seconds within 0.1 s would be 31 cores.
    let held_up = Moment { from_ns: SECOND / 10, to_ns: 3 * SECOND + SECOND / 10 };
    tally.take(&[one(7, 1, 310, 0)], held_up, &MACHINE);
    assert_eq!(status(&tally).cpu_cores, None);
    assert_eq!(counted(&tally), (310, 0), "the time is counted all the same");
    tally.take(&[one(7, 1, 410, 0)], at(4.1), &MACHINE);
    assert_eq!(status(&tally).cpu_cores, None, "where this span began is not known");
    tally.take(&[one(7, 1, 510, 0)], at(5.1), &MACHINE);
    assert!((status(&tally).cpu_cores.unwrap() - 1.0).abs() < 1e-3);
}

#[test]
fn x2_looks_in_quick_succession_are_taken_together() {
    let mut tally = Tally::new(false);
    tally.take(&[one(7, 1, 0, 0)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 1, 0)], at(0.001), &MACHINE);
    assert_eq!(status(&tally).cpu_cores, None, "one tick in a millisecond is not ten cores");
    tally.take(&[one(7, 1, 10, 0)], at(0.1), &MACHINE);
    assert!((status(&tally).cpu_cores.unwrap() - 1.0).abs() < 0.01);
}

#[test]
fn a_restart_carries_the_counters_on_and_is_counted() {
    let mut tally = Tally::new(false);
    tally.take(&[one(7, 1, 1_000, 0)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 1_100, 10)], at(1.0), &MACHINE);
    assert_eq!(tally.take(&[one(9, 1, 40, 5)], at(2.0), &MACHINE), Change::Restarted);
    let after = status(&tally);
    assert_eq!((after.restarts, after.pid, after.cpu_cores), (1, Some(9), None));
    assert_eq!(counted(&tally), (100, 10), "neither falls nor takes in the new one's past");
    tally.take(&[one(9, 1, 90, 5)], at(3.0), &MACHINE);
    assert_eq!(counted(&tally), (150, 10));
    assert!((status(&tally).cpu_cores.unwrap() - 0.5).abs() < 1e-6);
}

#[test]
fn the_same_pid_with_another_start_time_is_a_restart() {
    let mut tally = Tally::new(false);
    tally.take(&[one(7, 1, 1_000, 0)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 1_100, 0)], at(1.0), &MACHINE);
    let mut reused = one(7, 1, 5_000, 0);
    reused.start_ticks += 1;
    assert_eq!(tally.take(&[reused], at(2.0), &MACHINE), Change::Restarted);
    assert_eq!(counted(&tally), (100, 0));
    assert_eq!(status(&tally).restarts, 1);
}

#[test]
fn a_lost_process_leaves_counters_and_no_gauges_and_its_return_is_no_restart() {
    let mut tally = Tally::new(false);
    assert_eq!(tally.lose(), Change::Same, "never seen is not lost");
    tally.take(&[one(7, 1, 0, 0)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 100, 0)], at(1.0), &MACHINE);
    assert_eq!(tally.lose(), Change::Lost);
    assert_eq!(tally.lose(), Change::Same);
    let lost = status(&tally);
    assert_eq!(
        lost,
        ProcessStatus { cpu_user_ns: Some(SECOND), cpu_system_ns: Some(0), ..ProcessStatus::default() }
    );
    // It could not be read for a moment: what it used meanwhile was used while it was watched.
    assert_eq!(tally.take(&[one(7, 1, 300, 0)], at(3.0), &MACHINE), Change::Found);
    assert_eq!((status(&tally).restarts, counted(&tally)), (0, (300, 0)));
    assert!((status(&tally).cpu_cores.unwrap() - 1.0).abs() < 1e-6);
    // After a real end another one comes.
    tally.lose();
    assert_eq!(tally.take(&[one(8, 1, 300, 0)], at(4.0), &MACHINE), Change::Restarted);
    assert_eq!((status(&tally).restarts, counted(&tally)), (1, (300, 0)));
}

#[test]
fn a_zombie_is_gone_but_its_last_time_is_counted_once() {
    let mut tally = Tally::new(false);
    tally.take(&[one(7, 1, 0, 0)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 100, 0)], at(1.0), &MACHINE);
    assert_eq!(tally.take(&[zombie(one(7, 1, 150, 0))], at(2.0), &MACHINE), Change::Lost);
    assert!(!status(&tally).up);
    assert_eq!(counted(&tally), (150, 0));
    assert_eq!(tally.take(&[zombie(one(7, 1, 150, 0))], at(3.0), &MACHINE), Change::Same);
    assert_eq!(counted(&tally), (150, 0));
}

#[test]
fn a_process_whose_main_thread_ended_lives_on() {
    let mut tally = Tally::new(false);
    let mut headless = one(7, 1, 0, 0);
    (headless.state, headless.threads) = ('Z', 3);
    tally.take(&[headless], at(0.0), &MACHINE);
    assert!(status(&tally).up);
}

#[test]
fn x5_a_tree_is_the_sum_of_its_living_members() {
    let mut tally = Tally::new(true);
    let members = [one(7, 1, 0, 0), one(8, 7, 500, 0), zombie(one(9, 7, 60, 0))];
    tally.take(&members, at(0.0), &MACHINE);
    let sum = status(&tally);
    assert_eq!((sum.processes, sum.threads, sum.memory_rss_bytes), (2, Some(4), Some(2 << 20)));
    tally.take(&[one(7, 1, 10, 1), one(8, 7, 520, 2), zombie(one(9, 7, 60, 0))], at(1.0), &MACHINE);
    assert_eq!(counted(&tally), (30, 3));
}

#[test]
fn x5_a_child_that_ends_takes_nothing_back_and_is_not_counted_again_by_its_parent() {
    let mut tally = Tally::new(true);
    tally.take(&[one(7, 1, 0, 0), one(8, 7, 400, 40)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 0, 0), one(8, 7, 500, 50)], at(1.0), &MACHINE);
    // It used 30 + 3 more after the look, ended and was reaped: its parent's sum shows all of its time.
    tally.take(&[reaped(one(7, 1, 0, 0), 530, 53)], at(2.0), &MACHINE);
    assert_eq!(counted(&tally), (130, 13));
    assert_eq!(status(&tally).processes, 1);
    tally.take(&[reaped(one(7, 1, 5, 0), 530, 53)], at(3.0), &MACHINE);
    assert_eq!(counted(&tally), (135, 13));
}

#[test]
fn x5_a_child_reaped_between_its_parents_reading_and_its_own_is_not_counted_twice() {
    let mut tally = Tally::new(true);
    tally.take(&[one(7, 1, 0, 0), one(8, 7, 400, 0)], at(0.0), &MACHINE);
    // The parent was read before the child was reaped, the child was looked for after.
    tally.take(&[one(7, 1, 0, 0)], at(1.0), &MACHINE);
    tally.take(&[reaped(one(7, 1, 0, 0), 425, 0)], at(2.0), &MACHINE);
    assert_eq!(counted(&tally), (25, 0), "400 were its past, 25 are new");
}

#[test]
fn x5_children_that_lived_and_died_between_two_looks_are_counted() {
    let mut tally = Tally::new(true);
    tally.take(&[reaped(one(7, 1, 0, 0), 1_000, 0)], at(0.0), &MACHINE);
    tally.take(&[reaped(one(7, 1, 2, 0), 1_030, 4)], at(1.0), &MACHINE);
    assert_eq!(counted(&tally), (32, 4));
    let mut single = Tally::new(false);
    single.take(&[reaped(one(7, 1, 0, 0), 1_000, 0)], at(0.0), &MACHINE);
    single.take(&[reaped(one(7, 1, 2, 0), 1_030, 4)], at(1.0), &MACHINE);
    assert_eq!(counted(&single), (2, 0), "without tree the children are not asked for");
}

#[test]
fn x5_children_that_nobody_reaps_make_nothing_fall_and_hide_nothing_for_long() {
    let mut tally = Tally::new(true);
    tally.take(&[one(7, 1, 0, 0), one(8, 7, 9_000, 0)], at(0.0), &MACHINE);
    // SIGCHLD ignored: 8 is gone and no sum has it.
    tally.take(&[one(7, 1, 10, 0)], at(1.0), &MACHINE);
    tally.take(&[one(7, 1, 20, 0)], at(2.0), &MACHINE);
    assert_eq!(counted(&tally), (20, 0));
    // What the parent reaps later is other children's.
    tally.take(&[reaped(one(7, 1, 30, 0), 50, 0)], at(3.0), &MACHINE);
    assert_eq!(counted(&tally), (80, 0));
}

#[test]
fn x5_a_grandchild_that_went_with_its_parent_is_not_counted_twice() {
    let mut tally = Tally::new(true);
    tally.take(&[one(7, 1, 0, 0)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 0, 0), one(8, 7, 100, 0), one(9, 8, 200, 0)], at(1.0), &MACHINE);
    assert_eq!(counted(&tally), (300, 0), "born since the last look: all their time is new");
    // 8 reaped 9 (205) and ended (110); 7 reaped 8: 315 in all.
    tally.take(&[reaped(one(7, 1, 0, 0), 315, 0)], at(2.0), &MACHINE);
    assert_eq!(counted(&tally), (315, 0));
}

#[test]
fn m2_no_reading_makes_a_counter_fall() {
    let mut tally = Tally::new(true);
    tally.take(&[one(7, 1, 100, 100)], at(0.0), &MACHINE);
    tally.take(&[one(7, 1, 200, 200)], at(1.0), &MACHINE);
    // Some kernels' split between user and system wavers.
    tally.take(&[one(7, 1, 190, 215)], at(2.0), &MACHINE);
    assert_eq!(counted(&tally), (100, 115));
    tally.take(&[one(7, 1, 200, 215)], at(3.0), &MACHINE);
    assert_eq!(counted(&tally), (100, 115), "what was counted already comes back");
    tally.take(&[one(7, 1, 201, 215)], at(4.0), &MACHINE);
    assert_eq!(counted(&tally), (101, 115));
}
