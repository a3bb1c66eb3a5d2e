//! Templates, files and presets, end to end on the mock broker: what a consumer reads is what the settings say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use soakd::record::hash::murmur2;

use crate::daemon::{self, Ended, eventually, series};
use crate::mock::{MockKafka, Read};

const PARTITIONS: i32 = 5;
const LIMIT: Duration = Duration::from_secs(60);

fn json(record: &Read) -> Value {
    serde_json::from_slice(&record.value)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&record.value)))
}

/// Keys lead to partitions as the Java client's do.
fn assert_partitions(found: &[Read]) {
    for record in found {
        let key = record.key.as_ref().unwrap();
        let partition = (murmur2(key) & 0x7fff_ffff) % PARTITIONS.unsigned_abs();
        assert_eq!(record.partition.unsigned_abs(), partition, "{record:?}");
    }
}

/// The facts of a record are its own; returns its sequence.
fn assert_facts(record: &Read, facts: &Value) -> u64 {
    assert_eq!(facts["partition"], record.partition, "{facts}");
    assert_eq!(facts["intended_ms"], record.timestamp_ms, "{facts}");
    facts["sequence"].as_u64().unwrap()
}

/// The stream ended by itself with so many records and nothing lost.
fn assert_sent(ended: &Ended, stream: &str, records: u64) {
    let totals = &ended.report()["streams"][stream]["totals"];
    assert_eq!(totals["acked"], records, "{totals} {}", ended.log);
}

#[test]
fn a_template_is_filled_with_the_facts_of_each_record() {
    let kafka = MockKafka::start(PARTITIONS);
    let template = r#"{ "id": {{key}}, "facts": {"sequence": {{sequence}}, "partition": {{partition}}, "intended_ms": {{intended_ms}}},
        "at": {{intended_iso}}, "uuid": {{uuid}}, "run": "run {{run}}", "tags": [{{pick red green}}, {{int 1 6}}], "pad": {{pad 300}} }"#;
    let more = format!(
        "rate = 2000\nrecords = 1000\nlanes = 2\nvalue = {{ kind = \"template\", template = '''{template}''' }}"
    );
    let ended = daemon::start(&kafka.settings("", "", &more)).wait(LIMIT);
    assert_sent(&ended, "main", 1000);
    let found = kafka.read("t", PARTITIONS);
    assert_partitions(&found);
    let (mut sequences, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for record in &found {
        let value = json(record);
        assert_eq!(record.value.len(), 300, "{value}");
        sequences.insert(assert_facts(record, &value["facts"]));
        let key: [u8; 8] = record.key.as_deref().unwrap().try_into().unwrap();
        assert_eq!(value["id"], u64::from_be_bytes(key));
        assert!(value["run"].as_str().unwrap().starts_with("run it-"), "{value}");
        ids.insert(value["uuid"].as_str().unwrap().to_owned());
    }
    assert!(sequences.into_iter().eq(0..1000));
    assert_eq!(ids.len(), 1000);
}

#[test]
fn a_file_is_sent_once_line_by_line_with_keys_and_facts() {
    let kafka = MockKafka::start(PARTITIONS);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("people.jsonl");
    let lines: String =
        (0..700).map(|n| format!("{{\"user\": {{\"id\": \"u{}\"}}, \"n\": {n}}}\r\n", n % 90)).collect();
    std::fs::write(&path, lines).unwrap();
    let more = format!(
        "rate = 2000\nlanes = 3\n[streams.main.value]\nkind = \"file\"\npath = \"{}\"\nloop = false\norder = \"shuffled\"\n\
         key_field = \"user.id\"\nfacts_field = \"_soakd\"",
        path.display()
    );
    let settings = kafka.settings("", "", &more);
    let (code, checked) = daemon::check(&settings);
    assert_eq!(code, Some(0), "{checked}");
    assert!(checked.contains("the first one: key u") && checked.contains("\"_soakd\":{\"id\":"), "{checked}");
    let ended = daemon::start(&settings).wait(LIMIT);
    assert_sent(&ended, "main", 700);
    let found = kafka.read("t", PARTITIONS);
    assert_partitions(&found);
    let (mut sequences, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for record in &found {
        let value = json(record);
        sequences.insert(assert_facts(record, &value["_soakd"]));
        assert_eq!(value["user"]["id"].as_str().unwrap().as_bytes(), record.key.as_deref().unwrap());
        numbers.insert(value["n"].as_u64().unwrap());
    }
    assert!(sequences.into_iter().eq(0..700) && numbers.into_iter().eq(0..700), "each line once");
}

#[test]
fn presets_of_several_streams_agree() {
    let kafka = MockKafka::start(PARTITIONS);
    let topics = ["customers", "orders", "order_lines", "events", "statements"];
    topics.iter().for_each(|topic| kafka.cluster.create_topic(topic, PARTITIONS, 1).unwrap());
    let stream = |topic: &str, records: u32, more: &str| {
        format!(
            "[streams.{topic}]\ntopic = \"{topic}\"\ncreate = false\nrate = 2000\nrecords = {records}\nseed_name = \"shop\"\n\
             value = {{ kind = \"preset\", {more} }}\n"
        )
    };
    let table = |topic: &str, records| {
        stream(topic, records, &format!("name = \"orders\", table = \"{topic}\", cardinality = 300"))
    };
    let settings = kafka.settings("", "", "rate = 100\nrecords = 10")
        + &table("customers", 300)
        + &table("orders", 1600)
        + &table("order_lines", 1000)
        + &stream("events", 800, "name = \"openedx_tracking\"")
        + &stream("statements", 800, "name = \"xapi\"");
    let ended = daemon::start(&settings).wait(LIMIT);
    topics
        .iter()
        .zip([300, 1600, 1000, 800, 800])
        .for_each(|(topic, records)| assert_sent(&ended, topic, records));
    let read = |topic: &str| {
        let found = kafka.read(topic, PARTITIONS);
        assert_partitions(&found);
        found
    };
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} of {row}"));
    let customers: BTreeSet<u64> =
        read("customers").iter().map(|row| number(&json(row), "customer_id")).collect();
    let mut sums = BTreeMap::new();
    for record in read("order_lines") {
        let line = json(&record);
        assert_eq!(assert_facts(&record, &line), number(&line, "order_line_id"));
        *sums.entry(number(&line, "order_id")).or_insert(0) += number(&line, "amount_cents");
    }
    for record in read("orders") {
        let order = json(&record);
        let id = number(&order, "order_id");
        assert_eq!(record.key.as_deref().unwrap(), id.to_string().as_bytes());
        assert!(customers.contains(&number(&order, "customer_id")));
        assert_eq!(sums.get(&id), Some(&number(&order, "total_cents")), "{order}");
    }
    for record in read("events") {
        let event = json(&record);
        assert_facts(&record, &event["context"]["soakd"]);
        assert_eq!(event["name"].as_str().unwrap().as_bytes(), record.key.as_deref().unwrap());
    }
    for record in read("statements") {
        let statement = json(&record);
        assert_facts(&record, &statement["context"]["extensions"]["urn:soakd:facts"]);
        assert_eq!(
            statement["actor"]["account"]["name"].as_str().unwrap().as_bytes(),
            record.key.as_deref().unwrap()
        );
    }
}

#[test]
fn a_file_that_is_changed_is_told_once_and_the_load_goes_on_when_it_is_back() {
    let kafka = MockKafka::start(PARTITIONS);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.jsonl");
    // More than a lane holds, so that it is read again and again.
    let content: String =
        (0..60_000).map(|n| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(90))).collect();
    std::fs::write(&path, &content).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let more = format!("rate = 20000\nvalue = {{ kind = \"file\", path = \"{}\" }}", path.display());
    let daemon = daemon::start(&kafka.settings("", "", &more));
    daemon.wait_metric(20, "records_acked_total", |acked| acked > 1000.0);
    std::fs::write(&path, &content[..1000]).unwrap();
    let unmade = "records_dropped_total{stream=\"main\",reason=\"unmade\"}";
    eventually(Duration::from_secs(20), "records are dropped", || {
        (series(&daemon.scrape(), unmade) > 2000.0).then_some(())
    });
    std::fs::write(&path, &content).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let sent = daemon.metric("records_sent_total");
    daemon.wait_metric(20, "records_sent_total", |now| now > sent + 10_000.0);
    let dropped = series(&daemon.scrape(), unmade);
    daemon.wait_metric(20, "records_sent_total", |now| now > sent + 20_000.0);
    assert!(series(&daemon.scrape(), unmade) - dropped < 1.0, "nothing is dropped any more");
    let ended = daemon.terminate();
    assert_eq!(ended.log.matches("was changed since the start").count(), 1, "{}", ended.log);
}

#[test]
fn lines_without_a_key_here_and_there_are_dropped_and_told_once() {
    let kafka = MockKafka::start(PARTITIONS);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.jsonl");
    let line =
        |n| if n % 4 == 3 { format!("{{\"n\":{n}}}\n") } else { format!("{{\"n\":{n},\"id\":{n}}}\n") };
    std::fs::write(&path, (0..100).map(line).collect::<String>()).unwrap();
    let value = format!("value = {{ kind = \"file\", path = \"{}\", key_field = \"id\" }}", path.display());
    let daemon = daemon::start(&kafka.settings("", "", &format!("rate = 2000\nrecords = 4000\n{value}")));
    let ended = daemon.wait(LIMIT);
    assert_sent(&ended, "main", 3000);
    assert_eq!(ended.log.matches("records cannot be made").count(), 1, "{}", ended.log);
}

#[test]
fn values_that_cannot_be_made_are_refused_before_anything_is_sent() {
    let kafka = MockKafka::start(1);
    let refused = |value: &str, expected: &[&str]| {
        let (code, text) =
            daemon::check(&kafka.settings("", "", &format!("rate = 10\nvalue = {{ {value} }}")));
        assert_eq!(code, Some(2), "{text}");
        expected.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
    };
    refused(
        "kind = \"template\", template = '{\"a\": {{seqence}}}'",
        &["streams.main.value.template", "line 1, column 7, near {{seqence}}", "did you mean"],
    );
    refused(
        "kind = \"file\", path = \"nobody.jsonl\"",
        &["streams.main.value.path", "nobody.jsonl", "No such file"],
    );
    refused("kind = \"file\"", &["streams.main.value.path", "needs one"]);
    refused("kind = \"preset\"", &["streams.main.value.name", "fillseq"]);
    refused("kind = \"preset\", name = \"orders\"", &["streams.main.value.table", "order_lines"]);
    refused("kind = \"preset\", name = \"xapi\", size = 5", &["streams.main.value.size", "leave it out"]);
    let settings =
        kafka.settings("", "", "rate = 10\nvalue = { kind = \"template\", template = '{\"a\": {{key}}}' }");
    let (code, text) = daemon::check(&settings);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("warning") && text.contains("neither {{sequence}} nor"), "{text}");
}
