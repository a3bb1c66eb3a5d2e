//! Finding by command line, and what is read beside CPU and resident memory.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use soakd::process::LocalProcessSettings;

use super::Watched;
use super::burner::{Burner, MIB, Spec, dir, wait_for};
use crate::children::Start as _;

/// A shell that does one line of its script for each line that it reads.
struct Shell {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start(script: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .start()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it go on, and waits for a line of its.
    fn step(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        assert!(self.output.read_line(&mut String::new()).unwrap() > 0, "the shell ended");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn by_command(pattern: &str, tree: bool) -> Watched {
    let command = Some(pattern.to_owned());
    Watched::new(LocalProcessSettings { command, tree, ..LocalProcessSettings::default() })
}

#[test]
fn a_process_is_found_by_its_command_line_and_found_again_after_a_restart() {
    let folder = dir();
    let pattern = format!("/{} --exact .*burner::body", folder.path().file_name().unwrap().to_str().unwrap());
    let pattern = pattern.replace(" --exact", "/burner --exact");
    let mut watched = by_command(&pattern, false);
    let error = watched.look().unwrap_err().to_string();
    assert!(error.contains("no process has a command line") && error.contains("--exact"), "{error}");
    // Its children have the same command line.
    let mut first = Burner::start(&folder, "burner", &Spec { children: 2, child_mib: 1, ..Spec::default() });
    let seen = watched.look().unwrap();
    assert_eq!((seen.status.pid, seen.status.processes), (Some(first.pid()), 1));
    assert!(seen.remarks[0].starts_with("2 of its children match too"), "{:?}", seen.remarks);
    let tree = by_command(&pattern, true).look().unwrap();
    assert_eq!((tree.status.pid, tree.status.processes, tree.remarks), (Some(first.pid()), 3, vec![]));
    // Its children end with it, and until then the oldest of them would be the one that is meant.
    let children = std::mem::take(&mut first.children);
    drop(first);
    wait_for("the end of its children", || {
        children.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    });
    let second = Burner::start(&folder, "burner", &Spec::default());
    let status = watched.look().unwrap().status;
    assert_eq!((status.pid, status.restarts), (Some(second.pid()), 1));
}

#[test]
fn open_files_and_proportional_memory_are_the_systems_own() {
    let burner = Burner::start(&dir(), "burner", &Spec { mib: 64, ..Spec::default() });
    let status = Watched::by_pid(burner.pid(), false).look().unwrap().status;
    let open = std::fs::read_dir(format!("/proc/{}/fd", burner.pid())).unwrap().count();
    assert_eq!(status.open_fds, Some(open as u64));
    let (pss, rss) = (status.memory_pss_bytes.unwrap(), status.memory_rss_bytes.unwrap());
    assert!(pss >= 64 * MIB && pss <= rss + MIB, "PSS {pss}, RSS {rss}");

    // Files opened and closed; its memory is not read again at once.
    let mut shell = Shell::start(
        "exec 3<&- 4<&- 5<&- 6<&-; read x; echo; read x; exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null; echo open; read x; exec 3<&- 4<&-; echo; read x",
    );
    // It begins with files of its parent, of which some may have the numbers that it opens.
    shell.step();
    let mut watched = Watched::by_pid(shell.pid(), false);
    let before = watched.look().unwrap().status.open_fds.unwrap();
    shell.step();
    assert_eq!(watched.look().unwrap().status.open_fds, Some(before + 4));
    shell.step();
    assert_eq!(watched.look().unwrap().status.open_fds, Some(before + 2));
    let none = LocalProcessSettings { pid: Some(shell.pid()), pss: false, ..LocalProcessSettings::default() };
    assert_eq!(Watched::new(none).look().unwrap().status.memory_pss_bytes, None);
}

#[test]
fn x5_bytes_written_by_children_that_ended_between_two_looks_are_counted_once() {
    // On a file system of a disk: memory is no storage.
    let folder = dir();
    let file = folder.path().join("written");
    let write = format!("dd if=/dev/zero of={} bs=1M count=8 conv=fsync 2>/dev/null", file.display());
    let mut shell = Shell::start(&format!("read x; {write}; echo; read x; {write}; echo; read x"));
    let mut tree = Watched::by_pid(shell.pid(), true);
    let first = tree.look().unwrap().status;
    assert_eq!((first.io_read_bytes, first.io_written_bytes), (None, None), "the first is not published");
    shell.step();
    let status = tree.look().unwrap().status;
    let written = status.io_written_bytes.unwrap();
    assert!((8 * MIB..9 * MIB).contains(&written), "{written}");
    shell.step();
    let written = tree.look().unwrap().status.io_written_bytes.unwrap();
    assert!((16 * MIB..18 * MIB).contains(&written), "{written}");
    let again = tree.look().unwrap().status.io_written_bytes.unwrap();
    assert_eq!(again, written);
}
