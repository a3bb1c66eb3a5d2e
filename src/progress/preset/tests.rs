use serde_json::json;

use super::*;
use crate::progress::settings::SourceSettings;

/// A source with everything that no preset fills in.
fn source(preset: &Preset) -> Value {
    let mut source = json!({ "stream": "main", "preset": preset.name });
    if !preset.object.is_empty() {
        source["object"] = preset.example.into();
    }
    if !preset.url.is_empty() {
        source["url"] = preset.url.into();
    }
    source
}

fn settings(source: &Value) -> Value {
    json!({ "progress": { "view": source } })
}

#[test]
fn every_preset_fills_in_a_source_that_has_no_problems() {
    for preset in PRESETS {
        let mut whole = source(preset);
        let fillings = fill(&settings(&whole)).unwrap();
        let [Filling { at, preset: name, values }] = fillings.as_slice() else { panic!("{fillings:?}") };
        assert_eq!((at.join("."), name.as_str()), ("progress.view".to_owned(), preset.name));
        for (key, value) in values.as_object().unwrap() {
            whole[key] = value.clone();
        }
        assert!(!values.to_string().contains(OBJECT), "{}: {values}", preset.name);
        let read: SourceSettings = serde_json::from_value(whole).unwrap();
        assert_eq!(read.common().kind, preset.kind, "{}", preset.name);
        assert_eq!(read.problems("progress.view"), [], "{}", preset.name);
    }
}

#[test]
fn what_is_printed_is_a_source_that_loads() {
    for preset in PRESETS {
        let text = preset.text();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let printed = serde_json::to_value(&table["progress"][preset.name]).unwrap();
        assert_eq!(printed["preset"], preset.name, "{text}");
        for key in preset.values().unwrap().keys() {
            assert!(text.contains(&format!("\n# {key} = ")), "{key} is not in {text}");
            assert!(printed.get(key).is_none(), "{key} would no longer be the preset's: {text}");
        }
        for sentence in preset.notes.iter().chain([&preset.about, &preset.tested]) {
            assert!(sentence.ends_with('.') && text.contains(&format!("# {sentence}\n")), "{text}");
        }
        assert_eq!(preset.object.is_empty(), !preset.fills.contains(OBJECT), "{}", preset.name);
        assert_eq!(find(preset.name).unwrap().name, preset.name);
    }
}

#[test]
fn what_the_user_wrote_stays() {
    let mut source = source(&postgres::PRESET);
    source["query"] = "SELECT 1".into();
    source["interval"] = "9s".into();
    let fillings = fill(&settings(&source)).unwrap();
    let values = fillings[0].values.as_object().unwrap();
    assert!(!values.contains_key("query") && !values.contains_key("interval"), "{values:?}");
    assert_eq!(values["value"], "sequence");
    // A query of one's own needs no object.
    source.as_object_mut().unwrap().remove("object");
    assert!(fill(&settings(&source)).is_ok());
}

#[test]
fn a_preset_that_cannot_fill_in_says_why() {
    let problem = |source: Value| fill(&settings(&source)).unwrap_err()[0].to_string();
    let unknown = problem(json!({ "preset": "postgre" }));
    assert_eq!(unknown, "progress.view.preset: unknown preset \"postgre\"; did you mean \"postgres\"?");
    let missing = problem(json!({ "preset": "postgres", "object": "" }));
    assert!(missing.starts_with("progress.view.object: is missing: preset \"postgres\" asks"), "{missing}");
    let other = problem(json!({ "preset": "postgres", "object": "t", "kind": "http" }));
    assert_eq!(other, "progress.view.preset: \"postgres\" is for kind = \"sql\", not \"http\"");
    // Not a preset's business.
    for untouched in [json!({}), json!({ "progress": 1 }), json!({ "progress": { "view": { "preset": 1 } } })]
    {
        assert_eq!(fill(&untouched), Ok(Vec::new()));
    }
}
