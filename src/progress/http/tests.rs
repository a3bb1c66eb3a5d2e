use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::core::status::ProgressErrorKind;
use crate::progress::preset;
use crate::progress::web::tests::{Deed, Door, ask, ok, poller, reply};

fn parts(values: &[(u32, Option<u64>)]) -> Progress {
    Progress::Partitions(values.iter().copied().collect())
}

/// Asks a server that answers with this body.
async fn read(partitions: u32, body: &str, mut settings: Value) -> Result<Progress, ProbeError> {
    let answer = reply("200 OK", "", body);
    let door = Door::open(move |_, _| Deed::Answer(answer.clone()));
    settings["kind"] = "http".into();
    settings["url"] = door.url.into();
    ask(partitions, settings).await
}

#[tokio::test]
async fn values_are_read_out_of_json_of_every_form() {
    let pointer = |pointer: &str, value: &str| json!({ "json_pointer": pointer, "value": value });
    let rows = json!({ "rows": "/r", "partition": "/p", "json_pointer": "/o", "value": "next_offset" });
    let places = json!({ "rows": "/r", "json_pointer": "/o", "value": "next_offset" });
    let topics = json!({
        "rows": "/", "topic": "/t", "partition": "/p", "json_pointer": "/o", "value": "next_offset"
    });
    for (body, settings, expected) in [
        (r#"{"count": 12}"#, pointer("/count", "count"), Progress::Total(12)),
        (r#"{"count": "12"}"#, pointer("/count", "count"), Progress::Total(12)),
        (r#"{"a": [{"count": 12.0}]}"#, pointer("/a/0/count", "count"), Progress::Total(12)),
        ("12", pointer("/", "count"), Progress::Total(12)),
        (r#"{"count": null}"#, pointer("/count", "count"), Progress::NoData("the count is null".to_owned())),
        (r#"{"lag": 0.25}"#, pointer("/lag", "lag_seconds"), Progress::Total(250_000_000)),
        ("[5, null, \"7\"]", pointer("/", "next_offset"), parts(&[(0, Some(5)), (1, None), (2, Some(7))])),
        (r#"{"o": {"1": 5, "0": 7}}"#, pointer("/o", "sequence"), parts(&[(0, Some(7)), (1, Some(5))])),
        (r#"{"o": {}}"#, pointer("/o", "sequence"), Progress::NoData("no rows".to_owned())),
        (
            r#"{"r": [{"p": 2, "o": 5}, {"p": "0", "o": "9007199254740993"}]}"#,
            rows.clone(),
            parts(&[(0, Some(9_007_199_254_740_993)), (2, Some(5))]),
        ),
        (r#"{"r": []}"#, rows, Progress::NoData("no rows".to_owned())),
        (r#"{"r": [{"o": 5}, {"o": 6}]}"#, places.clone(), parts(&[(0, Some(5)), (1, Some(6))])),
        (r#"{"r": {"3": {"o": 5}}}"#, places, parts(&[(3, Some(5))])),
        (r#"[{"t": "u", "p": 0, "o": 1}, {"t": "t", "p": 0, "o": 2}]"#, topics, parts(&[(0, Some(2))])),
    ] {
        assert_eq!(read(4, body, settings.clone()).await, Ok(expected), "{body} {settings}");
    }
}

#[tokio::test]
async fn values_are_read_out_of_text_by_a_regular_expression() {
    let regex = |regex: &str, value: &str| json!({ "regex": regex, "value": value });
    let lines = r"(?m)^(?<partition>\d+)\t(?<value>\S+)$";
    for (body, settings, expected) in [
        ("12\n", regex(r"(\d+)", "count"), Progress::Total(12)),
        // The line break that a text ends with is not in the way of its end.
        ("12\n", regex(r"^(\d+)$", "count"), Progress::Total(12)),
        ("rows 12\r\n\r\n", regex(r"(\d+)$", "count"), Progress::Total(12)),
        ("rows: 12, errors: 3", regex(r"rows: (\d+)", "count"), Progress::Total(12)),
        ("offset-12", regex(r"(\d+)", "count"), Progress::Total(12)),
        ("1764540000.123", regex(r"^(\d+)\.", "count"), Progress::Total(1_764_540_000)),
        (
            "1\t10\n0\t\\N\n",
            json!({ "regex": r"(?m)^(?<partition>\d+)\t(?:(?<value>\d+)|\\N)$", "value": "sequence" }),
            parts(&[(0, None), (1, Some(10))]),
        ),
        // Nor is it taken from who asks for it.
        (
            "0=5\n2=6\n",
            regex(r"(?<partition>\d)=(?<value>\d)\n", "sequence"),
            parts(&[(0, Some(5)), (2, Some(6))]),
        ),
        ("0\t5\n2\t6\n", regex(lines, "sequence"), parts(&[(0, Some(5)), (2, Some(6))])),
        ("", regex(lines, "sequence"), Progress::NoData("no rows".to_owned())),
        (
            "t/0=1 u/0=2",
            regex(r"(?<topic>\w)/(?<partition>\d)=(?<value>\d)", "next_offset"),
            parts(&[(0, Some(1))]),
        ),
        ("<html>12</html>", regex(r"<html>(\d+)", "count"), Progress::Total(12)),
    ] {
        assert_eq!(read(4, body, settings.clone()).await, Ok(expected), "{body} {settings}");
    }
}

#[tokio::test]
async fn m3_rubbish_is_an_error_by_its_kind_and_never_a_figure() {
    use ProgressErrorKind::{BadValue, Shape};
    let json = json!({ "json_pointer": "/count", "value": "count" });
    let text = json!({ "regex": r"(\d+)", "value": "count" });
    for (body, settings, kind, says) in [
        ("NaN", &json, Shape, "no JSON"),
        (r#"{"count": NaN}"#, &json, Shape, "no JSON"),
        ("", &json, Shape, "the answer is empty"),
        (r#"{"count": -5}"#, &json, BadValue, "\"-5\" is negative"),
        (r#"{"count": 1e400}"#, &json, BadValue, "out of range"),
        (r#"{"count": "+Inf"}"#, &json, BadValue, "\"+Inf\" is not a number"),
        (r#"{"count": 1.5}"#, &json, BadValue, "\"1.5\" is not a whole number"),
        (r#"{"count": true}"#, &json, BadValue, "is true, not a number"),
        (r#"{"total": 12}"#, &json, Shape, "nothing at \"/count\"; it is {\"total\":12}"),
        (r#"{"count": [[1]]}"#, &json, Shape, "no number but [1]"),
        (r#"{"count": [1, 2]}"#, &json, Shape, "2 rows of 2 columns"),
        (r#"{"count": 12"#, &json, Shape, "no JSON"),
        (r#"{"count": 12}{"count": 13}"#, &json, Shape, "no JSON"),
        ("<html><body>502 Bad Gateway</body></html>", &text, Shape, "a page for people"),
        ("NaN", &text, Shape, "finds nothing in the answer: NaN"),
        ("+Inf", &text, Shape, "finds nothing"),
        ("", &text, Shape, "it is empty"),
        ("-5", &text, BadValue, "takes \"5\" out of a longer number"),
        ("1e400", &text, BadValue, "takes \"1\" out of a longer number"),
        ("12.5", &text, BadValue, "takes \"12\" out of a longer number"),
        ("1,234", &text, BadValue, "takes \"1\" out of a longer number"),
        ("1\u{202f}234", &text, BadValue, "takes \"1\" out of a longer number"),
        ("12 of 13", &text, Shape, "finds 2 values"),
        ("99999999999999999999", &text, BadValue, "above 2^63 - 1"),
    ] {
        let error = read(4, body, settings.clone()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{body}: {error}");
        assert!(error.text.contains(says), "{body}: {error}");
    }
    let signed = json!({ "regex": r"count -?(\d+)", "value": "count" });
    let error = read(2, "count -5", signed.clone()).await.unwrap_err();
    assert!(error.text.contains("takes \"5\" out of a longer number"), "{error}");
    assert_eq!(read(2, "count 5", signed).await, Ok(Progress::Total(5)));
    let by_partition = json!({ "json_pointer": "/", "value": "next_offset" });
    let error = read(2, "[1, 2, 3]", by_partition).await.unwrap_err();
    assert!(error.text.contains("partition 2 is not one of the stream's 2"), "{error}");
}

/// A source as a preset fills it in.
fn preset(name: &str, object: &str, url: &str) -> Value {
    let mut source = json!({ "preset": name, "object": object, "url": url });
    let settings = json!({ "progress": { "view": source } });
    let fillings = preset::fill(&settings).unwrap();
    source.as_object_mut().unwrap().extend(fillings[0].values.as_object().unwrap().clone());
    source
}

#[tokio::test]
async fn the_preset_of_clickhouse_asks_for_the_highest_sequence_by_partition() {
    // As ClickHouse before 25.8 writes 64-bit numbers, and as it writes them since.
    for number in ["\"41\"", "41"] {
        let body = format!(
            r#"{{"meta":[{{"name":"partition","type":"UInt32"}},{{"name":"max(sequence)","type":"UInt64"}}],"data":[[0,{number}],[1,"7"]],"rows":2}}"#
        );
        let door = Door::open(move |_, _| ok(&body));
        let found = ask(2, preset("clickhouse", "db.events", &door.url)).await;
        assert_eq!(found, Ok(parts(&[(0, Some(41)), (1, Some(7))])));
        let request = door.requests().remove(0);
        assert!(request.starts_with("POST /?wait_end_of_query=1&max_threads=1 HTTP/1.1\r\n"), "{request}");
        let sql = "SELECT partition, max(sequence) FROM db.events GROUP BY partition FORMAT JSONCompact";
        assert!(request.ends_with(&format!("\r\n\r\n{sql}")), "{request}");
    }
}

#[tokio::test]
async fn the_preset_of_connect_takes_the_offsets_of_the_streams_topic() {
    let body = r#"{"offsets":[{"partition":{"kafka_partition":0,"kafka_topic":"t"},"offset":{"kafka_offset":100}},
        {"partition":{"kafka_partition":0,"kafka_topic":"other"},"offset":{"kafka_offset":5}}]}"#;
    let door = Door::open(|_, _| ok(body));
    assert_eq!(ask(2, preset("connect", "my sink", &door.url)).await, Ok(parts(&[(0, Some(100))])));
    assert_eq!(door.paths(), ["/connectors/my%20sink/offsets"]);
    let empty = Door::open(|_, _| ok(r#"{"offsets":[]}"#));
    assert_eq!(ask(2, preset("connect", "s", &empty.url)).await, Ok(Progress::NoData("no rows".to_owned())));
    let missing = r#"{"error_code":404,"message":"Connector s not found"}"#;
    let none = Door::open(|_, _| Deed::Answer(reply("404 Not Found", "", missing)));
    let error = ask(2, preset("connect", "s", &none.url)).await.unwrap_err();
    assert!(error.text.contains("404 Not Found") && error.text.contains("Connector s not found"), "{error}");
}

/// A job manager with a job of two sources, by the number of its start; 0 when it has ended.
fn flink(start: Arc<AtomicUsize>, partitions: usize) -> Door {
    Door::open(move |_, request| {
        let start = start.load(Ordering::Relaxed);
        let job = format!("job{}", if start == 0 { 2 } else { start });
        let state = if start == 0 { "CANCELED" } else { "RUNNING" };
        let path = request.split(' ').nth(1).unwrap();
        let id = |partition: usize| {
            format!("Source__t[1].KafkaSourceReader.topic.t.partition.{partition}.currentOffset")
        };
        if path == "/jobs/overview" {
            return ok(&format!(
                r#"{{"jobs":[{{"jid":"old","name":"copy","state":"FAILED"}},{{"jid":"{job}","name":"copy","state":"{state}"}},
                {{"jid":"x","name":"copy2","state":"RUNNING"}}]}}"#
            ));
        }
        if path == format!("/jobs/{job}") {
            return ok(
                r#"{"vertices":[{"id":"v1","name":"Source: u[1]"},{"id":"v2","name":"Source: t[1] -> Calc[2]"},
                {"id":"v3","name":"Sink: s"}]}"#,
            );
        }
        if path == format!("/jobs/{job}/vertices/v1/subtasks/metrics") {
            return ok(
                r#"[{"id":"Source__u[1].KafkaSourceReader.topic.u.partition.0.currentOffset"},{"id":"numRecordsIn"}]"#,
            );
        }
        if path == format!("/jobs/{job}/vertices/v2/subtasks/metrics") {
            let ids: Vec<String> = (0..partitions).map(|p| format!(r#"{{"id":"{}"}}"#, id(p))).collect();
            return ok(&format!(
                r#"[{{"id":"Source__t[1].numRecordsIn"}},{{"id":"Source__t[1].pendingRecords"}},{}]"#,
                ids.join(",")
            ));
        }
        // The figures of a job that has ended are served, too.
        let figures = |start: &usize| {
            path.strip_prefix(&format!("/jobs/job{start}/vertices/v2/subtasks/metrics?agg=max&get="))
        };
        let Some((start, get)) = (1..3).find_map(|start| Some((start, figures(&start)?))) else {
            return Deed::Answer(reply("404 Not Found", "", r#"{"errors":["Job not found"]}"#));
        };
        assert!(path.len() < 4000, "{path}");
        let ids = get.split(',').map(|id| id.replace("%5B", "[").replace("%5D", "]"));
        let values: Vec<String> = ids.map(|id| format!(r#"{{"id":"{id}","max":{start}.25E2}}"#)).collect();
        ok(&format!("[{}]", values.join(",")))
    })
}

#[tokio::test]
async fn the_preset_of_flink_finds_the_job_and_finds_it_again_after_a_restart() {
    let start = Arc::new(AtomicUsize::new(1));
    let door = flink(Arc::clone(&start), 2);
    let mut poller = poller(2, preset("flink", "copy", &door.url));
    let expected = parts(&[(0, Some(125)), (1, Some(125))]);
    let looks = [
        "/jobs/overview",
        "/jobs/job1",
        "/jobs/job1/vertices/v1/subtasks/metrics",
        "/jobs/job1/vertices/v2/subtasks/metrics",
    ];
    assert_eq!(poller.poll_once().await.unwrap().progress, expected);
    assert_eq!(door.paths()[..4], looks);
    // A job that was started anew is found in the same poll, although the old one's figures are still served.
    start.store(2, Ordering::Relaxed);
    let expected = parts(&[(0, Some(225)), (1, Some(225))]);
    assert_eq!(poller.poll_once().await.unwrap().progress, expected);
    assert_eq!(door.paths().len(), 5);
    // A job that has ended tells nothing, though the server still knows its last figures.
    start.store(0, Ordering::Relaxed);
    let error = poller.poll_once().await.unwrap_err();
    assert!(error.text.starts_with("the look-up \"job\" finds nothing"), "{error}");
    assert_eq!(door.connections(), 1);
}

#[tokio::test]
async fn what_a_look_up_finds_is_asked_for_in_portions_and_anew_at_each_poll() {
    let door = flink(Arc::new(AtomicUsize::new(1)), 128);
    let expected: Vec<_> = (0..128).map(|partition| (partition, Some(125))).collect();
    assert_eq!(ask(128, preset("flink", "copy", &door.url)).await, Ok(parts(&expected)));
    assert!(door.paths().len() > 6);
    // Partitions of which the job has said nothing yet may be there at the next poll.
    let early = flink(Arc::new(AtomicUsize::new(1)), 1);
    let mut poller = poller(2, preset("flink", "copy", &early.url));
    for _ in 0..2 {
        assert_eq!(poller.poll_once().await.unwrap().progress, parts(&[(0, Some(125))]));
        assert_eq!(early.paths().len(), 5);
    }
}

#[tokio::test]
async fn a_look_up_that_finds_nothing_or_too_much_says_so() {
    let door = flink(Arc::new(AtomicUsize::new(1)), 1);
    let error = ask(1, preset("flink", "other", &door.url)).await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Query);
    assert!(error.text.starts_with("the look-up \"job\" finds nothing: no row at \"/jobs\""), "{error}");
    // Both jobs read the topic.
    let twice = Door::open(|_, request| match request.split(' ').nth(1).unwrap() {
        "/jobs" => ok(r#"[{"id":"a"},{"id":"b"}]"#),
        _ => ok("1"),
    });
    let settings = json!({
        "kind": "http", "url": twice.url, "path": "/of/{job}", "json_pointer": "/", "value": "count",
        "lookup": [{ "name": "job", "path": "/jobs", "take": "/id" }]
    });
    let error = ask(1, settings).await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Shape);
    assert!(error.text.contains("find 2 of what is asked about, not one"), "{error}");
}
