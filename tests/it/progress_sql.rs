//! Progress by SQL, against a real PostgreSQL.

mod presets;
mod security;
mod values;

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

/// A status that says "running" says nothing: what counts is progress. Committed is not visible, so both are shown.
#[tokio::test(flavor = "multi_thread")]
async fn s8_a_system_that_ingests_nothing_stands_still_and_its_two_sources_stay_apart() {
    let pg = Postgres::start(&[]);
    pg.psql("create table committed(next bigint); insert into committed values (0)");
    pg.psql("create table visible(id int); insert into visible select generate_series(1, 10)");
    let soon = || json!({ "standstill_after": "1s" });
    let committed = settings(pg.url(), "select 0, next from committed", "next_offset", soon());
    let visible = settings(pg.url(), "select count(*) from visible", "count", soon());
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
