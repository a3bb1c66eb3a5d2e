//! What a running daemon makes of a system's pace: catching up, reading again, standing still, another clock.

use super::*;

/// A system that ingests exactly so many records a second from the moment that it is started on, and again from nothing
/// when it is started again. The truth is the server's clock.
struct Steady<'a> {
    postgres: &'a Postgres,
    name: &'static str,
}

impl<'a> Steady<'a> {
    fn new(postgres: &'a Postgres, name: &'static str) -> Self {
        postgres.psql(&format!("CREATE TABLE {name} (began timestamptz); INSERT INTO {name} VALUES (NULL)"));
        Self { postgres, name }
    }

    fn source(&self, source: &str, rate: u64) -> String {
        let query = format!(
            "SELECT coalesce(floor({rate} * extract(epoch FROM clock_timestamp() - began)), 0)::bigint FROM {}",
            self.name
        );
        // Before it begins, and reading again, it is no standstill however slow the machine is.
        sql_source(source, self.postgres.url(), &query, "count", "standstill_after = \"10m\"")
    }

    fn begin(&self) {
        self.postgres.psql(&format!("UPDATE {} SET began = clock_timestamp()", self.name));
    }
}

#[test]
fn while_it_drains_the_time_to_the_end_is_told_and_after_a_reset_how_long_it_took() {
    const RATE: f64 = 400.0;
    let kafka = MockKafka::start(2);
    let system = Steady::new(shared_postgres(), "steady");
    let daemon = produced(&kafka, 1000, 2000, &system.source("view", 400));
    let acked = acked(&daemon) as f64;
    assert_eq!(shown(&daemon, "catch_up_seconds", "view"), None, "it does not move");
    system.begin();
    let mut looks = Vec::new();
    eventually(Duration::from_secs(60), "it has caught up", || {
        let scrape = daemon.scrape();
        let figure = |metric: &str| scrape.get(&format!("soakd_{}", of(metric, "view"))).copied();
        let lag = figure("lag_records").unwrap();
        if let (Some(left), Some(pace)) = (figure("catch_up_seconds"), figure("ingest_records_per_second")) {
            looks.push((lag, left, pace));
        }
        (lag == 0.0).then_some(())
    });
    // The first two movements may lie close together on a busy machine.
    let later: Vec<_> = looks.iter().filter(|(lag, ..)| *lag > 0.0 && *lag < acked - RATE).collect();
    assert!(!later.is_empty(), "{looks:?}");
    for (lag, left, pace) in later {
        assert!((pace / RATE - 1.0).abs() < 0.1, "{pace} records/s");
        assert!((left * RATE / lag - 1.0).abs() < 0.15, "{left} s for {lag} records");
    }
    assert_eq!(shown(&daemon, "catch_up_seconds", "view"), None, "there is nothing left");

    // It lost everything and reads again: some five seconds until it has caught up, by its own clock.
    system.begin();
    let took = daemon.wait_metric(60, &of("recovery_caught_up_seconds", "view"), |took| took > 0.0);
    let slow = acked / RATE;
    assert!(took > slow - 1.0 && took < slow + 3.0, "{took} s for {slow} s");
    assert!(shown(&daemon, "recovery_back_seconds", "view").unwrap() < took, "it never went away");
    let source = &daemon.get("/api/v1/status")["sources"]["view"];
    assert_eq!(
        (&source["resets"], &source["recovery"]["caught_up_after_seconds"]),
        (&1.into(), &took.into())
    );
    let ended = daemon.terminate();
    assert_eq!(ended.log.matches("the system has caught up again").count(), 1, "{}", ended.log);
}

#[test]
fn s8_two_sources_of_one_stream_are_shown_side_by_side_and_stand_still_each_by_itself() {
    let kafka = MockKafka::start(2);
    let counter = Counter::new(shared_postgres(), "s8_stuck");
    let system = Steady::new(shared_postgres(), "s8_moving");
    let sources = counter.source("stuck", "standstill_after = \"1s\"") + &system.source("moving", 100);
    let more = "rate = 200\nkey = { kind = \"none\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &sources));
    system.begin();
    more_acked(&daemon, 50.0);
    counter.set(10);
    daemon.wait_metric(30, &of("progress_records", "stuck"), |records| records == 10.0);
    let stood = |source: &str| shown(&daemon, "standstill_seconds_total", source).unwrap();
    let (first, longest) = (stood("stuck"), || {
        daemon.get("/api/v1/status")["sources"]["stuck"]["standstill_longest_seconds"].as_f64().unwrap()
    });
    daemon.wait_metric(30, &of("standstill_seconds_total", "stuck"), |seconds| seconds >= first + 3.0);
    assert!(longest() >= 3.0);
    assert_eq!(stood("moving"), 0.0);
    let scrape = daemon.scrape();
    let lag = |source: &str| series(&scrape, &of("lag_records", source));
    assert!(lag("stuck") > lag("moving") && lag("moving") > 0.0, "{} and {}", lag("stuck"), lag("moving"));
    assert_eq!(series(&scrape, &of("progress_records", "stuck")), 10.0);
    assert_eq!(shown(&daemon, "catch_up_seconds", "stuck"), None);
    assert!(shown(&daemon, "catch_up_seconds", "moving").unwrap() > 0.0);
    counter.set(1_000_000);
    daemon.wait_metric(30, &of("lag_records", "stuck"), |lag| lag == 0.0);
    assert!(shown(&daemon, "lag_records", "moving").unwrap() > 0.0, "never merged");
    daemon.terminate();
}

#[test]
fn l13_a_clock_that_is_ahead_gives_no_negative_age_and_one_warning() {
    let kafka = MockKafka::start(2);
    let ahead = |milliseconds: i64| {
        format!("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + {milliseconds}")
    };
    let url = shared_postgres().url();
    let sources = sql_source("ahead", url, &ahead(5000), "event_time", "")
        + &sql_source("behind", url, &ahead(-2000), "event_time", "");
    let more = "rate = 500\nkey = { kind = \"none\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &sources));
    daemon.wait_metric(30, &of("lag_seconds", "behind"), |age| age > 1.0);
    let before = shown(&daemon, "progress_clock_ahead_total", "ahead").unwrap();
    eventually(Duration::from_secs(30), "ten polls", || {
        assert_eq!(shown(&daemon, "lag_seconds", "ahead"), Some(0.0));
        assert_eq!(shown(&daemon, "lag_records", "ahead"), Some(0.0));
        let now = shown(&daemon, "progress_clock_ahead_total", "ahead").unwrap();
        (now >= before + 10.0).then_some(())
    });
    assert_eq!(shown(&daemon, "progress_clock_ahead_total", "behind"), Some(0.0));
    let age = shown(&daemon, "lag_seconds", "behind").unwrap();
    assert!((1.9..3.5).contains(&age), "{age}");
    let ended = daemon.terminate();
    assert_eq!(ended.log.matches("another clock is ahead").count(), 1, "{}", ended.log);
}
