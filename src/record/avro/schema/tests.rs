//! Schemas, good and bad.

use super::*;

#[test]
fn names_are_found_by_the_rules_of_namespaces() {
    let text = r#"{"type": "record", "name": "A", "namespace": "n.m", "fields": [
        {"name": "b", "type": {"type": "enum", "name": "B", "symbols": ["X"]}},
        {"name": "c", "type": {"type": "fixed", "name": "other.C", "size": 3}},
        {"name": "d", "type": {"type": "record", "name": "D", "namespace": "", "fields": [
            {"name": "self", "type": ["null", "D"]}, {"name": "b", "type": "n.m.B"}]}},
        {"name": "again", "type": ["B", "other.C", "D", "A"]}]}"#;
    let parsed = parse(text).unwrap();
    assert_eq!(parsed.name.as_deref(), Some("n.m.A"));
    let names: Vec<&str> = parsed.named.keys().map(String::as_str).collect();
    assert_eq!(names, ["D", "n.m.A", "n.m.B", "other.C"]);
    let Named::Record(fields) = &parsed.named["n.m.A"] else { panic!("{parsed:?}") };
    let last = ["n.m.B", "other.C", "D", "n.m.A"].map(|name| Schema::Named(name.to_owned()));
    assert_eq!(fields[3].schema, Schema::Union(last.into()));
}

#[test]
fn annotations_count_only_where_they_fit() {
    let parsed = |text: &str| parse(text).unwrap();
    let of_fixed = |text: &str| parsed(text).named["F"].clone();
    let decimal = |precision, scale| Some(Logical::Decimal { precision, scale });
    for (text, schema) in [
        (r#"{"type": "int", "logicalType": "date"}"#, Schema::Int(Some(Logical::Date))),
        (r#"{"type": "long", "logicalType": "date"}"#, Schema::Long(None)),
        (
            r#"{"type": "long", "logicalType": "local-timestamp-micros"}"#,
            Schema::Long(Some(Logical::TimestampMicros)),
        ),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 5}"#, Schema::Bytes(decimal(5, 0))),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 6}"#, Schema::Bytes(None)),
        (r#"{"type": {"type": "string", "logicalType": "uuid"}}"#, Schema::String(Some(Logical::Uuid))),
    ] {
        assert_eq!(parsed(text).root, schema, "{text}");
    }
    let fixed = |size: u32, rest: &str| {
        of_fixed(&format!(r#"{{"type": "fixed", "name": "F", "size": {size}, "logicalType": {rest}}}"#))
    };
    assert_eq!(fixed(4, r#""decimal", "precision": 9, "scale": 2"#), Named::Fixed(4, decimal(9, 2)));
    assert_eq!(fixed(4, r#""decimal", "precision": 10"#), Named::Fixed(4, None));
    assert_eq!(fixed(12, r#""duration""#), Named::Fixed(12, Some(Logical::Duration)));
    assert_eq!(fixed(11, r#""duration""#), Named::Fixed(11, None));
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    for (text, says) in [
        ("{", "is not JSON"),
        ("3", "the schema: 3 is no schema"),
        (r#""strnig""#, "there is no type \"strnig\"; did you mean \"string\"?"),
        (r#"{"name": "x"}"#, "needs a \"type\""),
        (r#"{"type": "array"}"#, "\"array\" needs \"items\""),
        (r#"{"type": "record", "name": "A"}"#, "\"record\" needs \"fields\""),
        (r#"{"type": "record", "fields": []}"#, "needs a \"name\""),
        (r#"{"type": "record", "name": "1A", "fields": []}"#, "\"1A\" is no name of a type"),
        (
            r#"{"type": "record", "name": "A", "fields": [{"name": "x", "type": "B"}]}"#,
            "the schema, field \"x\": there is no type \"B\"",
        ),
        (
            r#"{"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]}"#,
            "field \"x\": is there twice",
        ),
        (r#"{"type": "record", "name": "A", "fields": [{"name": "x-y", "type": "int"}]}"#, "is no name"),
        (r#"["int", "int"]"#, "holds int only once"),
        (r#"["int", ["string"]]"#, "type 1: a union cannot hold a union"),
        ("[]", "a union without types"),
        (r#"{"type": "enum", "name": "E", "symbols": ["A", "A"]}"#, "\"A\" is there twice"),
        (r#"{"type": "enum", "name": "E", "symbols": []}"#, "no list of names"),
        (r#"{"type": "fixed", "name": "F", "size": -1}"#, "no number of bytes"),
        (
            r#"[{"type": "fixed", "name": "F", "size": 1}, {"type": "enum", "name": "F", "symbols": ["A"]}]"#,
            "there is a type \"F\" already",
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}
