//! A server that plays whatever a test needs, and the tests of what both kinds that ask it have in common.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::core::lag::Progress;
use crate::core::lock::lock;
use crate::kafka::settings::KafkaSettings;
use crate::progress::Poller;
use crate::progress::settings::SourceSettings;
use crate::progress::tests::board_of;

/// What the server does with a request.
pub(in crate::progress) enum Deed {
    /// Answers, and keeps the connection.
    Answer(String),
    /// Answers, and closes the connection without having said so.
    AnswerAndClose(String),
    /// Closes the connection at once.
    Close,
    /// Does nothing more.
    Silence,
}

/// An answer of HTTP.
pub(in crate::progress) fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

pub(in crate::progress) fn ok(body: &str) -> Deed {
    Deed::Answer(reply("200 OK", "", body))
}

/// A server on a port of its own.
pub(in crate::progress) struct Door {
    pub(in crate::progress) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Door {
    /// `script` is told how many requests the connection has brought before this one, and the request.
    pub(in crate::progress) fn open(script: impl Fn(usize, &str) -> Deed + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let script = Arc::new(script);
        let (heard, counted) = (Arc::clone(&requests), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::Relaxed);
                let (script, heard) = (Arc::clone(&script), Arc::clone(&heard));
                std::thread::spawn(move || serve(stream, &*script, &heard));
            }
        });
        Self { url, requests, connections }
    }

    /// The requests since the last call, with lower-case headers.
    pub(in crate::progress) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.requests))
    }

    /// The paths of the requests since the last call.
    pub(in crate::progress) fn paths(&self) -> Vec<String> {
        let path = |request: &String| request.split(' ').nth(1).unwrap().to_owned();
        self.requests().iter().map(path).collect()
    }

    pub(in crate::progress) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, script: &dyn Fn(usize, &str) -> Deed, heard: &Mutex<Vec<String>>) {
    let mut served = 0;
    while let Some(request) = read_request(&mut stream) {
        lock(heard).push(request.clone());
        match script(served, &request) {
            Deed::Answer(answer) => {
                let _ = stream.write_all(answer.as_bytes());
            }
            Deed::AnswerAndClose(answer) => {
                let _ = stream.write_all(answer.as_bytes());
                let _ = stream.shutdown(Shutdown::Write);
                return;
            }
            Deed::Close => return,
            Deed::Silence => std::thread::sleep(Duration::from_secs(60)),
        }
        served += 1;
    }
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_owned();
            let length = head
                .to_ascii_lowercase()
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
            if body.len() >= length {
                let (first, headers) = head.split_once("\r\n").unwrap();
                return Some(format!("{first}\r\n{}\r\n\r\n{body}", headers.to_ascii_lowercase()));
            }
        }
        match stream.read(&mut part) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&part[..count]),
            _ => return None,
        }
    }
}

/// A poller of a source, from settings as a user writes them.
pub(in crate::progress) fn poller(partitions: u32, mut settings: Value) -> Poller {
    settings["stream"] = "main".into();
    let settings: SourceSettings = serde_json::from_value(settings).unwrap();
    assert_eq!(settings.problems("progress.view"), []);
    Poller::new("view", &settings, &KafkaSettings::default(), &board_of("view", &settings, partitions))
        .unwrap()
}

/// Asks once.
pub(in crate::progress) async fn ask(partitions: u32, settings: Value) -> Result<Progress, ProbeError> {
    let mut poller = poller(partitions, settings);
    poller.poll_once().await.map(|polled| polled.progress)
}

fn count(url: &str, changes: Value) -> Value {
    let mut settings = json!({ "kind": "http", "url": url, "json_pointer": "/n", "value": "count" });
    settings.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    settings
}

#[tokio::test]
async fn z5_a_connection_that_the_server_closed_for_being_idle_costs_no_poll() {
    // Closed after each answer, without a word; or only when the next question comes, which nobody can see before.
    let closes = Door::open(|_, _| Deed::AnswerAndClose(reply("200 OK", "", r#"{"n": 1}"#)));
    let races = Door::open(|served, _| if served < 2 { ok(r#"{"n": 1}"#) } else { Deed::Close });
    let says =
        Door::open(|_, _| Deed::AnswerAndClose(reply("200 OK", "Connection: close\r\n", r#"{"n": 1}"#)));
    for door in [&closes, &races, &says] {
        let mut poller = poller(1, count(&door.url, json!({})));
        for poll in 0..24 {
            let polled = poller.poll_once().await;
            assert_eq!(polled.map(|polled| polled.progress), Ok(Progress::Total(1)), "{poll}");
        }
    }
    assert_eq!((closes.connections(), says.connections()), (24, 24));
    assert!(races.connections() < 20, "{}", races.connections());
    let keeps = Door::open(|_, _| ok(r#"{"n": 1}"#));
    let mut poller = poller(1, count(&keeps.url, json!({})));
    for _ in 0..24 {
        poller.poll_once().await.unwrap();
    }
    assert_eq!(keeps.connections(), 1);
    // A server that always closes is an error, and not a loop.
    let never = Door::open(|_, _| Deed::Close);
    let error = ask(1, count(&never.url, json!({}))).await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Connect, "{error}");
    assert_eq!(never.connections(), 1);
}

#[tokio::test]
async fn bad_answers_say_what_came() {
    use ProgressErrorKind::{Connect, Query, Shape};
    let large = "x".repeat((1 << 20) + 1);
    let replies = [
        (
            reply("500 Internal Server Error", "", "Code: 60. DB::Exception:\nno table"),
            Query,
            "the server answered 500 Internal Server Error: Code: 60. DB::Exception: no table",
        ),
        (
            reply("302 Found", "Location: http://u:hunter2@h/x?token=hunter2\r\n", ""),
            Query,
            "sends us elsewhere (302 Found) to http://u:[redacted]@h/x?token=[redacted]; redirects are not followed",
        ),
        (reply("206 Partial Content", "", "12"), Query, "206 Partial Content, and was asked for all of it"),
        (reply("304 Not Modified", "", ""), Query, "304 Not Modified, and was asked for all of it"),
        (
            reply("404 Not Found", "", "nothing at /?api_key=hunter2"),
            Query,
            "404 Not Found: nothing at /?api_key=[redacted]",
        ),
        (reply("200 OK", "Content-Encoding: gzip\r\n", "xx"), Shape, "compressed (\"gzip\")"),
        (
            reply("200 OK", "", "<!DOCTYPE html><html>Sign in</html>"),
            Shape,
            "a page for people: <!DOCTYPE html>",
        ),
        (reply("200 OK", "", &large), Shape, "larger than 1 MiB"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"n\r\n".to_owned(),
            Connect,
            "no whole answer",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"n\": 1}".to_owned(), Connect, "no whole answer"),
        ("SSH-2.0-OpenSSH_9.2\r\n".to_owned(), Connect, "no whole answer"),
    ];
    for (answer, kind, says) in replies {
        let shown = answer.chars().take(80).collect::<String>();
        let door = Door::open(move |_, _| Deed::AnswerAndClose(answer.clone()));
        let error = ask(1, count(&format!("{}/?api_key=hunter2", door.url), json!({}))).await.unwrap_err();
        assert_eq!(error.kind, kind, "{shown}: {error}");
        assert!(error.text.contains(says) && !error.text.contains("hunter2"), "{shown}: {error}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(1, count(&url, json!({}))).await.unwrap_err();
    assert_eq!(error.kind, Connect);
    assert!(error.text.contains("refused"), "{error}");
}

#[tokio::test]
async fn l12_a_server_that_never_answers_is_given_up_in_time() {
    let silent = Door::open(|_, _| Deed::Silence);
    let error = ask(1, count(&silent.url, json!({ "timeout": "100ms" }))).await.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Timeout);
    assert!(error.text.starts_with("no answer from 127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn credentials_come_from_files_and_a_token_that_is_refused_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    std::fs::write(&file, "open sesame\n").unwrap();
    let door = Door::open(|_, _| ok(r#"{"n": 1}"#));
    ask(1, count(&door.url, json!({ "username": "alice", "password_file": file }))).await.unwrap();
    assert!(door.requests()[0].contains("\r\nauthorization: basic ywxpy2u6b3blbibzzxnhbwu=\r\n"));

    std::fs::write(&file, "first").unwrap();
    let guarded = Door::open(|_, request| {
        if request.contains("bearer second") {
            ok(r#"{"n": 1}"#)
        } else {
            Deed::Answer(reply("401 Unauthorized", "", "no good: Bearer first"))
        }
    });
    let mut poller = poller(1, count(&guarded.url, json!({ "token_file": file })));
    let error = poller.poll_once().await.unwrap_err();
    assert_eq!(error.text, "the server answered 401 Unauthorized: no good: Bearer [redacted]");
    std::fs::write(&file, "second").unwrap();
    assert!(poller.poll_once().await.is_ok());
}

#[tokio::test]
async fn a_request_is_put_together_from_url_path_headers_and_body() {
    let door = Door::open(|_, _| ok(r#"{"n": 1}"#));
    let url = format!("{}/base/?database=db", door.url);
    let settings = json!({
        "method": "post", "path": "/q?x=a b[1]&t={topic}", "body": "SELECT '{topic}'",
        "headers": { "Content-Type": "application/json", "X-ClickHouse-Key": "hunter2" }
    });
    ask(1, count(&url, settings)).await.unwrap();
    let request = &door.requests()[0];
    assert!(request.starts_with("POST /base/q?database=db&x=a%20b%5B1%5D&t=t HTTP/1.1\r\n"), "{request}");
    for header in ["content-type: application/json", "x-clickhouse-key: hunter2", "accept-encoding: identity"]
    {
        assert!(request.contains(&format!("\r\n{header}\r\n")), "{request}");
    }
    assert!(request.ends_with("\r\n\r\nSELECT 't'"), "{request}");
    // A URL alone is asked as it is.
    ask(1, count(&format!("{}?a=b", door.url), json!({}))).await.unwrap();
    assert_eq!(door.paths(), ["/?a=b"]);
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_remedy() {
    let problem = |changes: Value| {
        let mut settings = count("http://h", changes);
        settings["stream"] = "main".into();
        let settings: SourceSettings = serde_json::from_value(settings).unwrap();
        settings.problems("progress.view").iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    for (changes, says) in [
        (json!({ "url": "h:8123" }), "url: does not begin with http://"),
        (json!({ "url": "http://u:hunter2@h" }), "url: holds a user name or password"),
        (json!({ "password": "hunter2" }), "username: is missing"),
        (json!({ "username": "u", "token_file": "/t" }), "token_file: stands beside username"),
        (json!({ "headers": { "a b": "hunter2" } }), "headers: \"a b\" is no name"),
        (json!({ "headers": { "Authorization": "hunter2\n" } }), "headers: the value of Authorization holds"),
        (json!({ "path": "x" }), "path: begins with neither"),
        (json!({ "json_pointer": null, "regex": "\\d+" }), "regex: has no group"),
        (json!({ "json_pointer": null, "regex": "(a)(b)" }), "regex: has several groups"),
        (json!({ "json_pointer": null, "regex": "(?<partition>b)" }), "regex: has a group partition and no"),
        (json!({ "json_pointer": null, "regex": "(" }), "regex: cannot be read"),
        (json!({ "partition": "/p" }), "partition: is a place within a row"),
        (json!({ "rows": "r" }), "rows: is no JSON pointer"),
        (json!({ "lookup": [{ "name": "topic", "path": "/", "take": "/id" }] }), "name\": has to be a name"),
        (json!({ "lookup": [{ "name": "a", "path": "/", "take": "id" }] }), "\"id\" is no JSON pointer"),
        (
            json!({ "lookup": [{ "name": "a", "path": "/", "take": "/id", "only": { "/x": "(" } }] }),
            "is no regular expression",
        ),
    ] {
        let found = problem(changes);
        assert!(found.contains(says) && !found.contains("hunter2"), "{says}: {found}");
    }
}
