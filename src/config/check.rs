//! Holds the merged values against the schema: unknown keys, wrong types, missing keys, all at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Map, Value};

use super::error::{Origin, Problem};
use super::pace::{PaceSetting, RepeatSetting};
use super::secret::is_secret_key;
use super::shape::{ANY, DOTTED, KIND, Shape};
use super::tree::Node;
use super::types::{Duration, RateSetting, no_unit};
use super::{key, suggest};

/// Collects what is wrong, and where every value came from.
#[derive(Debug, Default)]
pub(super) struct Check {
    pub(super) problems: Vec<Problem>,
    pub(super) origins: BTreeMap<String, Origin>,
}

impl Check {
    /// The values below `node` as JSON for the settings' types.
    pub(super) fn node(&mut self, shape: Shape<'_>, node: &Node, at: &str) -> Value {
        if shape.marked(ANY) {
            return self.any(node, at);
        }
        let is_table = shape.is_record() || shape.map_values().is_some();
        match node {
            Node::Table(children) if shape.is_record() => self.record(shape, node, children, at),
            Node::Table(children) => match shape.map_values() {
                Some(values) => self.map(shape, values, children, at),
                None => self.refuse(node, at, format!("found a table, expected {}", shape.expected())),
            },
            Node::Leaf(Value::Null, _) if is_table && !shape.nullable() => {
                self.node(shape, &Node::empty(), at)
            }
            Node::Leaf(value, origin) => {
                self.origins.insert(at.to_owned(), origin.clone());
                let unset = value.is_null() || value.as_str() == Some("");
                match value {
                    // An empty text is how TOML and the environment say "not set".
                    _ if unset && shape.nullable() => Value::Null,
                    Value::Array(items) if shape.items().is_some() => self.list(shape, items, origin, at),
                    _ => match scalar_problem(shape, value, at) {
                        None => value.clone(),
                        Some(message) => self.refuse(node, at, message),
                    },
                }
            }
        }
    }

    /// A value that its type checks.
    fn any(&mut self, node: &Node, at: &str) -> Value {
        match node {
            Node::Table(children) => {
                let value = |(name, node): (&String, &Node)| (name.clone(), self.any(node, &key(at, name)));
                Value::Object(children.iter().map(value).collect())
            }
            Node::Leaf(value, origin) => {
                self.origins.insert(at.to_owned(), origin.clone());
                value.clone()
            }
        }
    }

    fn refuse(&mut self, node: &Node, at: &str, message: String) -> Value {
        let problem = Problem::new(at, message);
        self.problems.push(match node.origin() {
            Some(origin) => problem.from_origin(origin.clone()),
            None => problem,
        });
        Value::Null
    }

    fn map(
        &mut self,
        map: Shape<'_>,
        values: Shape<'_>,
        children: &BTreeMap<String, Node>,
        at: &str,
    ) -> Value {
        let value = |(name, node): (&String, &Node)| {
            // In a file, a name with dots and no quotes is a table of tables.
            let value = match node {
                Node::Table(_) if map.marked(DOTTED) => {
                    let message = format!("found a table; a name with dots needs quotes, like \"{name}.…\"");
                    self.refuse(node, &key(at, name), message)
                }
                _ => self.node(values, node, &key(at, name)),
            };
            (name.clone(), value)
        };
        Value::Object(children.iter().map(value).collect())
    }

    fn list(&mut self, shape: Shape<'_>, items: &[Value], origin: &Origin, at: &str) -> Value {
        let Some(shape) = shape.items() else { return Value::Null };
        let mut inner = Check::default();
        let check = |(index, item): (usize, &Value)| {
            inner.node(shape, &Node::from_value(item.clone(), origin), &format!("{at}[{index}]"))
        };
        let values = items.iter().enumerate().map(check).collect();
        // A list is one value with one origin, so those of its items are not kept.
        self.problems.append(&mut inner.problems);
        values
    }

    fn record(
        &mut self,
        shape: Shape<'_>,
        node: &Node,
        children: &BTreeMap<String, Node>,
        at: &str,
    ) -> Value {
        let Some(shape_here) = self.variant(shape, node, at) else { return Value::Null };
        let mut values = Map::new();
        for (name, child) in children {
            let at = key(at, name);
            if let Some(field) = shape_here.field(name) {
                values.insert(name.clone(), self.node(field, child, &at));
            } else if shape.field(name).is_some() {
                let known = shape_here.fields().join(", ");
                self.refuse(child, &at, format!("belongs to another kind; this one knows {known}"));
            } else {
                let hint = suggest(name, shape_here.fields());
                self.refuse(child, &at, format!("unknown key{hint}"));
            }
        }
        if let Some(kind) = shape.default_kind().filter(|_| !shape.variants().is_empty()) {
            values.entry(KIND).or_insert_with(|| kind.into());
        }
        for name in shape_here.required().filter(|name| !values.contains_key(*name)) {
            let what = shape_here.field(name).map(Shape::description).unwrap_or_default();
            self.refuse(
                node,
                &key(at, name),
                format!("is missing: {what}").trim_end_matches(": ").to_owned(),
            );
        }
        Value::Object(values)
    }

    /// The table that `kind` chooses, or the only one.
    fn variant<'s>(&mut self, shape: Shape<'s>, node: &Node, at: &str) -> Option<Shape<'s>> {
        let variants = shape.variants();
        if variants.is_empty() {
            return Some(shape);
        }
        let kinds = || variants.iter().map(|variant| variant.kind);
        let list = || kinds().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(", ");
        let at = key(at, KIND);
        let kind = match node.child(KIND) {
            None => shape.default_kind(),
            Some(Node::Leaf(Value::String(kind), _)) => Some(kind.as_str()),
            Some(other) => {
                self.refuse(other, &at, format!("is not text, expected one of {}", list()));
                return None;
            }
        };
        let Some(kind) = kind else {
            self.refuse(node, &at, format!("is missing; choose one of {}", list()));
            return None;
        };
        let chosen = variants.iter().find(|variant| variant.kind == kind);
        if chosen.is_none() {
            let blamed = node.child(KIND).unwrap_or(node);
            self.refuse(blamed, &at, format!("unknown kind {kind:?}{}", suggest(kind, kinds())));
        }
        chosen.map(|variant| variant.shape)
    }
}

/// What is wrong with a single value, or nothing.
fn scalar_problem(shape: Shape<'_>, value: &Value, at: &str) -> Option<String> {
    let secret = shape.marked("writeOnly") || is_secret_key(at);
    let wrong = || Some(format!("found {}, expected {}", found(value, secret), shape.expected()));
    match value {
        Value::Number(number) if shape.format() == "duration" => Some(no_unit(&number.to_string())),
        Value::String(text) if shape.allows("string") => {
            let choices = shape.choices();
            match shape.format() {
                "duration" => Duration::parse(text).err(),
                "rate" => RateSetting::parse(text).err(),
                "pace" => PaceSetting::parse(text).err(),
                "repeat" => RepeatSetting::parse(text).err(),
                "socket-address" => text.parse::<SocketAddr>().map_or_else(|_| wrong(), |_| None),
                _ if !choices.is_empty() && !choices.contains(&text.as_str()) => {
                    Some(format!("found {}{}", found(value, secret), suggest(text, choices)))
                }
                _ => None,
            }
        }
        Value::Number(number) if matches!(shape.format(), "rate" | "pace") => {
            number.as_f64().and_then(|number| RateSetting::new(number).err())
        }
        Value::Number(number) if shape.allows("integer") => match number.as_i64() {
            // TOML's integers end here; so do ours, or `soakd config` could not be loaded again.
            None if number.is_u64() => Some(format!("{number} is larger than {}", i64::MAX)),
            None => wrong(),
            Some(number) => range_problem(shape, number),
        },
        Value::Number(_) if shape.allows("number") => None,
        Value::Bool(_) if shape.allows("boolean") => None,
        _ => wrong(),
    }
}

fn range_problem(shape: Shape<'_>, number: i64) -> Option<String> {
    let bound = |word| shape.keyword(word).and_then(Value::as_i64);
    let least = bound("minimum").unwrap_or(i64::MIN);
    let most = bound("maximum").unwrap_or(match shape.format() {
        "uint8" => u8::MAX.into(),
        "uint16" => u16::MAX.into(),
        "uint32" => u32::MAX.into(),
        _ => i64::MAX,
    });
    (!(least..=most).contains(&number))
        .then(|| format!("{number} is out of range, expected {least} to {most}"))
}

fn found(value: &Value, secret: bool) -> String {
    match value {
        Value::Null => "nothing (null)".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a table".into(),
        _ if secret => "a value that is not shown".into(),
        Value::Bool(flag) => format!("{flag} without quotes"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {text:?}"),
    }
}
