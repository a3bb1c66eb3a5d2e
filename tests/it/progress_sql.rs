//! Progress by SQL, against a real PostgreSQL.

mod presets;
mod security;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use soakd::core::lag::Progress;
use soakd::core::status::{Board, ProgressErrorKind};
use soakd::kafka::settings::KafkaSettings;
use soakd::progress::settings::SourceSettings;
use soakd::progress::{Poller, ProbeError};
use tokio_util::sync::CancellationToken;

use crate::board::{STREAM, board, events, poller, set_head, status};
use crate::postgres::{Postgres, signal};
use crate::services::Service;

/// Ten times what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of a source as a user writes them, with changes.
fn settings(url: &str, query: &str, value: &str, changes: Value) -> SourceSettings {
    let mut all = json!({
        "kind": "sql", "stream": STREAM, "url": url, "query": query, "value": value,
        "interval": "200ms", "timeout": "10s",
    });
    for (key, change) in changes.as_object().unwrap() {
        all[key] = change.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn one(partitions: u32, settings: &SourceSettings) -> (Arc<Board>, Poller) {
    let board = board("t", partitions, &[("view", settings)]);
    let poller = poller(&board, "view", settings, &KafkaSettings::default());
    (board, poller)
}

async fn ask(partitions: u32, settings: &SourceSettings) -> Result<Progress, ProbeError> {
    let (_, mut poller) = one(partitions, settings);
    let polled = poller.poll_once().await.map(|polled| polled.progress);
    poller.close().await;
    polled
}

/// Waits for a condition, which is looked at often.
async fn until(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

/// Asks until the answer is this one.
async fn until_answered(partitions: u32, settings: &SourceSettings, expected: &Progress) {
    let began = Instant::now();
    loop {
        let found = ask(partitions, settings).await;
        if found.as_ref() == Ok(expected) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{found:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn parts(values: &[(u32, Option<u64>)]) -> Progress {
    Progress::Partitions(values.iter().copied().collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type_and_shape_are_read_or_refused_by_name() {
    let pg = Postgres::start(&[]);
    pg.psql("create table rows(p int, v bigint); create table parts(p int, v bigint); insert into parts values (0, 5), (1, null), (2, 7)");
    for query in [
        "select 42::int2",
        "select 42::int4",
        "select 42::int8",
        "select 42::numeric",
        "select 42::numeric(10, 3)",
        "select 4.2e1::float4",
        "select 42::float8",
        "select '42'::text",
        "select '42'::char(9)",
        "select sum(x) from (values (40::int8), (2)) t(x)",
        "select 42::oid",
        "set work_mem = '1MB'; select 42",
        "select 42 -- a comment",
        "do $$ begin raise notice 'n'; end $$; select 42;",
    ] {
        let found = ask(4, &settings(pg.url(), query, "count", json!({}))).await;
        assert_eq!(found, Ok(Progress::Total(42)), "{query}");
    }
    for (query, number) in [
        ("select 1e6::float8", 1_000_000),
        ("select 1e15::float8 * 10", 10_000_000_000_000_000),
        ("select 9007199254740993::numeric / 1", 9_007_199_254_740_993),
    ] {
        let found = ask(4, &settings(pg.url(), query, "count", json!({}))).await;
        assert_eq!(found, Ok(Progress::Total(number)), "{query}");
    }
    for (query, value, partitions, expected) in [
        ("select p, v from parts", "next_offset", 4, parts(&[(0, Some(5)), (1, None), (2, Some(7))])),
        ("select p, v from parts", "sequence", 3, parts(&[(0, Some(5)), (1, None), (2, Some(7))])),
        ("select max(v) from parts", "last_offset", 1, parts(&[(0, Some(7))])),
        ("select max(v) from rows", "next_offset", 1, parts(&[(0, None)])),
        ("select coalesce(max(v), -1) from rows", "last_offset", 1, parts(&[(0, None)])),
        ("select p, max(v) from rows group by p", "next_offset", 4, Progress::NoData("no rows".to_owned())),
        ("select v from rows", "count", 4, Progress::NoData("no rows".to_owned())),
        ("select max(v) from rows", "count", 4, Progress::NoData("the count is null".to_owned())),
    ] {
        assert_eq!(
            ask(partitions, &settings(pg.url(), query, value, json!({}))).await,
            Ok(expected),
            "{query}"
        );
    }
    const AT: &str = "timestamptz '2026-11-30 22:57:11.1239+00'";
    let time = |ms| Progress::Total(ms);
    for (session, query, value, expected) in [
        ("", format!("select {AT}"), "event_time", time(1_796_079_431_123)),
        ("set timezone = 'Asia/Kolkata'", format!("select {AT}"), "event_time", time(1_796_079_431_123)),
        ("set timezone = 'America/St_Johns'", format!("select {AT}"), "event_time", time(1_796_079_431_123)),
        ("", format!("select {AT} at time zone 'UTC'"), "event_time", time(1_796_079_431_123)),
        ("", format!("select extract(epoch from {AT}) * 1000"), "event_time", time(1_796_079_431_123)),
        ("", format!("select 1, {AT}"), "event_time", parts(&[(1, Some(1_796_079_431_123))])),
        ("", "select interval '1 day 2.5s'".into(), "lag_seconds", time(86_402_500_000_000)),
        (
            "set intervalstyle = 'iso_8601'",
            "select interval '1 day 2.5s'".into(),
            "lag_seconds",
            time(86_402_500_000_000),
        ),
        (
            "set intervalstyle = 'sql_standard'",
            "select interval '1 day 2.5s'".into(),
            "lag_seconds",
            time(86_402_500_000_000),
        ),
        (
            "set intervalstyle = 'postgres_verbose'",
            "select interval '1 day 2.5s'".into(),
            "lag_seconds",
            time(86_402_500_000_000),
        ),
        ("", "select 2, interval '90 min'".into(), "lag_seconds", parts(&[(2, Some(5_400_000_000_000))])),
        ("", "select 0.25".into(), "lag_seconds", time(250_000_000)),
        ("", "select p, v from parts".into(), "lag_records", parts(&[(0, Some(5)), (1, None), (2, Some(7))])),
        ("", "select sum(v) from parts".into(), "lag_records", time(12)),
        ("", "select p, v from parts".into(), "marker", parts(&[(0, Some(5)), (1, None), (2, Some(7))])),
        (
            "",
            "select max(now()) from rows".into(),
            "event_time",
            Progress::NoData("the value is null".to_owned()),
        ),
    ] {
        let session = json!({ "session": if session.is_empty() { vec![] } else { vec![session] } });
        assert_eq!(
            ask(3, &settings(pg.url(), &query, value, session)).await,
            Ok(expected),
            "{query} {value}"
        );
    }
    use ProgressErrorKind::{BadValue, Query, Shape};
    for (query, value, kind, text) in [
        (
            "set datestyle = 'german'; select now()",
            "event_time",
            BadValue,
            "is neither a number of milliseconds nor a time like",
        ),
        ("select 'infinity'::timestamptz", "event_time", BadValue, "\"infinity\" is neither"),
        ("select timestamp '1969-01-01'", "event_time", BadValue, "\"1969-01-01 00:00:00\" is neither"),
        ("select interval '-1 s'", "lag_seconds", BadValue, "\"-00:00:01\" is negative"),
        (
            "select 'late'",
            "lag_seconds",
            BadValue,
            "\"late\" is neither a number of seconds nor an interval like",
        ),
        ("select v from parts", "count", Shape, "3 rows of 1 column (v)"),
        ("select p, v from parts", "count", Shape, "3 rows of 2 columns (p, v)"),
        ("select 1 a, 2 b, 3 c", "next_offset", Shape, "1 row of 3 columns (a, b, c)"),
        ("select 0 p, v from parts", "next_offset", Shape, "partition 0 comes twice"),
        ("select p + 9, v from parts", "next_offset", Shape, "partition 9 is not one of"),
        ("select x, x from generate_series(1, 2000000) x", "next_offset", Shape, "more than 1004 rows"),
        ("select 1; select 2", "count", Shape, "2 results"),
        ("insert into rows values (1, 1)", "count", Shape, "no result"),
        ("", "count", Shape, "no result"),
        ("select 'NaN'::float8", "count", BadValue, "\"NaN\" is not a number"),
        ("select 'Infinity'::float8", "count", BadValue, "\"Infinity\" is not a number"),
        ("select -5", "count", BadValue, "\"-5\" is negative"),
        ("select 1.5", "count", BadValue, "\"1.5\" is not a whole number"),
        ("select 1e400::numeric", "count", BadValue, "is above 2^63 - 1"),
        ("select '<html>' || repeat('x', 10000000)", "count", BadValue, "\"<html>xxx"),
        ("select true", "count", BadValue, "\"t\" is not a number"),
        ("select v from nowhere", "count", Query, "relation \"nowhere\" does not exist"),
        ("selec 1", "count", Query, "syntax error"),
        ("copy parts to stdout", "count", Query, "unexpected message"),
    ] {
        let error = ask(4, &settings(pg.url(), query, value, json!({}))).await.unwrap_err();
        assert_eq!(error.kind, kind, "{query}: {error}");
        assert!(error.text.contains(text), "{query}: {error}");
        assert!(error.text.chars().count() <= 401, "{query}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_no_catalogue_is_asked_for_types() {
    let pg = Postgres::start(&[]);
    pg.psql("create type prog as enum ('41', '42'); create role plain login; revoke select on pg_catalog.pg_type from public");
    let url = pg.url().replace("postgres@", "plain@");
    let denied = ask(1, &settings(&url, "select count(*) from pg_catalog.pg_type", "count", json!({}))).await;
    assert!(denied.unwrap_err().text.contains("permission denied"), "the catalogue is closed");
    assert_eq!(
        ask(1, &settings(&url, "select '42'::prog", "count", json!({}))).await,
        Ok(Progress::Total(42))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn session_statements_run_once_a_session_and_their_errors_are_named() {
    let pg = Postgres::start(&[]);
    let session = json!({ "session": ["create temp table mine as select 0 as polls", "set application_name = 'mine'"] });
    let query = "update mine set polls = polls + 1 returning polls";
    let (board, mut poller) = one(1, &settings(pg.url(), query, "count", session));
    for polls in 1..=3 {
        assert_eq!(poller.poll_once().await.unwrap().progress, Progress::Total(polls));
    }
    assert_eq!(pg.psql("select count(*) from pg_stat_activity where application_name = 'mine'"), "1");
    poller.close().await;
    until("the session is gone", || {
        pg.psql("select count(*) from pg_stat_activity where application_name = 'mine'") == "0"
    })
    .await;
    assert_eq!(status(&board, "view").polls_total, 3);
    let bad =
        settings(pg.url(), "select 1", "count", json!({ "session": ["set x.y = 1", "set nonsense = 1"] }));
    let error = ask(1, &bad).await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Query);
    assert!(error.text.starts_with("session statement 2 failed: ERROR: unrecognized"), "{error}");
    // A table may come with the first record; a syntax error stays.
    for (query, hopeless) in [("select 1 from to_come", false), ("select 1 form to_come", true)] {
        let error = ask(1, &settings(pg.url(), query, "count", json!({}))).await.unwrap_err();
        assert_eq!((error.kind, error.hopeless), (ProgressErrorKind::Query, hopeless), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_hosts_are_tried_in_order_and_one_that_hangs_takes_its_share_only() {
    let pg = Postgres::start(&[]);
    // Accepts nothing: the kernel completes the handshake, and then nobody answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (mute_port, port) = (mute.local_addr().unwrap().port(), pg.port());
    let url =
        format!("postgres://postgres@127.0.0.1:{closed},127.0.0.1:{mute_port},127.0.0.1:{port}/postgres");
    let (_, mut poller) = one(1, &settings(&url, "select 42", "count", json!({ "timeout": "4s" })));
    let polled = poller.poll_once().await.unwrap();
    assert_eq!(polled.progress, Progress::Total(42));
    assert!(
        polled.took >= Duration::from_millis(1900),
        "the mute host had half of the time: {:?}",
        polled.took
    );
    let again = poller.poll_once().await.unwrap();
    assert!(again.took < Duration::from_secs(1), "the session is kept: {:?}", again.took);
    let dsn = format!("host=127.0.0.1 port={mute_port} user=postgres");
    let error =
        ask(1, &settings(&dsn, "select 42", "count", json!({ "timeout": "300ms" }))).await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Timeout);
    assert!(error.text.contains(&format!("no session with 127.0.0.1:{mute_port} within")), "{error}");
    let refused = format!("postgres://postgres:hunter2@127.0.0.1:{closed}/postgres");
    let error = ask(1, &settings(&refused, "select 42", "count", json!({}))).await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Connect);
    assert!(error.text.contains("onnection refused") && !error.text.contains("hunter2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_a_frozen_session_is_left_and_a_new_one_answers_while_it_is_still_frozen() {
    let pg = Postgres::start(&[]);
    let (board, mut poller) =
        one(1, &settings(pg.url(), "select 42", "next_offset", json!({ "timeout": "1s" })));
    set_head(&board, 0, 100);
    poller.poll_once().await.unwrap();
    assert_eq!(status(&board, "view").reading.unwrap().lag_records, Some(58));
    let frozen = pg.sessions()[0];
    signal("STOP", frozen);
    let began = Instant::now();
    let error = poller.poll_once().await.unwrap_err();
    let first_failure = began.elapsed();
    assert_eq!(error.kind, ProgressErrorKind::Timeout);
    assert!(first_failure < Duration::from_secs(6), "{first_failure:?}");
    let down = status(&board, "view");
    assert!(!down.up && down.reading.unwrap().lag_records == Some(58), "no figure moves with a failed poll");
    assert_eq!(poller.poll_once().await.unwrap().progress, parts(&[(0, Some(42))]));
    assert!(pg.sessions().contains(&frozen), "the old session is still there");
    signal("CONT", frozen);
    until("the old session has ended", || !pg.sessions().contains(&frozen)).await;
    assert_eq!(events(&board), ["source_lost", "source_found"]);
    assert_eq!(status(&board, "view").errors[ProgressErrorKind::Timeout as usize], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_a_frozen_server_leaks_no_sockets() {
    let pg = Postgres::start(&[]);
    let (board, mut poller) =
        one(1, &settings(pg.url(), "select 42", "count", json!({ "timeout": "100ms" })));
    poller.poll_once().await.unwrap();
    pg.order("freeze");
    let sockets = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    poller.poll_once().await.unwrap_err();
    let before = sockets();
    for _ in 0..20 {
        assert_eq!(poller.poll_once().await.unwrap_err().kind, ProgressErrorKind::Timeout);
    }
    let after = sockets();
    // Other tests of this process open and close files too.
    assert!(after < before + 15, "{before} files, then {after}");
    assert!(status(&board, "view").reading.is_none());
    pg.order("thaw");
    let began = Instant::now();
    while poller.poll_once().await.is_err() {
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(events(&board), ["source_lost", "source_found"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_a_query_that_nobody_waits_for_is_cancelled_on_the_server() {
    let pg = Postgres::start(&[]);
    let slow =
        settings(pg.url(), "select pg_sleep(600)::text, 1", "next_offset", json!({ "timeout": "500ms" }));
    let (_, mut poller) = one(1, &slow);
    for _ in 0..3 {
        assert_eq!(poller.poll_once().await.unwrap_err().kind, ProgressErrorKind::Timeout);
    }
    until("no query is left", || {
        pg.psql("select count(*) from pg_stat_activity where query like 'select pg_sleep%'") == "0"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_a_restarted_server_and_a_killed_session_cost_no_more_than_the_outage() {
    let pg = Postgres::start(&[]);
    let settings = settings(pg.url(), "select 42", "next_offset", json!({}));
    let (board, poller) = one(1, &settings);
    set_head(&board, 0, 50);
    let stop = CancellationToken::new();
    let task = tokio::spawn(poller.run(stop.clone()));
    until("it is up", || status(&board, "view").up).await;

    // A session that was closed while it was idle: not one poll fails.
    pg.psql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'soakd'");
    let polls = status(&board, "view").polls_total;
    until("it has polled again", || status(&board, "view").polls_total > polls + 2).await;
    let now = status(&board, "view");
    assert!(now.errors.iter().all(|count| *count == 0), "{now:?}");
    assert!(!events(&board).contains(&"source_lost"));

    // M4: killed without a word and away; then the figures go, and come back with the server.
    pg.order("kill");
    until("three polls are missed", || status(&board, "view").missed_polls >= 3).await;
    let down = status(&board, "view");
    assert!(!down.up && down.reading.is_none() && down.last_success_ns.is_some(), "{down:?}");
    assert!(down.errors[ProgressErrorKind::Connect as usize] >= 3, "{down:?}");
    pg.order("start");
    until("it is back", || status(&board, "view").up).await;
    assert_eq!(status(&board, "view").reading.unwrap().lag_records, Some(8));
    // On a slow machine its eight records lie there long enough for a standstill.
    let told: Vec<&str> = events(&board).into_iter().filter(|kind| !kind.starts_with("standstill")).collect();
    assert_eq!(told, ["source_lost", "source_found"]);

    stop.cancel();
    task.await.unwrap();
    until("the session is gone", || pg.sessions().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l12_a_source_that_never_answers_delays_no_other() {
    let pg = Postgres::start(&[]);
    let bad = settings(pg.url(), "select pg_sleep(600), 1", "next_offset", json!({ "timeout": "1s" }));
    let good = settings(pg.url(), "select 42", "next_offset", json!({}));
    let board = board("t", 1, &[("bad", &bad), ("good", &good)]);
    let stop = CancellationToken::new();
    let kafka = KafkaSettings::default();
    let tasks: Vec<_> = [("bad", &bad), ("good", &good)]
        .map(|(name, settings)| tokio::spawn(poller(&board, name, settings, &kafka).run(stop.clone())))
        .into();
    until("the bad one has failed twice", || status(&board, "bad").missed_polls >= 2).await;
    let (good, bad) = (status(&board, "good"), status(&board, "bad"));
    assert!(good.up && good.missed_polls == 0 && good.polls_total >= 5, "{good:?}");
    assert!(!bad.up && bad.polls_total == 0, "{bad:?}");
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_by_partition_and_run_is_asked_for_each_partition_and_this_run() {
    let pg = Postgres::start(&[]);
    pg.psql("create table events(partition int, sequence bigint, run text)");
    // The board's run is called test.
    pg.psql("insert into events values (0, 7, 'test'), (0, 99, 'other'), (2, 5, 'test'), (3, 1, 'other')");
    let query = "SELECT {partition}, max(sequence) FROM events WHERE partition = {partition} AND run = '{run}'; -- all";
    let found = ask(3, &settings(pg.url(), query, "sequence", json!({}))).await;
    assert!(found.unwrap_err().text.contains("syntax error"), "a semicolon within is not at the end");
    let query = &query.replace("; -- all", " -- all\n ; ");
    let found = ask(3, &settings(pg.url(), query, "sequence", json!({}))).await;
    assert_eq!(found, Ok(parts(&[(0, Some(7)), (1, None), (2, Some(5))])));
    let session = json!({ "session": ["create temp table mine as select '{run}' as run"] });
    let query = "select count(*) from mine where run = '{run}' and run = 'test'";
    assert_eq!(ask(3, &settings(pg.url(), query, "count", session)).await, Ok(Progress::Total(1)));
}

/// A status that says "running" says nothing: what counts is progress. Committed is not visible, so both are shown.
#[tokio::test(flavor = "multi_thread")]
async fn s8_a_system_that_ingests_nothing_stands_still_and_its_two_sources_stay_apart() {
    let pg = Postgres::start(&[]);
    pg.psql("create table committed(next bigint); insert into committed values (0)");
    pg.psql("create table visible(id int); insert into visible select generate_series(1, 10)");
    let committed = settings(pg.url(), "select 0, next from committed", "next_offset", json!({}));
    let visible = settings(pg.url(), "select count(*) from visible", "count", json!({}));
    let sources = [("committed", &committed), ("visible", &visible)];
    let board = board("t", 1, &sources);
    let stop = CancellationToken::new();
    let kafka = KafkaSettings::default();
    let tasks = sources
        .map(|(name, settings)| tokio::spawn(poller(&board, name, settings, &kafka).run(stop.clone())));
    until("both have their baseline", || sources.iter().all(|(name, _)| status(&board, name).up)).await;
    let mut head = 0;
    until("what is visible stands still", || {
        // The offsets move on, the rows do not.
        head += 10;
        set_head(&board, 0, head);
        pg.psql(&format!("update committed set next = {head}"));
        status(&board, "visible").standstills > 0
    })
    .await;
    let stood = status(&board, "visible").standstill_ns;
    until("the standstill grows", || {
        head += 10;
        set_head(&board, 0, head);
        pg.psql(&format!("update committed set next = {head}"));
        status(&board, "visible").standstill_ns > stood + 200_000_000
    })
    .await;
    let (committed, visible) = (status(&board, "committed"), status(&board, "visible"));
    assert!(committed.up && committed.standstills == 0, "{committed:?}");
    let lag =
        |status: &soakd::core::status::SourceStatus| status.reading.as_ref().unwrap().lag_records.unwrap();
    assert!(visible.up && lag(&visible) >= head - 20 && lag(&committed) <= 20, "{committed:?} {visible:?}");
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

/// A pooler hands each statement to another server session: what was prepared in one is unknown in the next.
#[tokio::test(flavor = "multi_thread")]
async fn s5_behind_a_transaction_pooler_no_poll_fails() {
    let pg = Postgres::start(&[]);
    let pooler = Service::start("pgbouncer", &[pg.port(), "default_pool_size=2"]);
    // Six sources and two servers; while one sleeps, the others change places.
    let query = "select pg_backend_pid() * 0 + 42 from pg_sleep(random() * 0.02)";
    let settings = settings(pooler.get("PGURL"), query, "count", json!({}));
    let polls = (0..6).map(|_| {
        let settings = settings.clone();
        tokio::spawn(async move {
            let (board, mut poller) = one(1, &settings);
            for _ in 0..25 {
                assert_eq!(poller.poll_once().await.unwrap().progress, Progress::Total(42));
            }
            poller.close().await;
            assert_eq!(events(&board), Vec::<&str>::new());
        })
    });
    for poll in polls.collect::<Vec<_>>() {
        poll.await.unwrap();
    }
    assert!(pg.sessions().len() <= 2, "{:?}", pg.sessions());
}
