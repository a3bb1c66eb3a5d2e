use super::*;

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Small {
    format_version: u32,
    text: String,
}

fn small(text: &str) -> Small {
    Small { format_version: record::FORMAT_VERSION, text: text.to_owned() }
}

#[test]
fn an_id_is_name_and_utc_time_and_a_second_run_in_that_second_gets_a_suffix() {
    let id = run_id("steady-10k", Duration::from_secs(1_796_053_440));
    assert_eq!(id, "steady-10k-20261130T154400Z");
    assert!(run_id("x", Duration::MAX).starts_with("x-9999"));
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let ids: Vec<String> = (0..3).map(|_| store.create_run(&id).unwrap().id().to_owned()).collect();
    assert_eq!(ids, [id.clone(), format!("{id}-2"), format!("{id}-3")]);
    assert_eq!(store.list().unwrap(), ids);
}

#[test]
fn b5_a_report_is_replaced_as_a_whole_and_leftovers_go_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let run = store.create_run("a").unwrap();
    run.write_report(&small("old")).unwrap();
    let path = run.write_report(&small("new")).unwrap();
    assert_eq!(path, dir.path().join("runs/a/report.json"));
    assert_eq!(store.load::<Small>("a").unwrap(), small("new"));
    assert_eq!(fs::read_dir(run.dir()).unwrap().count(), 1, "no temporary file stays");

    // What a killed writer leaves: half a temporary file of a pid that is gone. Linux has no pid 2^31 - 1.
    let leftover = run.dir().join(".report.json.2147483647.tmp");
    let living = run.dir().join(".report.json.1.tmp");
    let foreign = run.dir().join("notes.tmp");
    for file in [&leftover, &living, &foreign] {
        fs::write(file, "{\"format").unwrap();
    }
    Store::open(dir.path()).unwrap();
    assert!(!leftover.exists());
    assert!(living.exists(), "its writer may still be at work");
    assert!(foreign.exists(), "not ours");
    assert_eq!(store.load::<Small>("a").unwrap(), small("new"));
}

#[test]
fn a_failed_write_leaves_the_old_report_and_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let run = store.create_run("a").unwrap();
    // A folder in the report's place cannot be replaced by a file.
    fs::create_dir_all(run.dir().join("report.json/x")).unwrap();
    let error = run.write_report(&small("new")).unwrap_err().to_string();
    assert!(error.starts_with("cannot replace ") && error.contains("report.json"), "{error}");
    assert_eq!(fs::read_dir(run.dir()).unwrap().count(), 1);
}

#[test]
fn a_store_that_cannot_be_written_says_where_and_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("soakd-data");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file).unwrap_err().to_string();
    assert!(error.contains("soakd-data/runs") && error.contains("a file is where a folder"), "{error}");
    let error = Store::open(Path::new("/proc/soakd")).unwrap_err().to_string();
    assert!(error.starts_with("cannot create the folder /proc/soakd/runs: "), "{error}");
    // Linux: ENOSPC, EROFS, EACCES. Root may write everywhere, so the system's errors are made here.
    for (code, help) in [(28, "disk is full"), (30, "set store.dir"), (13, "as a user who may write there")] {
        let error = disk("write", &file)(io::Error::from_raw_os_error(code)).to_string();
        assert!(error.contains(help) && error.contains("soakd-data"), "{error}");
    }
}

#[test]
fn an_id_cannot_lead_out_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    fs::write(dir.path().join("report.json"), "{\"format_version\":1,\"text\":\"secret\"}").unwrap();
    for id in ["../..", "..", "", ".hidden", "a/b", "/etc", "a\0b", &"x".repeat(201)] {
        assert!(matches!(store.load::<Small>(id), Err(StoreError::BadId(_))), "{id:?}");
        assert!(matches!(store.create_run(id), Err(StoreError::BadId(_))), "{id:?}");
    }
    assert!(matches!(store.load::<Small>("nobody"), Err(StoreError::Unknown { .. })));
}

#[test]
fn a_report_of_a_later_format_or_half_a_file_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let run = store.create_run("a").unwrap();
    for (text, expected) in [
        ("{\"format_version\":99,\"shape\":\"other\"}", "it is of format 99"),
        ("{\"format_version\":1,\"te", "EOF while parsing"),
        ("", "EOF while parsing"),
        ("{}", "missing field `format_version`"),
    ] {
        fs::write(run.dir().join(REPORT_FILE), text).unwrap();
        let error = store.load::<Small>("a").unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("a/report.json"), "{error}");
    }
}
