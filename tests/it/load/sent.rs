//! What is in the topic: keys, partitions, values and timestamps, read back by a consumer.

use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::util::Timeout;

use super::{LIMIT, assert_sound};
use crate::daemon;
use crate::mock::{MockKafka, Read};

const PARTITIONS: i32 = 5;

/// Runs a load of so many records to its end and reads it back.
fn load(kafka: &MockKafka, records: usize, more: &str) -> Vec<Read> {
    let settings = kafka.settings("", "", &format!("rate = 2000\nrecords = {records}\n{more}"));
    assert_sound(&daemon::start(&settings).wait(LIMIT));
    let found = kafka.read("t", PARTITIONS);
    assert_eq!(found.len(), records);
    found
}

/// Every sequence once, ascending in each partition.
fn assert_complete(found: &[Read], sequence: impl Fn(&Read) -> u64) {
    let mut last = BTreeMap::new();
    for record in found {
        let (sequence, before) = (sequence(record), last.get(&record.partition).copied());
        assert!(before.is_none_or(|before| before < sequence), "{sequence} after {before:?}");
        last.insert(record.partition, sequence);
    }
    let mut all: Vec<u64> = found.iter().map(sequence).collect();
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..found.len() as u64), "a gap or a duplicate");
}

fn number<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap()
}

#[test]
fn random_values_carry_sequence_and_partition_and_time() {
    let kafka = MockKafka::start(PARTITIONS);
    let found = load(&kafka, 2000, "lanes = 3\nvalue = { kind = \"random\", size = 100 }");
    assert_complete(&found, |record| u64::from_be_bytes(number(&record.value[..8])));
    for record in &found {
        assert_eq!(record.value.len(), 100);
        assert_eq!(i32::from_be_bytes(number(&record.value[8..12])), record.partition);
        assert_eq!(i64::from_be_bytes(number(&record.value[12..20])), record.timestamp_ms);
    }
}

#[test]
fn json_values_carry_sequence_and_partition_and_time() {
    let kafka = MockKafka::start(PARTITIONS);
    let found = load(&kafka, 1000, "lanes = 2\nvalue = { kind = \"json\", size = 200 }");
    let field = |record: &Read, name: &str| -> u64 {
        let value: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
        value[name].as_u64().unwrap()
    };
    assert_complete(&found, |record| field(record, "sequence"));
    for record in &found {
        assert_eq!(field(record, "partition"), record.partition as u64);
        assert_eq!(field(record, "intended_ms"), record.timestamp_ms as u64);
        assert_eq!(field(record, "id"), u64::from_be_bytes(number(record.key.as_ref().unwrap())));
    }
}

#[test]
fn r4_timestamps_are_the_intended_times() {
    let kafka = MockKafka::start(PARTITIONS);
    // Batches that wait for 300 ms: times of sending would come in lumps.
    let settings = kafka.settings("", "\"linger.ms\" = 300", "rate = 250\nrecords = 500");
    assert_sound(&daemon::start(&settings).wait(LIMIT));
    let mut found = kafka.read("t", PARTITIONS);
    found.sort_by_key(|record| u64::from_be_bytes(number(&record.value[..8])));
    let first = found[0].timestamp_ms;
    for (sequence, record) in (0..).zip(&found) {
        // Whole milliseconds of a time that begins anywhere between two.
        let late = record.timestamp_ms - first - sequence * 4;
        assert!((0..=1).contains(&late), "record {sequence} is {late} ms from its time");
    }
}

/// The client library's own partitioner, which is tested against Java's, decides about the same keys.
#[test]
fn partitions_are_those_of_the_java_client() {
    let kafka = MockKafka::start(PARTITIONS);
    kafka.cluster.create_topic("judge", PARTITIONS, 1).unwrap();
    for size in [8, 3, 13] {
        let key = format!("lanes = 2\nkey = {{ kind = \"uniform\", cardinality = 1000000, size = {size} }}");
        let settings = kafka.settings("", "", &format!("rate = 2000\nrecords = 300\n{key}"));
        assert_sound(&daemon::start(&settings).wait(LIMIT));
    }
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka.brokers())
        .set("partitioner", "murmur2")
        .create()
        .unwrap();
    let found = kafka.read("t", PARTITIONS);
    assert_eq!(found.len(), 900);
    for record in &found {
        let key = record.key.as_deref().unwrap();
        producer.send(BaseRecord::to("judge").key(key).payload("")).unwrap();
    }
    producer.flush(Timeout::After(LIMIT)).unwrap();
    let pairs = |records: Vec<Read>| {
        let mut pairs: Vec<_> = records.into_iter().map(|record| (record.key, record.partition)).collect();
        pairs.sort();
        pairs
    };
    assert_eq!(pairs(found), pairs(kafka.read("judge", PARTITIONS)));
}

#[test]
fn p9_records_without_keys_spread_evenly_and_the_report_says_how() {
    let kafka = MockKafka::start(4);
    for (key, partitioner, most) in [
        ("none", "sequence modulo partitions", 1.01),
        ("uniform", "murmur2 of the key modulo partitions, as the Java client does", 1.3),
    ] {
        let before = kafka.ends();
        let more = format!("rate = 1200\nkey = {{ kind = \"{key}\" }}");
        let ended = daemon::start(&kafka.settings("duration = \"2s\"", "", &more)).wait(LIMIT);
        assert_sound(&ended);
        let counts: Vec<u64> =
            kafka.ends().iter().zip(before).map(|(after, before)| after - before).collect();
        let (least, greatest) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
        assert!(greatest as f64 <= least as f64 * most, "{key}: {counts:?}");
        let shown = ended.out.lines().find(|line| line.contains("acked by partition")).unwrap();
        let shown: Vec<u64> = shown.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(shown, counts, "{}", ended.out);
        assert!(ended.out.contains(partitioner), "{}", ended.out);
    }
}

#[test]
fn p6_a_stop_sends_what_a_long_linger_holds_back() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&kafka.settings("", "\"linger.ms\" = 2000", "rate = 500"));
    super::wait(&daemon, 30, "records are acked and others wait", |now| {
        daemon::series(now, "records_acked_total") > 0.0 && daemon::series(now, "records_in_flight") > 200.0
    });
    let begun = std::time::Instant::now();
    let ended = daemon.terminate();
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert_sound(&ended);
    assert_eq!(kafka.records(), super::number(&super::totals(&ended)["acked"]));
    assert_eq!(super::totals(&ended)["sent"], super::totals(&ended)["acked"]);
    assert_eq!(ended.report()["drain"]["undelivered_records"], 0);
    // What the user's own linger keeps back is not the broker's doing.
    assert_eq!(super::number(&super::totals(&ended)["stalls"]), 0);
}

#[test]
fn p8_a_linger_is_latency_and_not_the_pace() {
    let kafka = MockKafka::start(4);
    let settings = kafka.settings("duration = \"3s\"", "\"linger.ms\" = 100", "rate = 5000");
    let ended = daemon::start(&settings).wait(LIMIT);
    assert_sound(&ended);
    assert_eq!(kafka.records(), 15_000);
    let figures = &ended.report()["measured"]["streams"]["main"];
    assert!(figures["achieved_records_per_second"].as_f64().unwrap() >= 0.9 * 5000.0, "{}", ended.out);
    // The first record of a batch waits for all of it.
    assert!(figures["ack_from_sent"]["max_seconds"].as_f64().unwrap() >= 0.095, "{}", ended.out);
    let p50 = |name: &str| figures[name]["p50_seconds"].as_f64().unwrap();
    assert!(p50("ack_from_sent") >= 0.02, "{}", ended.out);
    assert!(p50("schedule_delay") < p50("ack_from_sent") / 2.0, "{}", ended.out);
}
