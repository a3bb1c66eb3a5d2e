//! Records of every shape, read back by a consumer: keys, sizes, tombstones, headers, and what the codec made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::{LIMIT, assert_sound, number};
use crate::daemon::{self, eventually};
use crate::mock::{MockKafka, Read};

const PARTITIONS: i32 = 5;

fn header<'r>(record: &'r Read, name: &str) -> &'r str {
    let found: Vec<_> = record.headers.iter().filter(|(known, _)| known == name).collect();
    assert_eq!(found.len(), 1, "{name} in {:?}", record.headers);
    std::str::from_utf8(&found[0].1).unwrap()
}

#[test]
fn keys_sizes_tombstones_and_headers_are_as_they_were_ordered() {
    const RECORDS: usize = 4000;
    let kafka = MockKafka::start(PARTITIONS);
    let settings = kafka.settings(
        "",
        "",
        &format!(
            "rate = 4000\nrecords = {RECORDS}\nlanes = 2\n\
             key = {{ kind = \"zipf\", cardinality = 1000, exponent = 1.0, format = \"padded\", size = 12 }}\n\
             value = {{ kind = \"random\", size = {{ min = 30, max = 90 }}, tombstones = 0.2 }}\n\
             headers = {{ run = true, sequence = true, custom = {{ ce_type = \"a b\", empty = \"\" }} }}"
        ),
    );
    let ended = daemon::start(&settings).wait(LIMIT);
    assert_sound(&ended);
    let found = kafka.read("t", PARTITIONS);
    let sequences: BTreeSet<u64> =
        found.iter().map(|record| header(record, "soakd-sequence").parse().unwrap()).collect();
    assert!(sequences.iter().copied().eq(0..RECORDS as u64) && found.len() == RECORDS);
    let (mut keys, mut partitions, mut sizes) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let (mut bytes, mut tombstones) = (0, 0);
    for record in &found {
        assert_eq!(header(record, "soakd-run"), ended.report()["id"].as_str().unwrap());
        assert_eq!((header(record, "ce_type"), header(record, "empty")), ("a b", ""));
        assert_eq!(record.headers.len(), 4);
        let key = std::str::from_utf8(record.key.as_ref().unwrap()).unwrap().to_owned();
        assert!(key.len() == 12 && key.parse::<u64>().unwrap() < 1000, "{key}");
        assert_eq!(*partitions.entry(key.clone()).or_insert(record.partition), record.partition);
        *keys.entry(key).or_insert(0) += 1;
        bytes += 12 + record.value.len() as u64;
        if record.tombstone {
            tombstones += 1;
            continue;
        }
        sizes.insert(record.value.len());
        let sequence = u64::from_be_bytes(record.value[..8].try_into().unwrap());
        assert_eq!(sequence.to_string(), header(record, "soakd-sequence"));
    }
    // 800 expected with a deviation of 25.
    assert!((650..950).contains(&tombstones), "{tombstones}");
    assert!(sizes.iter().all(|size| (30..=90).contains(size)) && sizes.len() > 50, "{sizes:?}");
    // Of 1,000 keys by 1/rank, the first has 13.4 %: 534 with a deviation of 22.
    let hottest = *keys.values().max().unwrap();
    assert!((400..670).contains(&hottest), "{hottest}");
    assert!(keys.len() > 400, "{}", keys.len());
    assert_eq!(number(&super::totals(&ended)["bytes_acked"]), bytes);
}

/// The ratio in status and report, once the client has given statistics.
fn ratio(codec: &str, value: &str) -> f64 {
    let kafka = MockKafka::start(PARTITIONS);
    let client =
        format!("\"compression.type\" = \"{codec}\", \"statistics.interval.ms\" = 100, \"linger.ms\" = 20");
    let settings =
        kafka.settings("", &client, &format!("rate = 20000\nvalue = {{ kind = \"random\", {value} }}"));
    let daemon = daemon::start(&settings);
    let status = eventually(Duration::from_secs(30), "the client has given statistics", || {
        let compression = daemon.get("/api/v1/status")["streams"]["main"]["compression"].clone();
        compression["batch_bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000).then_some(compression)
    });
    let ended = daemon.terminate();
    assert_sound(&ended);
    let report = &ended.report()["streams"]["main"]["compression"];
    let of = |body: &Value| {
        assert_eq!(body["codec"], codec);
        let (payload, batches) = (number(&body["payload_bytes"]), number(&body["batch_bytes"]));
        let ratio = body["ratio"].as_f64().unwrap();
        assert!((ratio - payload as f64 / batches as f64).abs() < 1e-6, "{body}");
        ratio
    };
    assert!((of(&status) / of(report) - 1.0).abs() < 0.05, "{status} {report}");
    let line = format!("compression           {codec}, ratio {:.2} (", of(report));
    assert!(ended.out.contains(&line) || ended.log.contains(&line), "{line}\n{}\n{}", ended.out, ended.log);
    of(report)
}

#[test]
fn the_ratio_that_the_codec_reached_is_told() {
    let half = "size = 1000, compressibility = 0.5";
    // Without a codec the protocol's own bytes count: about ten for each record of 1,008.
    for (codec, value, range) in [
        ("none", half, 0.97..1.0),
        ("lz4", half, 1.85..2.05),
        ("zstd", half, 1.9..2.1),
        ("snappy", half, 1.75..2.05),
        ("zstd", "size = 1000", 0.97..1.03),
    ] {
        let ratio = ratio(codec, value);
        println!("{codec}, {value}: {ratio}");
        assert!(range.contains(&ratio), "{codec}, {value}: {ratio}");
    }
}
