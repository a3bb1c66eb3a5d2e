//! Containers over the socket of an engine of ours that answers as Docker does, the figures from its statistics or from a
//! captured cgroup.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use soakd::core::event::Event;
use soakd::core::lock::lock;
use soakd::process::LocalProcessSettings;

use super::Watched;

const ID: &str = "4f1e00000000000000000000000000000000000000000000000000000000beef";

/// What it answers by path, and what it was asked.
#[derive(Default)]
struct State {
    answers: BTreeMap<String, (u16, Value)>,
    asked: Vec<String>,
}

/// An engine on a socket of its own; its thread ends with the test's process.
struct Engine {
    dir: tempfile::TempDir,
    state: Arc<Mutex<State>>,
}

impl Engine {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("engine.sock")).unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &shared);
            }
        });
        Self { dir, state }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("engine.sock")
    }

    fn answer(&self, path: &str, status: u16, body: Value) {
        lock(&self.state).answers.insert(path.to_owned(), (status, body));
    }

    fn inspect(&self, name: &str, id: &str, pid: u32, state: Value) {
        let mut all = json!({"Running": true, "Pid": pid, "OOMKilled": false, "ExitCode": 0,
                             "StartedAt": "2026-11-30T10:00:00.5Z"});
        all.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
        let body =
            json!({"Id": id, "Name": format!("/{name}"), "State": all, "HostConfig": {"Memory": 1 << 29}});
        self.answer(&format!("/containers/{name}/json"), 200, body);
    }

    fn stats(&self, id: &str, ms: u64) {
        let ns = ms * 1_000_000;
        let body = json!({
            "cpu_stats": {"cpu_usage": {"total_usage": 3 * ns, "usage_in_usermode": 2 * ns, "usage_in_kernelmode": ns},
                          "online_cpus": 2, "throttling_data": {"throttled_time": ns}},
            "memory_stats": {"usage": 100_000 + ms, "limit": 8_u64 << 30, "stats": {"inactive_file": 40_000}},
            "pids_stats": {"current": 5},
            "blkio_stats": {"io_service_bytes_recursive": [{"op": "read", "value": ms}, {"op": "write", "value": 2 * ms}]},
        });
        self.answer(&format!("/containers/{id}/stats?stream=false&one-shot=true"), 200, body);
    }

    fn asked(&self, word: &str) -> usize {
        lock(&self.state).asked.iter().filter(|path| path.contains(word)).count()
    }

    fn watch(&self, name: &str, root: &Path) -> Watched {
        Watched::new(LocalProcessSettings {
            container: Some(name.into()),
            socket: Some(self.socket()),
            proc_root: root.join("proc"),
            cgroup_root: root.join("cgroup"),
            ..LocalProcessSettings::default()
        })
    }
}

fn serve(stream: &UnixStream, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    for line in lines {
        if line.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let mut state = lock(state);
    let missing = || (404, json!({"message": "No such container"}));
    let (status, body) = state.answers.get(&path).cloned().unwrap_or_else(missing);
    state.asked.push(path);
    let body = body.to_string();
    // In two pieces of a chunked body, as Go's server does it.
    let (head, tail) = body.split_at(body.len() / 2);
    let answer = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{head}\r\n{:x}\r\n{tail}\r\n0\r\n\r\n",
        head.len(),
        tail.len()
    );
    let _ = (&*stream).write_all(answer.as_bytes());
}

#[test]
fn a_container_of_another_machine_is_read_from_the_engines_statistics() {
    let engine = Engine::start();
    let nowhere = tempfile::tempdir().unwrap();
    let mut watched = engine.watch("sut", nowhere.path());
    let error = watched.look().unwrap_err().to_string();
    assert!(error.contains("has no container \"sut\""), "{error}");

    engine.inspect("sut", ID, 4_000_000, json!({}));
    engine.stats(ID, 1_000);
    let first = watched.look().unwrap();
    assert!(first.remarks[0].contains("the figures are the engine's statistics"), "{:?}", first.remarks);
    let first = first.status;
    assert!(first.up && first.cpu_user_ns.is_none() && first.pid.is_none());
    engine.stats(ID, 1_700);
    let status = watched.look().unwrap().status;
    assert_eq!((status.cpu_user_ns, status.cpu_system_ns), (Some(1_400_000_000), Some(700_000_000)));
    assert_eq!((status.cpu_throttled_ns, status.oom_kills), (Some(700_000_000), None));
    assert_eq!((status.io_read_bytes, status.io_written_bytes), (Some(700), Some(1_400)));
    assert_eq!((status.memory_cgroup_bytes, status.memory_working_set_bytes), (Some(101_700), Some(61_700)));
    assert_eq!((status.memory_limit_bytes, status.threads), (Some(1 << 29), Some(5)));
    assert_eq!(engine.asked("/json"), 2, "asked about once more after the failure, and not at each look");

    // Killed for want of memory, then started again: its counters begin at 0.
    engine.inspect("sut", ID, 0, json!({"Running": false, "OOMKilled": true, "ExitCode": 137}));
    engine.stats(ID, 0);
    engine.answer(&format!("/containers/{ID}/stats?stream=false&one-shot=true"), 200, json!({}));
    for _ in 0..3 {
        let error = watched.look().unwrap_err().to_string();
        assert!(error.contains("exit code is 137, killed for want of memory"), "{error}");
    }
    let lost = watched.status();
    assert!(!lost.up && lost.memory_cgroup_bytes.is_none());
    assert_eq!((lost.oom_kills, lost.cpu_user_ns), (Some(1), Some(1_400_000_000)), "once");
    engine.inspect("sut", ID, 4_000_001, json!({"StartedAt": "2026-11-30T10:05:00Z"}));
    engine.stats(ID, 50);
    let status = watched.look().unwrap().status;
    assert_eq!((status.restarts, status.cpu_user_ns), (1, Some(1_400_000_000)));
    engine.stats(ID, 60);
    let status = watched.look().unwrap().status;
    assert_eq!(status.cpu_user_ns, Some(1_420_000_000));
    let process = || "sut".to_owned();
    assert_eq!(
        watched.events(),
        [
            Event::ProcessFound { process: process(), pid: None },
            Event::ProcessLost { process: process() },
            Event::ProcessRestarted { process: process(), pid: None },
        ]
    );
}

/// A machine's captured file systems with one container in them.
fn capture(root: &Path, id: &str, pid: u32, usec: u64) {
    let write = |path: String, text: String| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for name in ["stat", "meminfo"] {
        write(format!("proc/{name}"), std::fs::read_to_string(format!("/proc/{name}")).unwrap());
    }
    let scope = format!("system.slice/docker-{id}.scope");
    // The container's init has made a cgroup of its own.
    write(format!("proc/{pid}/cgroup"), format!("0::/{scope}/init\n"));
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.split_once(' ').unwrap();
    write(format!("proc/{pid}/stat"), format!("{pid} {rest}"));
    write("cgroup/cgroup.controllers".into(), "cpu memory".into());
    let group = |name: &str, text: String| write(format!("cgroup/{scope}/{name}"), text);
    group("cpu.stat", format!("usage_usec {usec}\nuser_usec {usec}\nsystem_usec 0\nthrottled_usec 7\n"));
    group("memory.current", "5000000\n".into());
    group("memory.peak", "6000000\n".into());
    group("memory.events", "oom_kill 0\n".into());
    group("cgroup.events", "populated 1\n".into());
    group("cgroup.procs", "\n".into());
    group("init/cgroup.procs", format!("{pid}\n"));
}

#[test]
fn a_container_of_this_machine_is_read_from_its_cgroup_and_followed_when_it_is_made_again() {
    let engine = Engine::start();
    let machine = tempfile::tempdir().unwrap();
    capture(machine.path(), ID, 71, 1_000);
    engine.inspect("sut", ID, 71, json!({}));
    let mut watched = engine.watch("sut", machine.path());
    watched.look().unwrap();
    capture(machine.path(), ID, 71, 5_000);
    let status = watched.look().unwrap().status;
    assert_eq!((status.cpu_user_ns, status.pid), (Some(4_000_000), Some(71)));
    assert_eq!((status.memory_cgroup_peak_bytes, status.oom_kills), (Some(6_000_000), Some(0)));
    assert_eq!((engine.asked("/json"), engine.asked("/stats")), (1, 0), "the engine is left alone");

    // Removed and made again under the same name, between two looks: one look finds it.
    std::fs::remove_dir_all(machine.path().join(format!("cgroup/system.slice/docker-{ID}.scope"))).unwrap();
    let other = ID.replace('4', "5");
    capture(machine.path(), &other, 72, 100);
    engine.inspect("sut", &other, 72, json!({}));
    let status = watched.look().unwrap().status;
    assert_eq!((status.pid, status.restarts, status.cpu_user_ns), (Some(72), 1, Some(4_000_000)));
    capture(machine.path(), &other, 72, 600);
    assert_eq!(watched.look().unwrap().status.cpu_user_ns, Some(4_500_000));
}

#[test]
fn what_can_be_wrong_with_an_engine_is_told() {
    let engine = Engine::start();
    let nowhere = tempfile::tempdir().unwrap();
    let mut watched = engine.watch("sut", nowhere.path());
    for (status, body, text) in [
        (500, json!({"message": "broken"}), "answered 500 about container \"sut\": \"broken\""),
        (200, json!({"State": {}}), "answered with something else than expected"),
        (200, json!("<html>"), "answered with something else than expected"),
    ] {
        engine.answer("/containers/sut/json", status, body);
        let error = watched.look().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let mut absent = Watched::new(LocalProcessSettings {
        container: Some("sut".into()),
        socket: Some(nowhere.path().join("none.sock")),
        ..LocalProcessSettings::default()
    });
    let error = absent.look().unwrap_err().to_string();
    assert!(error.contains("none.sock does not answer"), "{error}");
}
