//! Presets of kind `sql` against real servers, filled in as the settings do it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use soakd::core::lag::Progress;
use soakd::progress::preset;
use soakd::progress::settings::SourceSettings;

use super::{STREAM, ask, parts, settings, until_answered};
use crate::postgres::{Postgres, psql};
use crate::services::Service;

/// A source as it is with its preset filled in.
fn filled(preset: &str, object: &str, url: &str) -> SourceSettings {
    let mut source = json!({ "stream": STREAM, "preset": preset, "object": object, "url": url });
    let fillings = preset::fill(&json!({ "progress": { "view": source } })).unwrap();
    for filling in fillings {
        let Value::Object(values) = filling.values else { panic!("no table") };
        source.as_object_mut().unwrap().extend(values);
    }
    serde_json::from_value(source).unwrap()
}

/// The answer to a query that is asked for every partition, where some have nothing.
fn by_partition(partitions: u32, values: &[(u32, u64)]) -> Progress {
    let values: BTreeMap<u32, u64> = values.iter().copied().collect();
    Progress::Partitions(
        (0..partitions).map(|partition| (partition, values.get(&partition).copied())).collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_shows_the_highest_sequence_by_partition_and_cannot_write() {
    let pg = Postgres::start(&[]);
    let source = filled("postgres", "events", pg.url());
    let missing = ask(4, &source).await.unwrap_err();
    assert!(missing.text.contains("relation \"events\" does not exist"), "{missing}");
    pg.psql("create table events(partition int, sequence bigint, id bigint)");
    assert_eq!(ask(4, &source).await, Ok(by_partition(4, &[])));
    pg.psql("insert into events values (0, 4, 1), (0, 8, 1), (2, 6, 2), (null, 7, 3)");
    assert_eq!(ask(4, &source).await, Ok(by_partition(4, &[(0, 8), (2, 6)])));
    // Rows of markers and of earlier runs are left out by a query in the place of the table.
    pg.psql("alter table events add run text; insert into events values (0, 99, 1, 'old'), (0, 3, 1, 'test'), (2, 5, 7, 'test')");
    let chosen = filled("postgres", "(SELECT * FROM events WHERE run = '{run}' AND id < 5)", pg.url());
    assert_eq!(ask(4, &chosen).await, Ok(by_partition(4, &[(0, 3)])));
    assert!(source.marker_warning().is_some() && chosen.marker_warning().is_none());
    // Whatever stands in the place of the table, the session only reads.
    let evil = filled("postgres", "(select nextval('s') as partition, 1 as sequence)", pg.url());
    pg.psql("create sequence s");
    let refused = ask(4, &evil).await.unwrap_err();
    assert!(refused.text.contains("read-only transaction"), "{refused}");
}

/// However long the table is, a poll looks at the end of the index of each partition and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_asked_at_the_end_of_its_index() {
    let pg = Postgres::start(&["shared_preload_libraries=auto_explain", "auto_explain.log_min_duration=0"]);
    pg.psql("create table events(partition int, sequence bigint, id bigint)");
    pg.psql("insert into events select n % 4, n, n % 100 from generate_series(0, 99999) n");
    pg.psql("create index on events(partition, sequence); analyze events");
    let log = || std::fs::read_to_string(pg.service.dir.join("log")).unwrap();
    for object in ["events", "(SELECT * FROM events WHERE id < 60)"] {
        for preset in ["postgres", "cockroachdb"] {
            let before = log().len();
            let source = filled(preset, object, pg.url());
            let ends = if object == "events" { 99_996..=99_999 } else { 99_956..=99_959 };
            let ends: Vec<(u32, u64)> = (0..4).zip(ends).collect();
            assert_eq!(ask(4, &source).await, Ok(by_partition(4, &ends)), "{preset} {object}");
            let log = log();
            let plan = &log[before..];
            assert_eq!(plan.matches("Backward using events_partition_sequence_idx").count(), 4, "{plan}");
            assert!(!plan.contains("Seq Scan"), "{plan}");
        }
    }
}

/// Materialize's relations as its documentation has them, in PostgreSQL: its names, columns and the types that PostgreSQL has.
const MATERIALIZE: &str = "create domain uint8 as numeric(20);
    create table events_progress(partition numrange, \"offset\" uint8);
    create table soak_progress(partition int, \"offset\" uint8);
    create schema mz_catalog; create table mz_catalog.mz_objects(id text, oid oid, schema_id text, name text, type text);
    create schema mz_internal; create table mz_internal.mz_wallclock_global_lag(object_id text, lag interval)";

#[tokio::test(flavor = "multi_thread")]
async fn materialize_tells_its_sources_offsets_its_views_offsets_and_a_views_lag() {
    let pg = Postgres::start(&[]);
    pg.psql(MATERIALIZE);
    let no_rows = || Ok(Progress::NoData("no rows".to_owned()));
    let source = filled("materialize", "events_progress", pg.url());
    assert_eq!(ask(4, &source).await, no_rows());
    // The row without an upper end speaks of partitions that do not exist yet.
    pg.psql("insert into events_progress values ('[0,0]', 17), ('[1,1]', 0), ('(1,)', 0), ('[3,3]', 18446744073709551615)");
    let refused = ask(4, &source).await.unwrap_err();
    assert!(refused.text.contains("is above 2^63 - 1"), "{refused}");
    pg.psql("update events_progress set \"offset\" = 5 where partition = '[3,3]'");
    assert_eq!(ask(4, &source).await, Ok(parts(&[(0, Some(17)), (1, Some(0)), (3, Some(5))])));

    let view = filled("materialize_view", "soak_progress", pg.url());
    assert_eq!(ask(4, &view).await, no_rows());
    pg.psql("insert into soak_progress values (0, 16), (3, 4)");
    assert_eq!(ask(4, &view).await, Ok(parts(&[(0, Some(16)), (3, Some(4))])));

    let lag = filled("materialize_lag", "my_view", pg.url());
    assert_eq!(ask(4, &lag).await, no_rows());
    pg.psql("insert into mz_catalog.mz_objects values ('u1', 1, 'u3', 'my_view', 'view'), ('u2', 2, 'u3', 'other', 'view')");
    for (stated, found) in [
        ("null", no_rows()),
        // Not hydrated: as far behind as time itself.
        ("'56 years'", no_rows()),
        ("'00:00:01'", Ok(Progress::Total(1_000_000_000))),
        ("'1 day 00:00:02.5'", Ok(Progress::Total(86_402_500_000_000))),
    ] {
        pg.psql(&format!("truncate mz_internal.mz_wallclock_global_lag; insert into mz_internal.mz_wallclock_global_lag values ('u1', {stated}), ('u2', '9s')"));
        assert_eq!(ask(4, &lag).await, found, "{stated}");
    }
    // The same name in two schemas: one of them is not the one in question.
    pg.psql("insert into mz_catalog.mz_objects values ('u2', 3, 'u4', 'my_view', 'view')");
    assert!(ask(4, &lag).await.unwrap_err().text.contains("2 rows of 1 column (lag)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn risingwave_tells_a_views_offsets_by_its_rows_and_by_its_job() {
    let pg = Postgres::start(&[]);
    // Partitions are texts there.
    pg.psql(
        "create table soak_progress(\"partition\" varchar, \"offset\" bigint); create schema rw_catalog;
         create table rw_catalog.rw_materialized_views(id int, name varchar);
         create table rw_catalog.rw_kafka_job_lag(job_id int, source_id int, fragment_id int, partition_id varchar, lag_phase varchar,
         high_watermark bigint, consumer_offset bigint, lag bigint)",
    );
    let no_rows = || Ok(Progress::NoData("no rows".to_owned()));
    let view = filled("risingwave", "soak_progress", pg.url());
    assert_eq!(ask(4, &view).await, no_rows());
    pg.psql("insert into soak_progress values ('0', 16), ('3', 4)");
    assert_eq!(ask(4, &view).await, Ok(parts(&[(0, Some(16)), (3, Some(4))])));

    let job = filled("risingwave_job", "my_view", pg.url());
    assert_eq!(ask(4, &job).await, no_rows());
    pg.psql("insert into rw_catalog.rw_materialized_views values (7, 'my_view'), (8, 'other')");
    pg.psql("insert into rw_catalog.rw_kafka_job_lag values (7, 1, 1, '0', 'LIVE', 20, 18, 1), (7, 1, 2, '0', 'BACKFILL', 20, 3, 16), \
             (7, 1, 1, '1', 'LIVE', 9, null, null), (8, 1, 1, '0', 'LIVE', 20, 19, 0)");
    assert_eq!(ask(4, &job).await, Ok(parts(&[(0, Some(3)), (1, None)])));
}

#[tokio::test(flavor = "multi_thread")]
async fn questdb_shows_the_sequence_of_the_newest_row_by_partition() {
    let server = Service::start("questdb", &[]);
    let url = server.get("PGURL");
    let run = |sql: &str| psql(url, sql).unwrap();
    run(
        "create table events(timestamp timestamp, \"partition\" symbol, sequence long, id long, run symbol) \
         timestamp(timestamp) partition by day wal",
    );
    let source = filled("questdb", "events", url);
    assert_eq!(ask(4, &source).await, Ok(Progress::NoData("no rows".to_owned())));
    run(
        "insert into events values ('2026-11-29T23:00:00.000000Z', '0', 4, 1, 'test'), ('2026-11-30T22:57:11.123900Z', '0', 8, 1, 'test'), \
         ('2026-11-30T22:57:10.000000Z', '2', 6, 7, 'test'), ('2026-11-30T22:57:12.000000Z', '2', 99, 5000, 'test'), \
         ('2026-11-30T22:57:09.000000Z', '3', 5, 1, 'old')",
    );
    // What is written to a WAL is shown when it is applied.
    until_answered(4, &source, &parts(&[(0, Some(8)), (2, Some(99)), (3, Some(5))])).await;
    let chosen = filled("questdb", "events WHERE id < 1000 AND run = '{run}'", url);
    assert_eq!(ask(4, &chosen).await, Ok(parts(&[(0, Some(8)), (2, Some(6))])));
    assert!(source.marker_warning().is_some() && chosen.marker_warning().is_none());
    for source in [source, chosen] {
        let SourceSettings::Sql(sql) = source else { panic!("{source:?}") };
        let plan = run(&format!("explain {}", sql.query));
        assert!(plan.contains("Frame backward scan") && !plan.contains("forward"), "{plan}");
    }
    // Its timestamps are times, and a query by partition is asked as anywhere.
    let newest = settings(url, "SELECT max(timestamp) FROM events WHERE id < 1000", "event_time", json!({}));
    assert_eq!(ask(4, &newest).await, Ok(Progress::Total(1_796_079_431_123)));
    let each = "SELECT {partition}, max(sequence) FROM events WHERE \"partition\" = {partition}";
    let found = ask(3, &settings(url, each, "sequence", json!({}))).await;
    assert_eq!(found, Ok(by_partition(3, &[(0, 8), (2, 99)])));
}
