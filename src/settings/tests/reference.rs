//! `config/soakd.toml` holds every setting with its default and its meaning, and loads.

use std::path::PathBuf;

use serde_json::Value;

use super::pairs;
use crate::config::{Duration, schema};
use crate::settings::Settings;

/// One `[heading]` of the file with what stands below it, commented out or not.
#[derive(Debug, Default)]
struct Section {
    heading: String,
    kind: Option<String>,
    /// The comment above the heading.
    comment: String,
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    name: String,
    value: String,
    comment: String,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/soakd.toml")
}

#[test]
fn it_loads_as_it_is() {
    let loaded = Settings::load(&[path()], pairs(&[]), &[]).unwrap();
    assert_eq!(loaded.settings.run.drain_timeout, Duration::from_secs(600));
    assert_eq!(loaded.settings.streams.len(), 1);
    assert_eq!(loaded.settings.progress.len(), 2);
    assert_eq!(loaded.settings.processes.len(), 1);
}

fn sections() -> Vec<Section> {
    let text = std::fs::read_to_string(path()).unwrap();
    let (mut sections, mut comment) = (vec![Section::default()], String::new());
    for line in text.lines() {
        let plain = line.strip_prefix("# ").unwrap_or(line);
        let word = plain.split(" = ").next().unwrap_or_default();
        let is_key = plain.contains(" = ") && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if plain.starts_with('[') && plain.ends_with(']') {
            let heading = plain.trim_matches(['[', ']']).to_owned();
            sections.push(Section { heading, comment: std::mem::take(&mut comment), ..Section::default() });
        } else if is_key {
            let (name, value) = plain.split_once(" = ").unwrap();
            let section = sections.last_mut().unwrap();
            let comment = std::mem::take(&mut comment);
            if name == "kind" && comment.is_empty() {
                section.kind = Some(value.trim_matches('"').to_owned());
            } else {
                section.keys.push(Key { name: name.to_owned(), value: value.to_owned(), comment });
            }
        } else if line.starts_with("# ") {
            comment = format!("{comment} {plain}").trim().to_owned();
        } else {
            comment.clear();
        }
    }
    sections
}

/// All tables of the schema: heading pattern (`*` for a free name), kind, schema.
fn tables<'s>(schema: &'s Value, at: &str, found: &mut Vec<(String, Option<String>, &'s Value)>) {
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    if let Some(properties) = schema["properties"].as_object() {
        let kind = properties.get("kind").and_then(|kind| kind["const"].as_str()).map(str::to_owned);
        found.push((at.to_owned(), kind, schema));
        properties.iter().for_each(|(name, schema)| tables(schema, &below(name), found));
    } else if schema["additionalProperties"]["type"] == "object"
        || schema["additionalProperties"]["oneOf"].is_array()
    {
        tables(&schema["additionalProperties"], &below("*"), found);
    } else if schema["type"] == "object" {
        found.push((at.to_owned(), None, schema));
    }
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        tables(variant, at, found);
    }
}

fn fits(pattern: &str, heading: &str) -> bool {
    let (pattern, heading): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), heading.split('.').collect());
    pattern.len() == heading.len()
        && pattern.iter().zip(heading).all(|(want, have)| *want == "*" || *want == have)
}

fn is_table(schema: &Value) -> bool {
    let of_tables = |one: &Value| one["type"] == "object";
    of_tables(schema) || schema["oneOf"].as_array().is_some_and(|variants| variants.iter().any(of_tables))
}

#[test]
fn it_has_every_setting_with_its_default_and_its_meaning() {
    let (schema, sections) = (schema::<Settings>(), sections());
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    tables(schema.as_value(), "", &mut found);
    assert!(found.len() > 12, "{found:?}");
    for (pattern, kind, schema) in found.iter().filter(|(pattern, ..)| !pattern.is_empty()) {
        let Some(section) =
            sections.iter().find(|section| fits(pattern, &section.heading) && section.kind == *kind)
        else {
            // A map of tables has no heading of its own.
            wrong.push(format!("there is no [{pattern}] of kind {kind:?}"));
            continue;
        };
        let known = schema["properties"].as_object();
        if known.is_some() {
            for key in section.keys.iter().filter(|key| schema["properties"].get(&key.name).is_none()) {
                wrong.push(format!("[{pattern}] has no key {}", key.name));
            }
        }
        for (name, field) in
            known.into_iter().flatten().filter(|(_, field)| field["const"].is_null() && !is_table(field))
        {
            let Some(key) = section.keys.iter().find(|key| key.name == *name) else {
                wrong.push(format!("[{}] lacks {name}", section.heading));
                continue;
            };
            let meaning = field["description"].as_str().unwrap_or_default().replace('\n', " ");
            if key.comment != meaning {
                wrong.push(format!(
                    "[{}] {name}: the comment is {:?}, not {meaning:?}",
                    section.heading, key.comment
                ));
            }
            // A key without a default, and the one by which the example's process is found, have examples for values.
            let is_example = field.get("default").is_none() || (pattern == "processes.*" && name == "name");
            let value: toml::Table = toml::from_str(&format!("value = {}", key.value)).unwrap();
            let value = serde_json::to_value(&value["value"]).unwrap();
            let default = if field["default"].is_null() { Value::from("") } else { field["default"].clone() };
            if !is_example && value != default {
                wrong.push(format!("[{}] {name} is {value}, not its default {default}", section.heading));
            }
        }
    }
    for section in sections.iter().filter(|section| !section.heading.is_empty()) {
        if !found.iter().any(|(pattern, kind, _)| fits(pattern, &section.heading) && *kind == section.kind) {
            wrong.push(format!("[{}] of kind {:?} is unknown", section.heading, section.kind));
        }
        if section.comment.is_empty() {
            wrong.push(format!("[{}] has no comment", section.heading));
        }
    }
    assert!(wrong.is_empty(), "config/soakd.toml differs from the settings:\n{}", wrong.join("\n"));
}
