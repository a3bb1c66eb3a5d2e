//! The house rules that a compiler does not hold: which room may know which, and what the core must not know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Who may import whom, beside `config` and `core`, which all may. As the table in `src/lib.rs`.
const ROOMS: [(&str, &[&str]); 18] = [
    ("main", &["cli"]),
    (
        "cli",
        &[
            "app",
            "settings",
            "report",
            "store",
            "metrics",
            "embedded",
            "produce::settings",
            "progress::preset",
            "record::settings",
        ],
    ),
    ("app", &["settings", "run", "produce", "progress", "process", "http", "kafka", "record", "store"]),
    (
        "settings",
        &[
            "http::settings",
            "kafka::settings",
            "process::settings",
            "produce::settings",
            "progress::preset",
            "progress::settings",
            "record::settings",
            "run::settings",
            "store::settings",
        ],
    ),
    ("http", &["metrics"]),
    ("metrics", &["store"]),
    ("run", &["store"]),
    ("report", &["store"]),
    ("produce", &["record", "kafka"]),
    ("progress", &["record", "kafka", "net"]),
    ("embedded", &["record", "kafka"]),
    ("process", &["net"]),
    ("record", &["net"]),
    ("net", &[]),
    ("kafka", &[]),
    ("store", &[]),
    ("config", &[]),
    ("core", &[]),
];

/// What the pure core and the machinery of settings must not know.
const IMPURE: [&str; 8] =
    ["tokio", "rdkafka", "axum", "prometheus", "hyper", "sysinfo", "procfs", "std::thread"];

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

/// Every file below `src` with its room and its code: without comments, and without what follows `#[cfg(test)]`.
fn house() -> Vec<(String, PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for path in sources(&src) {
        let inside = path.strip_prefix(&src).unwrap().to_owned();
        let name = inside.to_string_lossy().into_owned();
        if name.ends_with("tests.rs") || name.contains("tests/") {
            continue;
        }
        let room = name.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        files.push((room, inside, code.join("\n")));
    }
    assert!(files.len() > 50, "the house was not found");
    files
}

/// `crate::a::b` and the parts of `crate::{a, b}` in a text, as `a::b`.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let flat = code.replace("use soakd::", "use crate::");
    for rest in flat.split("crate::").skip(1) {
        let heads = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or("").split(',').map(str::trim).collect(),
            None => vec![rest],
        };
        for head in heads {
            let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
            let path = head.split(word).next().unwrap_or("").trim_end_matches(':');
            found.insert(path.to_owned());
        }
    }
    found
}

#[test]
fn arrows_point_down_only() {
    let rooms: BTreeMap<&str, &[&str]> = ROOMS.into();
    let mut wrong = Vec::new();
    for (room, path, code) in house() {
        if room == "lib" {
            continue;
        }
        let allowed =
            rooms.get(room.as_str()).unwrap_or_else(|| panic!("{room} is no room: add it to the table"));
        for import in imports(&code) {
            let of = import.split("::").next().unwrap_or("");
            let common = ["config", "core"].contains(&of) && !["config", "core"].contains(&room.as_str());
            let may = allowed.iter().any(|may| import == *may || import.starts_with(&format!("{may}::")));
            if of != room && !may && !common && rooms.contains_key(of) {
                wrong.push(format!("{} imports {import}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_core_is_pure_and_only_app_spawns_long_tasks() {
    let mut wrong = Vec::new();
    for (room, path, code) in house() {
        let name = path.to_string_lossy().into_owned();
        if room == "core" || room == "config" {
            let known = IMPURE.iter().filter(|word| code.contains(&format!("{word}::")));
            wrong.extend(known.map(|word| format!("{name} knows {word}")));
        }
        // Threads and tasks outside app are short, or belong to a client that blocks; each is named here.
        let may_spawn = room == "app"
            || [
                "produce/lane.rs",
                "progress/worker.rs",
                "kafka/watch.rs",
                "embedded/demo.rs",
                "cli/demo.rs",
                "http/server.rs",
            ]
            .contains(&name.as_str());
        let spawns = ["thread::spawn(", "tokio::spawn(", "thread::Builder::new()"];
        if !may_spawn && spawns.iter().any(|word| code.contains(word)) {
            wrong.push(format!("{name} spawns"));
        }
        if code.contains("unsafe ") && name != "kafka/raw.rs" {
            wrong.push(format!("{name} holds unsafe code"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_rule_sees_through_every_way_of_writing_an_import() {
    let code = "use crate::{core::clock, progress};\nlet x = crate::process::tally::Tally::new();";
    let found: Vec<String> = imports(code).into_iter().collect();
    assert_eq!(found, ["core::clock", "process::tally::Tally::new", "progress"]);
}

#[test]
fn the_catalogue_in_the_docs_is_the_one_of_the_code() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let text = std::fs::read_to_string(docs).unwrap();
    assert_eq!(text, soakd::cli::metrics::text(), "run: soakd metrics > docs/metrics.md");
}

#[test]
fn every_file_of_config_is_accepted() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut files = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let loaded = soakd::settings::Settings::load(std::slice::from_ref(&path), [], &[]);
        assert!(loaded.is_ok(), "{}: {:?}", path.display(), loaded.err());
        files += 1;
    }
    assert!(files >= 2);
}
