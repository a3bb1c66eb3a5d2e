//! Cgroups of version 2 on captured files.

use super::*;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write("cgroup.controllers", "cpuset cpu io memory pids\n");
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn fs(&self) -> CgroupFs {
        CgroupFs::open(self.0.path()).unwrap()
    }
}

#[test]
fn captured_files_of_a_unit_with_all_controllers_are_read_whole() {
    let tree = Tree::new();
    let at = |name: &str| format!("system.slice/sut.service/{name}");
    // As Linux 6.8 has them.
    tree.write(&at("cpu.stat"), "usage_usec 5000003\nuser_usec 3000001\nsystem_usec 2000002\nnice_usec 0\ncore_sched.force_idle_usec 0\nnr_periods 20\nnr_throttled 7\nthrottled_usec 1500000\nnr_bursts 0\nburst_usec 0\n");
    tree.write(&at("memory.current"), "419430400\n");
    tree.write(&at("memory.peak"), "524288000\n");
    tree.write(&at("memory.stat"), "anon 104857600\nfile 314572800\nkernel 1\ninactive_anon 0\nactive_file 104857600\ninactive_file 209715200\n");
    tree.write(&at("memory.events"), "low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n");
    tree.write(&at("memory.max"), "max\n");
    tree.write("system.slice/memory.max", "1073741824\n");
    tree.write(&at("io.stat"), "259:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n");
    tree.write(&at("pids.current"), "31\n");
    tree.write(&at("cgroup.events"), "populated 1\nfrozen 0\n");
    tree.write(&at("cgroup.procs"), "0\n12\n");
    tree.write(&at("worker/cgroup.procs"), "15\n16\n");
    let fs = tree.fs();
    let folder = fs.find_unit("sut.service").unwrap();
    let reading = fs.read(&folder, Some(64 << 30)).unwrap().unwrap();
    assert_eq!(
        CgroupReading { identity: 0, ..reading },
        CgroupReading {
            identity: 0,
            populated: true,
            pids: vec![12, 15, 16],
            cpu_usage_ns: Some(5_000_003_000),
            cpu_user_ns: Some(3_000_001_000),
            cpu_system_ns: Some(2_000_002_000),
            cpu_throttled_ns: Some(1_500_000_000),
            memory_bytes: Some(400 << 20),
            memory_peak_bytes: Some(500 << 20),
            working_set_bytes: Some(200 << 20),
            memory_limit_bytes: Some(1 << 30),
            oom_kills: Some(1),
            io: Some((4_097, 8_194)),
            tasks: Some(31),
        }
    );
}

#[test]
fn what_a_controller_that_is_off_does_not_tell_is_absent_and_not_zero() {
    let tree = Tree::new();
    tree.write("a/cpu.stat", "usage_usec 10\nuser_usec 4\nsystem_usec 6\n");
    tree.write("a/cgroup.events", "populated 0\nfrozen 0\n");
    let fs = tree.fs();
    let reading = fs.read(&fs.folder(Path::new("/a")), None).unwrap().unwrap();
    assert_eq!((reading.cpu_user_ns, reading.cpu_throttled_ns), (Some(4_000), None));
    assert_eq!(
        (reading.memory_bytes, reading.memory_peak_bytes, reading.working_set_bytes),
        (None, None, None)
    );
    assert_eq!(
        (reading.memory_limit_bytes, reading.oom_kills, reading.io, reading.tasks),
        (None, None, None, None)
    );
    assert!(!reading.populated && reading.pids.is_empty());
    assert!(fs.read(&fs.folder(Path::new("/b")), None).unwrap().is_none(), "there is none");
}

#[test]
fn x6_a_limit_that_is_none_and_one_beyond_the_machine() {
    let machine = Some(8 << 30);
    for (text, limit) in [
        ("max\n", None),
        ("9223372036854771712\n", None),
        ("9223372036854775807\n", None),
        ("18446744073709551615\n", None),
        ("1073741824\n", Some(1 << 30)),
        ("17179869184\n", Some(8 << 30)),
        ("0\n", Some(0)),
        ("", None),
        ("lots\n", None),
        ("-1\n", None),
    ] {
        assert_eq!(memory_limit(text, machine), limit, "{text:?}");
    }
    assert_eq!(memory_limit("17179869184", None), Some(16 << 30));
}

#[test]
fn cpu_figures_that_cannot_be_read_are_an_error_and_not_the_last_ones() {
    let tree = Tree::new();
    for text in ["", "usage_usec many\n", "user_usec 4\nsystem_usec 6\n"] {
        tree.write("a/cpu.stat", text);
        let fs = tree.fs();
        let error = fs.read(&fs.folder(Path::new("/a")), None).unwrap_err().to_string();
        assert!(error.contains("cpu.stat") && error.contains("usage_usec"), "{error}");
    }
}

#[test]
fn a_unit_is_found_in_any_slice_and_two_of_one_name_are_told() {
    let tree = Tree::new();
    tree.write("system.slice/system-postgresql.slice/postgresql@15-main.service/cpu.stat", "");
    tree.write("system.slice/_cpu.service/cpu.stat", "");
    for user in [1000, 1001] {
        tree.write(
            &format!("user.slice/user-{user}.slice/user@{user}.service/app.slice/sut.service/cpu.stat"),
            "",
        );
    }
    let fs = tree.fs();
    let found = fs.find_unit("postgresql@15-main.service").unwrap();
    assert_eq!(fs.path(&found), "/system.slice/system-postgresql.slice/postgresql@15-main.service");
    assert!(fs.find_unit("cpu.service").unwrap().ends_with("_cpu.service"), "escaped as systemd does it");
    let error = fs.find_unit("sut.service").unwrap_err().to_string();
    assert!(
        error.contains("2 cgroups are named") && error.contains("cgroup = \"/user.slice/user-100"),
        "{error}"
    );
    let error = fs.find_unit("gone.service").unwrap_err().to_string();
    assert!(error.contains("the unit is not running"), "{error}");
    // The system's goes before those of users.
    tree.write("system.slice/sut.service/cpu.stat", "");
    assert_eq!(fs.path(&fs.find_unit("sut.service").unwrap()), "/system.slice/sut.service");
}

#[test]
fn version_1_alone_is_told_and_the_unified_folder_is_found() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("cpuacct")).unwrap();
    let error = CgroupFs::open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("version 2") && error.contains("cgroup_root") && error.contains("pid, name"),
        "{error}"
    );
    std::fs::create_dir_all(dir.path().join("unified")).unwrap();
    std::fs::write(dir.path().join("unified/cgroup.controllers"), "").unwrap();
    let fs = CgroupFs::open(dir.path()).unwrap();
    assert_eq!(fs.folder(Path::new("/a/b")), dir.path().join("unified/a/b"));
}
