//! What a query may be, and what its answers are read as.

use serde_json::json;
use soakd::core::lag::Progress;
use soakd::core::status::ProgressErrorKind;

use super::{ask, parts, settings};
use crate::postgres::Postgres;

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
        // Two clocks differ: no lag, and counted.
        ("", "select interval '-1 s'".into(), "lag_seconds", time(0)),
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
