//! Figures of a source that no field case moves.

use std::time::Duration;

use crate::control::{group_source, more_acked};
use crate::daemon::{self, eventually, series};
use crate::lag::{of, shared_postgres, shown, sql_source};
use crate::mock::MockKafka;

#[test]
fn m2_a_failed_poll_is_counted_under_its_kind_and_the_source_recovers() {
    let (kafka, postgres) = (MockKafka::start(1), shared_postgres());
    let view = |select: &str| postgres.psql(&format!("DROP VIEW IF EXISTS kinds_of_errors; {select}"));
    view("CREATE VIEW kinds_of_errors AS SELECT 0 AS n");
    let source = sql_source("view", postgres.url(), "SELECT * FROM kinds_of_errors", "count", "");
    let more = "rate = 100\nkey = { kind = \"none\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &source));
    daemon.wait_metric(30, &of("progress_up", "view"), |up| up == 1.0);
    let errors =
        |kind: &str| format!("progress_errors_total{{source=\"view\",stream=\"main\",kind=\"{kind}\"}}");
    for (kind, select) in [
        ("query", ""),
        ("bad_value", "CREATE VIEW kinds_of_errors AS SELECT -5 AS n"),
        ("shape", "CREATE VIEW kinds_of_errors AS SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d"),
        ("timeout", "CREATE VIEW kinds_of_errors AS SELECT 1 AS n FROM pg_sleep(60)"),
    ] {
        assert_eq!(daemon.metric(&errors(kind)), 0.0, "{kind}");
        view(select);
        daemon.wait_metric(30, &errors(kind), |count| count >= 1.0);
        assert_eq!(shown(&daemon, "progress_up", "view"), Some(0.0), "{kind}");
    }
    view("CREATE VIEW kinds_of_errors AS SELECT 1000000 AS n");
    daemon.wait_metric(30, &of("progress_up", "view"), |up| up == 1.0);
    let ended = daemon.terminate();
    ended.good();
    assert_eq!(ended.log.matches("source lost").count(), 1, "one line an outage: {}", ended.log);
}

#[test]
fn the_uncertainty_is_what_was_acked_during_half_a_poll() {
    let (kafka, postgres) = (MockKafka::start(1), shared_postgres());
    let source = sql_source("slow", postgres.url(), "SELECT 0 FROM pg_sleep(0.5)", "count", "");
    let more = "rate = 1000\nkey = { kind = \"none\" }";
    let daemon = daemon::start(&(kafka.settings("", "", more) + &source));
    more_acked(&daemon, 1500.0);
    let looks: Vec<(f64, f64)> = (0..10)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(200));
            let scrape = daemon.scrape();
            (
                series(&scrape, &of("lag_uncertainty_records", "slow")),
                series(&scrape, &of("lag_records", "slow")),
            )
        })
        .collect();
    // At least what half a second of load leaves, and at most what a busy machine makes of it.
    assert!(looks.iter().all(|(off, lag)| *off >= 150.0 && *off < *lag), "{looks:?}");
    assert!(looks.iter().any(|(off, _)| *off < 1000.0), "{looks:?}");
    assert!(daemon.metric(&of("progress_duration_seconds_sum", "slow")) > 1.0);
    daemon.terminate();
}

#[test]
fn l7_records_of_before_the_run_make_the_age_a_lower_bound() {
    let kafka = MockKafka::start(1);
    let earlier =
        daemon::start(&kafka.settings("", "", "rate = 500\nrecords = 100")).wait(Duration::from_secs(30));
    earlier.good();
    kafka.commit("g", &[40]);
    let daemon = daemon::start(&(kafka.settings("", "", "rate = 100") + &group_source("group", "200ms", "")));
    more_acked(&daemon, 100.0);
    let scrape = daemon.scrape();
    assert_eq!(series(&scrape, &of("lag_at_least", "group")), 1.0);
    let (age, uptime) = (
        series(&scrape, &of("lag_seconds", "group")),
        daemon.get("/api/v1/status")["uptime_seconds"].as_f64().unwrap(),
    );
    assert!(age > 0.0 && age <= uptime, "{age} of {uptime}");
    kafka.commit("g", &[120]);
    eventually(Duration::from_secs(20), "the age is known", || {
        (shown(&daemon, "lag_at_least", "group") == Some(0.0)).then_some(())
    });
    daemon.terminate();
}
