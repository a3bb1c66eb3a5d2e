use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::Facts;
use super::super::format::Of;
use super::super::settings::{OrdersTable, PresetName, PresetValueSettings};
use super::super::value::tests::FACTS;
use super::*;

fn preset(name: PresetName) -> PresetValueSettings {
    PresetValueSettings { name: Some(name), ..PresetValueSettings::default() }
}

fn table(table: OrdersTable) -> PresetValueSettings {
    PresetValueSettings { table: Some(table), ..preset(PresetName::Orders) }
}

fn maker(settings: &PresetValueSettings) -> Box<dyn Format> {
    format(Of { seed: 5, at: "streams.main.value", topic: "t", run_id: "r", look_only: false }, settings)
        .unwrap()
}

fn record(maker: &mut dyn Format, facts: &Facts) -> (u64, Vec<u8>, Vec<u8>) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let id = maker.key(facts.sequence, &mut key).unwrap();
    maker.write(facts, &mut value).unwrap();
    (id, key, value)
}

fn json(maker: &mut dyn Format, sequence: u64) -> Value {
    let (_, _, value) = record(maker, &Facts { sequence, ..FACTS });
    serde_json::from_slice(&value)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&value)))
}

const ALL: [PresetName; 5] = [
    PresetName::Fillseq,
    PresetName::Upsert,
    PresetName::Ycsb,
    PresetName::OpenedxTracking,
    PresetName::Xapi,
];
const TABLES: [OrdersTable; 4] =
    [OrdersTable::Customers, OrdersTable::Products, OrdersTable::Orders, OrdersTable::OrderLines];

fn all() -> impl Iterator<Item = PresetValueSettings> {
    ALL.into_iter().map(preset).chain(TABLES.into_iter().map(table))
}

#[test]
fn golden_records_stay_as_they_are() {
    let mut found = Vec::new();
    for settings in all() {
        let (id, key, value) = record(&mut *maker(&settings), &FACTS);
        let key = if settings.name == Some(PresetName::Upsert) {
            format!("{key:?}")
        } else {
            String::from_utf8(key).unwrap()
        };
        let value = match settings.name {
            Some(PresetName::Fillseq | PresetName::Upsert) => format!("{} bytes", value.len()),
            _ => String::from_utf8(value).unwrap(),
        };
        found.push(format!("{id} {key} {value}"));
    }
    // All but the tracking events and the statements computed once by a program of another language.
    let golden: Vec<&str> = include_str!("golden.txt").lines().collect();
    assert_eq!(found, golden, "{}", found.join("\n"));
}

#[test]
fn sizes_are_about_those_that_estimates_use() {
    for settings in all() {
        let mut maker = maker(&settings);
        let bytes: usize =
            (0..5000).map(|sequence| record(&mut *maker, &Facts { sequence, ..FACTS }).2.len()).sum();
        let (mean, typical) = (bytes as f64 / 5000.0, settings.typical_bytes());
        assert!((mean / typical - 1.0).abs() < 0.02, "{settings:?}: {mean} {typical}");
    }
}

#[test]
fn the_largest_record_bounds_all_others() {
    for settings in all() {
        let mut maker = maker(&settings);
        let (max, max_key) = (maker.max_bytes(), maker.max_key_bytes());
        for sequence in (0..20_000).chain((0..64).map(|bit| u64::MAX >> bit)) {
            let facts = Facts {
                sequence,
                partition: u32::MAX,
                key_id: i64::MAX as u64,
                intended_ms: i64::MAX,
                marker: sequence % 5 == 0,
            };
            let (_, key, value) = record(&mut *maker, &facts);
            assert!(key.len() <= max_key && value.len() <= max, "{settings:?}: {} > {max}", value.len());
        }
    }
}

#[test]
fn facts_are_where_they_are_said_to_be() {
    let facts = Facts { marker: true, ..FACTS };
    let expected = [9, 3, 77, 1_700_000_000_123_u64];
    for (settings, at, id) in [
        (preset(PresetName::Ycsb), "", None),
        (preset(PresetName::OpenedxTracking), "/context/soakd", Some("id")),
        (preset(PresetName::Xapi), "/context/extensions/urn:soakd:facts", Some("id")),
        (table(OrdersTable::Customers), "", Some("customer_id")),
        (table(OrdersTable::Products), "", Some("product_id")),
        (table(OrdersTable::Orders), "", Some("order_id")),
        (table(OrdersTable::OrderLines), "", Some("order_line_id")),
    ] {
        let (_, _, value) = record(&mut *maker(&settings), &facts);
        let value: Value = serde_json::from_slice(&value).unwrap();
        let found = value.pointer(at).unwrap();
        let got = [
            id.map_or(9, |id| found[id].as_u64().unwrap()),
            found["partition"].as_u64().unwrap(),
            found["sequence"].as_u64().unwrap(),
            found["intended_ms"].as_u64().unwrap(),
        ];
        assert_eq!(got, expected, "{value}");
    }
}

#[test]
fn fillseq_counts_up_and_ycsb_hashes() {
    let mut maker_ = maker(&preset(PresetName::Fillseq));
    let key = |maker: &mut dyn Format, sequence| {
        String::from_utf8(record(maker, &Facts { sequence, ..FACTS }).1).unwrap()
    };
    assert_eq!(key(&mut *maker_, 123), "00000000000000000123");
    let mut few = maker(&PresetValueSettings { cardinality: Some(100), ..preset(PresetName::Fillseq) });
    assert_eq!(key(&mut *few, 123), "00000000000000000023");
    // The first key that YCSB loads with insertorder=hashed.
    let mut one = maker(&PresetValueSettings { cardinality: Some(1), ..preset(PresetName::Ycsb) });
    assert_eq!(key(&mut *one, 7), "user6284781860667377211");
    let value = json(&mut *one, 7);
    assert_eq!(value["ycsb_key"], "user6284781860667377211");
    assert_eq!(
        (0..10).filter(|field| value[format!("field{field}")].as_str().unwrap().len() == 100).count(),
        10
    );
}

#[test]
fn tracking_events_have_the_shape_and_the_mix_of_a_campus() {
    let mut maker = maker(&preset(PresetName::OpenedxTracking));
    let (mut names, mut actors, mut sessions) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for sequence in 0..20_000 {
        let event = json(&mut *maker, sequence);
        assert_eq!(event["timestamp"], "2023-11-14T22:13:20.123000+00:00");
        let (data, context) = (&event["data"], &event["context"]);
        assert!(
            data.is_object() && context["course_id"].as_str().unwrap().starts_with("course-v1:"),
            "{event}"
        );
        assert_eq!(context["session"].as_str().unwrap().len(), 32);
        let mut key = Vec::new();
        maker.key(sequence, &mut key);
        assert_eq!(event["name"].as_str().unwrap().as_bytes(), key);
        *names.entry(event["name"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        *actors.entry(context["user_id"].as_u64().unwrap()).or_insert(0) += 1;
        sessions.insert(context["session"].as_str().unwrap().to_owned());
    }
    assert_eq!(names.len(), 19);
    // 170 of a thousand with a deviation of 53: six of them.
    assert!((3080..3720).contains(&names["play_video"]), "{names:?}");
    let most = actors.values().max().unwrap();
    assert!(actors.len() > 3000 && (1500..2700).contains(most), "{} {most}", actors.len());
    assert_eq!(sessions.len(), actors.len(), "one session each within a stretch");
}

#[test]
fn statements_are_xapi_and_of_the_actor_in_the_key() {
    let mut maker = maker(&preset(PresetName::Xapi));
    let mut ids = BTreeSet::new();
    for sequence in 0..5000 {
        let (_, key, value) = record(&mut *maker, &Facts { sequence, ..FACTS });
        let statement: Value = serde_json::from_slice(&value).unwrap();
        assert_eq!(statement["actor"]["account"]["name"].as_str().unwrap().as_bytes(), key);
        assert!(
            statement["verb"]["id"]
                .as_str()
                .unwrap()
                .ends_with(statement["verb"]["display"]["en"].as_str().unwrap())
        );
        for field in
            ["/object/id", "/object/definition/type", "/context/contextActivities/parent/0/id", "/version"]
        {
            assert!(statement.pointer(field).is_some_and(Value::is_string), "{field} {statement}");
        }
        ids.insert(statement["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 5000);
    let mut marker = Vec::new();
    maker.write(&Facts { sequence: 7, marker: true, ..FACTS }, &mut marker).unwrap();
    let marker: Value = serde_json::from_slice(&marker).unwrap();
    assert!(ids.insert(marker["id"].as_str().unwrap().to_owned()), "a marker has an id of its own");
}

#[test]
fn the_streams_of_a_shop_agree() {
    let [mut customers, mut products, mut orders, mut lines] = TABLES.map(|one| maker(&table(one)));
    let row = |maker: &mut dyn Format, sequence| json(maker, sequence);
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let customers: BTreeSet<u64> =
        (0..10_000).map(|n| number(&row(&mut *customers, n), "customer_id")).collect();
    let prices: BTreeMap<u64, u64> = (0..1000)
        .map(|n| row(&mut *products, n))
        .map(|product| (number(&product, "product_id"), number(&product, "price_cents")))
        .collect();
    let (mut sums, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for n in 0..10_000 {
        let line = row(&mut *lines, n);
        assert_eq!(number(&line, "order_line_id"), n);
        assert_eq!(prices[&number(&line, "product_id")], number(&line, "price_cents"));
        *sums.entry(number(&line, "order_id")).or_insert(0) += number(&line, "amount_cents");
        let count = counts.entry(number(&line, "order_id")).or_insert(0);
        *count += 1;
        assert_eq!(number(&line, "line"), *count);
    }
    let mut statuses: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for n in 0..16_000 {
        let order = row(&mut *orders, n);
        let id = number(&order, "order_id");
        assert!(customers.contains(&number(&order, "customer_id")));
        assert_eq!(
            (number(&order, "total_cents"), number(&order, "lines")),
            (sums[&id], counts[&id]),
            "{order}"
        );
        statuses.entry(id).or_default().push(order["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(statuses.len(), 4000, "every order whose lines were read");
    let ended = statuses.values().filter(|all| all.last().is_some_and(|last| last == "delivered")).count();
    let cancelled = statuses.values().filter(|all| all.contains(&"cancelled".to_owned())).count();
    assert!((800..1000).contains(&ended) && (60..150).contains(&cancelled), "{ended} {cancelled}");
    let place = ["new", "paid", "cancelled", "shipped", "delivered"];
    let rank = |status: &String| place.iter().position(|one| one == status);
    assert!(statuses.values().all(|all| all.is_sorted_by_key(rank)), "no order goes back");
}

#[test]
fn a_markers_line_changes_no_order() {
    let marker = Facts { marker: true, key_id: 1 << 60, ..FACTS };
    let (_, _, line) = record(&mut *maker(&table(OrdersTable::OrderLines)), &marker);
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!((&line["order_line_id"], &line["amount_cents"]), (&Value::from(1_u64 << 60), &Value::from(0)));
    let (_, _, order) = record(&mut *maker(&table(OrdersTable::Orders)), &marker);
    let order: Value = serde_json::from_slice(&order).unwrap();
    assert_eq!((&order["order_id"], &order["total_cents"]), (&Value::from(1_u64 << 60), &Value::from(0)));
}

#[test]
fn the_keys_of_markers_are_like_those_of_records_and_none_of_them() {
    let key = |settings: &PresetValueSettings| {
        let mut key = Vec::new();
        maker(settings).marker_key(1 << 60, &mut key);
        key
    };
    assert_eq!(key(&preset(PresetName::Fillseq)), b"01152921504606846976");
    assert_eq!(key(&preset(PresetName::Upsert)), (1_u64 << 60).to_be_bytes());
    assert_eq!(key(&preset(PresetName::Ycsb)), b"marker1152921504606846976");
    assert_eq!(key(&table(OrdersTable::Customers)), b"1152921504606846976");
    let statement = key(&preset(PresetName::Xapi));
    let facts = Facts { marker: true, key_id: 1 << 60, ..FACTS };
    let (_, _, value) = record(&mut *maker(&preset(PresetName::Xapi)), &facts);
    let value: Value = serde_json::from_slice(&value).unwrap();
    assert_eq!(value["actor"]["account"]["name"].as_str().unwrap().as_bytes(), statement);
}

#[test]
fn the_docs_show_records_as_they_are() {
    let docs = include_str!("../../../docs/values.md");
    for line in include_str!("golden.txt").lines().skip(3) {
        let value = line.splitn(3, ' ').nth(2).unwrap();
        assert!(docs.contains(value), "docs/values.md lacks {value}");
    }
}

#[test]
fn markers_fall_on_their_partitions_and_carry_their_number() {
    use super::super::hash::partition;
    use super::super::settings::{HeaderSettings, KeySettings, ValueSettings};
    use super::super::{Maker, Wanted};
    for settings in all() {
        let value = ValueSettings::Preset(settings.clone());
        let mut maker = Maker::new(&Wanted {
            seed: 1,
            seed_name: "a",
            at: "streams.a",
            run_id: "r",
            topic: "t",
            partitions: 7,
            records: None,
            key: &KeySettings::default(),
            value: &value,
            headers: &HeaderSettings::default(),
            markers: true,
            look_only: false,
        })
        .unwrap();
        for wanted in 0..7 {
            let (id, key) = maker.marker_key(wanted).map(|(id, key)| (id, key.to_vec())).unwrap();
            assert_eq!(partition(&key, 7), wanted, "{settings:?}");
            let mut value = Vec::new();
            let facts = Facts { sequence: 4, partition: wanted, key_id: id, intended_ms: 5, marker: true };
            maker.value(&facts, &mut value).unwrap();
            if let Ok(text) = String::from_utf8(value) {
                assert!(text.contains(&id.to_string()), "{text}");
            }
        }
    }
}
