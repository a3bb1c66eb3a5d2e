//! Avro values of every type, read back by the Avro project's own library.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use soakd::record::settings::avro::{AvroFactsSettings, AvroFieldSettings, AvroValueSettings};
use soakd::record::settings::{HeaderSettings, KeySettings, ValueSettings};
use soakd::record::{Facts, Maker, Payload, Wanted};

use crate::avro_reader::AvroReader;

const FACTS: Facts =
    Facts { sequence: 77, partition: 3, key_id: 9, intended_ms: 1_700_000_000_123, marker: false };

fn settings(schema: &Value) -> AvroValueSettings {
    AvroValueSettings { schema: Some(schema.to_string()), ..AvroValueSettings::default() }
}

/// Makes records of the settings and has the library read them.
struct Made<'r> {
    maker: Maker,
    schema: String,
    reader: &'r mut AvroReader,
}

impl<'r> Made<'r> {
    fn new(settings: AvroValueSettings, reader: &'r mut AvroReader) -> Self {
        let schema = settings.schema.clone().unwrap();
        let maker = Maker::new(&Wanted {
            seed: 42,
            seed_name: "main",
            at: "streams.main",
            run_id: "r",
            topic: "t",
            look_only: false,
            partitions: 4,
            key: &KeySettings::default(),
            value: &ValueSettings::Avro(Box::new(settings)),
            headers: &HeaderSettings::default(),
            markers: false,
            records: None,
        });
        Self { maker: maker.unwrap(), schema, reader }
    }

    fn record(&mut self, sequence: u64) -> Value {
        let mut bytes = Vec::new();
        let made = self.maker.value(&Facts { sequence, ..FACTS }, &mut bytes);
        assert_eq!(made, Ok(Payload::Value));
        assert!(bytes.len() <= self.maker.max_record_bytes(), "{}", self.schema);
        self.reader.read(&self.schema, &bytes)
    }
}

/// One of everything.
fn everything() -> Value {
    let logical = |kind: &str, logical: &str| json!({ "type": kind, "logicalType": logical });
    let user = json!({ "type": "record", "name": "User", "namespace": "n", "fields": [
        { "name": "name", "type": "string" },
        { "name": "friend", "type": ["null", "User"] },
        { "name": "children", "type": { "type": "array", "items": "User" } } ] });
    let fields = [
        ("sequence", json!("long")),
        ("partition", json!("int")),
        ("id", json!(["null", "long"])),
        ("intended_ms", logical("long", "timestamp-millis")),
        ("nothing", json!("null")),
        ("flag", json!("boolean")),
        ("i", json!("int")),
        ("l", json!("long")),
        ("f", json!("float")),
        ("d", json!("double")),
        ("b", json!("bytes")),
        ("s", json!("string")),
        ("date", logical("int", "date")),
        ("time_ms", logical("int", "time-millis")),
        ("time_us", logical("long", "time-micros")),
        ("at_us", logical("long", "timestamp-micros")),
        ("at_ns", logical("long", "timestamp-nanos")),
        ("uuid", logical("string", "uuid")),
        ("decimal", json!({ "type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2 })),
        (
            "fixed_decimal",
            json!({ "type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 30, "scale": 4 }),
        ),
        ("span", json!({ "type": "fixed", "name": "Span", "size": 12, "logicalType": "duration" })),
        ("fixed", json!({ "type": "fixed", "name": "F", "size": 7 })),
        ("kind", json!({ "type": "enum", "name": "Kind", "symbols": ["NEW", "PAID", "SENT"] })),
        ("tags", json!({ "type": "array", "items": ["null", "string"] })),
        ("attributes", json!({ "type": "map", "values": "double" })),
        ("user", user),
        ("any", json!(["null", "int", "n.User", "Kind", { "type": "map", "values": "boolean" }])),
    ];
    let fields = fields.map(|(name, schema)| json!({ "name": name, "type": schema }));
    json!({ "type": "record", "name": "All", "fields": fields })
}

#[test]
fn avro_of_every_type_is_read_back_and_the_facts_are_the_records() {
    let mut reader = AvroReader::start();
    let mut made = Made::new(settings(&everything()), &mut reader);
    let (mut depths, mut longest) = (BTreeMap::new(), 0);
    for sequence in 0..400 {
        let value = made.record(sequence);
        let facts = ["sequence", "partition", "id"].map(|name| &value[name]);
        assert_eq!(facts, [&json!(sequence), &json!(3), &json!(9)]);
        // Instants are those of the record, in each unit that the schema has for them.
        assert_eq!(value["intended_ms"], "2023-11-14T22:13:20.123000+00:00");
        assert_eq!(value["at_us"], value["intended_ms"]);
        assert_eq!(value["at_ns"], FACTS.intended_ms * 1_000_000);
        assert_eq!(value["date"], "2023-11-14");
        assert_eq!([&value["time_ms"], &value["time_us"]], ["22:13:20.123000"; 2]);
        assert!((0.0..1.0).contains(&value["d"].as_f64().unwrap()), "{value}");
        let uuid = value["uuid"].as_str().unwrap();
        assert!(uuid.len() == 36 && uuid.as_bytes()[14] == b'4', "{uuid}");
        let decimal = value["decimal"].as_str().unwrap();
        assert!(decimal.split('.').nth(1).is_some_and(|behind| behind.len() == 2), "{decimal}");
        assert!((1..=3).contains(&value["tags"].as_array().unwrap().len()));
        longest = longest.max(value["s"].as_str().unwrap().len());
        let friends = std::iter::successors(Some(&value["user"]), |user| Some(&user["friend"]));
        let depth = friends.take_while(|user| !user.is_null()).count();
        *depths.entry(depth).or_insert(0) += 1;
    }
    assert_eq!(longest, 16);
    assert_eq!(
        depths.keys().copied().collect::<Vec<_>>(),
        [1, 2, 3],
        "types that hold themselves end: {depths:?}"
    );
}

#[test]
fn avro_fields_are_made_as_their_hints_say() {
    let hint = AvroFieldSettings::default;
    let pick = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let hints = [
        ("i", AvroFieldSettings { min: Some(-3.5), max: Some(2.0), ..hint() }),
        ("l", AvroFieldSettings { min: Some(1e15), ..hint() }),
        ("f", AvroFieldSettings { min: Some(10.0), max: Some(20.0), ..hint() }),
        ("s", AvroFieldSettings { size: Some(40), ..hint() }),
        ("b", AvroFieldSettings { size: Some(5), min_size: Some(0), ..hint() }),
        ("date", AvroFieldSettings { min: Some(100.0), max: Some(101.0), ..hint() }),
        ("decimal", AvroFieldSettings { min: Some(-1.5), max: Some(0.25), ..hint() }),
        ("kind", AvroFieldSettings { pick: pick(&["PAID", "SENT"]), ..hint() }),
        ("tags", AvroFieldSettings { size: Some(50), ..hint() }),
        ("tags.*", AvroFieldSettings { nulls: Some(0.2), size: Some(2), ..hint() }),
        ("attributes.*", AvroFieldSettings { pick: pick(&["1.5"]), ..hint() }),
        ("user.name", AvroFieldSettings { pick: pick(&["ann", "bob"]), ..hint() }),
        ("user.children", AvroFieldSettings { size: Some(0), ..hint() }),
        ("any", AvroFieldSettings { pick: pick(&["7"]), nulls: Some(0.0), ..hint() }),
    ];
    let fields = hints.into_iter().map(|(path, hint)| (path.to_owned(), hint)).collect();
    let mut reader = AvroReader::start();
    let mut made = Made::new(AvroValueSettings { fields, ..settings(&everything()) }, &mut reader);
    let (mut ints, mut nulls, mut kinds) = (BTreeMap::new(), 0, BTreeMap::new());
    for sequence in 0..600 {
        let value = made.record(sequence);
        *ints.entry(value["i"].as_i64().unwrap()).or_insert(0) += 1;
        assert!(value["l"].as_i64().unwrap() >= 1_000_000_000_000_000, "{value}");
        assert!((10.0..=20.0).contains(&value["f"].as_f64().unwrap()), "{value}");
        assert_eq!(value["s"].as_str().unwrap().len(), 40);
        assert!(value["b"].as_str().unwrap().len() <= 2 * 5, "{value}");
        assert!(["1970-04-11", "1970-04-12"].contains(&value["date"].as_str().unwrap()), "{value}");
        let decimal: f64 = value["decimal"].as_str().unwrap().parse().unwrap();
        assert!((-1.5..=0.25).contains(&decimal), "{value}");
        *kinds.entry(value["kind"].to_string()).or_insert(0) += 1;
        let tags = value["tags"].as_array().unwrap();
        assert!(
            tags.len() == 50 && tags.iter().flat_map(|tag| tag.as_str()).all(|tag| tag.len() == 2),
            "{value}"
        );
        nulls += tags.iter().filter(|tag| tag.is_null()).count();
        assert!(value["attributes"].as_object().unwrap().values().all(|one| *one == 1.5), "{value}");
        assert!(["ann", "bob"].contains(&value["user"]["name"].as_str().unwrap()), "{value}");
        assert_eq!([&value["user"]["children"], &value["any"]], [&json!([]), &json!(7)]);
    }
    assert_eq!(ints.keys().copied().collect::<Vec<_>>(), [-3, -2, -1, 0, 1, 2]);
    assert!(ints.values().all(|count| (50..150).contains(count)), "100 of each: {ints:?}");
    // 6,000 expected of 30,000, with a deviation of 69.
    assert!((5_600..6_400).contains(&nulls), "{nulls}");
    assert!(kinds.len() == 2 && kinds.values().all(|count| *count > 230), "{kinds:?}");
}

#[test]
fn avro_facts_go_where_they_are_wanted_in_the_type_that_is_there() {
    let schema = json!({ "type": "record", "name": "R", "fields": [
        { "name": "meta", "type": ["null", { "type": "record", "name": "M", "fields": [
            { "name": "seq", "type": ["null", "string"] },
            { "name": "part", "type": "double" } ] }] },
        { "name": "sequence", "type": "boolean" },
        { "name": "id", "type": { "type": "string", "logicalType": "uuid" } },
        { "name": "ts", "type": { "type": "long", "logicalType": "timestamp-micros" } },
        { "name": "text", "type": "string" },
        { "name": "key", "type": "int" } ] });
    let facts = |intended: &str| AvroFactsSettings {
        sequence: Some("meta.seq".to_owned()),
        partition: Some("meta.part".to_owned()),
        key: Some("key".to_owned()),
        intended: Some(intended.to_owned()),
        marker: None,
    };
    let nulls = AvroFieldSettings { nulls: Some(0.0), ..AvroFieldSettings::default() };
    let fields = BTreeMap::from([("meta".to_owned(), nulls)]);
    let mut reader = AvroReader::start();
    for intended in ["ts", "text"] {
        let settings =
            AvroValueSettings { facts: facts(intended), fields: fields.clone(), ..settings(&schema) };
        let value = Made::new(settings, &mut reader).record(77);
        assert_eq!(value["meta"], json!({ "seq": "77", "part": 3.0 }));
        assert_eq!((&value["key"], value["sequence"].is_boolean()), (&json!(9), true));
        assert_eq!(value["ts"], "2023-11-14T22:13:20.123000+00:00");
        if intended == "text" {
            assert_eq!(value["text"], "2023-11-14T22:13:20.123Z");
        }
    }
}

/// Any schema; names are given later.
fn schemas() -> impl Strategy<Value = Value> {
    let primitives = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
    let leaf = prop_oneof![
        proptest::sample::select(primitives.to_vec()).prop_map(Value::from),
        Just(json!({ "type": "string", "logicalType": "uuid" })),
        Just(json!({ "type": "int", "logicalType": "time-millis" })),
        (1_u32..60, 0_u32..4).prop_map(|(precision, scale)| {
            json!({ "type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale.min(precision) })
        }),
        (0_u32..20).prop_map(|size| json!({ "type": "fixed", "name": "?", "size": size })),
        (1_usize..5).prop_map(|count| {
            let symbols: Vec<String> = (0..count).map(|index| format!("S{index}")).collect();
            json!({ "type": "enum", "name": "?", "symbols": symbols })
        }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            inner.clone().prop_map(|values| json!({ "type": "map", "values": values })),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|schemas| {
                let fields = schemas.into_iter().enumerate();
                let fields = fields.map(|(i, schema)| json!({ "name": format!("f{i}"), "type": schema }));
                json!({ "type": "record", "name": "?", "fields": fields.collect::<Vec<_>>() })
            }),
            proptest::collection::vec(inner, 1..4).prop_map(union),
        ]
    })
}

/// A union of those schemas that may stand in one together.
fn union(schemas: Vec<Value>) -> Value {
    let mut kept: Vec<(String, Value)> = Vec::new();
    for schema in schemas.into_iter().filter(|schema| !schema.is_array()) {
        let kind = schema.get("type").unwrap_or(&schema).to_string();
        if schema.get("name").is_some() || kept.iter().all(|(other, _)| *other != kind) {
            kept.push((kind, schema));
        }
    }
    if kept.is_empty() { json!("null") } else { kept.into_iter().map(|(_, schema)| schema).collect() }
}

/// Gives every `?` a name of its own.
fn with_names(schema: &mut Value, count: &mut u32) {
    match schema {
        Value::Object(object) => {
            if object.get("name") == Some(&json!("?")) {
                *count += 1;
                object.insert("name".to_owned(), json!(format!("N{count}")));
            }
            object.values_mut().for_each(|value| with_names(value, count));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| with_names(item, count)),
        _ => {}
    }
}

#[test]
fn avro_of_any_schema_is_read_back_whole() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(256) });
    let reader = std::cell::RefCell::new(AvroReader::start());
    let run = runner.run(&(schemas(), any::<u64>()), |(mut schema, from)| {
        with_names(&mut schema, &mut 0);
        let mut reader = reader.borrow_mut();
        let mut made = Made::new(settings(&schema), &mut reader);
        (from >> 1..).take(4).for_each(|sequence| drop(made.record(sequence)));
        Ok(())
    });
    run.unwrap();
}
