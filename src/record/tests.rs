//! Whole records: golden ones, and what holds for all.

use super::settings::{JsonValueSettings, KeyKind, RandomValueSettings};
use super::*;

mod golden;
mod properties;

/// A stream of seed 42 with four partitions.
fn wanted<'a>(key: &'a KeySettings, value: &'a ValueSettings, headers: &'a HeaderSettings) -> Wanted<'a> {
    Wanted {
        seed: 42,
        seed_name: "main",
        at: "streams.a",
        run_id: "r",
        topic: "t",
        look_only: false,
        partitions: 4,
        key,
        value,
        headers,
        markers: false,
        records: None,
    }
}

fn make(seed: u64, seed_name: &str, key: &KeySettings, value: &ValueSettings, partitions: u32) -> Maker {
    let headers = HeaderSettings::default();
    Maker::new(&Wanted { seed, seed_name, partitions, ..wanted(key, value, &headers) }).unwrap()
}

fn record(maker: &mut Maker, sequence: u64) -> (u32, Vec<u8>, Vec<u8>) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let Keyed { id: key_id, partition } = maker.key(sequence, &mut key);
    let facts = Facts { sequence, partition, key_id, intended_ms: 1_700_000_000_000, marker: false };
    assert_eq!(maker.value(&facts, &mut value), Ok(Payload::Value));
    (partition, key, value)
}

fn keys(kind: KeyKind) -> KeySettings {
    KeySettings { kind, cardinality: 1000, ..KeySettings::default() }
}

fn json() -> ValueSettings {
    ValueSettings::Json(JsonValueSettings { size: 0, connect_schema: false, ..JsonValueSettings::default() })
}

#[test]
fn golden_records_stay_as_they_are() {
    let mut maker = make(42, "main", &keys(KeyKind::Uniform), &json(), 4);
    let text: Vec<String> = [0, 1, 1_000_000_007]
        .into_iter()
        .map(|sequence| {
            let (partition, key, value) = record(&mut maker, sequence);
            format!("{partition} {key:?} {}", String::from_utf8(value).unwrap())
        })
        .collect();
    assert_eq!(text, GOLDEN_JSON);
}

/// Computed once by a program of another language from the definition.
const GOLDEN_JSON: [&str; 3] = [
    r#"0 [0, 0, 0, 0, 0, 0, 3, 155] {"id":923,"partition":0,"sequence":0,"intended_ms":1700000000000,"text":""}"#,
    r#"2 [0, 0, 0, 0, 0, 0, 0, 91] {"id":91,"partition":2,"sequence":1,"intended_ms":1700000000000,"text":""}"#,
    r#"3 [0, 0, 0, 0, 0, 0, 1, 106] {"id":362,"partition":3,"sequence":1000000007,"intended_ms":1700000000000,"text":""}"#,
];
#[rustfmt::skip]

#[test]
fn records_depend_on_seed_and_seed_name_and_nothing_else() {
    let make =
        |seed, name| record(&mut make(seed, name, &keys(KeyKind::Uniform), &ValueSettings::default(), 4), 5);
    assert_eq!(make(1, "a"), make(1, "a"));
    assert_ne!(make(1, "a"), make(2, "a"));
    assert_ne!(make(1, "a"), make(1, "b"));
}

#[test]
fn p9_records_without_keys_go_round_robin() {
    let mut maker = make(1, "a", &keys(KeyKind::None), &ValueSettings::default(), 4);
    let mut counts = [0; 4];
    for sequence in 0..1200 {
        let (partition, key, _) = record(&mut maker, sequence);
        assert!(key.is_empty());
        counts[partition as usize] += 1;
    }
    assert_eq!(counts, [300; 4]);
}

#[test]
fn uniform_keys_are_uniform_over_keys_and_partitions() {
    let mut maker = make(7, "a", &keys(KeyKind::Uniform), &ValueSettings::default(), 4);
    let (mut by_key, mut by_partition) = (vec![0_u32; 1000], [0_u32; 4]);
    let mut key = Vec::new();
    for sequence in 0..400_000 {
        let Keyed { id, partition } = maker.key(sequence, &mut key);
        by_key[id as usize] += 1;
        by_partition[partition as usize] += 1;
    }
    // 400 expected per key with a deviation of 20; six deviations are never seen by chance.
    assert!(by_key.iter().all(|count| (280..520).contains(count)), "{by_key:?}");
    assert!(by_partition.iter().all(|count| (88_000..112_000).contains(count)), "{by_partition:?}");
}

#[test]
fn the_largest_record_bounds_all_others() {
    for value in [
        json(),
        ValueSettings::Json(JsonValueSettings {
            size: 300,
            connect_schema: true,
            ..JsonValueSettings::default()
        }),
    ] {
        let mut maker = make(7, "a", &keys(KeyKind::Uniform), &value, 128);
        let max = maker.max_record_bytes();
        for sequence in (0..64).map(|bit| (1_u64 << bit) - 1) {
            let (_, key, value) = record(&mut maker, sequence);
            assert!(key.len() + value.len() <= max);
        }
    }
}
