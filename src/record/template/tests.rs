use proptest::prelude::*;
use serde_json::Value;

use super::super::settings::{TemplateValueSettings, ValueSettings};
use super::super::value::tests::{FACTS, write};
use super::*;

const FIXED: Fixed<'_> = Fixed { run_id: "r\"1", topic: "t" };

fn settings(template: &str) -> ValueSettings {
    ValueSettings::Template(TemplateValueSettings {
        template: Some(template.to_owned()),
        ..TemplateValueSettings::default()
    })
}

fn compile(template: &str) -> Compiled {
    Compiled::new(template, FIXED).unwrap_or_else(|error| panic!("{template}: {error}"))
}

fn made(compiled: &Compiled, facts: &Facts) -> Vec<u8> {
    let mut value = Vec::new();
    compiled.write(facts, Random::of(5, facts.sequence), &mut value);
    value
}

fn refused(template: &str) -> String {
    Compiled::new(template, FIXED).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn golden_values_stay_as_they_are() {
    let template = r#"{
        "id": {{key}}, "n": {{sequence}}, "p": {{partition}}, "at": {{intended_ms}}, "iso": {{intended_iso}},
        "marker": {{marker}}, "bucket": {{cycle 50}}, "uuid": {{uuid}},
        "user": { "age": {{int 18 99}}, "score": {{float -1 1 3}}, "ok": {{bool 0.3}}, "tags": [{{pick a b c}}, {{hex 8}}] },
        "text": "{{text 10}} / {{words 3}} / {{digits 2 6}}", "level": {{weighted 1 90 2 9 null 1}}, "who": "x-{{key}} \"{{run}}\""
    }"#;
    let value = String::from_utf8(write(&settings(template), &FACTS)).unwrap();
    assert_eq!(value, GOLDEN);
}

/// Computed once by a program of another language from the definition.
const GOLDEN: &str = r#"{"id":9,"n":77,"p":3,"at":1700000000123,"iso":"2023-11-14T22:13:20.123Z","marker":false,"bucket":27,"uuid":"8b4ff01d-3dc6-4dae-9930-39c4952f9aae","user":{"age":56,"score":-0.892,"ok":true,"tags":["b","c3fb7367"]},"text":"faueringof / able chart silver / 740253","level":1,"who":"x-9 \"r\""}"#;

#[test]
fn numbers_are_numbers_and_texts_are_texts() {
    let compiled = compile(
        r#"{"a": {{int 5 5}}, "b": "{{int 5 5}}", "c": {{pick 7}}, "d": {{pick "7"}}, "e": "{{pick 7}}", "f": {{pick 'a "b" \'c\''}},
            "g": "{{pick 'a "b"'}}", "h": {{bool 1}}, "i": {{bool 0}}, "j": {{weighted null 1}}, "k": {{run}}, "l": "{{run}}!", "m": {{topic}}}"#,
    );
    let value: Value = serde_json::from_slice(&made(&compiled, &FACTS)).unwrap();
    let expected = serde_json::json!({
        "a": 5, "b": "5", "c": 7, "d": "7", "e": "7", "f": "a \"b\" 'c'", "g": "a \"b\"", "h": true, "i": false, "j": null,
        "k": "r\"1", "l": "r\"1!", "m": "t"
    });
    assert_eq!(value, expected);
}

#[test]
fn blanks_between_texts_are_not_sent_and_blanks_within_are() {
    let compiled = compile("{ \"a b\" : \"c\\\" d\\\\\" ,\n\t\"e\": [ {{sequence}} , 1 ] }\n");
    assert_eq!(made(&compiled, &FACTS), br#"{"a b":"c\" d\\","e":[77,1]}"#);
}

#[test]
fn a_value_is_padded_to_its_size_wherever_the_pad_stands() {
    for (template, sizes) in [
        (r#"{"pad": {{pad 200}}, "n": {{sequence}}}"#, 200..=200),
        (r#"{"n": {{sequence}}, "pad": "{{pad 200}}"}"#, 200..=200),
        (r#"{"pad": "{{pad 10}}", "n": {{sequence}}}"#, 17..=17),
    ] {
        let compiled = compile(template);
        let value = made(&compiled, &FACTS);
        assert!(sizes.contains(&value.len()), "{template}: {}", value.len());
        let value: Value = serde_json::from_slice(&value).unwrap();
        assert_eq!(value["n"], 77, "{template}");
        assert!(value["pad"].is_string());
    }
}

#[test]
fn markers_have_other_random_values_than_the_records_of_the_same_number() {
    let template = settings(r#"{"id": {{uuid}}, "n": {{sequence}}, "marker": {{marker}}}"#);
    let record: Value = serde_json::from_slice(&write(&template, &FACTS)).unwrap();
    let marker: Value = serde_json::from_slice(&write(&template, &Facts { marker: true, ..FACTS })).unwrap();
    assert_eq!((&record["n"], &marker["n"]), (&Value::from(77), &Value::from(77)));
    assert_eq!((&record["marker"], &marker["marker"]), (&Value::from(false), &Value::from(true)));
    assert_ne!(record["id"], marker["id"]);
}

#[test]
fn ranges_have_both_ends_and_shares_are_kept() {
    let compiled = compile(
        r#"[{{int -2 2}}, {{float -0.5 0.5 1}}, {{bool 0.25}}, {{weighted a 3 b 1}}, {{int -9223372036854775808 9223372036854775807}}]"#,
    );
    let (mut ints, mut floats) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let (mut truths, mut firsts) = (0, 0);
    for sequence in 0..10_000 {
        let value: Value = serde_json::from_slice(&made(&compiled, &Facts { sequence, ..FACTS })).unwrap();
        ints.insert(value[0].as_i64().unwrap());
        floats.insert(value[1].to_string());
        truths += u32::from(value[2].as_bool().unwrap());
        firsts += u32::from(value[3] == "a");
    }
    assert_eq!(ints.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2]);
    assert_eq!(floats.len(), 11, "{floats:?}");
    // Deviations of 43: six of them.
    assert!((2240..2760).contains(&truths), "{truths}");
    assert!((7240..7760).contains(&firsts), "{firsts}");
}

#[test]
fn mistakes_name_their_place_and_the_remedy() {
    for (template, expected) in [
        ("", "line 1, column 1: the template is empty"),
        (
            "{\"a\":\n  {{seqence}}}",
            "line 2, column 3, near {{seqence}}: there is no place \"seqence\"; did you mean",
        ),
        ("{\"a\": {{int 1}}}", "near {{int 1}}: int takes two numbers; write {{int 1 100}}"),
        ("{\"a\": {{int 5 1}}}", "5 is above 1"),
        ("{\"a\": {{int x 1}}}", "\"x\" is not a whole number"),
        ("{\"a\": {{float 0 1 20}}}", "\"20\" is not a number of decimals from 1 to 9"),
        ("{\"a\": {{float 0 0.123 2}}}", "\"0.123\" is not a number with at most 2 decimals"),
        ("{\"a\": {{bool 2}}}", "\"2\" is not a share from 0 to 1"),
        ("{\"a\": {{pick}}}", "there is nothing to pick from"),
        ("{\"a\": {{weighted a}}}", "weighted takes pairs"),
        ("{\"a\": {{weighted a x}}}", "\"x\", the weight of \"a\", is not a whole number"),
        ("{\"a\": {{weighted a 0}}}", "there is nothing to pick from"),
        ("{\"a\": {{text}}}", "it takes a length"),
        ("{\"a\": {{text 99999999999}}}", "is not a length"),
        ("{\"a\": {{sequence 5}}}", "sequence takes no words"),
        ("{\"a\": {{cycle 0}}}", "\"0\" is not a number of 1 or more"),
        ("{\"a\": {{}}}", "the place is empty"),
        ("{\"a\": {{sequence}", "this {{ has no }}"),
        ("{\"a\": {{pick 'a}}", "this {{ has no }}"),
        (
            "{\"a\": 1{{sequence}}}",
            "column 8, near {{sequence}}: outside quotes a place must be a whole value",
        ),
        ("{\"a\": {{sequence}}5}", "outside quotes a place must be a whole value"),
        ("{\"a\": {{sequence}}{{key}}}", "outside quotes a place must be a whole value"),
        ("{\"x\": 1, {{text 3}}: 1}", "the name of a field must be in quotes"),
        (
            "{\"a\": {{sequence}},\n \"b\" 1}",
            "line 2, column 6, near {{sequence}}: the values would not be JSON: expected `:`",
        ),
        ("{\"a\": \"{{text 5}}\n\"}", "near {{text 5}}: the values would not be JSON: control character"),
        ("{\"a\": [{{sequence}}}", "the values would not be JSON"),
        (
            "{\"a\": {{sequence}}} x",
            "line 1, column 21, near {{sequence}}: the values would not be JSON: trailing characters",
        ),
        ("{\"a\": {{pad 5}}, \"b\": {{pad 6}}}", "near {{pad 6}}: a value is padded at one place only"),
    ] {
        let error = refused(template);
        assert!(error.contains(expected), "{template}\n {error}\n {expected}");
    }
}

#[test]
fn a_template_that_tells_no_progress_is_warned_of() {
    let of = Of { seed: 5, at: "streams.main.value", topic: "t", run_id: "r", look_only: false };
    let warnings = |template: &str| {
        let settings =
            TemplateValueSettings { template: Some(template.into()), ..TemplateValueSettings::default() };
        Template::new(of, &settings).unwrap().warnings().len()
    };
    assert_eq!(warnings(r#"{"a": {{key}}, "b": {{cycle 9}}}"#), 1);
    for template in [r#"{"a": {{sequence}}}"#, r#"["{{intended_iso}}"]"#, r#"{{intended_ms}}"#] {
        assert_eq!(warnings(template), 0, "{template}");
    }
}

#[test]
fn a_file_of_a_template_is_read_and_its_errors_name_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.json");
    let of = Of { seed: 5, at: "streams.main.value", topic: "t", run_id: "r", look_only: false };
    let settings =
        TemplateValueSettings { template_file: Some(path.clone()), ..TemplateValueSettings::default() };
    let error = Template::new(of, &settings).unwrap_err();
    assert_eq!(error.key, "streams.main.value.template_file");
    assert!(error.message.contains("t.json"), "{error}");
    std::fs::write(&path, "\u{feff}{\"n\": {{sequence}}}\n").unwrap();
    let mut value = Vec::new();
    Template::new(of, &settings).unwrap().write(&FACTS, &mut value).unwrap();
    assert_eq!(value, br#"{"n":77}"#);
    std::fs::write(&path, b"{\"n\": \"\xff\"}").unwrap();
    assert!(Template::new(of, &settings).unwrap_err().message.contains("not UTF-8 at byte 7"));
    std::fs::write(&path, "{\"n\": {{x}}}").unwrap();
    assert!(Template::new(of, &settings).unwrap_err().message.contains("line 1, column 7, near {{x}}"));
}

/// Templates made of pieces that are right each for itself.
fn templates() -> impl Strategy<Value = String> {
    let place = prop::sample::select(vec![
        "{{sequence}}",
        "{{partition}}",
        "{{key}}",
        "{{intended_ms}}",
        "{{intended_iso}}",
        "{{marker}}",
        "{{run}}",
        "{{topic}}",
        "{{cycle 7}}",
        "{{uuid}}",
        "{{int -5 500}}",
        "{{float -10 1000.5 3}}",
        "{{bool}}",
        "{{pick a 1 null 'x \"y\" \\\\'}}",
        "{{weighted \"}}\" 1 é 2}}",
        "{{text 0 9}}",
        "{{digits 3}}",
        "{{hex 5}}",
        "{{words 0 4}}",
    ]);
    let bare = place.clone().prop_map(str::to_owned);
    let quoted = (prop::sample::select(vec!["", "a", "\\\" ", " }} ", "é"]), place)
        .prop_map(|(text, place)| format!("\"{text}{place}{text}{place}\""));
    let leaf = prop_oneof![bare, quoted, Just("1.5e3".to_owned()), Just("null".to_owned())];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| format!("[ {} ]", all.join(" , "))),
            prop::collection::vec(inner, 0..4).prop_map(|all| {
                let fields: Vec<String> =
                    all.iter().enumerate().map(|(n, one)| format!("\"f{n}\" :{one}")).collect();
                format!("{{ {} }}", fields.join(",\n"))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_of_a_good_template_is_json_within_the_bound(
        template in templates(), sequence: u64, partition: u32, key_id: u64, intended_ms: i64, marker: bool,
    ) {
        let compiled = Compiled::new(&template, FIXED).map_err(|error| TestCaseError::fail(format!("{template}: {error}")))?;
        let value = made(&compiled, &Facts { sequence, partition, key_id, intended_ms, marker });
        prop_assert!(serde_json::from_slice::<Value>(&value).is_ok(), "{} {:?}", template, String::from_utf8(value));
        prop_assert!(value.len() <= compiled.max_bytes, "{} > {}", value.len(), compiled.max_bytes);
    }

    #[test]
    fn no_text_makes_the_compiler_fail_in_another_way_than_by_an_error(text in "[{}\"'\\\\a-z0-9 :,\\[\\]\n]{0,40}") {
        if let Ok(compiled) = Compiled::new(&text, FIXED) {
            prop_assert!(serde_json::from_slice::<Value>(&made(&compiled, &FACTS)).is_ok(), "{}", text);
        }
    }
}

#[test]
fn the_bound_is_reached() {
    let compiled = compile(
        r#"{"n": {{sequence}}, "p": {{partition}}, "iso": {{intended_iso}}, "t": {{text 5}}, "m": {{pick abc}}}"#,
    );
    let facts = Facts { sequence: u64::MAX, partition: u32::MAX, ..FACTS };
    assert_eq!(made(&compiled, &facts).len(), compiled.max_bytes);
    let padded = compile(r#"{"n": {{sequence}}, "pad": {{pad 100}}}"#);
    assert_eq!((made(&padded, &facts).len(), padded.max_bytes), (100, 100));
}

#[test]
fn the_docs_list_every_place_and_their_example_is_a_good_one() {
    let docs = include_str!("../../../docs/values.md");
    for name in place::NAMES {
        assert!(docs.contains(&format!("`{{{{{name}")), "docs/values.md lacks {name}");
    }
    let example = docs.split("'''").nth(1).unwrap();
    assert_eq!(made(&compile(example), &FACTS).len(), 500);
}
