//! Layers of text: the environment and `--set`. The text is parsed by the type of the setting it is for.

use serde_json::Value;

use super::error::{Origin, Problem};
use super::shape::{ANY, COMMAS, DOTTED, Shape};
use super::tree::Node;
use super::{key, suggest};

/// Begins a variable that is a setting.
const PREFIX: &str = "SOAKD__";
/// Begins a variable that was perhaps meant to be one.
const NEAR_PREFIX: &str = "SOAKD_";

/// Lays the environment over `tree`. Returns warnings.
pub(super) fn lay_env(
    tree: &mut Node,
    root: Shape<'_>,
    env: impl IntoIterator<Item = (String, String)>,
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut env: Vec<(String, String)> = env.into_iter().collect();
    // The order of the environment means nothing; ours makes errors the same each time.
    env.sort();
    for (name, text) in env {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            if is_ours(&name) {
                warnings.push(format!(
                    "the environment variable {name} is ignored: a setting begins with {PREFIX} and has two underscores \
                     between its parts, like SOAKD__RUN__NAME"
                ));
            }
            continue;
        };
        let origin = Origin::Env(name.clone());
        let segments: Vec<&str> = rest.split("__").collect();
        match resolve(root, tree, &segments, Style::Env).and_then(|(path, shape)| {
            let at = path.iter().fold(String::new(), |at, name| key(&at, name));
            let node = parse(shape, &text, &origin).map_err(|message| format!("{at}: {message}"))?;
            Ok((path, at, node, shape.marked(ANY)))
        }) {
            Ok((path, at, node, any)) => match twin(tree, &path) {
                Some(twin) => problems.push(
                    Problem::new(at, format!("is set by {twin} too; keep one of them")).from_origin(origin),
                ),
                None if any => tree.replace_at(&path, node),
                None => tree.lay_at(&path, node),
            },
            Err(message) => problems.push(Problem::new("", message).from_origin(origin)),
        }
    }
    warnings
}

/// Whether a variable is a setting, or was perhaps meant to be one.
pub(super) fn is_ours(name: &str) -> bool {
    name.to_ascii_uppercase().starts_with(NEAR_PREFIX)
}

/// Another variable that set the same value: names are matched without regard to case.
fn twin(tree: &Node, path: &[String]) -> Option<String> {
    match path.iter().try_fold(tree, |node, name| node.child(name)) {
        Some(Node::Leaf(_, Origin::Env(name))) => Some(name.clone()),
        _ => None,
    }
}

/// Lays the `key=value` texts of `--set` over `tree`, left to right.
pub(super) fn lay_sets(tree: &mut Node, root: Shape<'_>, sets: &[String], problems: &mut Vec<Problem>) {
    for set in sets {
        let laid = assignment(set).and_then(|(parts, text)| {
            let segments: Vec<&str> = parts.iter().map(String::as_str).collect();
            let (path, shape) = resolve(root, tree, &segments, Style::Set)?;
            let at = path.iter().fold(String::new(), |at, name| key(&at, name));
            let node = parse(shape, text, &Origin::Set).map_err(|message| format!("{at}: {message}"))?;
            if shape.marked(ANY) {
                tree.replace_at(&path, node);
            } else {
                tree.lay_at(&path, node);
            }
            Ok(())
        });
        if let Err(message) = laid {
            problems.push(Problem::new("", message).from_origin(Origin::Set));
        }
    }
}

/// Splits `a."b.c"=text` at the first `=` outside quotes.
fn assignment(set: &str) -> Result<(Vec<String>, &str), String> {
    let mut quote = None;
    let at = set.char_indices().find(|(_, c)| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(*c),
            (Some(open), c) if open == *c => quote = None,
            _ => {}
        }
        quote.is_none() && *c == '='
    });
    // Only the first word is shown: what follows it may be a secret value.
    let first = set.split([' ', ':']).next().unwrap_or_default();
    let Some((left, right)) = at.and_then(|(at, _)| set.split_at_checked(at)) else {
        return Err(format!("{first:?} has no `=`; write key=value, like run.name=nightly"));
    };
    let parts = split_key(left).map_err(|()| {
        format!("{:?} is not a dotted key; write it like run.name or kafka.client.\"linger.ms\"", left.trim())
    })?;
    Ok((parts, right.strip_prefix('=').unwrap_or(right)))
}

/// The parts of a dotted key with TOML's quotes.
pub(super) fn split_key(text: &str) -> Result<Vec<String>, ()> {
    // TOML's own parser knows the rules of quoting; a document of this one key has one path.
    let mut table: toml::Table = toml::from_str(&format!("{text} = 0")).map_err(|_| ())?;
    let mut parts = Vec::new();
    loop {
        let mut pairs = table.into_iter();
        match (pairs.next(), pairs.next()) {
            (Some((name, toml::Value::Table(inner))), None) => {
                parts.push(name);
                table = inner;
            }
            (Some((name, toml::Value::Integer(0))), None) => {
                parts.push(name);
                return Ok(parts);
            }
            _ => return Err(()),
        }
    }
}

/// How names are written in a layer.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Upper case, `_` for the dots of client properties.
    Env,
    /// As in a file.
    Set,
}

/// Follows the parts of a key through the schema.
fn resolve<'s>(
    root: Shape<'s>,
    tree: &Node,
    parts: &[&str],
    style: Style,
) -> Result<(Vec<String>, Shape<'s>), String> {
    let (mut shape, mut node, mut path, mut at) = (root, Some(tree), Vec::new(), String::new());
    let mut rest = parts.iter();
    while let Some(part) = rest.next() {
        let (name, next) = if shape.is_record() {
            let name = if style == Style::Env { part.to_ascii_lowercase() } else { (*part).to_owned() };
            let next = shape.field(&name).ok_or_else(|| {
                format!("{}: unknown key{}", key(&at, &name), suggest(&name, shape.fields()))
            })?;
            (name, next)
        } else if let Some(values) = shape.map_values() {
            let name = match style {
                Style::Env if shape.marked(DOTTED) => part.to_ascii_lowercase().replace('_', "."),
                Style::Env => name_by_env(part, node)?,
                // `kafka.client.linger.ms` can only mean one thing, so its quotes may be left out.
                Style::Set if shape.marked(DOTTED) => {
                    rest.by_ref().fold((*part).to_owned(), |name, part| format!("{name}.{part}"))
                }
                Style::Set => (*part).to_owned(),
            };
            if name.is_empty() {
                return Err(format!("{at}: a name is missing between two separators"));
            }
            (name, values)
        } else {
            return Err(format!("{at}: is {}; there is no key {part:?} below it", shape.expected()));
        };
        at = key(&at, &name);
        node = node.and_then(|node| node.child(&name));
        path.push(name);
        shape = next;
    }
    Ok((path, shape))
}

/// The name of a stream, source, … as the files write it: many shells know upper case and `_` only. A new name is lower case.
fn name_by_env(part: &str, map: Option<&Node>) -> Result<String, String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let names: Vec<&str> = map.into_iter().flat_map(Node::names).collect();
    if let Some(exact) = names.iter().find(|name| **name == part) {
        return Ok((*exact).to_owned());
    }
    let alike: Vec<&str> = names.into_iter().filter(|name| plain(name) == plain(part)).collect();
    match alike.as_slice() {
        [] => Ok(part.to_ascii_lowercase()),
        [one] => Ok((*one).to_owned()),
        many => Err(format!("{part:?} could be each of {}; use --set", many.join(", "))),
    }
}

/// Reads text as what the setting is. Text settings keep it as it is: `00123`, SQL with commas.
fn parse(shape: Shape<'_>, text: &str, origin: &Origin) -> Result<Node, String> {
    let leaf = |value: Value| Ok(Node::Leaf(value, origin.clone()));
    let trimmed = text.trim();
    let no = || Err(format!("found {text:?}, expected {}", shape.expected()));
    if shape.marked(ANY) {
        return parse_any(trimmed).map_or_else(no, |value| Ok(Node::from_value(value, origin)));
    }
    if shape.is_record() || shape.map_values().is_some() {
        return parse_table(trimmed).map(|value| Node::from_value(value, origin));
    }
    if shape.nullable() && text.is_empty() {
        return leaf(Value::Null);
    }
    if shape.allows("string") {
        return leaf(text.into());
    }
    if shape.allows("array") {
        return parse_list(shape, text).and_then(leaf);
    }
    if shape.allows("boolean") {
        return trimmed.parse::<bool>().map_or_else(|_| no(), |flag| leaf(flag.into()));
    }
    let digits = trimmed.replace('_', "");
    if let Ok(number) = digits.parse::<i64>() {
        return leaf(number.into());
    }
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() && shape.allows("number") => leaf(number.into()),
        _ => no(),
    }
}

/// A JSON array for any list; else the whole text is the one item, but for lists of short words, which commas separate.
fn parse_list(shape: Shape<'_>, text: &str) -> Result<Value, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text.trim())
            .map_err(|error| format!("begins like a list but is no JSON array (column {})", error.column()));
    }
    if !shape.marked(COMMAS) {
        return Ok(if text.trim().is_empty() { Value::Array(Vec::new()) } else { vec![text].into() });
    }
    Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect())
}

/// A value of JSON or of TOML.
fn parse_any(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let document: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
    let value = document.get("value").filter(|_| document.len() == 1)?;
    serde_json::to_value(value).ok()
}

/// A JSON object or a TOML inline table. The text is not shown in the error: it may hold secrets.
fn parse_table(text: &str) -> Result<Value, String> {
    let no =
        "is a table; set one key below it, or give a JSON object or TOML table like { name = \"value\" }";
    if !text.starts_with('{') {
        return Err(no.into());
    }
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let document: toml::Table = toml::from_str(&format!("table = {text}")).map_err(|_| no.to_owned())?;
    match (document.get("table"), document.len()) {
        (Some(table), 1) => serde_json::to_value(table).map_err(|_| no.to_owned()),
        _ => Err(no.into()),
    }
}
