//! Records as a program of another language makes them from their definition: `tests/golden/records.py`.

use std::fmt::Write;

use super::super::settings::{KeyFormat, SizeSetting, WeightedSize};
use super::*;

const MILLION: u64 = 1_000_000;

fn keys() -> Vec<(&'static str, KeySettings)> {
    use KeyFormat::{Binary, Decimal, Padded};
    let keys = |kind, cardinality, format, size| KeySettings {
        kind,
        cardinality,
        format,
        size,
        ..KeySettings::default()
    };
    let shuffled = |settings| KeySettings { shuffled: Some(true), ..settings };
    let zipf = |exponent, settings| KeySettings { exponent, shuffled: Some(false), ..settings };
    vec![
        ("sequential", keys(KeyKind::Sequential, 1000, Binary, 8)),
        ("sequential_shuffled", shuffled(keys(KeyKind::Sequential, 1000, Decimal, 8))),
        ("unique", keys(KeyKind::Unique, 7, Padded, 20)),
        ("unique_shuffled", shuffled(keys(KeyKind::Unique, 7, Binary, 8))),
        ("uniform", keys(KeyKind::Uniform, 1000, Binary, 4)),
        ("uniform_decimal", keys(KeyKind::Auto, MILLION, Decimal, 8)),
        ("uniform_wide", keys(KeyKind::Uniform, 1000, Binary, 20)),
        ("zipf", keys(KeyKind::Zipf, MILLION, Binary, 8)),
        ("zipf_one", zipf(1.0, keys(KeyKind::Zipf, MILLION, Decimal, 8))),
        ("zipf_steep", zipf(2.5, keys(KeyKind::Zipf, 1000, Padded, 6))),
        ("hotspot", keys(KeyKind::Hotspot, MILLION, Padded, 12)),
        ("random64", keys(KeyKind::Random64, 7, Binary, 8)),
        ("random64_padded", keys(KeyKind::Random64, 7, Padded, 20)),
    ]
}

fn values() -> Vec<(&'static str, RandomValueSettings)> {
    let random = |size, compressibility| RandomValueSettings {
        size,
        compressibility,
        ..RandomValueSettings::default()
    };
    let weighted = [(50, 6.0), (4500, 4.0)].map(|(size, weight)| WeightedSize { size, weight });
    vec![
        ("fixed", random(SizeSetting::Fixed(40), 0.0)),
        ("uniform", random(SizeSetting::Uniform { min: 100, max: 400 }, 0.5)),
        ("normal", random(SizeSetting::Normal { mean: 500.0, sigma: 100.0, min: None, max: None }, 0.0)),
        ("weighted", random(SizeSetting::Weighted(weighted.to_vec()), 0.25)),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn records_are_those_that_their_definition_says() {
    const SEQUENCES: [u64; 5] = [0, 1, 2, 77, 1_000_000_007];
    let mut lines = String::new();
    for (name, settings) in keys() {
        let headers = HeaderSettings::default();
        let value = ValueSettings::default();
        let mut maker = Maker::new(&Wanted { markers: true, ..wanted(&settings, &value, &headers) }).unwrap();
        let mut key = Vec::new();
        for sequence in SEQUENCES {
            let Keyed { id, partition } = maker.key(sequence, &mut key);
            writeln!(lines, "key {name} {sequence} {partition} {id} {}", hex(&key)).unwrap();
        }
        for partition in 0..4 {
            let (id, key) = maker.marker_key(partition).unwrap();
            writeln!(lines, "marker {name} {partition} {id} {}", hex(key)).unwrap();
        }
    }
    let none = KeySettings { kind: KeyKind::None, ..KeySettings::default() };
    for (name, settings) in values() {
        let mut maker = make(42, "main", &none, &ValueSettings::Random(settings), 4);
        for sequence in SEQUENCES {
            let (_, _, value) = record(&mut maker, sequence);
            writeln!(lines, "value {name} {sequence} {} {:016x}", value.len(), fnv(&value)).unwrap();
        }
    }
    let value = RandomValueSettings { tombstones: 0.1, ..RandomValueSettings::default() };
    let mut maker = make(42, "main", &keys()[0].1, &ValueSettings::Random(value), 4);
    for sequence in 0..100 {
        let facts = Facts { sequence, partition: 0, key_id: 0, intended_ms: 0, marker: false };
        if maker.value(&facts, &mut Vec::new()) == Ok(Payload::Tombstone) {
            writeln!(lines, "tombstone {sequence}").unwrap();
        }
    }
    let golden = include_str!("../../../tests/golden/records.txt");
    for (ours, golden) in lines.lines().zip(golden.lines()) {
        assert_eq!(ours, golden);
    }
    assert_eq!(lines, golden);
}
