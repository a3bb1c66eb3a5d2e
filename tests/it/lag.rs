//! Lag of a running daemon against what the tests themselves know.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::control::{group_source, more_acked};
use crate::daemon::{self, Daemon, eventually, series, sum};
use crate::ingest::{Ingestor, tables};
use crate::mock::MockKafka;
use crate::postgres::Postgres;

mod pace;

/// One server for all tests that do not stop it; it ends with the test's process.
pub(crate) fn shared_postgres() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| Postgres::start(&[]))
}

/// A source of kind `sql` named after its value, asking every 200 ms.
pub(crate) fn sql_source(name: &str, url: &str, query: &str, value: &str, more: &str) -> String {
    format!(
        "[progress.{name}]\nkind = \"sql\"\nstream = \"main\"\nurl = \"{url}\"\nquery = '{query}'\n\
         value = \"{value}\"\ninterval = \"200ms\"\ntimeout = \"2s\"\n{more}\n"
    )
}

/// A count that the test sets by hand, in a table of its own.
struct Counter<'a> {
    postgres: &'a Postgres,
    name: &'static str,
}

impl<'a> Counter<'a> {
    fn new(postgres: &'a Postgres, name: &'static str) -> Self {
        postgres.psql(&format!("CREATE TABLE {name} (n bigint); INSERT INTO {name} VALUES (0)"));
        Self { postgres, name }
    }

    fn set(&self, n: u64) {
        self.postgres.psql(&format!("UPDATE {} SET n = {n}", self.name));
    }

    fn source(&self, source: &str, more: &str) -> String {
        sql_source(source, self.postgres.url(), &format!("SELECT n FROM {}", self.name), "count", more)
    }
}

pub(crate) fn of(metric: &str, source: &str) -> String {
    format!("{metric}{{source=\"{source}\",stream=\"main\"}}")
}

pub(crate) fn shown(daemon: &Daemon, metric: &str, source: &str) -> Option<f64> {
    daemon.scrape().get(&format!("soakd_{}", of(metric, source))).copied()
}

fn wait_lag(daemon: &Daemon, source: &str, expected: u64) {
    daemon.wait_metric(30, &of("lag_records", source), |lag| lag == expected as f64);
}

/// A load of exactly so many records, all acked, then silence.
fn produced(kafka: &MockKafka, rate: u64, records: u64, sources: &str) -> Daemon {
    let more = format!("rate = {rate}\nkey = {{ kind = \"none\" }}\nvalue = {{ kind = \"json\" }}");
    let daemon = daemon::start(&(kafka.settings("", "", &more) + sources));
    let due = |total: f64| total >= records as f64;
    daemon.wait_metric(60, "records_scheduled_total", due);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
    eventually(Duration::from_secs(30), "all is acked", || {
        let scrape = daemon.scrape();
        (series(&scrape, "records_acked_total") + sum(&scrape, "records_dropped_total", "main")
            == series(&scrape, "records_scheduled_total"))
        .then_some(())
    });
    daemon
}

fn acked(daemon: &Daemon) -> u64 {
    daemon.metric("records_acked_total") as u64
}

#[test]
fn l2_a_group_without_commits_has_no_lag_until_its_first_one() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&(kafka.settings("", "", "rate = 500") + &group_source("group", "200ms", "")));
    more_acked(&daemon, 500.0);
    daemon.wait_metric(30, &of("progress_up", "group"), |up| up == 1.0);
    assert_eq!(shown(&daemon, "lag_records", "group"), None);
    assert_eq!(shown(&daemon, "lag_seconds", "group"), None);
    let source = &daemon.get("/api/v1/status")["sources"]["group"];
    assert_eq!((&source["unknown_reason"], &source["lag_records"]), (&"no commits yet".into(), &Value::Null));
    kafka.commit("g", &[0]);
    daemon.wait_metric(30, &of("lag_records", "group"), |lag| lag > 0.0);
    assert_eq!(shown(&daemon, "progress_unknown_partitions", "group"), Some(3.0));
    kafka.commit("g", &[0; 4]);
    daemon.wait_metric(30, &of("lag_records", "group"), |lag| lag >= 500.0);
    assert_eq!(shown(&daemon, "progress_unknown_partitions", "group"), Some(0.0));
    daemon.terminate();
}

#[test]
fn l3_progress_that_goes_back_is_one_reset_and_never_a_negative_rate() {
    let postgres = shared_postgres();
    let kafka = MockKafka::start(2);
    let counter = Counter::new(postgres, "l3");
    let sources =
        counter.source("reads_again", "") + &counter.source("lost_its_count", "on_reset = \"rebase\"");
    let daemon = produced(&kafka, 1000, 2000, &sources);
    let acked = acked(&daemon);
    for (n, again, lost) in [(1000, 1000, 1000), (1500, 1500, 1500), (0, 0, 1500), (300, 300, 1800)] {
        counter.set(n);
        wait_lag(&daemon, "reads_again", acked - again);
        wait_lag(&daemon, "lost_its_count", acked - lost);
    }
    for source in ["reads_again", "lost_its_count"] {
        assert_eq!(shown(&daemon, "progress_resets_total", source), Some(1.0), "{source}");
    }
    assert!(shown(&daemon, "lag_seconds", "reads_again").unwrap() < 300.0);
    let ended = daemon.terminate();
    for (name, source) in ended.report()["measured"]["sources"].as_object().unwrap() {
        assert_eq!(source["resets"], 1, "{name}");
        assert!(source["ingest_min_records_per_second"].as_f64().is_none_or(|rate| rate >= 0.0), "{source}");
        assert!(source["ingest_records_per_second"].as_f64().is_none_or(|rate| rate >= 0.0), "{source}");
    }
    assert!(ended.log.contains("progress fell source=reads_again from=1500 to=0"), "{}", ended.log);
}

#[test]
fn l4_with_the_load_paused_a_stuck_target_grows_older_by_a_second_a_second() {
    let kafka = MockKafka::start(1);
    let counter = Counter::new(shared_postgres(), "l4");
    let source = counter.source("view", "standstill_after = \"1s\"");
    let daemon = produced(&kafka, 1000, 1000, &source);
    counter.set(acked(&daemon) - 100);
    wait_lag(&daemon, "view", 100);
    daemon.wait_metric(30, &of("standstills_total", "view"), |stood| stood == 1.0);
    let look = || {
        let before = Instant::now();
        let scrape = daemon.scrape();
        assert_eq!(series(&scrape, &of("lag_records", "view")), 100.0);
        let at = series(&scrape, &of("progress_last_success_timestamp_seconds", "view"));
        (before, at, series(&scrape, &of("lag_seconds", "view")))
    };
    let (_, from, first) = look();
    eventually(Duration::from_secs(20), "three seconds of polls", || (look().1 >= from + 3.0).then_some(()));
    let (_, to, last) = look();
    // By the time of the polls, so that a machine that stands still changes nothing.
    assert!(((last - first) - (to - from)).abs() < 0.1, "{first} to {last} in {}", to - from);
    assert!(shown(&daemon, "standstill_seconds_total", "view").unwrap() > 3.0);
    daemon.terminate();
}

#[test]
fn a_stated_lag_is_as_high_in_the_closing_line_as_in_the_report_and_never_below_zero() {
    let kafka = MockKafka::start(2);
    let postgres = shared_postgres();
    postgres.psql("CREATE TABLE stated (n bigint); INSERT INTO stated VALUES (0)");
    let state = |n: i64| postgres.psql(&format!("UPDATE stated SET n = {n}"));
    let source = sql_source("view", postgres.url(), "SELECT n FROM stated", "lag_records", "");
    let daemon = produced(&kafka, 500, 500, &source);
    // For one poll, between two looks of the status line.
    state(4321);
    wait_lag(&daemon, "view", 4321);
    state(0);
    wait_lag(&daemon, "view", 0);
    assert_eq!(shown(&daemon, "progress_lag_below_zero_total", "view"), Some(0.0));
    state(-7);
    daemon.wait_metric(30, &of("progress_lag_below_zero_total", "view"), |polls| polls >= 2.0);
    let found = ["lag_records", "lag_seconds", "progress_up"].map(|metric| shown(&daemon, metric, "view"));
    assert_eq!(found, [Some(0.0), Some(0.0), Some(1.0)]);
    state(-1);
    eventually(Duration::from_secs(30), "no figure is no lag", || {
        shown(&daemon, "lag_records", "view").is_none().then_some(())
    });
    state(0);
    wait_lag(&daemon, "view", 0);
    let ended = daemon.terminate();
    assert!(ended.out.contains(", max lag 4321 ("), "{}", ended.out);
    // In the segments, because the load was paused by then.
    let segments = ended.report()["segments"].as_array().unwrap();
    let highest =
        segments.iter().filter_map(|one| one["figures"]["sources"]["view"]["lag_records"]["max"].as_f64());
    assert_eq!(highest.fold(0.0, f64::max), 4321.0);
    assert_eq!(ended.log.matches("states a lag below zero").count(), 1, "{}", ended.log);
}

#[test]
fn l8_what_retention_removed_is_expired_and_only_the_rest_is_lag() {
    let kafka = MockKafka::start(4);
    kafka.commit("g", &[0; 4]);
    // The mock keeps 5 MiB of a partition.
    let more = "rate = 2000\nvalue = { kind = \"random\", size = 10000 }\nkey = { kind = \"none\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &group_source("group", "500ms", "")));
    daemon.wait_metric(60, "records_acked_total", |acked| acked >= 4000.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
    let marks = kafka.watermarks();
    let (lag, expired) =
        marks.iter().fold((0, 0), |(lag, expired), (low, high)| (lag + high - low, expired + low));
    assert!(expired > 0 && lag > 0, "{marks:?}");
    // Where the logs begin is looked at every five seconds.
    daemon.wait_metric(30, &of("expired_records", "group"), |seen| seen == expired as f64);
    for _ in 0..5 {
        assert_eq!(shown(&daemon, "lag_records", "group"), Some(lag as f64));
        assert_eq!(shown(&daemon, "expired_records", "group"), Some(expired as f64));
        std::thread::sleep(Duration::from_millis(300));
    }
    let ended = daemon.terminate();
    assert_eq!(ended.report()["drain"]["sources"]["group"]["expired_records"], expired);
}

#[test]
fn l9_a_residual_lag_within_the_tolerance_is_drained() {
    let kafka = MockKafka::start(4);
    let sources = group_source("tolerant", "200ms", "tolerance = 4")
        + &group_source("strict", "200ms", "tolerance = 3");
    let daemon = produced(&kafka, 500, 400, &sources);
    let ends: Vec<u64> = kafka.ends().iter().map(|end| end - 1).collect();
    kafka.commit("g", &ends);
    wait_lag(&daemon, "tolerant", 4);
    wait_lag(&daemon, "strict", 4);
    let status = daemon.get("/api/v1/status");
    let caught_up = ["tolerant", "strict"].map(|name| status["sources"][name]["caught_up"] == true);
    assert_eq!(caught_up, [true, false]);
    let ended = daemon.terminate();
    ended.failed("source strict: not drained");
    let sources = &ended.report()["drain"]["sources"];
    assert_eq!(
        (&sources["tolerant"]["drained"], &sources["tolerant"]["remaining_records"]),
        (&true.into(), &4.into())
    );
    assert_eq!(
        (&sources["strict"]["drained"], &sources["strict"]["remaining_records"]),
        (&false.into(), &4.into())
    );
}

#[test]
fn l11_the_lag_of_a_dead_group_rises_with_the_load() {
    let kafka = MockKafka::start(2);
    let daemon = daemon::start(&(kafka.settings("", "", "rate = 200") + &group_source("group", "200ms", "")));
    more_acked(&daemon, 200.0);
    let committed = kafka.ends();
    kafka.commit("g", &committed);
    let committed: u64 = committed.iter().sum();
    daemon.wait_metric(30, &of("lag_records", "group"), |lag| lag < 400.0);
    for more in [300.0, 600.0, 900.0] {
        daemon.wait_metric(60, "records_acked_total", |acked| acked >= committed as f64 + more);
        let lag = daemon.wait_metric(30, &of("lag_records", "group"), |lag| lag >= more);
        let now = acked(&daemon) as f64 - committed as f64;
        assert!(lag <= now, "lag {lag} of at most {now}");
    }
    daemon.terminate();
}

#[test]
fn l12_a_source_that_never_answers_delays_neither_the_other_nor_the_scrape() {
    // Takes connections and says nothing.
    let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://x@{}/x", frozen.local_addr().unwrap());
    let kafka = MockKafka::start(2);
    let counter = Counter::new(shared_postgres(), "l12");
    let sources = counter.source("good", "") + &sql_source("frozen", &url, "SELECT 1", "count", "");
    let more = "rate = 200\nkey = { kind = \"none\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &sources));
    let polls = |source: &str| series(&daemon.scrape(), &of("progress_duration_seconds_count", source));
    let before = polls("good");
    let failed = sum(&daemon.scrape(), "progress_errors_total", "frozen");
    let began = Instant::now();
    eventually(Duration::from_secs(60), "two deadlines of the frozen one", || {
        let asked = Instant::now();
        let scrape = daemon.scrape();
        assert!(asked.elapsed() < Duration::from_secs(2), "a scrape waited: {:?}", asked.elapsed());
        assert_eq!(series(&scrape, &of("progress_up", "good")), 1.0);
        assert_eq!(series(&scrape, &of("progress_up", "frozen")), 0.0);
        (sum(&scrape, "progress_errors_total", "source=\"frozen\",stream=\"main\",kind=\"timeout\"")
            >= failed + 2.0)
            .then_some(())
    });
    // Every 200 ms, and not every two seconds.
    let (polls, seconds) = (polls("good") - before, began.elapsed().as_secs_f64());
    assert!(polls >= seconds, "{polls} polls in {seconds} s");
    assert_eq!(shown(&daemon, "lag_records", "frozen"), None);
    counter.set(1_000_000);
    let ended = daemon.terminate();
    ended.failed("source frozen: not known whether drained");
}

#[test]
fn every_kind_of_value_gives_the_lag_that_the_ingestor_knows() {
    let postgres = shared_postgres();
    let kafka = MockKafka::start(4);
    tables(postgres, "kinds");
    // Rows of before the run are the baseline of the count.
    postgres.psql("INSERT INTO kinds_rows SELECT -1, n, n FROM generate_series(1, 777) n");
    let url = postgres.url();
    let at = |value: &str| format!("SELECT partition, {value} FROM kinds_at");
    let sources = sql_source("next_offset", url, &at("next_offset"), "next_offset", "")
        + &sql_source("last_offset", url, &at("last_offset"), "last_offset", "")
        + &sql_source("sequence", url, &at("sequence"), "sequence", "")
        + &sql_source("count", url, "SELECT count(*) FROM kinds_rows", "count", "");
    const KINDS: [&str; 4] = ["next_offset", "last_offset", "sequence", "count"];
    let ingestor = Ingestor::start(&kafka, postgres, "kinds");
    let daemon = produced(&kafka, 1000, 1500, &sources);
    eventually(Duration::from_secs(30), "all is ingested", || {
        (ingestor.truth().records == acked(&daemon)).then_some(())
    });
    KINDS.iter().for_each(|kind| wait_lag(&daemon, kind, 0));
    KINDS.iter().for_each(|kind| assert_eq!(shown(&daemon, "lag_seconds", kind), Some(0.0), "{kind}"));
    ingestor.pause(true);
    let ingested = settled(&ingestor);
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    daemon.wait_metric(60, "records_acked_total", |acked| acked >= ingested as f64 + 1000.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    daemon.wait_metric(30, "records_in_flight", |records| records == 0.0);
    let behind = kafka.records() - ingested;
    KINDS.iter().for_each(|kind| wait_lag(&daemon, kind, behind));
    let ages = KINDS.map(|kind| shown(&daemon, "lag_seconds", kind).unwrap());
    let (least, most) =
        (ages.iter().copied().fold(f64::MAX, f64::min), ages.iter().copied().fold(0.0, f64::max));
    // All of them are the age of the same record, each at its own poll.
    assert!(least > 0.9 && most - least < 2.0, "{ages:?}");
    ingestor.pause(false);
    KINDS.iter().for_each(|kind| wait_lag(&daemon, kind, 0));
    let ended = daemon.terminate();
    ended.good();
    for (name, source) in ended.report()["drain"]["sources"].as_object().unwrap() {
        assert_eq!((&source["drained"], &source["remaining_records"]), (&true.into(), &0.into()), "{name}");
    }
}

/// What a paused ingestor has written, once it stands still.
fn settled(ingestor: &Ingestor) -> u64 {
    let mut last = ingestor.truth().records;
    eventually(Duration::from_secs(20), "the ingestor stands still", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = ingestor.truth().records;
        (std::mem::replace(&mut last, now) == now).then_some(now)
    })
}

#[test]
fn l6_a_delay_below_the_poll_interval_is_not_rounded_up_to_it() {
    let postgres = shared_postgres();
    let kafka = MockKafka::start(2);
    tables(postgres, "l6");
    let ingestor = Ingestor::start(&kafka, postgres, "l6");
    ingestor.delay(Duration::from_millis(300));
    let query = "SELECT partition, sequence FROM l6_at";
    let source = sql_source("view", postgres.url(), query, "sequence", "").replace("\"200ms\"", "\"4s\"");
    let more = "rate = 500\nkey = { kind = \"none\" }\nvalue = { kind = \"json\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &source));
    // The first poll was before the load.
    daemon.wait_metric(30, &of("lag_seconds", "view"), |age| age > 0.0);
    let mut polls = 0.0;
    ingestor.truth();
    eventually(Duration::from_secs(60), "two more polls", || {
        let scrape = daemon.scrape();
        let age = series(&scrape, &of("lag_seconds", "view"));
        // The truth of this very machine: how old records really were when they became visible, and a batch may wait.
        let worst = ingestor.truth().worst_age.as_secs_f64().max(0.3);
        assert!((0.0..=worst * 2.0 + 0.7).contains(&age), "{age} s, and records took {worst} s");
        let now = series(&scrape, &of("progress_duration_seconds_count", "view"));
        if polls == 0.0 {
            polls = now;
        }
        (now >= polls + 2.0).then_some(())
    });
    daemon.terminate();
}

#[test]
fn s4_m4_a_server_that_goes_away_takes_its_lag_along_and_comes_back_by_itself() {
    let postgres = Postgres::start(&[]);
    let kafka = MockKafka::start(2);
    let counter = Counter::new(&postgres, "s4");
    let more = "rate = 500\nkey = { kind = \"none\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &counter.source("view", "")));
    let up = || shown(&daemon, "progress_up", "view");
    counter.set(10);
    daemon.wait_metric(30, &of("progress_records", "view"), |records| records == 10.0);
    let pid = daemon.pid();
    // A restart, and a session that is ended from outside: the source is there again without help.
    postgres.order("restart");
    daemon.wait_metric(30, &of("progress_up", "view"), |up| up == 1.0);
    postgres.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'soakd'");
    counter.set(20);
    daemon.wait_metric(30, &of("progress_records", "view"), |records| records == 20.0);
    assert_eq!(up(), Some(1.0));
    postgres.order("stop");
    daemon.wait_metric(30, &of("progress_up", "view"), |up| up == 0.0);
    let good = shown(&daemon, "progress_last_success_timestamp_seconds", "view").unwrap();
    eventually(Duration::from_secs(10), "the lag is gone", || {
        let scrape = daemon.scrape();
        let gone = !scrape.contains_key(&format!("soakd_{}", of("lag_records", "view")));
        let missed = daemon.get("/api/v1/status")["sources"]["view"]["missed_polls"].as_u64().unwrap();
        assert!(gone || missed <= 3, "after {missed} missed polls");
        gone.then_some(())
    });
    let scrape = daemon.scrape();
    for metric in ["lag_seconds", "lag_at_least", "progress_records", "lag_uncertainty_records"] {
        assert!(!scrape.contains_key(&format!("soakd_{}", of(metric, "view"))), "{metric}");
    }
    assert_eq!(series(&scrape, &of("progress_last_success_timestamp_seconds", "view")), good);
    assert!(sum(&scrape, "progress_errors_total", "kind=\"connect\"") >= 3.0);
    let rate = |from: f64| daemon.metric("records_acked_total") - from;
    let before = daemon.metric("records_acked_total");
    eventually(Duration::from_secs(20), "the load goes on", || (rate(before) > 500.0).then_some(()));
    postgres.order("start");
    daemon.wait_metric(30, &of("progress_up", "view"), |up| up == 1.0);
    daemon.wait_metric(30, &of("lag_records", "view"), |lag| lag > 0.0);
    assert_eq!(daemon.pid(), pid);
    counter.set(1_000_000);
    let ended = daemon.terminate();
    ended.good();
    let lost = ended.log.matches("source lost").count();
    assert!((1..=4).contains(&lost), "one line an outage: {}", ended.log);
}
