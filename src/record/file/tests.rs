use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::settings::FileOrder;
use super::super::value::tests::FACTS;
use super::*;

struct Lines {
    dir: tempfile::TempDir,
    settings: FileValueSettings,
}

impl Lines {
    fn new(content: impl AsRef<[u8]>, format: FileFormat) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        std::fs::write(&path, content).unwrap();
        Self { dir, settings: FileValueSettings { path, format, ..FileValueSettings::default() } }
    }

    fn json(content: impl AsRef<[u8]>) -> Self {
        Self::new(content, FileFormat::Json)
    }

    fn key(mut self, field: &str) -> Self {
        self.settings.key_field = Some(field.into());
        self
    }

    fn facts(mut self, field: &str) -> Self {
        self.settings.facts_field = Some(field.into());
        self
    }

    fn path(&self) -> &Path {
        &self.settings.path
    }

    fn file(&self) -> File {
        File::new(OF, &self.settings).unwrap_or_else(|error| panic!("{error}"))
    }

    fn refused(&self) -> BuildError {
        File::new(OF, &self.settings).map(|_| ()).unwrap_err()
    }
}

const OF: Of<'_> = Of { seed: 5, at: "streams.main.value", topic: "t", run_id: "r", look_only: false };

fn value(file: &mut File, sequence: u64) -> Result<String, MakeError> {
    let mut value = Vec::new();
    file.write(&Facts { sequence, ..FACTS }, &mut value)?;
    Ok(String::from_utf8(value).unwrap())
}

fn values(file: &mut File, count: u64) -> Vec<String> {
    (0..count).map(|sequence| value(file, sequence).unwrap()).collect()
}

fn key(file: &mut File, sequence: u64) -> (Option<u64>, String) {
    let mut key = Vec::new();
    let id = file.key(sequence, &mut key);
    (id, String::from_utf8(key).unwrap())
}

#[test]
fn lines_come_in_order_and_again_whatever_ends_them() {
    for content in [
        "{\"a\":1}\n[2]\n3\n",
        "{\"a\":1}\r\n\r\n[2]\r\n3",
        "\u{feff}\n{\"a\":1}\n \n\t\n[2]\n3\n\n",
        "\u{feff}{\"a\":1}\n[2]\n3",
    ] {
        let lines = Lines::json(content);
        let mut file = lines.file();
        assert_eq!(
            values(&mut file, 7),
            ["{\"a\":1}", "[2]", "3", "{\"a\":1}", "[2]", "3", "{\"a\":1}"],
            "{content:?}"
        );
        assert_eq!(file.max_bytes().max(7), file.max_bytes());
        assert_eq!(file.records(), None);
        assert!(key(&mut file, 0).0.is_none());
    }
}

#[test]
fn without_loop_the_stream_ends_with_the_file() {
    let mut lines = Lines::json("1\n2\n");
    lines.settings.r#loop = false;
    let mut file = lines.file();
    assert_eq!(file.records(), Some(2));
    assert_eq!(values(&mut file, 2), ["1", "2"]);
    assert!(value(&mut file, 2).unwrap_err().0.contains("2 lines and loop = false, and this is record 2"));
}

#[test]
fn any_line_is_found_in_a_file_of_many_blocks_and_by_every_lane() {
    let content: String =
        (0..5000).map(|n| format!("{{\"n\":{n}}}{}", if n % 7 == 0 { "\n\n" } else { "\r\n" })).collect();
    let lines = Lines::json(content).key("n");
    let mut one = lines.file();
    let mut two = one.for_lane();
    for sequence in [0, 4999, 63, 64, 2500, 1, 5000, 12_345, 0] {
        let n = sequence % 5000;
        assert_eq!(value(&mut one, sequence).unwrap(), format!("{{\"n\":{n}}}"));
        assert_eq!(key(&mut one, sequence), (Some(n), n.to_string()));
        let mut other = Vec::new();
        assert_eq!(two.key(sequence, &mut other), Some(n));
    }
    assert_eq!(one.max_key_bytes(), 10);
}

#[test]
fn shuffled_lines_come_once_a_round_and_by_the_seed_alone() {
    let content: String = (0..300).map(|n| format!("{n}\n")).collect();
    let mut lines = Lines::json(content);
    lines.settings.order = FileOrder::Shuffled;
    let round = |file: &mut File, round: u64| -> Vec<u64> {
        (0..300).map(|at| value(file, round * 300 + at).unwrap().parse().unwrap()).collect()
    };
    let (mut one, mut two) = (lines.file(), lines.file());
    let first = round(&mut one, 0);
    let again = round(&mut two, 3);
    assert_eq!(round(&mut two, 0), first);
    assert_ne!(again, first);
    assert_eq!(&first[..8], &GOLDEN_SHUFFLED);
    for mut all in [first, again] {
        all.sort_unstable();
        assert!(all.into_iter().eq(0..300));
    }
}

/// Computed once by a program of another language from the definition.
const GOLDEN_SHUFFLED: [u64; 8] = [90, 76, 65, 78, 87, 83, 120, 64];

#[test]
fn facts_are_added_to_objects_and_rows() {
    let mut file = Lines::json("{\"a\": {\"b\": \"}\"} }\n{}\n").facts("_so\"akd").file();
    for sequence in 0..2 {
        let text = value(&mut file, sequence).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let facts = serde_json::json!({"id": 9, "partition": 3, "sequence": sequence, "intended_ms": 1_700_000_000_123_u64});
        assert_eq!(json["_so\"akd"], facts, "{text}");
        assert_eq!(json["a"]["b"] == "}", sequence == 0, "{text}");
        assert!(text.len() <= file.max_bytes());
    }
    let mut file = Lines::new("id,name\n1,\"a,b\"\n", FileFormat::Csv).facts("x").file();
    assert_eq!(value(&mut file, 4).unwrap(), "1,\"a,b\",9,3,4,1700000000123");
}

#[test]
fn keys_are_taken_from_fields_and_columns() {
    let mut file = Lines::json("{\"user\":{\"id\":\"ann\"}}\n{\"user\":{\"id\":7}}\n").key("user.id").file();
    assert_eq!(key(&mut file, 0).1, "ann");
    assert!(key(&mut file, 0).0.unwrap() <= i64::MAX.unsigned_abs());
    assert_eq!(key(&mut file, 1), (Some(7), "7".to_owned()));
    let content = "id, who\n1,ann\n2,\"b,\"\"o\"\"b\"\n";
    let mut file = Lines::new(content, FileFormat::Csv).key("who").file();
    assert_eq!(key(&mut file, 0).1, "ann");
    assert_eq!(key(&mut file, 1).1, "b,\"o\"b");
    assert_eq!(value(&mut file, 1).unwrap(), "2,\"b,\"\"o\"\"b\"");
    let mut lines = Lines::new(content, FileFormat::Csv).key("2");
    lines.settings.header = false;
    let mut file = lines.file();
    assert_eq!((key(&mut file, 0).1, key(&mut file, 1).1), (" who".to_owned(), "ann".to_owned()));
}

#[test]
fn lines_without_a_key_are_told_and_not_made() {
    let mut file = Lines::json("{\"id\":1}\n{\"ID\":2}\n{\"id\":null}\n").key("id").file();
    let warnings = file.warnings();
    assert!(
        warnings[0].contains("2 of the first 3 lines have no key (line 2: it has no field id)"),
        "{warnings:?}"
    );
    for sequence in [1, 2] {
        // Whether or not the key was asked for before.
        assert!(value(&mut file, sequence).unwrap_err().0.contains("has no field id"));
        assert_eq!(key(&mut file, sequence), (None, String::new()));
        assert!(value(&mut file, sequence).unwrap_err().0.contains(&format!("line {}", sequence + 1)));
    }
    assert_eq!(value(&mut file, 0).unwrap(), "{\"id\":1}");
    let long = format!("{{\"id\":1}}\n{{\"id\":\"{}\"}}\n", "x".repeat(MAX_KEY_BYTES + 1));
    let mut file = Lines::json(long).key("id").file();
    assert_eq!(key(&mut file, 1).0, None);
    assert!(value(&mut file, 1).unwrap_err().0.contains("its key has 4097 bytes"));
}

#[test]
fn files_that_cannot_be_sent_are_refused_with_the_reason() {
    let long = format!("1\n\"{}\"\n", "x".repeat(100));
    let mut too_long = Lines::json(&long);
    too_long.settings.max_line = 101;
    let cases = [
        (Lines::json(""), "path", "is empty"),
        (Lines::json("\n \r\n"), "path", "has no line to send"),
        (Lines::json("{\"a\":1}\n{\"a\":\n"), "path", "line 2 is not JSON: EOF"),
        (
            Lines::json("{\"id\":1,\"user\":{}}\n").key("uid"),
            "key_field",
            "the first line has id, user; did you mean",
        ),
        (
            Lines::json("{\"a\":1}\n").key("b.c"),
            "key_field",
            "1 of the first 1 lines have no key (line 1: it has no field b.c)",
        ),
        (Lines::json("{\"a\":1}\n[1]\n").facts("x"), "facts_field", "line 2 is no JSON object"),
        (
            Lines::json("{\"a\":1}\n{\"\\u0062\":{}}\n").facts("b"),
            "facts_field",
            "line 2 has a field \"b\" of its own; name the facts another way",
        ),
        (Lines::new("id,name\n", FileFormat::Csv), "path", "has no line to send"),
        (
            Lines::new("id,name\n1,a\n", FileFormat::Csv).key("nam"),
            "key_field",
            "the first line names id, name; did you mean",
        ),
        (
            Lines::new("id,t\n1,\"a\nb\"\n", FileFormat::Csv),
            "path",
            "line 2 has a quoted field that goes on in the next line",
        ),
        (too_long, "max_line", "line 2 is longer than max_line = 101 bytes"),
    ];
    for (lines, name, reason) in cases {
        let error = lines.refused();
        assert_eq!(error.key, format!("streams.main.value.{name}"), "{error}");
        assert!(error.message.contains(reason) && error.message.contains("lines"), "{error}\n{reason}");
        assert!(!error.unreachable);
    }
    let mut exact = Lines::json(long);
    exact.settings.max_line = 102;
    assert_eq!(exact.file().max_bytes().max(102), exact.file().max_bytes());
    let mut lines = Lines::json("1\n");
    lines.settings.path = lines.dir.path().to_owned();
    assert!(lines.refused().message.contains("not a regular file"));
    lines.settings.path = lines.dir.path().join("nobody");
    assert!(lines.refused().message.contains("cannot be opened: No such file"));
    lines.settings.path = lines.dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&lines.settings.path).status().unwrap().success());
    assert!(lines.refused().message.contains("not a regular file"));
}

/// Larger than what a lane holds, so that blocks are read again.
fn large() -> Lines {
    let content: String =
        (0..60_000).map(|n| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(90))).collect();
    assert!(content.len() > 6 << 20);
    Lines::json(content)
}

#[test]
fn a_file_that_is_changed_during_the_run_is_told_and_comes_back() {
    let lines = large();
    let mut file = lines.file();
    assert!(value(&mut file, 0).is_ok());
    let modified = std::fs::metadata(lines.path()).unwrap().modified().unwrap();
    let content = std::fs::read(lines.path()).unwrap();
    std::fs::write(lines.path(), &content[..1000]).unwrap();
    let error = value(&mut file, 50_000).unwrap_err();
    assert!(error.0.contains("was changed since the start"), "{error}");
    // What is in memory is still as it was.
    assert!(value(&mut file, 0).is_ok());
    // Another file of the same size is not the same.
    std::fs::write(lines.path(), vec![b'\n'; content.len()]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(110));
    assert!(value(&mut file, 50_000).is_err());
    // Put back with its time.
    std::fs::write(lines.path(), &content).unwrap();
    std::fs::File::options().write(true).open(lines.path()).unwrap().set_modified(modified).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = value(&mut file, 50_000) {
        assert!(Instant::now() < deadline, "{error}");
    }
    assert!(value(&mut file, 50_000).unwrap().starts_with("{\"n\":50000,"));
}

#[test]
fn a_file_that_is_replaced_or_deleted_is_sent_on_as_it_was() {
    let lines = large();
    let mut file = lines.file();
    let other = lines.dir.path().join("other");
    std::fs::write(&other, "{}\n").unwrap();
    std::fs::rename(&other, lines.path()).unwrap();
    assert!(value(&mut file, 30_000).unwrap().starts_with("{\"n\":30000,"));
    std::fs::remove_file(lines.path()).unwrap();
    assert!(file.for_lane().write(&Facts { sequence: 59_999, ..FACTS }, &mut Vec::new()).is_ok());
}

#[test]
fn a_file_that_grows_while_it_is_read_is_not_taken() {
    // The pass compares size and time at its end with those at its beginning.
    let lines = Lines::json("1\n");
    let index = Index::build(OF.at, &lines.settings).unwrap();
    std::fs::OpenOptions::new().append(true).open(lines.path()).unwrap().write_all(b"2\n").unwrap();
    assert_ne!(index::Identity::of(&std::fs::metadata(lines.path()).unwrap()), index.identity);
}

#[test]
fn markers_are_lines_of_the_same_kind_with_nothing_but_their_facts() {
    let facts = Facts { sequence: 4, partition: 1, key_id: 99, intended_ms: 1000, marker: true };
    let marker = |lines: Lines| {
        let (mut file, mut value) = (lines.file(), Vec::new());
        file.write(&facts, &mut value).unwrap();
        assert!(value.len() <= file.max_bytes(), "{} > {}", value.len(), file.max_bytes());
        String::from_utf8(value).unwrap()
    };
    let object = r#"{"id":99,"partition":1,"sequence":4,"intended_ms":1000,"marker":true}"#;
    assert_eq!(marker(Lines::json("1\n")), format!("{{\"_soakd\":{object}}}"));
    let lines = Lines::json("{\"user\":{\"id\":1}}\n").key("user.id").facts("f");
    assert_eq!(marker(lines), format!("{{\"user\":{{\"id\":99}},\"f\":{object}}}"));
    assert_eq!(marker(Lines::json("{\"id\":1}\n").key("id")), format!("{{\"id\":99,\"_soakd\":{object}}}"));
    assert_eq!(marker(Lines::new("a,b,c\n1,2,3\n", FileFormat::Csv).key("b")), ",99,,99,1,4,1000");
    assert_eq!(marker(Lines::new("x\n", FileFormat::Raw)), format!("soakd marker {object}"));
}

#[test]
fn the_index_of_a_huge_file_stays_small() {
    let content = "1\n".repeat(10_000_000);
    let lines = Lines::new(content, FileFormat::Raw);
    let index = Index::build(OF.at, &lines.settings).unwrap();
    assert_eq!(index.lines, 10_000_000);
    assert_eq!(index.lines_per_block, 256);
    assert!(index.blocks() <= 1 << 16);
    for block in [0, 1, 4, 1000] {
        assert_eq!(index.block(block).unwrap().0, block * 256 * 2);
    }
    assert_eq!(index.lines_in(39_062), 10_000_000 - 39_062 * 256);
}
