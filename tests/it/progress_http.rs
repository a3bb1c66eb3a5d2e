//! Progress over HTTP: a daemon whose source answers rubbish, and a real Prometheus as target and as server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use soakd::core::lag::Progress;
use soakd::core::lock::lock;
use soakd::core::status::ProgressErrorKind;
use soakd::kafka::settings::KafkaSettings;
use soakd::progress::ProbeError;
use soakd::progress::settings::SourceSettings;

use crate::board::{STREAM, board, poller};
use crate::daemon;
use crate::lag::{of, shown};
use crate::mock::MockKafka;
use crate::services::Service;

/// Serves whatever the body is at the time, one request a connection.
fn serve(body: &Arc<Mutex<String>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = Arc::clone(body);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let body = lock(&body).clone();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    address
}

#[test]
fn m3_rubbish_from_a_scraped_target_is_counted_by_reason_and_stamps_nothing() {
    let kafka = MockKafka::start(1);
    let body = Arc::new(Mutex::new(r#"{"count": 0}"#.to_owned()));
    let source = format!(
        "[progress.rows]\nkind = \"http\"\nstream = \"main\"\nurl = \"http://{}\"\njson_pointer = \"/count\"\nvalue = \"count\"\ninterval = \"100ms\"\n",
        serve(&body)
    );
    let daemon = daemon::start(&(kafka.settings("", "", "rate = 100\nkey = { kind = \"none\" }") + &source));
    daemon.wait_metric(30, &of("progress_up", "rows"), |up| up == 1.0);
    let errors =
        |kind: &str| format!("progress_errors_total{{source=\"rows\",stream=\"main\",kind=\"{kind}\"}}");
    for (rubbish, kind) in [
        ("NaN".to_owned(), "shape"),
        (String::new(), "shape"),
        (r#"{"count": -5}"#.to_owned(), "bad_value"),
        (r#"{"count": 1e400}"#.to_owned(), "bad_value"),
        (r#"{"count": "+Inf"}"#.to_owned(), "bad_value"),
        ("<html>count 12</html>".to_owned(), "shape"),
        ("9".repeat(10_000_000), "shape"),
    ] {
        let before = daemon.metric(&errors(kind));
        *lock(&body) = rubbish;
        daemon.wait_metric(30, &errors(kind), |count| count >= before + 2.0);
    }
    let stamp = || daemon.metric(&of("progress_last_success_timestamp_seconds", "rows"));
    let stamped = stamp();
    daemon.wait_metric(30, &errors("shape"), |count| count >= 10.0);
    assert_eq!((stamp(), shown(&daemon, "progress_up", "rows")), (stamped, Some(0.0)));
    assert_eq!(shown(&daemon, "lag_records", "rows"), None);
    *lock(&body) = r#"{"count": "1000000"}"#.to_owned();
    daemon.wait_metric(30, &of("progress_up", "rows"), |up| up == 1.0);
    assert!(stamp() > stamped && shown(&daemon, "lag_records", "rows").is_some());
    let ended = daemon.terminate();
    ended.good();
    assert_eq!(ended.log.matches("source lost").count(), 1, "one line an outage: {}", ended.log);
}

async fn ask(partitions: u32, url: &str, more: Value) -> Result<Progress, ProbeError> {
    let mut settings = json!({ "kind": "prometheus", "stream": STREAM, "url": url, "timeout": "10s" });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let settings: SourceSettings = serde_json::from_value(settings).unwrap();
    assert_eq!(settings.problems("progress.view"), []);
    let board = board("t", partitions, &[("view", &settings)]);
    let mut poller = poller(&board, "view", &settings, &KafkaSettings::default());
    let polled = poller.poll_once().await.map(|polled| polled.progress);
    poller.close().await;
    polled
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_is_asked_as_server_and_as_target() {
    let metrics =
        "# TYPE rows_total counter\nrows_total{partition=\"0\"} 10\nrows_total{partition=\"1\"} 1.2e+01\n";
    let target = serve(&Arc::new(Mutex::new(metrics.to_owned())));
    let server = Service::start("prometheus", &[&target.to_string()]);
    let url = server.get("PROMETHEUS_URL");
    let sum = json!({ "query": "sum(rows_total{job=\"soakd\"})", "value": "count" });
    let began = Instant::now();
    loop {
        match ask(2, url, sum.clone()).await {
            Ok(Progress::NoData(_)) if began.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            found => break assert_eq!(found, Ok(Progress::Total(22))),
        }
    }
    let parts = Progress::Partitions([(0, Some(10)), (1, Some(12))].into());
    let by = json!({ "query": "rows_total", "value": "next_offset", "partition_label": "partition" });
    assert_eq!(ask(2, url, by).await, Ok(parts.clone()));
    let wrong = ask(2, url, json!({ "query": "sum(", "value": "count" })).await.unwrap_err();
    assert_eq!(wrong.kind, ProgressErrorKind::Query);
    assert!(wrong.text.contains("400 Bad Request") && wrong.text.contains("parse error"), "{wrong}");
    let range = ask(2, url, json!({ "query": "rows_total[1m]", "value": "count" })).await.unwrap_err();
    assert!(range.text.contains("returns a matrix"), "{range}");
    assert_eq!(
        ask(2, url, json!({ "query": "scalar(sum(rows_total))", "value": "count" })).await,
        Ok(Progress::Total(22))
    );

    let own = format!("{url}/metrics");
    let info = json!({ "series": "prometheus_build_info", "value": "count" });
    assert_eq!(ask(2, &own, info).await, Ok(Progress::Total(1)));
    let appended = json!({ "series": "prometheus_tsdb_head_samples_appended_total", "value": "count" });
    assert!(matches!(ask(2, &own, appended).await, Ok(Progress::Total(1..))));
    let requests = json!({ "series": "prometheus_http_requests_total{handler=\"/api/v1/query\",code=~\"2..\"}", "value": "count" });
    assert!(matches!(ask(2, &own, requests).await, Ok(Progress::Total(1..))));
    let by = json!({ "series": "rows_total", "value": "next_offset", "partition_label": "partition" });
    assert_eq!(ask(2, &format!("http://{target}/metrics"), by).await, Ok(parts));
}
