//! Reports of an agent, given.

use std::collections::BTreeMap;

use super::*;
use crate::net::http::Answer;

const SECOND: u64 = 1_000_000_000;

fn watch() -> AgentWatch {
    let settings: AgentProcessSettings =
        serde_json::from_value(serde_json::json!({ "url": "http://127.0.0.1:9" })).unwrap();
    AgentWatch::new("sut", &settings, Clock::start())
}

fn report(instance: &str, now_seconds: u64, status: ProcessStatus) -> AgentReport {
    AgentReport {
        format: 1,
        version: env!("CARGO_PKG_VERSION").into(),
        instance: instance.into(),
        now_ns: now_seconds * SECOND,
        wall_ms: i64::try_from(wall_now().as_millis()).ok(),
        interval_ns: BTreeMap::from([("sut".into(), SECOND)]),
        machine: MachineStatus { up: true, cpus: Some(2), ..MachineStatus::default() },
        processes: BTreeMap::from([("sut".into(), status)]),
    }
}

fn seen(pid: u32, cpu_seconds: u64, looked_seconds: u64) -> ProcessStatus {
    ProcessStatus {
        up: true,
        pid: Some(pid),
        cpu_user_ns: Some(cpu_seconds * SECOND),
        cpu_system_ns: Some(0),
        cpu_cores: Some(0.5),
        start_time_seconds: Some(1e9 + f64::from(pid)),
        looked_ns: Some(looked_seconds * SECOND),
        ..ProcessStatus::default()
    }
}

fn heard() -> Heard {
    let answer = Answer { status: 200, headers: hyper::HeaderMap::new(), body: Vec::new() };
    Heard { answer, from_ns: 0, to_ns: 1_000_000 }
}

fn take(watch: &mut AgentWatch, report: &AgentReport) -> (Change, Result<Looked, String>, ProcessStatus) {
    let mut status = ProcessStatus::default();
    let (change, result) = watch.take(report, &heard(), &mut status);
    (change, result.map_err(|error| error.to_string()), status)
}

#[test]
fn x2_cores_are_by_the_agents_clock_and_never_more_than_its_machine_has() {
    let mut watch = watch();
    take(&mut watch, &report("a", 100, seen(7, 10, 100))).1.unwrap();
    // 3 s of CPU in 2 s of the agent's, whenever we asked.
    let (_, _, status) = take(&mut watch, &report("a", 102, seen(7, 13, 102)));
    assert_eq!((status.cpu_cores, status.cpu_user_ns), (Some(1.5), Some(3 * SECOND)));
    let (_, _, status) = take(&mut watch, &report("a", 103, seen(7, 23, 103)));
    assert_eq!(status.cpu_cores, Some(2.0));
    // The agent was held up while it looked.
    let held_up = ProcessStatus { cpu_cores: None, ..seen(7, 24, 104) };
    assert_eq!(take(&mut watch, &report("a", 104, held_up)).2.cpu_cores, None);
}

#[test]
fn a_new_agent_is_no_restart_of_the_process_and_another_process_is_one() {
    let mut watch = watch();
    take(&mut watch, &report("a", 100, seen(7, 10, 100))).1.unwrap();
    let (change, _, status) = take(&mut watch, &report("b", 1, seen(7, 0, 1)));
    assert_eq!((change, status.restarts), (Change::Same, 0));
    let (change, _, status) = take(&mut watch, &report("c", 1, seen(8, 2, 1)));
    assert_eq!((change, status.restarts, status.cpu_user_ns), (Change::Restarted, 1, Some(2 * SECOND)));
    // The same pid with another start.
    let reused = ProcessStatus { start_time_seconds: Some(2e9), ..seen(8, 1, 1) };
    assert_eq!(take(&mut watch, &report("d", 1, reused)).2.restarts, 2);
}

#[test]
fn m4_an_agent_that_does_not_look_any_more_is_no_figure() {
    let mut watch = watch();
    take(&mut watch, &report("a", 100, seen(7, 10, 100))).1.unwrap();
    assert!(take(&mut watch, &report("a", 103, seen(7, 10, 100))).1.is_ok());
    let (_, result, status) = take(&mut watch, &report("a", 104, seen(7, 10, 100)));
    let error = result.unwrap_err();
    assert!(error.contains("has not looked at the process for 4.0 s") && !status.up, "{error}");
}

#[test]
fn what_the_agent_cannot_see_or_does_not_watch_is_said() {
    let mut watch = watch();
    take(&mut watch, &report("a", 100, seen(7, 10, 100))).1.unwrap();
    let gone = ProcessStatus {
        error: Some("no process is named \"x\"".into()),
        looked_ns: Some(101 * SECOND),
        cpu_user_ns: Some(11 * SECOND),
        cpu_system_ns: Some(0),
        ..ProcessStatus::default()
    };
    let (change, result, status) = take(&mut watch, &report("a", 101, gone));
    assert_eq!((change, status.up, status.cpu_user_ns), (Change::Lost, false, Some(SECOND)));
    assert_eq!(result.unwrap_err(), "the agent cannot see it: no process is named \"x\"");
    let mut other = report("a", 102, ProcessStatus::default());
    other.processes = BTreeMap::from([("sud".into(), seen(7, 1, 102))]);
    let error = take(&mut watch, &other).1.unwrap_err();
    assert_eq!(error, "the agent watches no process \"sut\"; did you mean \"sud\"?");
}

#[test]
fn another_version_and_another_clock_are_remarked_once() {
    let mut watch = watch();
    let mut odd = report("a", 100, seen(7, 10, 100));
    odd.version = "0.0.9".into();
    odd.wall_ms = odd.wall_ms.map(|ms| ms - 90_000);
    let remarks = take(&mut watch, &odd).1.unwrap().remarks;
    assert!(
        remarks[0].contains("version \"0.0.9\"") && remarks[1].contains("90.0 s behind ours"),
        "{remarks:?}"
    );
    assert_eq!(take(&mut watch, &odd).1.unwrap().remarks, [""; 0]);
    let fine = take(&mut self::watch(), &report("a", 100, seen(7, 10, 100))).1.unwrap();
    assert_eq!(fine.remarks, [""; 0]);
}
