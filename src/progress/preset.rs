//! Presets: what to ask a known system, so that a user need not know its catalogue. A preset fills in the settings of a source
//! where the user wrote nothing; it is a layer between the defaults and the files, and `soakd config` shows what it
//! did. To add one, add a file and a line to [`PRESETS`].

mod clickhouse;
mod connect;
mod flink;
mod postgres;

use serde_json::{Map, Value};

use crate::config::{Filling, Problem, key, suggest};

/// Stands in a preset's texts for the user's `object`.
const OBJECT: &str = "{object}";

/// Settings for a known system.
#[derive(Debug)]
pub struct Preset {
    /// Its name in the settings.
    pub name: &'static str,
    /// The system that it asks, and what its answer means, a sentence.
    pub about: &'static str,
    /// The kind of source that it is for.
    pub kind: &'static str,
    /// What `object` has to name, a sentence; empty when there is nothing to name.
    pub object: &'static str,
    /// An example of an object.
    pub example: &'static str,
    /// An example of a URL; empty for kinds without one.
    pub url: &'static str,
    /// The settings that it fills in, as TOML; `{object}` stands for the object.
    pub fills: &'static str,
    /// What to know before its figures are believed, a sentence each.
    pub notes: &'static [&'static str],
    /// How far it was tested, a sentence.
    pub tested: &'static str,
}

/// All presets, by name.
pub static PRESETS: &[&Preset] = &[
    &clickhouse::PRESET,
    &connect::PRESET,
    &flink::PRESET,
    &flink::BACKLOG,
    &flink::RECORDS,
    &postgres::PRESET,
];

/// The preset of a name.
///
/// # Errors
/// That there is none, with the nearest one.
pub fn find(name: &str) -> Result<&'static Preset, String> {
    PRESETS.iter().copied().find(|preset| preset.name == name).ok_or_else(|| {
        format!("unknown preset {name:?}{}", suggest(name, PRESETS.iter().map(|preset| preset.name)))
    })
}

impl Preset {
    /// The preset as `soakd check --preset` prints it: a source's settings, ready to be copied, with what there is to know
    /// as comments.
    #[must_use]
    pub fn text(&self) -> String {
        let comment = |text: &str| format!("# {text}\n");
        let mut text = comment(self.about);
        text.extend(self.notes.iter().map(|note| comment(note)));
        text.push_str(&comment(self.tested));
        text.push_str(&format!("[progress.{}]\nkind = {:?}\nstream = \"main\"\n", self.name, self.kind));
        text.push_str(&format!("preset = {:?}\n", self.name));
        if !self.object.is_empty() {
            text.push_str(&format!("{}object = {:?}\n", comment(self.object), self.example));
        }
        if !self.url.is_empty() {
            text.push_str(&format!("url = {:?}\n", self.url));
        }
        // As comments, so that what is copied stays the preset's and follows the object.
        text.push_str("# Filled in by the preset, unless it is set here:\n");
        text.extend(self.fills.trim().lines().map(comment));
        text
    }

    /// The settings that it fills in, as the file of settings has them.
    fn values(&self) -> Result<Map<String, Value>, String> {
        let table: toml::Table =
            toml::from_str(self.fills).map_err(|error| format!("the preset cannot be read: {error}"))?;
        match serde_json::to_value(table) {
            Ok(Value::Object(values)) => Ok(values),
            _ => Err("the preset is no table".to_owned()),
        }
    }

    /// What it fills in for a source whose settings, as far as they are set, are these.
    fn filling(&self, source: &Map<String, Value>) -> Result<Map<String, Value>, (&'static str, String)> {
        if let Some(kind) = source.get("kind").filter(|kind| kind.as_str() != Some(self.kind)) {
            return Err(("preset", format!("{:?} is for kind = {:?}, not {kind}", self.name, self.kind)));
        }
        let object = source.get("object").and_then(Value::as_str).filter(|object| !object.is_empty());
        let mut values = self.values().map_err(|error| ("preset", error))?;
        values.retain(|name, _| !source.contains_key(name));
        for value in values.values_mut() {
            if !put_in(value, object) {
                let what = self.object.trim_end_matches('.');
                return Err(("object", format!("is missing: preset {:?} asks about it. {what}", self.name)));
            }
        }
        values.insert("kind".to_owned(), self.kind.into());
        Ok(values)
    }
}

/// Puts the object into all texts; false when there is none to put in.
fn put_in(value: &mut Value, object: Option<&str>) -> bool {
    match value {
        Value::String(text) if text.contains(OBJECT) => object.is_some_and(|object| {
            *text = text.replace(OBJECT, object);
            true
        }),
        Value::Array(items) => items.iter_mut().all(|item| put_in(item, object)),
        Value::Object(values) => values.values_mut().all(|value| put_in(value, object)),
        _ => true,
    }
}

/// What the presets of all sources fill in, given what the layers set.
///
/// # Errors
/// Presets that there are not, that are for another kind, or that lack what they ask about.
pub fn fill(settings: &Value) -> Result<Vec<Filling>, Vec<Problem>> {
    let (mut fillings, mut problems) = (Vec::new(), Vec::new());
    for (name, source) in settings.get("progress").and_then(Value::as_object).into_iter().flatten() {
        let Some(source) = source.as_object() else { continue };
        // Anything but a text is refused for its type.
        let Some(preset) = source.get("preset").and_then(Value::as_str).filter(|name| !name.is_empty())
        else {
            continue;
        };
        let filled = find(preset).map_err(|message| ("preset", message));
        match filled.and_then(|preset| preset.filling(source)) {
            Ok(values) => fillings.push(Filling {
                at: vec!["progress".to_owned(), name.clone()],
                preset: preset.to_owned(),
                values: values.into(),
            }),
            Err((field, message)) => {
                problems.push(Problem::new(key(&key("progress", name), field), message));
            }
        }
    }
    if problems.is_empty() { Ok(fillings) } else { Err(problems) }
}

#[cfg(test)]
mod tests;
