//! Counters of others: over restarts of the agent and of the process, over gaps, with readings given.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn up(cpu_seconds: Option<u64>) -> ProcessStatus {
    let cpu_unsplit_ns = cpu_seconds.map(|seconds| seconds * SECOND);
    ProcessStatus { up: true, pid: Some(7), cpu_unsplit_ns, ..ProcessStatus::default() }
}

fn sample(status: &ProcessStatus, at_seconds: u64) -> Sample<'_> {
    Sample {
        status,
        at_ns: at_seconds * SECOND,
        blur_ns: 0,
        since: Since::Same,
        absent_is_zero: true,
        replaced: false,
    }
}

fn take(carried: &mut RemoteTally, sample: &Sample<'_>) -> (Change, ProcessStatus) {
    let mut status = ProcessStatus::default();
    let change = carried.take(sample, &mut status);
    (change, status)
}

#[test]
fn the_first_reading_is_not_published_and_cores_are_over_the_readers_time() {
    let mut carried = RemoteTally::default();
    let (change, first) = take(&mut carried, &sample(&up(Some(500)), 1_000));
    assert_eq!((change, first.cpu_unsplit_ns, first.cpu_cores), (Change::Found, None, None));
    assert_eq!(first.pid, Some(7), "gauges stand as they were read");
    let (change, second) = take(&mut carried, &sample(&up(Some(515)), 1_010));
    assert_eq!((change, second.cpu_unsplit_ns), (Change::Same, Some(15 * SECOND)));
    assert!((second.cpu_cores.unwrap() - 1.5).abs() < 1e-9);
    // The same reading again (asked more often than it is taken) is nothing new.
    let (_, again) = take(&mut carried, &sample(&up(Some(515)), 1_010));
    assert_eq!((again.cpu_unsplit_ns, again.cpu_cores), (Some(15 * SECOND), Some(1.5)));
}

#[test]
fn an_agent_that_was_started_again_counts_from_its_first_look() {
    let mut carried = RemoteTally::default();
    take(&mut carried, &sample(&up(Some(500)), 1_000));
    take(&mut carried, &sample(&up(Some(510)), 1_010));
    // Its clock begins anew too: what would be a span of minus 1,000 s is none.
    let again = up(Some(3));
    let anew = Sample { since: Since::Anew, ..sample(&again, 4) };
    let (change, status) = take(&mut carried, &anew);
    assert_eq!((change, status.restarts), (Change::Same, 0), "the process is the same");
    assert_eq!((status.cpu_unsplit_ns, status.cpu_cores), (Some(13 * SECOND), None));
    let (_, status) = take(&mut carried, &sample(&up(Some(5)), 6));
    assert_eq!((status.cpu_unsplit_ns, status.cpu_cores), (Some(15 * SECOND), Some(1.0)));
}

#[test]
fn restarts_that_the_agent_counts_and_one_while_it_was_away() {
    let mut carried = RemoteTally::default();
    take(&mut carried, &sample(&ProcessStatus { restarts: 4, ..up(Some(1)) }, 1));
    let (change, status) = take(&mut carried, &sample(&ProcessStatus { restarts: 5, ..up(Some(2)) }, 2));
    assert_eq!((change, status.restarts), (Change::Restarted, 1));
    let again = up(None);
    let (change, status) =
        take(&mut carried, &Sample { since: Since::Anew, replaced: true, ..sample(&again, 1) });
    assert_eq!((change, status.restarts, status.cpu_unsplit_ns), (Change::Restarted, 2, Some(SECOND)));
    // An agent publishes CPU from its second look on, and counts from its first.
    let (_, status) = take(&mut carried, &sample(&up(Some(2)), 3));
    assert_eq!((status.cpu_unsplit_ns, status.cpu_cores), (Some(3 * SECOND), Some(1.0)));
}

#[test]
fn a_counter_of_an_exporter_that_appears_late_is_not_new_in_whole() {
    let mut carried = RemoteTally::default();
    take(&mut carried, &sample(&up(None), 1));
    let late = up(Some(900));
    let (_, status) = take(&mut carried, &Sample { absent_is_zero: false, ..sample(&late, 2) });
    assert_eq!(status.cpu_unsplit_ns, Some(0));
}

#[test]
fn m4_a_silence_leaves_counters_only_and_is_a_loss_when_it_lasts() {
    let mut carried = RemoteTally::default();
    take(&mut carried, &sample(&up(Some(1)), 1));
    let (_, mut status) = take(&mut carried, &sample(&up(Some(2)), 2));
    assert_eq!(carried.miss(false, &mut status), Change::Same, "one is a hiccup");
    assert!(!status.up && status.pid.is_none() && status.cpu_cores.is_none());
    assert_eq!(status.cpu_unsplit_ns, Some(SECOND));
    assert_eq!(carried.miss(true, &mut status), Change::Lost);
    assert_eq!(carried.miss(true, &mut status), Change::Same, "once");
    let (change, status) = take(&mut carried, &sample(&up(Some(8)), 12));
    assert_eq!(
        (change, status.cpu_unsplit_ns),
        (Change::Found, Some(7 * SECOND)),
        "nothing of the gap is lost"
    );
    assert!((status.cpu_cores.unwrap() - 0.6).abs() < 1e-9);
}

#[test]
fn cores_are_unknown_when_the_instant_of_a_reading_is_not_known_to_a_tenth() {
    let mut carried = RemoteTally::default();
    take(&mut carried, &sample(&up(Some(1)), 1));
    let blurred = up(Some(2));
    let (_, status) = take(&mut carried, &Sample { blur_ns: SECOND / 2, ..sample(&blurred, 2) });
    assert_eq!((status.cpu_cores, status.cpu_unsplit_ns), (None, Some(SECOND)));
}

#[test]
fn a_machine_is_carried_as_its_processes_are() {
    let machine = |user_seconds: Option<u64>, bytes: Option<u64>| MachineStatus {
        up: true,
        load1: Some(0.5),
        cpu: user_seconds.map(|seconds| CpuTimes { user_ns: seconds * SECOND, ..CpuTimes::default() }),
        network_sent_bytes: bytes,
        ..MachineStatus::default()
    };
    let (mut carried, mut out) = (RemoteMachineTally::default(), MachineStatus::default());
    carried.take(&machine(Some(100), Some(7_000)), Since::Same, true, &mut out);
    assert_eq!((out.up, out.load1, out.cpu, out.network_sent_bytes), (true, Some(0.5), None, None));
    carried.take(&machine(Some(103), Some(7_500)), Since::Same, true, &mut out);
    assert_eq!((out.cpu.unwrap().user_ns, out.network_sent_bytes), (3 * SECOND, Some(500)));
    carried.take(&machine(None, None), Since::Anew, true, &mut out);
    carried.take(&machine(Some(2), Some(9)), Since::Same, true, &mut out);
    assert_eq!((out.cpu.unwrap().user_ns, out.network_sent_bytes), (5 * SECOND, Some(509)));
}

proptest! {
    #[test]
    fn m2_no_readings_make_a_counter_fall(
        readings in prop::collection::vec((prop::option::of(0_u64..1_000), any::<bool>(), any::<bool>(), 0_u64..5), 1..40),
        zero in any::<bool>(),
    ) {
        let (mut carried, mut last, mut restarts) = (RemoteTally::default(), None, 0);
        let mut at = 0;
        for (cpu, anew, is_up, step) in readings {
            at += step;
            let status = ProcessStatus { up: is_up, ..up(cpu) };
            let since = if anew { Since::Anew } else { Since::Same };
            let (_, seen) =
                take(&mut carried, &Sample { since, absent_is_zero: zero, replaced: anew, ..sample(&status, at) });
            prop_assert!(last.is_none() || seen.cpu_unsplit_ns >= last);
            prop_assert!(seen.restarts >= restarts);
            prop_assert!(seen.cpu_cores.is_none_or(|cores| cores.is_finite() && cores >= 0.0));
            (last, restarts) = (seen.cpu_unsplit_ns, seen.restarts);
        }
    }
}
