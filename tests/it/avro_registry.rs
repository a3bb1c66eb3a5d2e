//! Avro with a real schema registry, and with one that is down, refuses or hangs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::avro_reader::AvroReader;
use crate::children::Start as _;
use crate::daemon;
use crate::mock::MockKafka;
use crate::services::Service;

/// One registry for the tests that only add to it.
fn registry() -> &'static Service {
    static REGISTRY: OnceLock<Service> = OnceLock::new();
    REGISTRY.get_or_init(|| Service::start("registry", &[]))
}

/// Asks a registry as any client would.
fn ask(registry: &Service, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let (address, base) = registry.get("REGISTRY_URL").trim_start_matches("http://").split_once('/').unwrap();
    let body = body.map(Value::to_string);
    let path = format!("/{base}{path}");
    let (status, text) = daemon::request(address.parse().unwrap(), method, &path, body.as_deref()).unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}")))
}

fn subjects(registry: &Service) -> Vec<String> {
    serde_json::from_value(ask(registry, "GET", "/subjects", None).1).unwrap()
}

fn schema(amount: &str) -> Value {
    json!({ "type": "record", "name": "Order", "namespace": "org.example", "fields": [
        { "name": "sequence", "type": "long" },
        { "name": "partition", "type": "int" },
        { "name": "id", "type": "long" },
        { "name": "intended_ms", "type": { "type": "long", "logicalType": "timestamp-millis" } },
        { "name": "amount", "type": amount },
        { "name": "note", "type": ["null", "string"], "default": null } ] })
}

/// A mock broker with a topic, and settings of a stream of Avro to it; `more` is put into the registry's.
fn settings(topic: &str, schema: &Value, registry: &str, more: &str) -> (MockKafka, String) {
    let kafka = MockKafka::start(4);
    kafka.cluster.create_topic(topic, 4, 1).unwrap();
    let value = format!(
        "rate = 2000\nrecords = 400\n[streams.main.value]\nkind = \"avro\"\nschema = '{schema}'\n\
         [streams.main.value.registry]\nurl = \"{registry}\"\n{more}"
    );
    let settings = kafka.settings("", "", &value).replace("topic = \"t\"", &format!("topic = \"{topic}\""));
    (kafka, settings)
}

/// Runs until the end that comes by itself; the exit code and all output.
fn run(settings: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let done = daemon::command(dir.path(), settings).run_for_output().unwrap();
    (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

#[test]
fn avro_has_the_number_under_which_the_registry_keeps_its_schema() {
    let (registry, mut reader) = (registry(), AvroReader::start());
    for (topic, strategy, subject) in [
        ("orders-a", "topic_name", "orders-a-value"),
        ("orders-b", "record_name", "org.example.Order"),
        ("orders-c", "topic_record_name", "orders-c-org.example.Order"),
    ] {
        let url = registry.get("REGISTRY_URL");
        let (kafka, settings) = settings(topic, &schema("double"), url, &format!("subject = \"{strategy}\""));
        assert!(!subjects(registry).contains(&subject.to_owned()));
        let (code, table) = daemon::check(&settings);
        assert_eq!(code, Some(0), "{table}");
        assert!(!subjects(registry).contains(&subject.to_owned()), "check writes nothing");
        daemon::start(&settings).wait(Duration::from_secs(60)).good();

        let (status, kept) = ask(registry, "GET", &format!("/subjects/{subject}/versions/latest"), None);
        assert_eq!(status, 200, "{kept}");
        let kept_schema: Value = serde_json::from_str(kept["schema"].as_str().unwrap()).unwrap();
        assert_eq!(kept_schema, schema("double"));
        let (_, by_id) = ask(registry, "GET", &format!("/schemas/ids/{}", kept["id"]), None);
        let id = u32::try_from(kept["id"].as_u64().unwrap()).unwrap().to_be_bytes();
        let mut sequences = Vec::new();
        for record in kafka.read(topic, 4) {
            assert_eq!((record.value[0], &record.value[1..5]), (0, id.as_slice()));
            let value = reader.read(by_id["schema"].as_str().unwrap(), &record.value[5..]);
            sequences.push(value["sequence"].as_u64().unwrap());
            assert_eq!(value["partition"], record.partition);
            let key = u64::from_be_bytes(record.key.unwrap().try_into().unwrap());
            assert_eq!(value["id"], key);
            assert_eq!(value["intended_ms"], instant(record.timestamp_ms));
            assert!(value["amount"].is_f64(), "{value}");
        }
        sequences.sort_unstable();
        assert_eq!(sequences, (0..400).collect::<Vec<u64>>());
        // Now that the schema is there, a run that may not register finds it.
        let looked = settings.replace("subject =", "register = false\nsubject =");
        daemon::start(&looked).wait(Duration::from_secs(60)).good();
        let (_, versions) = ask(registry, "GET", &format!("/subjects/{subject}/versions"), None);
        assert_eq!(versions, json!([1]), "the second run registered nothing");
    }
}

/// The way in which the reader shows an instant.
fn instant(ms: i64) -> String {
    let seconds = std::process::Command::new("date")
        .args(["-u", "-d", &format!("@{}", ms.div_euclid(1_000)), "+%Y-%m-%dT%H:%M:%S"])
        .run_for_output()
        .unwrap();
    let seconds = String::from_utf8(seconds.stdout).unwrap();
    match ms.rem_euclid(1_000) {
        0 => format!("{}+00:00", seconds.trim()),
        rest => format!("{}.{rest:03}000+00:00", seconds.trim()),
    }
}

#[test]
fn avro_that_the_registry_does_not_take_starts_no_load() {
    let registry = registry();
    let (url, topic) = (registry.get("REGISTRY_URL"), "refused");
    let subject = format!("{topic}-value");
    // Not there, and not to be registered.
    let (kafka, text) = settings(topic, &schema("double"), url, "register = false");
    for (code, text) in [run(&text), daemon::check(&text)] {
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("streams.main.value.registry.register") && text.contains(&subject), "{text}");
        assert!(text.contains("set register = true"), "{text}");
    }
    assert_eq!(kafka.records_of(topic, 4), 0);
    // There, but another one that readers could not take both of.
    let versions = format!("/subjects/{subject}/versions");
    let body = json!({ "schema": schema("double").to_string() });
    assert_eq!(ask(registry, "POST", &versions, Some(&body)).0, 200);
    let backward = json!({ "compatibility": "BACKWARD" });
    assert_eq!(ask(registry, "PUT", &format!("/config/{subject}"), Some(&backward)).0, 200);
    let (kafka, text) = settings(topic, &schema("string"), url, "");
    let (code, said) = run(&text);
    assert_eq!(code, Some(2), "{said}");
    let reason = "STRING not compatible with writer type: DOUBLE";
    assert!(said.contains("registry.subject") && said.contains("409") && said.contains(reason), "{said}");
    let (code, said) = daemon::check(&text);
    assert!(code == Some(2) && said.contains("not compatible") && said.contains(&subject), "{said}");
    assert_eq!(ask(registry, "GET", &versions, None).1, json!([1]));
    assert_eq!(kafka.records_of(topic, 4), 0);
    // A compatible one becomes the next version.
    let (_kafka, text) = settings(topic, &schema("double"), url, "");
    let text = text.replace("\"default\":null", "\"default\":null,\"doc\":\"another version\"");
    assert_eq!(run(&text).0, Some(0));
}

#[test]
fn a_registry_that_is_gone_stops_a_start_and_no_load() {
    let registry = Service::start("registry", &[]);
    let url = registry.get("REGISTRY_URL");
    let secret = "username = \"alice\"\npassword = \"hunter2\"";
    let (_kafka, text) = settings("gone", &schema("double"), url, secret);
    let daemon = daemon::start(&text.replace("records = 400", ""));
    daemon.wait_metric(30, "records_acked_total", |acked| acked > 100.0);
    registry.order("kill");
    let acked = daemon.metric("records_acked_total");
    daemon.wait_metric(30, "records_acked_total", |now| now > acked + 2_000.0);
    let ended = daemon.terminate();
    ended.good();
    assert!(!(ended.out + &ended.log).contains("hunter2"));
    for (code, said) in [run(&text), daemon::check(&text)] {
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains(url) && said.contains("does not answer"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

/// A server that gives one answer to everybody, or none; it ends with the test's process.
fn stub(answer: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 8192];
            let _ = stream.read(&mut request);
            if let Some(answer) = answer {
                let _ = stream.write_all(answer.as_bytes());
            } else {
                open.push(stream);
            }
        }
    });
    url
}

#[test]
fn a_registry_that_refuses_or_hangs_is_told_apart() {
    let no_write = "{\"error_code\": 40301, \"message\": \"no write here\"}";
    for (status, body, code, at, says) in [
        ("401 Unauthorized", "", 2, "username", "refuses access to \"s-value\" (401)"),
        ("403 Forbidden", no_write, 2, "username", "(403: no write here)"),
        ("404 Not Found", "<html>", 2, "url", "is not where the registry's interface is"),
        ("301 Moved", "", 2, "url", "points elsewhere"),
        ("200 OK", "{}", 2, "url", "not as a schema registry"),
        ("500 Oh", "", 3, "url", "failed (500)"),
        ("no status", "", 3, "url", "does not answer"),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let url = stub(Some(answer.leak()));
        let secret = "username = \"alice\"\npassword = \"hunter2\"";
        let (_kafka, text) = settings("s", &schema("double"), &url, secret);
        let (found, said) = run(&text);
        assert_eq!(found, Some(code), "{says}: {said}");
        assert!(said.contains(&format!("registry.{at}")) && said.contains(says), "{says}: {said}");
        assert!(said.contains(&url) && !said.contains("hunter2"), "{said}");
    }
    let (_kafka, text) = settings("s", &schema("double"), &stub(None), "timeout = \"300ms\"");
    let begin = Instant::now();
    let (code, said) = run(&text);
    assert!(code == Some(3) && said.contains("no answer within 0.3 s"), "{code:?} {said}");
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "a registry that hangs holds no start: {:?}",
        begin.elapsed()
    );
}

/// Keys and values of Open edX's event bus: what its own consumers need to read them.
#[test]
fn openedx_events_in_avro_are_those_of_the_event_bus() {
    let (registry, mut reader) = (registry(), AvroReader::start());
    let kafka = MockKafka::start(4);
    let stream = format!(
        "rate = 2000\nrecords = 400\n[streams.main.value]\nkind = \"preset\"\nname = \"openedx_tracking\"\n\
         encoding = \"avro\"\n[streams.main.value.registry]\nurl = \"{}\"\n",
        registry.get("REGISTRY_URL")
    );
    daemon::start(&kafka.settings("", "", &stream)).wait(Duration::from_secs(60)).good();
    let event = "org.openedx.analytics.tracking.event.emitted.v1";
    let schema = |subject: &str| {
        let (status, kept) = ask(registry, "GET", &format!("/subjects/{subject}/versions/latest"), None);
        assert_eq!(status, 200, "{kept}");
        let id = u32::try_from(kept["id"].as_u64().unwrap()).unwrap().to_be_bytes();
        ([&[0], id.as_slice()].concat(), kept["schema"].as_str().unwrap().to_owned())
    };
    let ((value_head, value_schema), (key_head, key_schema)) =
        (schema(&format!("t-{event}.CloudEvent")), schema("t-name"));
    assert_ne!(value_head, key_head);
    let (mut sequences, mut ids) = (Vec::new(), std::collections::BTreeSet::new());
    for record in kafka.read("t", 4) {
        let key = record.key.unwrap();
        let split = |bytes: &[u8]| (bytes[..5].to_vec(), bytes[5..].to_vec());
        let ((key_front, key), (value_front, value)) = (split(&key), split(&record.value));
        assert_eq!((&key_front, &value_front), (&key_head, &value_head));
        let log = reader.read(&value_schema, &value)["tracking_log"].take();
        assert_eq!(reader.read(&key_schema, &key), log["name"]);
        let inner = |name: &str| -> Value { serde_json::from_str(log[name].as_str().unwrap()).unwrap() };
        assert!(inner("data").is_object());
        let facts = &inner("context")["soakd"];
        assert_eq!(
            (&facts["partition"], &facts["intended_ms"]),
            (&json!(record.partition), &json!(record.timestamp_ms))
        );
        sequences.push(facts["sequence"].as_u64().unwrap());
        let header = |name: &str| {
            let found =
                record.headers.iter().find(|(one, _)| one == name).unwrap_or_else(|| panic!("{name}"));
            String::from_utf8(found.1.clone()).unwrap()
        };
        assert_eq!((header("ce_type").as_str(), header("ce_specversion").as_str()), (event, "1.0"));
        assert_eq!(
            (header("ce_time"), header("content-type")),
            (log["timestamp"].as_str().unwrap().to_owned(), "application/avro".to_owned())
        );
        ids.insert(header("ce_id"));
    }
    sequences.sort_unstable();
    assert_eq!(sequences, (0..400).collect::<Vec<u64>>());
    assert_eq!(ids.len(), 400, "each event has an id of its own");
}
