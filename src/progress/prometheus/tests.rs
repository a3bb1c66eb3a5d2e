use serde_json::{Value, json};

use super::*;
use crate::progress::web::tests::{Deed, Door, ask, ok, reply};

const METRICS: &str = r#"# TYPE n_total counter
n_total{topic="soak",partition="0",instance="a"} 10
n_total{topic="soak",partition="0",instance="b"} 1
n_total{topic="soak",partition="1",instance="a"} 1.2e+01
offset{topic="soak",partition="0"} 10
offset{topic="soak",partition="1"} -1
delay 0.25
bad NaN
behind{topic="soak",partition="0"} 30
behind{topic="soak",partition="1"} -12
"#;

fn parts(values: &[(u32, Option<u64>)]) -> Progress {
    Progress::Partitions(values.iter().copied().collect())
}

async fn read(answer: &str, mut settings: Value) -> Result<Progress, ProbeError> {
    let answer = answer.to_owned();
    let door = Door::open(move |_, _| Deed::Answer(answer.clone()));
    settings["kind"] = "prometheus".into();
    settings["url"] = door.url.into();
    ask(2, settings).await
}

#[tokio::test]
async fn series_of_a_target_are_added_up_or_taken_by_partition() {
    let sum = |series: &str, value: &str| json!({ "series": series, "value": value });
    let by = |series: &str, value: &str| json!({ "series": series, "value": value, "partition_label": "partition" });
    for (settings, expected) in [
        (sum("n_total", "count"), Progress::Total(23)),
        (sum(r#"n_total{instance="a"}"#, "count"), Progress::Total(22)),
        (sum("delay", "lag_seconds"), Progress::Total(250_000_000)),
        (by("n_total", "lag_records"), parts(&[(0, Some(11)), (1, Some(12))])),
        (by("offset", "last_offset"), parts(&[(0, Some(10)), (1, None)])),
        // What one partition is ahead by is not taken off another's lag.
        (sum("behind", "lag_records"), Progress::Total(30)),
        (by("behind", "lag_records"), parts(&[(0, Some(30)), (1, Some(0))])),
        (
            sum(r#"offset{partition="1"}"#, "lag_records"),
            Progress::NoData("the value is -1: none yet".to_owned()),
        ),
        (by("offset", "lag_records"), parts(&[(0, Some(10)), (1, None)])),
        (sum("missing", "count"), Progress::NoData("the target has no series missing".to_owned())),
    ] {
        assert_eq!(read(&reply("200 OK", "", METRICS), settings.clone()).await, Ok(expected), "{settings}");
    }
    use ProgressErrorKind::{BadValue, Shape};
    for (settings, kind, says) in [
        (sum("bad", "count"), BadValue, "\"NaN\" is not a number"),
        (sum("offset", "lag_records"), BadValue, "\"-1\" says that there is none yet"),
        (sum("offset", "count"), BadValue, "\"-1\" is negative"),
        (sum("offset", "event_time"), Shape, "2 series match, and value = \"event_time\" cannot be added up"),
        (by("n_total", "next_offset"), Shape, "partition 0 comes twice"),
        (by("delay", "lag_records"), Shape, "no label \"partition\""),
    ] {
        let error = read(&reply("200 OK", "", METRICS), settings.clone()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{settings}: {error}");
        assert!(error.text.contains(says), "{settings}: {error}");
    }
}

#[tokio::test]
async fn m3_a_target_that_answers_something_else_is_an_error() {
    let settings = json!({ "series": "n", "value": "count" });
    let open = "Content-Type: application/openmetrics-text; version=1.0.0\r\n";
    let whole = read(&reply("200 OK", open, "n 1\n# EOF\n"), settings.clone()).await;
    assert_eq!(whole, Ok(Progress::Total(1)));
    for (answer, says) in [
        (reply("200 OK", open, "n 1\n"), "not whole"),
        // Perhaps it was 12.
        (reply("200 OK", "", "m 7\nn 1"), "not whole"),
        (reply("200 OK", "", ""), "the answer is empty"),
        (reply("200 OK", "", "n{a=\"b\"} 1\nn{a=\"b\"} 2\n"), "lists one series twice"),
        (reply("200 OK", "", "{\"n\": 1}"), "no text of metrics, a line of it cannot be read"),
        (reply("200 OK", "", "hello"), "no text of metrics, nothing in it is a series"),
        (reply("200 OK", "", "<html>n 1</html>"), "a page for people"),
    ] {
        let error = read(&answer, settings.clone()).await.unwrap_err();
        assert_eq!(error.kind, ProgressErrorKind::Shape, "{error}");
        assert!(error.text.contains(says), "{error}");
    }
}

#[test]
fn a_counter_that_is_gone_keeps_what_it_had_counted() {
    let series = |task: &str, value: &str| Series {
        labels: BTreeMap::from([("task".to_owned(), task.to_owned())]),
        value: value.to_owned(),
        timestamp: None,
    };
    let mut counted = Counted::default();
    let mut total = |found: Vec<Series>| -> u64 {
        counted.with_gone(found).iter().map(|series| series.value.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(total(vec![series("a", "1000"), series("b", "500")]), 1500);
    assert_eq!(total(vec![series("a", "1100")]), 1600);
    assert_eq!(total(vec![series("a", "1200"), series("b", "600")]), 1800);
}

#[tokio::test]
async fn a_server_is_asked_by_a_query_and_every_form_of_its_answer_is_read_or_refused() {
    let door = Door::open(|_, _| ok(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#));
    let url = format!("{}/prom/", door.url);
    let settings =
        json!({ "kind": "prometheus", "url": url, "query": "sum(n{a=\"b\"}) + 1", "value": "count" });
    let none = Progress::NoData("the query returns no series".to_owned());
    assert_eq!(ask(2, settings).await, Ok(none));
    assert_eq!(door.paths(), ["/prom/api/v1/query?query=sum%28n%7Ba%3D%22b%22%7D%29%20%2B%201"]);

    let count = json!({ "query": "q", "value": "count" });
    let offsets = json!({ "query": "q", "value": "next_offset", "partition_label": "p" });
    let success = |kind: &str, result: &str| {
        reply(
            "200 OK",
            "",
            &format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#),
        )
    };
    let two = r#"[{"metric":{"p":"0"},"value":[1.5,"10"]},{"metric":{"p":"1"},"value":[1.5,"12"]}]"#;
    let histogram = r#"[{"metric":{},"histogram":[1.5,{}]}]"#;
    assert_eq!(read(&success("vector", two), count.clone()).await, Ok(Progress::Total(22)));
    assert_eq!(read(&success("vector", two), offsets).await, Ok(parts(&[(0, Some(10)), (1, Some(12))])));
    assert_eq!(read(&success("scalar", r#"[1.5,"7"]"#), count.clone()).await, Ok(Progress::Total(7)));
    let failed = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
    use ProgressErrorKind::{Query, Shape};
    for (answer, kind, says) in [
        (success("matrix", "[]"), Shape, "returns a matrix"),
        (success("vector", histogram), Shape, "returns a histogram"),
        (reply("200 OK", "", failed), Query, "the query failed: parse error"),
        (reply("400 Bad Request", "", failed), Query, "400 Bad Request"),
        (reply("200 OK", "", "{}"), Shape, "not that of a Prometheus server"),
    ] {
        let error = read(&answer, count.clone()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.text.contains(says), "{error}");
    }
}
