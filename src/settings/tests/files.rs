//! Settings files: formats, order, and all that can be wrong with one.

use super::{BASE, Files, file_at, pairs, refusal, shorten};
use crate::config::{PaceSetting, RateSetting};
use crate::settings::Settings;

fn refused(name: &str, content: impl AsRef<[u8]>) -> String {
    let files = Files::new();
    let path = files.write(name, content);
    shorten(&Settings::load(&[path], pairs(&[]), &[]).expect_err("it should be refused"))
}

#[test]
fn a_later_file_wins_key_by_key_in_any_format() {
    let files = Files::new();
    let paths = [
        files.write(
            "a.toml",
            format!("{BASE}\n[run]\nname = \"one\"\nseed = 1\ntags = {{ a = \"1\", b = \"1\" }}"),
        ),
        files.write(
            "b.yaml",
            "run:\n  seed: 2\n  tags:\n    b: \"2\"\nstreams:\n  main:\n    rate: 5.5\nkafka:\n",
        ),
        files.write(
            "c.json",
            r#"{"kafka": {"brokers": ["x:1"], "client": {"linger.ms": 5}}, "run": {"duration": null}}"#,
        ),
    ];
    let loaded = Settings::load(&paths, pairs(&[]), &[]).unwrap();
    let settings = &loaded.settings;
    assert_eq!((settings.run.name.as_str(), settings.run.seed), ("one", 2));
    assert_eq!((settings.run.tags["a"].as_str(), settings.run.tags["b"].as_str()), ("1", "2"));
    assert_eq!(settings.streams["main"].rate, Some(PaceSetting::Rate(RateSetting(5.5))));
    assert_eq!(settings.kafka.client.get("linger.ms"), Some("5"));
    let origins = ["run.name", "run.seed", "run.tags.a", "run.tags.b", "kafka.brokers", "run.warmup"];
    let files = ["a.toml", "b.yaml", "a.toml", "b.yaml", "c.json", "default"];
    assert_eq!(origins.map(|key| file_at(&loaded, key)), files);
}

#[test]
fn syntax_errors_tell_the_file_and_the_line() {
    let toml = refused("bad.toml", "[run]\nname = \"x\"\nseed = = 3\n");
    assert!(toml.starts_with("settings are not valid: bad.toml:3: is not valid TOML: "), "{toml}");
    let json = refused("bad.json", "{\n \"run\": {,}\n}");
    assert!(json.contains("bad.json:2: is not valid JSON"), "{json}");
    let yaml = refused("bad.yaml", "run:\n  name: x\n seed: [\n");
    assert!(yaml.contains("bad.yaml:") && yaml.contains("cannot be parsed"), "{yaml}");
    assert!(refused("list.json", "[1]").contains("list.json: holds no table of settings"));
    assert_eq!(
        refused("text.yaml", "hunter2"),
        "settings are not valid: text.yaml: holds no table of settings"
    );
    assert!(refused("two.yaml", "a: 1\n---\nb: 2").contains("two.yaml: cannot be parsed: "));
    assert!(refused("twice.toml", "[run]\nseed = 1\nseed = 2").contains("twice.toml:3: is not valid TOML"));
}

#[test]
fn unknown_keys_and_wrong_types_are_all_listed_with_their_lines() {
    let text = refusal(
        r#"
[run]
nmae = "x"
duration = 5
warmup = "soon"
seed = -1
tags = { workers = 4 }
after_run = true

[streams.main]
rate = "fast"
partitions = 4.0
topic = ["a"]
key = { kind = "pareto" }
value = { kind = "json", colour = 1 }
"#,
        &[],
        &[],
    );
    for line in [
        "soakd.toml:3: run.nmae: unknown key; did you mean \"name\"?",
        "soakd.toml:4: run.duration: 5 has no unit; write a duration as text with its unit, like \"5s\" or \"5ms\"",
        "soakd.toml:5: run.warmup: \"soon\" is not a duration",
        "soakd.toml:6: run.seed: -1 is out of range",
        "soakd.toml:7: run.tags.workers: found the number 4, expected text in quotes",
        "soakd.toml:8: run.after_run: found true without quotes, expected one of \"exit\", \"idle\"",
        "soakd.toml:11: streams.main.rate: \"fast\" is not a number",
        "soakd.toml:12: streams.main.partitions: found the number 4.0, expected a whole number",
        "soakd.toml:13: streams.main.topic: found a list, expected text in quotes",
        "soakd.toml:14: streams.main.key.kind: found the text \"pareto\"; known are auto, none, sequential, unique, uniform",
        "soakd.toml:15: streams.main.value.colour: unknown key; known are connect_schema, kind, size, tombstones",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(text.starts_with("settings are not valid, 11 problems:"), "{text}");
}

#[test]
fn kinds_choose_their_keys() {
    let source = |rest: &str| format!("[streams.main]\n[progress.view]\n{rest}");
    for (rest, says) in [
        ("stream = \"main\"", "progress.view.kind: is missing; choose one of \"sql\", \"consumer_group\""),
        ("kind = \"sqll\"", "soakd.toml:3: progress.view.kind: unknown kind \"sqll\"; did you mean \"sql\"?"),
        ("kind = 3", "progress.view.kind: is not text"),
        (
            "kind = \"consumer_group\"\nquery = \"x\"",
            "soakd.toml:4: progress.view.query: belongs to another kind",
        ),
        ("kind = \"consumer_group\"", "soakd.toml:2: progress.view.group: is missing: The group of"),
    ] {
        let text = refusal(&source(rest), &[], &[]);
        assert!(text.contains(says), "{says} is not in\n{text}");
    }
    let text = refusal("progress = 3\nstreams = [\"main\"]\nrun = \"x\"", &[], &[]);
    for says in [
        "soakd.toml:1: progress: found the number 3, expected a table",
        "soakd.toml:2: streams: found a list, expected a table",
        "soakd.toml:3: run: found the text \"x\", expected a table",
    ] {
        assert!(text.contains(says), "{says} is not in\n{text}");
    }
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let files = Files::new();
    let folder = Settings::load(&[files.0.path().to_owned()], pairs(&[]), &[]).unwrap_err().to_string();
    assert!(folder.contains("unknown extension") || folder.contains("is a directory"), "{folder}");
    let named = files.0.path().join("folder.toml");
    std::fs::create_dir(&named).unwrap();
    let both = [named, files.0.path().join("none.toml")];
    let text = shorten(&Settings::load(&both, pairs(&[]), &[]).unwrap_err());
    assert!(
        text.contains("folder.toml: is a directory") && text.contains("none.toml: no such file"),
        "{text}"
    );
    assert!(refused("soakd.conf", "").contains("unknown extension \"conf\"; known are .toml"));
    let latin = refused("latin.toml", b"[run]\nname = \"caf\xe9\"\n");
    assert!(latin.contains("latin.toml:2: is not UTF-8 text"), "{latin}");
    assert!(refused("utf16.toml", b"\xff\xfe[\0").contains("utf16.toml:1: is not UTF-8 text"));
    assert!(refused("big.toml", vec![b'#'; (4 << 20) + 1]).contains("larger than"));
}

#[test]
fn byte_order_marks_and_empty_files_do_no_harm() {
    let files = Files::new();
    let paths = [
        files.write("bom.toml", format!("\u{feff}{BASE}")),
        files.write("empty.toml", ""),
        files.write("empty.json", "\n"),
        files.write("empty.yaml", "# nothing\n"),
        files.write("bom.json", "\u{feff}{}"),
    ];
    assert_eq!(Settings::load(&paths, pairs(&[]), &[]).unwrap().settings.streams.len(), 1);
    let text = refused("empty.toml", "");
    assert!(text.contains("streams: no stream is set; a run needs one"), "{text}");
}

#[test]
fn numbers_beyond_all_bounds_are_refused() {
    for (value, says) in [
        ("seed = 9223372036854775808", "number"),
        ("seed = 1e400", "floating"),
        ("seed = nan", "run.seed: found the text \"NaN\""),
    ] {
        let text = refusal(&format!("[run]\n{value}\n[streams.main]"), &[], &[]);
        assert!(text.contains(says), "{value}: {text}");
    }
    let text = refused(
        "big.json",
        r#"{"run": {"seed": 9223372036854775808}, "streams": {"main": {"rate": 1e308, "max_rate": -1}}}"#,
    );
    assert!(text.contains("run.seed: 9223372036854775808 is larger than 9223372036854775807"), "{text}");
    assert!(
        text.contains(
            "streams.main.max_rate: a rate is a finite number of records a second, 0 or more, not -1"
        ),
        "{text}"
    );
}
