//! What holds for every kind of key, size, tombstone and header.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::settings::{KeyFormat, SizeSetting, WeightedSize};
use super::*;

const KINDS: [KeyKind; 8] = [
    KeyKind::None,
    KeyKind::Sequential,
    KeyKind::Unique,
    KeyKind::Uniform,
    KeyKind::Zipf,
    KeyKind::Hotspot,
    KeyKind::Random64,
    KeyKind::Auto,
];

prop_compose! {
    /// Keys that the settings allow.
    fn any_keys()(
        kind in proptest::sample::select(&KINDS), format in 0..3, size in 1_u32..24, exponent in 0.0..3.0,
        cardinality in prop_oneof![1_u64..300, 1_u64..1 << 40], shuffled in proptest::option::of(any::<bool>()),
        hot_keys in 0.0..=1.0, hot_traffic in 0.0..=1.0,
    ) -> KeySettings {
        let format = [KeyFormat::Binary, KeyFormat::Decimal, KeyFormat::Padded][format as usize];
        KeySettings { kind, cardinality, format, size, exponent, hot_keys, hot_traffic, shuffled }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the settings allow either makes sound records or is refused with a reason.
    #[test]
    fn markers_have_keys_of_their_own_on_their_partitions(
        settings in any_keys(), partitions in 1_u32..70, records in proptest::option::of(1_u64..5000), seed in any::<u64>(),
        far in any::<u32>(),
    ) {
        let (value, headers) = (ValueSettings::default(), HeaderSettings::default());
        if !settings.problems("k", &value, records).is_empty() {
            return Ok(());
        }
        let wanted = Wanted { seed, partitions, records, markers: true, ..wanted(&settings, &value, &headers) };
        let mut maker = match Maker::new(&wanted) {
            Ok(maker) => maker,
            Err(error) => {
                prop_assert!(error.message.contains("leaves no room for the keys of markers"), "{error}");
                // Only keys that are all but used up: twenty numbers a partition find each with near certainty.
                let room = settings.capacity() - u128::from(records.unwrap_or(0).max(settings.cardinality)).min(settings.capacity());
                prop_assert!(room < 20 * u128::from(partitions) + 100, "{room} numbers are left of {settings:?}");
                return Ok(());
            }
        };
        let mut markers = BTreeSet::new();
        for partition in 0..partitions {
            let (id, key) = maker.marker_key(partition).unwrap();
            prop_assert_eq!(hash::murmur2(key) % (1 << 31) % partitions, partition);
            prop_assert!(i64::try_from(id).is_ok());
            prop_assert!(markers.insert((id, key.to_vec())));
        }
        prop_assert_eq!(maker.marker_key(partitions), None);
        let ids: BTreeSet<u64> = markers.iter().map(|(id, _)| *id).collect();
        let (mut key, mut seen) = (Vec::new(), BTreeMap::new());
        let end = records.unwrap_or(2000).min(2000);
        let far = (0..200).map(|n| u64::from(far) + n).filter(|n| records.is_none_or(|records| *n < records));
        for sequence in (0..end).chain(far) {
            let Keyed { id, partition } = maker.key(sequence, &mut key);
            prop_assert!(partition < partitions);
            if settings.kind == KeyKind::None {
                prop_assert!(key.is_empty());
                continue;
            }
            prop_assert!(!ids.contains(&id), "{} is a marker's", id);
            prop_assert!(key.len() <= maker.keys.max_bytes());
            prop_assert!(settings.format == KeyFormat::Decimal || key.len() == settings.size as usize);
            // Distinct numbers are distinct keys, and a number is one key.
            let known = seen.entry(key.clone()).or_insert(id);
            prop_assert_eq!(*known, id);
        }
        let distinct: BTreeSet<u64> = seen.values().copied().collect();
        prop_assert_eq!(distinct.len(), seen.len());
        prop_assert!(markers.iter().all(|(_, key)| !seen.contains_key(key)));
        if matches!(settings.kind, KeyKind::Unique | KeyKind::Random64) {
            prop_assert!(!settings.repeats(records, &value));
            prop_assert!(seen.len() as u64 >= end);
        }
    }
}

/// How often each key comes in so many records.
fn counts(settings: &KeySettings, records: u64) -> BTreeMap<u64, u64> {
    let (value, headers) = (ValueSettings::default(), HeaderSettings::default());
    let mut maker = Maker::new(&wanted(settings, &value, &headers)).unwrap();
    let (mut key, mut counts) = (Vec::new(), BTreeMap::new());
    for sequence in 0..records {
        *counts.entry(maker.key(sequence, &mut key).id).or_default() += 1;
    }
    counts
}

#[test]
fn hot_keys_get_their_share_wherever_they_lie() {
    let settings = KeySettings {
        kind: KeyKind::Hotspot,
        cardinality: 1000,
        hot_keys: 0.1,
        hot_traffic: 0.9,
        ..KeySettings::default()
    };
    for shuffled in [false, true] {
        let counts = counts(&KeySettings { shuffled: Some(shuffled), ..settings.clone() }, 1_000_000);
        // 9,000 on each hot key and 111 on each cold one, with deviations of 95 and 11.
        let (hot, cold): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(_, count)| *count > 4000);
        assert!(hot.iter().all(|(_, count)| (8400..9600).contains(count)), "{hot:?}");
        assert!(cold.iter().all(|(_, count)| (45..177).contains(count)), "{cold:?}");
        assert_eq!((hot.len(), cold.len()), (100, 900));
        assert_eq!(hot.iter().all(|(key, _)| *key < 100), !shuffled);
        let traffic: u64 = hot.iter().map(|(_, count)| count).sum();
        assert!((898_200..901_800).contains(&traffic), "{traffic}");
    }
    for (hot_keys, hot_traffic, keys) in [(1.0, 0.5, 1000), (0.0, 1.0, 1), (0.5, 0.0, 500)] {
        let all = counts(&KeySettings { hot_keys, hot_traffic, ..settings.clone() }, 50_000);
        assert_eq!(all.len(), keys, "{hot_keys} {hot_traffic}");
    }
}

#[test]
fn zipf_keys_are_the_ranks_shuffled() {
    let plain = KeySettings {
        kind: KeyKind::Zipf,
        cardinality: 1000,
        shuffled: Some(false),
        ..KeySettings::default()
    };
    let ranks = counts(&plain, 200_000);
    let keys = counts(&KeySettings { shuffled: None, ..plain }, 200_000);
    let sorted = |counts: &BTreeMap<u64, u64>| {
        let mut counts: Vec<u64> = counts.values().copied().collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(sorted(&ranks), sorted(&keys));
    assert!(ranks[&0] > ranks[&1] && ranks[&1] > ranks[&5]);
    let hottest = keys.iter().max_by_key(|(_, count)| **count).unwrap();
    assert_ne!(*hottest.0, 0);
}

#[test]
fn random64_covers_the_whole_range() {
    let settings = KeySettings { kind: KeyKind::Random64, ..KeySettings::default() };
    let counts = counts(&settings, 16_000);
    assert_eq!(counts.len(), 16_000);
    let mut sixteenths = [0_u32; 16];
    counts.keys().for_each(|key| sixteenths[(key >> 60) as usize] += 1);
    // 1,000 expected with a deviation of 31.
    assert!(sixteenths.iter().all(|count| (816..1184).contains(count)), "{sixteenths:?}");
}

fn sizes(size: SizeSetting, records: u64) -> Vec<usize> {
    let key = KeySettings { kind: KeyKind::None, ..KeySettings::default() };
    let value = ValueSettings::Random(RandomValueSettings { size, ..RandomValueSettings::default() });
    let mut maker = make(7, "a", &key, &value, 4);
    let max = maker.max_record_bytes();
    let sizes: Vec<usize> = (0..records).map(|sequence| record(&mut maker, sequence).2.len()).collect();
    assert!(sizes.iter().all(|size| *size <= max));
    sizes
}

#[test]
fn sizes_follow_their_distribution() {
    let mean = |sizes: &[usize]| sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    let uniform = sizes(SizeSetting::Uniform { min: 10, max: 13 }, 40_000);
    for size in 10..=13 {
        let count = uniform.iter().filter(|one| **one == size).count();
        assert!((9480..10_520).contains(&count), "{size}: {count}");
    }
    let normal = sizes(SizeSetting::Normal { mean: 500.0, sigma: 100.0, min: None, max: None }, 40_000);
    assert!((497.0..503.0).contains(&mean(&normal)), "{}", mean(&normal));
    let within =
        |sigmas: f64| normal.iter().filter(|size| (**size as f64 - 500.0).abs() <= 100.0 * sigmas).count();
    // 68.27 % and 95.45 %, and half a byte of rounding.
    assert!((26_700..28_200).contains(&within(1.0)), "{}", within(1.0));
    assert!((37_900..38_500).contains(&within(2.0)), "{}", within(2.0));
    assert!(normal.iter().all(|size| *size <= 900));
    let cut = sizes(SizeSetting::Normal { mean: 100.0, sigma: 300.0, min: Some(50), max: Some(120) }, 1000);
    assert_eq!((cut.iter().min(), cut.iter().max()), (Some(&50), Some(&120)));
    let list = [(100, 1.0), (200, 0.0), (300, 3.0)].map(|(size, weight)| WeightedSize { size, weight });
    let weighted = sizes(SizeSetting::Weighted(list.to_vec()), 40_000);
    let small = weighted.iter().filter(|size| **size == 100).count();
    assert!((9480..10_520).contains(&small), "{small}");
    assert!(weighted.iter().all(|size| [100, 300].contains(size)));
}

#[test]
fn tombstones_come_in_their_share_and_never_for_a_marker() {
    for (share, range) in [(0.0, 0..1), (0.1, 9430..10_570), (1.0, 100_000..100_001)] {
        let value = RandomValueSettings { tombstones: share, ..RandomValueSettings::default() };
        let mut maker = make(7, "a", &KeySettings::default(), &ValueSettings::Random(value), 4);
        let (mut buffer, mut count) = (Vec::new(), 0);
        for sequence in 0..100_000 {
            let facts = Facts { sequence, partition: 1, key_id: 2, intended_ms: 3, marker: false };
            match maker.value(&facts, &mut buffer).unwrap() {
                Payload::Value => assert_eq!(buffer.len(), 500),
                Payload::Tombstone => count += 1,
            }
            if sequence < 1000 {
                let marker = Facts { marker: true, ..facts };
                assert_eq!(maker.value(&marker, &mut buffer), Ok(Payload::Value));
            }
        }
        assert!(range.contains(&count), "{share}: {count}");
    }
}

#[test]
fn headers_are_the_fixed_ones_and_the_facts_that_were_asked_for() {
    let custom = [("b", "two"), ("a", ""), ("content-type", "application/json")];
    let headers = HeaderSettings {
        run: true,
        sequence: true,
        custom: custom.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    };
    let (key, value) = (KeySettings::default(), ValueSettings::default());
    let mut maker = Maker::new(&wanted(&key, &value, &headers)).unwrap();
    let mut found = Headers::default();
    for sequence in [0, 12, u64::MAX] {
        let facts = Facts { sequence, partition: 1, key_id: 2, intended_ms: 3, marker: false };
        maker.headers(&facts, &mut found);
        let found: Vec<_> = found.iter().map(|(name, value)| (name.to_str().unwrap(), value)).collect();
        let digits = sequence.to_string();
        assert_eq!(
            found,
            [
                ("soakd-run", b"r".as_slice()),
                ("a", b""),
                ("b", b"two"),
                ("content-type", b"application/json"),
                ("soakd-sequence", digits.as_bytes()),
            ]
        );
    }
    assert_eq!(maker.max_record_bytes(), 8 + 500 + found.bytes());
    let mut none = Maker::new(&wanted(&key, &value, &HeaderSettings::default())).unwrap();
    none.headers(&Facts { sequence: 1, partition: 0, key_id: 1, intended_ms: 0, marker: false }, &mut found);
    assert!(found.is_empty());
}

#[test]
fn keys_without_room_for_markers_say_how_to_make_some() {
    let settings =
        KeySettings { kind: KeyKind::Uniform, cardinality: 256, size: 1, ..KeySettings::default() };
    let (value, headers) = (ValueSettings::default(), HeaderSettings::default());
    let error = Maker::new(&Wanted { markers: true, ..wanted(&settings, &value, &headers) }).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("streams.a.key: leaves no room for the keys of markers"), "{text}");
    assert!(text.contains("make the keys longer (size)"), "{text}");
}
