//! A wall clock that is set while soakd runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::children::Start as _;
use crate::control::{group_source, more_acked};
use crate::daemon;
use crate::mock::MockKafka;

/// Sets off the wall clock of a program that it is loaded into by the seconds that stand in a file. Debian's faketime cannot do
/// it: the Kafka client waits by C11's `cnd_timedwait`, which it does not know, and then for an hour.
const WALL_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) {
        char text[32] = "";
        int file = open(getenv("WALL_CLOCK_OFFSET"), O_RDONLY);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
            close(file);
        }
    }
    return (int)result;
}
"#;

fn wall_clock(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("wall_clock.c"), dir.join("wall_clock.so"));
    std::fs::write(&source, WALL_CLOCK).unwrap();
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .run_for_output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    library
}

#[test]
fn z4_a_wall_clock_that_jumps_moves_no_rate_no_lag_and_no_duration() {
    let kafka = MockKafka::start(1);
    kafka.commit("g", &[0]);
    let dir = tempfile::tempdir().unwrap();
    let offset = dir.path().join("offset");
    std::fs::write(&offset, "0").unwrap();
    let library = wall_clock(dir.path());
    let settings = kafka.settings("", "", "rate = 200") + &group_source("group", "200ms", "");
    let mut command = daemon::command(dir.path(), &settings);
    command.env("LD_PRELOAD", library).env("WALL_CLOCK_OFFSET", &offset);
    let daemon = daemon::start_with(dir, command);
    let age = "lag_seconds{source=\"group\",stream=\"main\"}";
    let began = Instant::now();
    for jump in ["-30", "3600"] {
        more_acked(&daemon, 300.0);
        std::fs::write(&offset, jump).unwrap();
        let before = daemon.metric("records_scheduled_total");
        let asked = Instant::now();
        std::thread::sleep(Duration::from_millis(1500));
        let scheduled = daemon.metric("records_scheduled_total") - before;
        let expected = asked.elapsed().as_secs_f64() * 200.0;
        assert!((scheduled - expected).abs() < 100.0 + expected * 0.2, "{scheduled} of {expected}");
        let lag = daemon.metric(age);
        assert!(lag > 0.0 && lag < began.elapsed().as_secs_f64() + 2.0, "{lag} s");
    }
    kafka.commit("g", &[1_000_000]);
    let ended = daemon.terminate();
    ended.good();
    let measured = &ended.report()["measured"];
    let seconds = measured["active_seconds"].as_f64().unwrap();
    assert!(seconds < began.elapsed().as_secs_f64() + 1.0, "{seconds}");
    let p999 = measured["streams"]["main"]["ack_from_intended"]["max_seconds"].as_f64().unwrap();
    assert!(p999 < 25.0, "{p999}");
    assert_eq!(ended.log.matches("wall clock stepped").count(), 2, "{}", ended.log);
    let remarks = ended.report()["remarks"].to_string();
    assert!(remarks.contains("clock was set 2 times"), "{remarks}");
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
}
