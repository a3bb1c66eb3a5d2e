//! Effective settings as text: TOML with the origin behind each value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::Origin;
use super::{key, quoted};

/// TOML of `value`, which has its secrets taken out already. With the comments stripped it loads again.
pub(super) fn toml_with_origins(value: &Value, origins: &BTreeMap<String, Origin>) -> String {
    let mut text = String::new();
    table(value, "", origins, &mut text);
    text
}

fn table(value: &Value, at: &str, origins: &BTreeMap<String, Origin>, text: &mut String) {
    let Value::Object(pairs) = value else { return };
    let (tables, leaves): (Vec<_>, Vec<_>) = pairs.iter().partition(|(_, value)| value.is_object());
    // A table of tables needs no heading; an empty one does, for the reader.
    if !at.is_empty() && (!leaves.is_empty() || tables.is_empty()) {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}[{at}]\n"));
    }
    for (name, value) in leaves {
        let origin = origins.get(&key(at, name)).unwrap_or(&Origin::Default);
        // An origin is a path or a name from outside; a line break in it would end the comment.
        let origin = origin.to_string().replace(|c: char| c.is_control(), "?");
        let unset = if value.is_null() { " (not set)" } else { "" };
        text.push_str(&format!("{} = {}  # {origin}{unset}\n", key("", name), inline(value)));
    }
    for (name, value) in tables {
        table(value, &key(at, name), origins, text);
    }
}

fn inline(value: &Value) -> String {
    match value {
        // TOML has no null; an empty text means "not set" for every setting that may be so.
        Value::Null => "\"\"".into(),
        Value::String(text) => quoted(text),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(pairs) => {
            let pair = |(name, value): (&String, &Value)| format!("{} = {}", key("", name), inline(value));
            format!("{{ {} }}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Dotted keys of all values below `value`.
pub(super) fn keys(value: &Value, at: &str, keys_found: &mut Vec<String>) {
    match value {
        Value::Object(pairs) => {
            pairs.iter().for_each(|(name, value)| keys(value, &key(at, name), keys_found))
        }
        _ => keys_found.push(at.to_owned()),
    }
}
