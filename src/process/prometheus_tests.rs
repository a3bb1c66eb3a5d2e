//! An exporter that plays what a test needs.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use super::*;
use crate::core::lock::lock;

/// Answers every question with what was said last; an empty text is a closed door.
struct Exporter {
    url: String,
    says: Arc<Mutex<String>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Exporter {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let (says, asked) = (Arc::<Mutex<String>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (text, heard) = (Arc::clone(&says), Arc::clone(&asked));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 8192];
                let length = stream.read(&mut request).unwrap_or(0);
                lock(&heard).push(String::from_utf8_lossy(&request[..length]).into_owned());
                let body = lock(&text).clone();
                if !body.is_empty() {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all((head + &body).as_bytes());
                }
            }
        });
        Self { url, says, asked }
    }

    fn says(&self, text: &str) {
        text.clone_into(&mut lock(&self.says));
    }
}

fn watch(settings: serde_json::Value) -> PrometheusWatch {
    let settings: PrometheusProcessSettings = serde_json::from_value(settings).unwrap();
    let mut problems = Vec::new();
    settings.access().refuse(&mut |key, what| problems.push(format!("{key}: {what}")));
    assert!(problems.is_empty(), "{problems:?}");
    PrometheusWatch::new(&settings, Clock::start())
}

async fn look(watch: &mut PrometheusWatch, status: &mut ProcessStatus) -> (Change, Result<(), String>) {
    let (change, result) = watch.look(status).await;
    (change, result.map(drop).map_err(|error| error.to_string()))
}

fn stamped(cpu: f64, at_ms: u64) -> String {
    format!(
        "process_cpu_seconds_total {cpu} {at_ms}\nprocess_resident_memory_bytes 4096 {at_ms}\nprocess_start_time_seconds 1000 {at_ms}\n"
    )
}

#[tokio::test]
async fn cpu_is_over_the_time_of_the_samples_whenever_we_ask() {
    let exporter = Exporter::open();
    let mut watch = watch(json!({ "url": exporter.url }));
    let mut status = ProcessStatus::default();
    exporter.says(&stamped(100.0, 1_000_000));
    assert_eq!(look(&mut watch, &mut status).await, (Change::Found, Ok(())));
    assert_eq!((status.cpu_unsplit_ns, status.memory_rss_bytes), (None, Some(4096)));
    // The exporter's next sample is of 10 s later.
    exporter.says(&stamped(105.0, 1_010_000));
    look(&mut watch, &mut status).await.1.unwrap();
    assert_eq!((status.cpu_unsplit_ns, status.cpu_cores), (Some(5_000_000_000), Some(0.5)));
    // Asked again before it takes another.
    look(&mut watch, &mut status).await.1.unwrap();
    assert_eq!((status.cpu_unsplit_ns, status.cpu_cores), (Some(5_000_000_000), Some(0.5)));
}

#[tokio::test]
async fn a_counter_that_fell_with_its_process_is_new_in_whole_and_a_restart() {
    let exporter = Exporter::open();
    let mut watch = watch(json!({ "url": exporter.url }));
    let mut status = ProcessStatus::default();
    for (cpu, at) in [(100.0, 0), (104.0, 10_000)] {
        exporter.says(&stamped(cpu, at));
        look(&mut watch, &mut status).await.1.unwrap();
    }
    // No series at all: the process is not there, and that is said at once.
    exporter.says("other 1\n");
    let (change, result) = look(&mut watch, &mut status).await;
    assert_eq!(change, Change::Lost);
    assert!(result.unwrap_err().contains("the target has no series process_cpu_seconds_total{}"));
    assert_eq!((status.up, status.cpu_unsplit_ns), (false, Some(4_000_000_000)));
    exporter.says(&stamped(3.0, 20_000).replace(" 1000 ", " 2000 "));
    assert_eq!(look(&mut watch, &mut status).await, (Change::Restarted, Ok(())));
    assert_eq!((status.restarts, status.cpu_unsplit_ns, status.cpu_cores), (1, Some(7_000_000_000), None));
    // It falls and nothing was started: no reason to count anything again.
    exporter.says(&stamped(1.0, 30_000).replace(" 1000 ", " 2000 "));
    assert_eq!(look(&mut watch, &mut status).await, (Change::Same, Ok(())));
    assert_eq!((status.restarts, status.cpu_unsplit_ns), (1, Some(7_000_000_000)));
}

#[tokio::test]
async fn m4_a_door_that_closes_leaves_no_gauge_and_is_a_loss_at_the_third_time() {
    let exporter = Exporter::open();
    let mut watch = watch(json!({ "url": exporter.url, "timeout": "5s" }));
    let mut status = ProcessStatus::default();
    exporter.says(&stamped(100.0, 0));
    look(&mut watch, &mut status).await.1.unwrap();
    exporter.says("");
    for expected in [Change::Same, Change::Same, Change::Lost, Change::Same] {
        let (change, result) = look(&mut watch, &mut status).await;
        assert_eq!(change, expected);
        assert!(result.is_err() && !status.up && status.memory_rss_bytes.is_none());
    }
    for (text, says) in [
        ("<html>sign in</html>", "a page for people"),
        ("hello", "no text of metrics"),
        (
            "process_open_fds{job=\"a\"} 1\nprocess_open_fds{job=\"b\"} 1\n",
            "differ in job; choose one by labels",
        ),
    ] {
        exporter.says(text);
        let error = look(&mut watch, &mut status).await.1.unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_server_is_asked_once_for_values_and_their_times() {
    let exporter = Exporter::open();
    let url = exporter.url.replace("/metrics", "");
    let mut watch = watch(json!({ "url": url, "server": true, "labels": "job=\"sut\"" }));
    let mut status = ProcessStatus::default();
    let answer = |cpu: f64, at: f64| {
        json!({ "status": "success", "data": { "resultType": "vector", "result": [
            { "metric": { "__name__": "process_cpu_seconds_total", "job": "sut", "soakd_part": "value" },
              "value": [at + 7.0, cpu.to_string()] },
            { "metric": { "job": "sut", "soakd_part": "time" }, "value": [at + 7.0, at.to_string()] },
        ] } })
        .to_string()
    };
    for (cpu, at) in [(10.0, 1_764_540_000.5), (40.0, 1_764_540_015.5)] {
        exporter.says(&answer(cpu, at));
        look(&mut watch, &mut status).await.1.unwrap();
    }
    assert_eq!(status.cpu_unsplit_ns, Some(30_000_000_000));
    assert!(
        (status.cpu_cores.unwrap() - 2.0).abs() < 1e-6,
        "over 15 s of samples, not over our milliseconds"
    );
    let asked = lock(&exporter.asked).clone();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].starts_with("GET /api/v1/query?query=label_replace%28%7B__name__%3D~"), "{}", asked[0]);
}

#[test]
fn a_query_asks_for_all_names_at_once() {
    let query = query(ProcessSeries::Process, "job=\"sut\"");
    assert!(
        query.starts_with("label_replace({__name__=~\"process_cpu_seconds_total|process_resident"),
        "{query}"
    );
    assert!(query.contains("timestamp(process_cpu_seconds_total{job=\"sut\"})"), "{query}");
}
