//! Markers: a record to each partition at every tick, on top of the rate.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{LIMIT, assert_sound, number, totals, wait};
use crate::daemon::{self, Ended, series, sum};
use crate::mock::{MockKafka, Read};

/// Below the numbers of all markers' keys.
const KEYS: u64 = 1000;
const INTERVAL_MS: i64 = 500;

fn settings(kafka: &MockKafka, run: &str, more: &str) -> String {
    let records = format!(
        "value = {{ kind = \"json\" }}\nkey = {{ cardinality = {KEYS} }}\nmarker = {{ interval = \"{INTERVAL_MS}ms\" }}"
    );
    kafka.settings(run, "", &format!("{records}\n{more}"))
}

fn field(record: &Read, name: &str) -> u64 {
    let value: Value = serde_json::from_slice(&record.value).unwrap();
    value[name].as_u64().unwrap()
}

/// The markers in the topic by partition, in their order there: number and timestamp. Each is told by its key, which it
/// shares with the other markers of its partition and nothing else.
fn markers(kafka: &MockKafka) -> BTreeMap<i32, Vec<(u64, i64)>> {
    let (mut found, mut keys) = (BTreeMap::new(), BTreeMap::new());
    for record in kafka.read("t", kafka.partitions) {
        assert_eq!(field(&record, "partition"), u64::try_from(record.partition).unwrap());
        if field(&record, "id") >= KEYS {
            let marker = (field(&record, "sequence"), record.timestamp_ms);
            assert_eq!(field(&record, "intended_ms"), u64::try_from(record.timestamp_ms).unwrap());
            found.entry(record.partition).or_insert_with(Vec::new).push(marker);
            let key = keys.entry(record.partition).or_insert_with(|| record.key.clone());
            assert_eq!(*key, record.key);
        }
    }
    found
}

fn count(markers: &BTreeMap<i32, Vec<(u64, i64)>>) -> u64 {
    markers.values().map(|partition| partition.len() as u64).sum()
}

/// Numbers ascend, and each timestamp is that of its number.
fn assert_on_time(markers: &BTreeMap<i32, Vec<(u64, i64)>>) {
    let start_ms =
        markers.values().flatten().map(|(number, at)| at - *number as i64 * INTERVAL_MS).min().unwrap();
    for marker in markers.values().flat_map(|partition| partition.windows(2)) {
        assert!(marker[0].0 < marker[1].0, "{markers:?}");
    }
    for (number, at) in markers.values().flatten() {
        let late = at - start_ms - *number as i64 * INTERVAL_MS;
        assert!((0..=1).contains(&late), "marker {number}: {late} ms after its time");
    }
}

fn assert_counted(kafka: &MockKafka, ended: &Ended, records: u64) {
    let (totals, markers) = (totals(ended), number(&totals(ended)["markers"]));
    let dropped: u64 = totals["dropped"].as_object().unwrap().values().map(number).sum();
    assert_eq!(number(&totals["sent"]), records + markers, "{totals}");
    assert_eq!(number(&totals["scheduled"]), records + markers + dropped, "{totals}");
    assert_eq!(number(&totals["acked"]), records + markers, "{totals}");
    assert_eq!(kafka.records(), records + markers);
    assert_eq!(count(&self::markers(kafka)), markers);
}

#[test]
fn every_partition_gets_a_marker_at_every_tick_on_top_of_the_rate() {
    let kafka = MockKafka::start(4);
    let daemon = daemon::start(&settings(&kafka, "duration = \"3s\"", "rate = 100\nlanes = 3"));
    wait(&daemon, 30, "markers", |now| series(now, "marker_records_total") >= 8.0);
    let status = daemon.get("/api/v1/status");
    assert!(number(&status["streams"]["main"]["records"]["markers"]) >= 8, "{status}");
    let ended = daemon.wait(LIMIT);
    assert_sound(&ended);
    assert_counted(&kafka, &ended, 300);
    let markers = markers(&kafka);
    assert_on_time(&markers);
    // Ticks from 0 s to 2.5 s; a daemon that does not run for half a second passes one over, and says so.
    let passed_over = if ended.code() == 0 { 0 } else { 4 };
    assert!((24 - passed_over..=24).contains(&count(&markers)), "{markers:?}");
    assert_eq!(markers.len(), 4);
    assert_eq!(ended.report()["cause"], "duration");
}

#[test]
fn markers_are_beside_the_limit_of_records_and_pause_with_the_load() {
    let kafka = MockKafka::start(2);
    let daemon = daemon::start(&settings(&kafka, "", "rate = 100\nrecords = 200"));
    wait(&daemon, 30, "markers", |now| series(now, "marker_records_total") >= 4.0);
    assert_eq!(daemon.send("POST", "/api/v1/pause", None).0, 200);
    let beats = |more: f64| {
        let beat = daemon.scrape()["soakd_heartbeat_total"];
        wait(&daemon, 30, "time passes", |now| now["soakd_heartbeat_total"] >= beat + more)
    };
    // The lane takes the pause up within 20 ms.
    let (paused, later) = (beats(1.0), beats(3.0));
    assert_eq!(series(&paused, "marker_records_total"), series(&later, "marker_records_total"));
    assert_eq!(daemon.send("POST", "/api/v1/resume", None).0, 200);
    let resumed = wait(&daemon, 30, "markers", |now| {
        series(now, "marker_records_total") > series(&later, "marker_records_total")
    });
    assert!(
        series(&resumed, "marker_records_total") <= series(&later, "marker_records_total") + 4.0,
        "a burst"
    );
    let ended = daemon.wait(LIMIT);
    assert_sound(&ended);
    assert_eq!(ended.report()["cause"], "records");
    let paused = number(&totals(&ended)["dropped"]["paused"]);
    assert_counted(&kafka, &ended, 200 - paused);
    assert_on_time(&markers(&kafka));
}

#[test]
fn markers_that_an_outage_holds_up_are_dropped_and_not_replayed() {
    let kafka = MockKafka::start(2);
    let more = "rate = 100\nmax_in_flight = 20\noverload = { policy = \"wait\" }";
    let daemon = daemon::start(&settings(&kafka, "", more));
    wait(&daemon, 30, "markers", |now| series(now, "marker_records_total") >= 4.0);
    kafka.down();
    // Nothing but markers is dropped by this policy.
    wait(&daemon, 60, "dropped markers", |now| sum(now, "records_dropped_total", "main") >= 6.0);
    kafka.up();
    let back = wait(&daemon, 60, "worked off", |now| series(now, "schedule_backlog_records") < 5.0);
    let more = series(&back, "marker_records_total") + 4.0;
    wait(&daemon, 30, "markers", |now| series(now, "marker_records_total") >= more);
    let ended = daemon.terminate();
    let records = number(&totals(&ended)["sent"]) - number(&totals(&ended)["markers"]);
    assert_counted(&kafka, &ended, records);
    let markers = markers(&kafka);
    assert_on_time(&markers);
    for partition in markers.values() {
        let holes = partition.windows(2).map(|pair| pair[1].0 - pair[0].0 - 1).sum::<u64>();
        assert!(holes >= 3, "{markers:?}");
    }
}

#[test]
fn the_numbers_of_markers_are_not_the_streams_sequence() {
    let kafka = MockKafka::start(2);
    let daemon = daemon::start(&kafka.settings("", "", "rate = 2\nmarker = { interval = \"20ms\" }"));
    wait(&daemon, 30, "markers", |now| series(now, "marker_records_total") >= 60.0);
    let status = daemon.get("/api/v1/status");
    let stream = &status["streams"]["main"];
    let records = number(&stream["records"]["scheduled"]) - number(&stream["records"]["markers"]);
    for partition in stream["partitions"].as_array().unwrap() {
        assert!(partition["last_sequence"].as_u64().is_none_or(|last| last < records), "{stream}");
        // Markers have offsets and are acked all the same.
        assert_eq!(partition["next_offset"], partition["acked"]);
        assert!(number(&partition["acked"]) >= 20, "{stream}");
    }
    assert_sound(&daemon.terminate());
}
