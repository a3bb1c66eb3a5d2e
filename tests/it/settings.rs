//! Settings as the real binary takes them: layers, refusals, and `soakd check`.

use std::path::Path;
use std::process::{Command, Output};

use crate::children::Start as _;
use crate::control::{group_source, more_acked};
use crate::daemon;
use crate::mock::MockKafka;
use crate::postgres::Postgres;

const SOURCE: &str = "[progress.view]\nkind = \"sql\"\nstream = \"main\"\nurl = \"postgres://x@127.0.0.1:1/x\"\n\
                      query = \"SELECT 1\"\nvalue = \"next_offset\"\n";

/// Runs a command of `soakd` in a folder with settings and a changed environment.
fn soakd(dir: &Path, command: &str, settings: &str, env: &[(&str, &str)], sets: &[&str]) -> Output {
    let file = dir.join("soakd.toml");
    std::fs::write(&file, settings).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_soakd"));
    run.current_dir(dir).args([command, "-c"]).arg(&file).envs(env.iter().copied());
    sets.iter().for_each(|set| {
        run.args(["--set", set]);
    });
    run.run_for_output().unwrap()
}

/// What `soakd config` shows: one value, as its line stands there.
fn config(settings: &str, env: &[(&str, &str)]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let out = soakd(dir.path(), "config", settings, env, &[]);
    let text = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn c1_the_environment_takes_effect_and_shows_as_origin() {
    let kafka = MockKafka::start(1);
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        daemon::command(dir.path(), &(kafka.settings("", "", "rate = 10") + &group_source("view", "1s", "")));
    command.env("SOAKD__STREAMS__MAIN__RATE", "250.5").env("SOAKD__PROGRESS__VIEW__TIMEOUT", "4s");
    command.env("SOAKD_RATE", "5");
    let daemon = daemon::start_with(dir, command);
    daemon.wait_metric(30, "target_records_per_second", |rate| rate == 250.5);
    let status = daemon.get("/api/v1/status");
    let settings = &status["settings"];
    assert_eq!(settings["values"]["progress"]["view"]["timeout"], "4s");
    for (key, variable) in [
        ("streams.main.rate", "SOAKD__STREAMS__MAIN__RATE"),
        ("progress.view.timeout", "SOAKD__PROGRESS__VIEW__TIMEOUT"),
    ] {
        let origin = settings["origins"][key].as_str().unwrap();
        assert!(origin.contains(variable), "{key}: {origin}");
    }
    assert!(daemon.log().contains("SOAKD_RATE"), "a variable that is none warns: {}", daemon.log());
    kafka.commit("g", &[1_000_000]);
    daemon.terminate();
}

#[test]
fn c1_a_misspelt_variable_or_key_is_exit_2_naming_it() {
    let settings = format!("[streams.main]\nrate = 10\n{SOURCE}");
    let dir = tempfile::tempdir().unwrap();
    for command in ["run", "check", "config"] {
        let out = soakd(dir.path(), command, &settings, &[("SOAKD__PROGRESS__VIEW__TIMEOUTS", "1s")], &[]);
        let error = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{command}: {error}");
        assert!(
            error.contains("SOAKD__PROGRESS__VIEW__TIMEOUTS") && error.contains("\"timeout\""),
            "{error}"
        );
        let out = soakd(dir.path(), command, &settings.replace("rate", "raet"), &[], &[]);
        let error = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{command}: {error}");
        assert!(
            error.contains("soakd.toml") && error.contains("raet") && error.contains("\"rate\""),
            "{error}"
        );
    }
    let out =
        Command::new(env!("CARGO_BIN_EXE_soakd")).args(["run", "--sett", "x"]).run_for_output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the file of settings");
}

#[test]
fn c3_lists_split_at_commas_and_sql_does_not() {
    let settings = format!("[streams.main]\n{SOURCE}");
    let (code, two) = config(&settings, &[("SOAKD__KAFKA__BROKERS", "a:1,b:2")]);
    assert_eq!(code, Some(0), "{two}");
    assert!(two.contains("brokers = [\"a:1\", \"b:2\"]"), "{two}");
    let (_, one) = config(&settings, &[("SOAKD__KAFKA__BROKERS", "a:1")]);
    assert!(one.contains("brokers = [\"a:1\"]"), "{one}");
    let (_, sql) = config(&settings, &[("SOAKD__PROGRESS__VIEW__QUERY", "select max(a), 1 from t")]);
    assert!(sql.contains("query = \"select max(a), 1 from t\""), "{sql}");
}

#[test]
fn c4_the_clients_limit_is_reached_exactly() {
    let kafka = MockKafka::start(1);
    let client = "\"queue.buffering.max.messages\" = \"1000\", \"linger.ms\" = 5";
    let more = "rate = 2000\nmax_in_flight = 50000";
    let daemon = daemon::start(&kafka.settings("flush_timeout = \"1s\"", client, more));
    more_acked(&daemon, 100.0);
    kafka.down();
    daemon.wait_metric(30, "load_limited{stream=\"main\",by=\"broker\"}", |limited| limited == 1.0);
    assert_eq!(daemon.metric("records_in_flight"), 1000.0);
    kafka.up();
    daemon.wait_metric(60, "records_in_flight", |records| records < 500.0);
    daemon.terminate();
}

#[test]
fn c4_the_environment_overrides_a_dotted_property_and_an_unknown_one_is_refused() {
    let settings = "[kafka]\nclient = { \"linger.ms\" = 5 }\n[streams.main]\n";
    let (code, text) = config(settings, &[("SOAKD__KAFKA__CLIENT__LINGER_MS", "7")]);
    assert_eq!(code, Some(0));
    assert!(text.contains("\"linger.ms\" = \"7\"") && !text.contains("linger_ms"), "{text}");
    let kafka = MockKafka::start(1);
    let dir = tempfile::tempdir().unwrap();
    let settings = kafka.settings("", "\"linger.mss\" = 5", "rate = 10");
    let out = daemon::command(dir.path(), &settings).run_for_output().unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{error}");
    assert!(error.contains("kafka.client") && error.contains("linger.mss"), "{error}");
    assert_eq!(kafka.records(), 0);
}

#[test]
fn check_connects_to_everything_and_writes_nothing() {
    let (kafka, postgres) = (MockKafka::start(2), Postgres::start(&[]));
    postgres
        .psql("CREATE TABLE at (partition int, next_offset bigint); INSERT INTO at VALUES (0, 0), (1, 0)");
    let source = SOURCE.replace("postgres://x@127.0.0.1:1/x", postgres.url());
    let good = kafka
        .settings("", "", "rate = 10")
        .replace("create = false", "create = true")
        .replace("\"t\"", "\"soak-{run}\"")
        + &source.replace("SELECT 1", "SELECT partition, next_offset FROM at")
        + &format!("[processes.self]\nkind = \"local\"\npid = {}\n", std::process::id());
    let dir = tempfile::tempdir().unwrap();
    let check = |settings: &str, sets: &[&str]| {
        let sets = [&["http.listen=127.0.0.1:0"], sets].concat();
        let out = soakd(dir.path(), "check", settings, &[], &sets);
        (out.status.code(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
    };
    let (code, text) = check(&good, &[]);
    assert_eq!(code, Some(0), "{text}");
    for part in ["broker", "stream", "progress", "process", "http"] {
        let line =
            text.lines().find(|line| line.starts_with(part)).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(line.contains(" ok "), "{line}");
    }
    assert!(text.contains("0: 0, 1: 0") && text.contains("will be created"), "{text}");
    let (code, text) = check(&good, &["progress.view.url=postgres://x@127.0.0.1:1/x"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("no answer") && text.contains("127.0.0.1:1"), "{text}");
    let (code, text) = check(&good, &["progress.view.urll=postgres://x@127.0.0.1:1/x"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("urll"), "{text}");
    // Neither a topic nor a record nor a store.
    assert_eq!((kafka.topics(), kafka.records()), (vec!["t".to_owned()], 0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the file of settings");
    let run = soakd(
        dir.path(),
        "run",
        &good,
        &[],
        &["http.listen=127.0.0.1:0", "progress.view.url=postgres://x@127.0.0.1:1/x", "streams.main.topic=t"],
    );
    assert_eq!(run.status.code(), Some(3), "a run does not begin without its source");
    assert_eq!(kafka.records(), 0);
}

#[test]
fn a_preset_is_printed_ready_to_be_copied() {
    let preset = |name: &str| {
        Command::new(env!("CARGO_BIN_EXE_soakd")).args(["check", "--preset", name]).run_for_output().unwrap()
    };
    let printed = preset("postgres");
    assert_eq!(printed.status.code(), Some(0));
    let text = String::from_utf8(printed.stdout).unwrap();
    let (code, shown) = config(&format!("[streams.main]\n{text}"), &[]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("FROM events ") && !shown.contains("not valid"), "{shown}");
    let unknown = preset("oracle");
    assert_eq!(unknown.status.code(), Some(2));
    let error = String::from_utf8(unknown.stderr).unwrap();
    assert!(error.contains("unknown preset \"oracle\"") && error.contains("postgres"), "{error}");
}
