//! Freshness by markers: from a record of its own in every partition until a query of PostgreSQL shows it.

use std::time::Duration;

use serde_json::Value;

use crate::daemon::{self, Daemon, sum};
use crate::ingest::{Ingestor, Truth, tables};
use crate::lag::{of, shared_postgres, shown, sql_source};
use crate::load::{assert_sound, number, totals};
use crate::mock::MockKafka;

const VISIBLE: &str = "SELECT partition, max(sequence) FROM fresh_rows WHERE marker GROUP BY partition";

/// What soakd has measured so far: markers, and their mean in seconds.
fn measured(daemon: &Daemon) -> (f64, f64) {
    let scrape = daemon.scrape();
    let total = |name: &str| sum(&scrape, name, "source=\"markers\"");
    (total("freshness_seconds_count"), total("freshness_seconds_sum"))
}

fn mean(ages: &[Duration]) -> f64 {
    ages.iter().map(Duration::as_secs_f64).sum::<f64>() / ages.len() as f64
}

#[test]
fn freshness_is_the_time_until_a_query_shows_the_marker_and_its_age_until_then() {
    let (kafka, postgres) = (MockKafka::start(2), shared_postgres());
    tables(postgres, "fresh");
    let ingestor = Ingestor::start(&kafka, postgres, "fresh");
    ingestor.delay(Duration::from_millis(300));
    let more = "rate = 200\nvalue = { kind = \"json\" }\nmarker = { interval = \"100ms\" }";
    let source =
        sql_source("markers", postgres.url(), VISIBLE, "marker", "").replace("\"200ms\"", "\"50ms\"");
    let settings = kafka.settings("", "", more).replace("\"2s\"", "\"30s\"");
    let daemon = daemon::start(&(settings + &source));
    daemon.wait_metric(30, &of("progress_up", "markers"), |up| up == 1.0);
    let scrape_of = |name: &str| shown(&daemon, name, "markers");
    assert_eq!(scrape_of("lag_records"), None, "markers say nothing about records");

    // While the system follows at its delay: as late as the markers really were, and by no more than the looks are apart.
    crate::daemon::eventually(Duration::from_secs(30), "markers", || {
        (measured(&daemon).0 >= 30.0).then_some(())
    });
    let (count, total) = measured(&daemon);
    let truth = ingestor.truth();
    assert!(total / count >= 0.3, "{total} s of {count} markers, none of which was visible before 0.3 s");
    println!("freshness {:.3} s, by the ingestor {:.3} s", total / count, mean(&truth.markers));
    let unseen = scrape_of("marker_oldest_unseen_seconds").unwrap();
    assert!(unseen < 2.0, "{unseen}");

    // While nothing becomes visible the oldest grows by the second, and no marker is fresh.
    ingestor.pause(true);
    daemon.wait_metric(30, &of("marker_oldest_unseen_seconds", "markers"), |age| age > 2.0);
    let (still, at) = (measured(&daemon).0, daemon.get("/api/v1/status"));
    daemon.wait_metric(30, &of("marker_oldest_unseen_seconds", "markers"), |age| age > 3.0);
    assert_eq!(measured(&daemon).0, still);
    let of_status = &at["sources"]["markers"];
    assert!(of_status["freshness"]["oldest_unseen_seconds"].as_f64().unwrap() > 2.0, "{of_status}");
    assert_eq!(of_status["caught_up"], false);
    assert!(of_status["resolution_seconds"].as_f64().unwrap() >= 0.05, "{of_status}");
    ingestor.delay(Duration::ZERO);
    ingestor.pause(false);
    daemon.wait_metric(30, &of("marker_oldest_unseen_seconds", "markers"), |age| age < 1.0);

    let ended = daemon.terminate();
    assert_sound(&ended);
    ended.good();
    assert_reported(ended.report(), number(&totals(&ended)["markers"]), &ingestor.truth());
    assert!(ended.out.contains("freshness of markers"), "{}", ended.out);
}

/// Every marker was measured once, and as late as it was.
fn assert_reported(report: &Value, sent: u64, truth: &Truth) {
    let source = &report["drain"]["sources"]["markers"];
    let of = |name: &str| source["freshness"][name].as_f64().unwrap_or_else(|| panic!("{source}"));
    assert_eq!((truth.markers.len() as u64, of("count") as u64), (sent, sent), "{source}");
    let (right, most) = (mean(&truth.markers), truth.markers.iter().max().unwrap().as_secs_f64());
    let resolution = report["measured"]["sources"]["markers"]["resolution_seconds"].as_f64().unwrap();
    println!("mean {:.3} s, right is {right:.3} s to within {resolution:.3} s", of("mean_seconds"));
    // Times in records are cut off to milliseconds. A busy machine's polls may be further apart than the last one.
    assert!((-0.002..resolution + 0.1).contains(&(of("mean_seconds") - right)), "{source} {right}");
    assert!((-0.002..resolution + 0.5).contains(&(of("max_seconds") - most)), "{source} {most}");
    assert!(most > 3.0 && of("p50_seconds") >= 0.05, "{source}");
    assert_eq!((&source["drained"], &source["remaining_seconds"]), (&Value::Bool(true), &0.0.into()));
    assert_eq!(source["remaining_records"], Value::Null);
}

#[test]
fn a_marker_that_never_becomes_visible_fails_the_run_by_its_age() {
    let (kafka, postgres) = (MockKafka::start(1), shared_postgres());
    postgres.psql("CREATE TABLE never_seen (partition int, sequence bigint)");
    let query = "SELECT partition, max(sequence) FROM never_seen GROUP BY partition";
    let more = "rate = 20\nmarker = { interval = \"100ms\" }";
    let source = sql_source("markers", postgres.url(), query, "marker", "standstill_after = \"1s\"");
    let daemon = daemon::start(&(kafka.settings("", "", more) + &source));
    daemon.wait_metric(30, &of("marker_oldest_unseen_seconds", "markers"), |age| age > 1.5);
    daemon.wait_metric(30, &of("standstills_total", "markers"), |count| count == 1.0);
    assert_eq!(measured(&daemon).0, 0.0);
    let ended = daemon.terminate();
    ended.failed("the oldest that is not visible is");
    let age = ended.report()["drain"]["sources"]["markers"]["remaining_seconds"].as_f64().unwrap();
    assert!(age > 1.5, "{age}");
}
