//! What the plan of a schema makes of records; `tests/it/avro.rs` has them read by the Avro project's own library.

use serde_json::json;

use super::super::Facts;
use super::super::format::Of;
use super::super::format::{BuildError, Format, MakeError};
use super::super::settings::avro::{AvroFactsSettings, AvroFieldSettings, AvroValueSettings};
use super::super::value::tests::FACTS;
use super::Avro;

const OF: Of<'static> = Of { seed: 5, at: "streams.main.value", topic: "t", run_id: "r", look_only: false };

fn settings(schema: &serde_json::Value) -> AvroValueSettings {
    AvroValueSettings { schema: Some(schema.to_string()), ..AvroValueSettings::default() }
}

fn hinted(schema: &serde_json::Value, hints: &[(&str, AvroFieldSettings)]) -> AvroValueSettings {
    let fields = hints.iter().map(|(path, hint)| ((*path).to_owned(), hint.clone()));
    AvroValueSettings { fields: fields.collect(), ..settings(schema) }
}

fn refusal(settings: &AvroValueSettings) -> BuildError {
    Avro::new(OF, settings).expect_err("it should be refused")
}

fn write(avro: &mut dyn Format, facts: &Facts) -> Vec<u8> {
    let mut bytes = Vec::new();
    avro.write(facts, &mut bytes).unwrap();
    assert!(bytes.len() <= avro.max_bytes(), "{} bytes of {}", bytes.len(), avro.max_bytes());
    bytes
}

fn at(sequence: u64) -> Facts {
    Facts { sequence, ..FACTS }
}

fn order() -> serde_json::Value {
    json!({ "type": "record", "name": "R", "fields": [
        { "name": "sequence", "type": "long" },
        { "name": "at", "type": "string" },
        { "name": "amount", "type": "double" },
        { "name": "count", "type": ["null", "int"] },
        { "name": "kind", "type": { "type": "enum", "name": "K", "symbols": ["NEW", "PAID"] } },
        { "name": "words", "type": { "type": "array", "items": "string" } },
        { "name": "price", "type": { "type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2 } } ] })
}

#[test]
fn golden_records_stay_as_they_are() {
    let facts = AvroFactsSettings { intended: Some("at".to_owned()), ..AvroFactsSettings::default() };
    let mut avro = Avro::new(OF, &AvroValueSettings { facts, ..settings(&order()) }).unwrap();
    let hex = |sequence| -> String {
        write(&mut avro, &at(sequence)).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!([0, 1, 1_000_000_007].map(hex), GOLDEN);
}

/// Computed once by a program of another language from the definition.
#[rustfmt::skip]
const GOLDEN: [&str; 3] = [
    "0030323032332d31312d31345432323a31333a32302e3132335a70c87f9b391abb3f02e7f485eb080206166c757575626c6f68796f651a6867696e7876796e74676d6f631466796965797a696b6c6500060487cd",
    "0230323032332d31312d31345432323a31333a32302e3132335abb65a2a1e1efe03f00020404616218666a74736276656c7964736c00060dd70d",
    "8ea8d6b90730323032332d31312d31345432323a31333a32302e3132335ab2e620981554da3f0002041e7975716b6f6c6e6962616b61796564206f756c716c646c66797477656577727300060ae223",
];

#[test]
fn a_record_is_a_function_of_seed_and_sequence() {
    let bytes = |seed, sequence| {
        let mut avro = Avro::new(Of { seed, ..OF }, &settings(&order())).unwrap();
        write(&mut avro, &at(sequence + 1));
        write(avro.for_lane().as_mut(), &at(sequence))
    };
    assert_eq!(bytes(1, 7), bytes(1, 7));
    assert_ne!(bytes(1, 7), bytes(2, 7));
    assert_ne!(bytes(1, 7), bytes(1, 8));
}

#[test]
fn a_record_that_a_field_cannot_hold_is_not_made() {
    // An int holds sequences for a while only; then the record is not made, rather than made wrong.
    for (kind, most) in [("int", i32::MAX as u64), ("long", i64::MAX as u64)] {
        let schema =
            json!({ "type": "record", "name": "R", "fields": [{ "name": "sequence", "type": kind }] });
        let mut avro = Avro::new(OF, &settings(&schema)).unwrap();
        write(&mut avro, &at(most));
        let MakeError(error) = avro.write(&at(most + 1), &mut Vec::new()).unwrap_err();
        let says = format!("{} does not fit the field \"sequence\" of type {kind}", most + 1);
        assert!(error.contains(&says), "{error}");
    }
}

#[test]
fn a_marker_says_so_and_is_no_copy_of_the_record_with_its_number() {
    let schema = json!({ "type": "record", "name": "R", "fields": [
        { "name": "marker", "type": "boolean" }, { "name": "any", "type": "double" } ] });
    let mut avro = Avro::new(OF, &settings(&schema)).unwrap();
    let (record, marker) = (write(&mut avro, &FACTS), write(&mut avro, &Facts { marker: true, ..FACTS }));
    assert_eq!((record[0], marker[0]), (0, 1));
    assert_ne!(record[1..], marker[1..]);
}

#[test]
fn a_random_key_of_64_bits_is_a_long_with_its_sign() {
    let schema = json!({ "type": "record", "name": "R", "fields": [{ "name": "id", "type": "long" }] });
    let mut avro = Avro::new(OF, &settings(&schema)).unwrap();
    assert_eq!(write(&mut avro, &Facts { key_id: u64::MAX, ..FACTS }), [1]);
}

#[test]
fn a_schema_without_a_field_for_the_sequence_is_told() {
    let warned = |name: &str| {
        let schema = json!({ "type": "record", "name": "R", "fields": [{ "name": name, "type": "long" }] });
        Avro::new(OF, &settings(&schema)).unwrap().warnings()
    };
    assert!(warned("sequence").is_empty());
    assert!(warned("seq")[0].contains("facts.sequence"));
}

#[test]
fn what_does_not_fit_the_schema_is_refused_with_its_key() {
    let schema = json!({ "type": "record", "name": "All", "fields": [
        { "name": "s", "type": "string" },
        { "name": "i", "type": "int" },
        { "name": "d", "type": "double" },
        { "name": "flag", "type": "boolean" },
        { "name": "sequence", "type": "long" },
        { "name": "kind", "type": { "type": "enum", "name": "K", "symbols": ["NEW", "PAID"] } },
        { "name": "any", "type": ["null", "int", "K"] },
        { "name": "decimal", "type": { "type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2 } },
        { "name": "user", "type": { "type": "record", "name": "U", "fields": [{ "name": "name", "type": "string" }] } }] });
    let hint = AvroFieldSettings::default;
    let pick = |values: &[&str]| AvroFieldSettings {
        pick: values.iter().map(|value| (*value).to_owned()).collect(),
        ..hint()
    };
    for (path, hint, at, says) in [
        ("usr.name", pick(&["x"]), "fields.\"usr.name\"", "did you mean \"user.name\"?"),
        ("s", AvroFieldSettings { min: Some(1.0), ..hint() }, "fields.s.min", "is of numbers"),
        ("i", AvroFieldSettings { size: Some(1), ..hint() }, "fields.i.size", "is of texts"),
        ("i", AvroFieldSettings { nulls: Some(0.5), ..hint() }, "fields.i.nulls", "is of unions with null"),
        ("user", pick(&["x"]), "fields.user.pick", "is of numbers, texts"),
        ("i", AvroFieldSettings { max: Some(3e9), ..hint() }, "fields.i.max", "3000000000 is outside of"),
        (
            "i",
            AvroFieldSettings { min: Some(0.2), max: Some(0.8), ..hint() },
            "fields.i.min",
            "no whole number",
        ),
        ("d", AvroFieldSettings { min: Some(5.0), ..hint() }, "fields.d.min", "set both min and max"),
        ("kind", pick(&["LOST"]), "fields.kind.pick", "\"LOST\" is no symbol of the enum"),
        ("i", pick(&["1", "x"]), "fields.i.pick", "\"x\" is no int"),
        ("any", pick(&["x"]), "fields.any.pick", "no type of the union"),
        ("decimal", pick(&["1.234"]), "fields.decimal.pick", "decimal of 12 digits"),
        ("s", AvroFieldSettings { min_size: Some(9), size: Some(3), ..hint() }, "fields.s.min_size", "above"),
    ] {
        let error = refusal(&hinted(&schema, &[(path, hint)]));
        assert_eq!(error.key, format!("streams.main.value.{at}"), "{error}");
        assert!(error.message.contains(says) && !error.unreachable, "{error}");
    }
    let facts = |sequence: &str| AvroValueSettings {
        facts: AvroFactsSettings { sequence: Some(sequence.to_owned()), ..AvroFactsSettings::default() },
        ..settings(&schema)
    };
    let error = refusal(&facts("sequense"));
    assert_eq!(error.key, "streams.main.value.facts.sequence");
    assert!(error.message.contains("did you mean \"sequence\"?"), "{error}");
    let mut twice = facts("sequence");
    twice.facts.key = twice.facts.sequence.clone();
    let error = refusal(&twice);
    assert_eq!(error.key, "streams.main.value.facts.key");
    assert!(error.message.contains("the field \"sequence\" holds sequence already"), "{error}");
    let error = refusal(&facts("flag"));
    assert!(error.message.contains("of type boolean, which cannot hold it"), "{error}");
}

#[test]
fn a_schema_without_an_end_and_a_record_without_bounds_are_refused() {
    let endless = json!({ "type": "record", "name": "R", "fields": [{ "name": "next", "type": "R" }] });
    let error = refusal(&settings(&endless));
    assert!(error.key.ends_with("value.schema") && error.message.contains("without end"), "{error}");
    let hint = AvroFieldSettings { size: Some(100_000), ..AvroFieldSettings::default() };
    let wide = json!({ "type": "array", "items": { "type": "array", "items": "long" } });
    let error = refusal(&hinted(&wide, &[("", hint.clone()), ("*", hint)]));
    assert!(error.key.ends_with("value.fields") && error.message.contains("set smaller sizes"), "{error}");
    let many: Vec<_> = (0..60).map(|i| json!({ "name": format!("f{i}"), "type": ["null", "R"] })).collect();
    let error = refusal(&settings(&json!({ "type": "record", "name": "R", "fields": many })));
    assert!(error.key.ends_with("value.schema") && error.message.contains("when unrolled"), "{error}");
}

#[test]
fn a_schema_file_is_read_and_named_when_it_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.avsc");
    let from = |path: &std::path::Path| AvroValueSettings {
        schema_file: Some(path.to_owned()),
        ..AvroValueSettings::default()
    };
    std::fs::write(&path, r#"{"type": "record", "name": "R", "fields": []}"#).unwrap();
    Avro::new(OF, &from(&path)).unwrap();
    std::fs::write(&path, r#"{"type": "recrd"}"#).unwrap();
    let error = refusal(&from(&path)).to_string();
    assert!(
        error.contains("value.schema_file: the schema: there is no type \"recrd\"; did you mean"),
        "{error}"
    );
    for strange in [dir.path().join("none"), dir.path().to_owned(), "/dev/zero".into()] {
        let error = refusal(&from(&strange)).to_string();
        assert!(error.contains("cannot read") && error.contains(strange.to_str().unwrap()), "{error}");
    }
}
