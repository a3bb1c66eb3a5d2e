//! Avro schemas, read from their JSON by the rules of the specification (1.12).
//!
//! Our own reader, because soakd needs a schema only to plan its records: that is a walk over a small JSON document, and a
//! library for it would bring thirty crates along. The tests hold it against the library.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::config::suggest;

/// A schema. What has a name stands in [`Parsed::named`] and is referred to.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::record) enum Schema {
    Null,
    Boolean,
    Int(Option<Logical>),
    Long(Option<Logical>),
    Float,
    Double,
    Bytes(Option<Logical>),
    String(Option<Logical>),
    Array(Box<Schema>),
    Map(Box<Schema>),
    Union(Vec<Schema>),
    /// The full name.
    Named(String),
}

/// A type with a name.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::record) enum Named {
    Record(Vec<Field>),
    Enum(Vec<String>),
    Fixed(usize, Option<Logical>),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::record) struct Field {
    pub(super) name: String,
    pub(super) schema: Schema,
}

/// What a type stands for. An annotation that is unknown or does not fit its type is passed over, as the specification
/// asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::record) enum Logical {
    Decimal {
        precision: u32,
        scale: u32,
    },
    Uuid,
    Date,
    TimeMillis,
    TimeMicros,
    /// With or without a zone.
    TimestampMillis,
    TimestampMicros,
    TimestampNanos,
    Duration,
}

/// A schema with the types that it defines.
#[derive(Debug, Clone)]
pub(in crate::record) struct Parsed {
    pub(super) root: Schema,
    pub(super) named: BTreeMap<String, Named>,
    /// What a registry calls the schema by its record; `None` for a union.
    pub(in crate::record) name: Option<String>,
}

const PRIMITIVES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
/// A fixed value is held in memory whole; more is a slip.
const MAX_FIXED_BYTES: u64 = 1 << 20;

/// Reads a schema.
///
/// # Errors
/// A sentence with the place and the remedy, when the text is no JSON or no schema.
pub(in crate::record) fn parse(text: &str) -> Result<Parsed, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let mut reader = Reader { named: BTreeMap::new() };
    let root = reader.schema(&json, "", "the schema")?;
    let name = match (&root, &json) {
        (Schema::Named(name), _) => Some(name.clone()),
        (Schema::Union(_), _) => None,
        // Confluent's Python client, and so Open edX, takes a name that a primitive has no right to.
        (_, Value::Object(object)) => object.get("name").or_else(|| object.get("type")).and_then(text_of),
        (_, other) => text_of(other),
    };
    Ok(Parsed { root, named: reader.named, name })
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

struct Reader {
    named: BTreeMap<String, Named>,
}

impl Reader {
    /// Reads the schema `json` that stands at `at` inside `namespace`.
    fn schema(&mut self, json: &Value, namespace: &str, at: &str) -> Result<Schema, String> {
        match json {
            Value::String(name) => self.by_name(name, namespace, at),
            Value::Array(branches) => self.union(branches, namespace, at),
            Value::Object(object) => self.object(object, namespace, at),
            _ => Err(format!("{at}: {json} is no schema; use a type's name, an object or a list of types")),
        }
    }

    fn by_name(&self, name: &str, namespace: &str, at: &str) -> Result<Schema, String> {
        if let Some(schema) = primitive(name) {
            return Ok(schema);
        }
        // A name without dots is looked for in the namespace around it, then outside of all.
        let full = full_name(name, namespace);
        let found = [full.as_str(), name].into_iter().find(|name| self.named.contains_key(*name));
        found.map(|name| Schema::Named(name.to_owned())).ok_or_else(|| {
            let known = self.named.keys().map(String::as_str).chain(PRIMITIVES);
            let known = known.chain(["record", "enum", "array", "map", "fixed"]);
            format!("{at}: there is no type {name:?}{}", suggest(name, known))
        })
    }

    fn union(&mut self, branches: &[Value], namespace: &str, at: &str) -> Result<Schema, String> {
        let mut found: Vec<Schema> = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let at = format!("{at}, type {index}");
            let schema = self.schema(branch, namespace, &at)?;
            if matches!(schema, Schema::Union(_)) {
                return Err(format!("{at}: a union cannot hold a union; put its types into the outer one"));
            }
            if found.iter().any(|other| kind(other) == kind(&schema)) {
                let kind = kind(&schema);
                return Err(format!("{at}: a union holds {kind} only once; take one of them out"));
            }
            found.push(schema);
        }
        if found.is_empty() {
            return Err(format!("{at}: a union without types has no value; name at least one"));
        }
        Ok(Schema::Union(found))
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str, at: &str) -> Result<Schema, String> {
        let kind = object
            .get("type")
            .ok_or_else(|| format!("{at}: an object needs a \"type\", like {{\"type\": \"string\"}}"))?;
        let Value::String(kind) = kind else { return self.schema(kind, namespace, at) };
        let part = |name: &str| {
            object.get(name).ok_or_else(|| format!("{at}: {kind:?} needs {name:?}, and it is missing"))
        };
        match kind.as_str() {
            "array" => {
                let items = self.schema(part("items")?, namespace, &format!("{at}, items"))?;
                Ok(Schema::Array(Box::new(items)))
            }
            "map" => {
                let values = self.schema(part("values")?, namespace, &format!("{at}, values"))?;
                Ok(Schema::Map(Box::new(values)))
            }
            "record" | "error" => {
                let full = self.define(object, namespace, at, Named::Record(Vec::new()))?;
                let inner = full.rsplit_once('.').map_or("", |(namespace, _)| namespace);
                let fields = part("fields")?
                    .as_array()
                    .ok_or_else(|| format!("{at}: \"fields\" is no list; use a list of fields"))?;
                let fields = self.fields(fields, inner, at)?;
                self.named.insert(full.clone(), Named::Record(fields));
                Ok(Schema::Named(full))
            }
            "enum" => {
                let symbols = symbols(part("symbols")?, at)?;
                self.define(object, namespace, at, Named::Enum(symbols)).map(Schema::Named)
            }
            "fixed" => {
                let size = part("size")?.as_u64().filter(|size| *size <= MAX_FIXED_BYTES);
                let size = size.ok_or_else(|| {
                    format!("{at}: \"size\" is no number of bytes; use 0 to {MAX_FIXED_BYTES}")
                })?;
                let size = usize::try_from(size).unwrap_or_default();
                let logical = logical_of_fixed(object, size);
                self.define(object, namespace, at, Named::Fixed(size, logical)).map(Schema::Named)
            }
            name => Ok(with_logical(self.by_name(name, namespace, at)?, object)),
        }
    }

    fn fields(&mut self, fields: &[Value], namespace: &str, at: &str) -> Result<Vec<Field>, String> {
        let mut found: Vec<Field> = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let name = field.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| format!("{at}, field {index}: has no \"name\""))?;
            let at = format!("{at}, field {name:?}");
            if !is_plain(name) {
                return Err(format!("{at}: is no name; use letters, digits and _, and no digit in front"));
            }
            if found.iter().any(|other| other.name == name) {
                return Err(format!("{at}: is there twice; rename one of them"));
            }
            let schema = field.get("type").ok_or_else(|| format!("{at}: has no \"type\""))?;
            let schema = self.schema(schema, namespace, &at)?;
            found.push(Field { name: name.to_owned(), schema });
        }
        Ok(found)
    }

    /// Makes a type known under its full name, which it returns.
    fn define(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        at: &str,
        named: Named,
    ) -> Result<String, String> {
        let name = object.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| format!("{at}: a type of this kind needs a \"name\""))?;
        let namespace = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        let full = full_name(name, namespace);
        if !full.split('.').all(is_plain) || PRIMITIVES.contains(&full.as_str()) {
            return Err(format!(
                "{at}: {full:?} is no name of a type; use letters, digits and _, parts separated by dots"
            ));
        }
        if self.named.contains_key(&full) {
            return Err(format!("{at}: there is a type {full:?} already; rename one of them"));
        }
        self.named.insert(full.clone(), named);
        Ok(full)
    }
}

fn primitive(name: &str) -> Option<Schema> {
    Some(match name {
        "null" => Schema::Null,
        "boolean" => Schema::Boolean,
        "int" => Schema::Int(None),
        "long" => Schema::Long(None),
        "float" => Schema::Float,
        "double" => Schema::Double,
        "bytes" => Schema::Bytes(None),
        "string" => Schema::String(None),
        _ => return None,
    })
}

fn full_name(name: &str, namespace: &str) -> String {
    if namespace.is_empty() || name.contains('.') {
        name.trim_start_matches('.').to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

fn is_plain(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().next().is_some_and(|first| !first.is_ascii_digit()) && name.chars().all(word)
}

/// What may stand in a union once.
pub(super) fn kind(schema: &Schema) -> &str {
    match schema {
        Schema::Null => "null",
        Schema::Boolean => "boolean",
        Schema::Int(_) => "int",
        Schema::Long(_) => "long",
        Schema::Float => "float",
        Schema::Double => "double",
        Schema::Bytes(_) => "bytes",
        Schema::String(_) => "string",
        Schema::Array(_) => "array",
        Schema::Map(_) => "map",
        Schema::Union(_) => "union",
        Schema::Named(name) => name,
    }
}

fn symbols(json: &Value, at: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{at}: \"symbols\" is no list of names; use one like [\"NEW\", \"DONE\"]");
    let list = json.as_array().filter(|list| !list.is_empty()).ok_or_else(wrong)?;
    let mut found = Vec::new();
    for symbol in list {
        let symbol = symbol.as_str().filter(|symbol| is_plain(symbol)).ok_or_else(wrong)?.to_owned();
        if found.contains(&symbol) {
            return Err(format!("{at}: the symbol {symbol:?} is there twice; take one of them out"));
        }
        found.push(symbol);
    }
    Ok(found)
}

/// The type of an object with the annotation that it carries, when both fit.
fn with_logical(schema: Schema, object: &Map<String, Value>) -> Schema {
    let logical = object.get("logicalType").and_then(Value::as_str).unwrap_or_default();
    match (schema, logical) {
        (Schema::Int(_), "date") => Schema::Int(Some(Logical::Date)),
        (Schema::Int(_), "time-millis") => Schema::Int(Some(Logical::TimeMillis)),
        (Schema::Long(_), "time-micros") => Schema::Long(Some(Logical::TimeMicros)),
        (Schema::Long(_), "timestamp-millis" | "local-timestamp-millis") => {
            Schema::Long(Some(Logical::TimestampMillis))
        }
        (Schema::Long(_), "timestamp-micros" | "local-timestamp-micros") => {
            Schema::Long(Some(Logical::TimestampMicros))
        }
        (Schema::Long(_), "timestamp-nanos" | "local-timestamp-nanos") => {
            Schema::Long(Some(Logical::TimestampNanos))
        }
        (Schema::Bytes(_), "decimal") => Schema::Bytes(decimal(object, None)),
        (Schema::String(_), "uuid") => Schema::String(Some(Logical::Uuid)),
        (schema, _) => schema,
    }
}

fn logical_of_fixed(object: &Map<String, Value>, size: usize) -> Option<Logical> {
    match object.get("logicalType").and_then(Value::as_str)? {
        "decimal" => decimal(object, Some(size)),
        "duration" if size == 12 => Some(Logical::Duration),
        "uuid" if size == 16 => Some(Logical::Uuid),
        _ => None,
    }
}

fn decimal(object: &Map<String, Value>, size: Option<usize>) -> Option<Logical> {
    let number =
        |name: &str| object.get(name).map(|value| value.as_u64().and_then(|n| u32::try_from(n).ok()));
    let precision = number("precision").flatten().filter(|precision| *precision > 0)?;
    let scale = number("scale").unwrap_or(Some(0)).filter(|scale| *scale <= precision)?;
    // So many digits fit n bytes: floor(log10(2^(8n - 1) - 1)).
    let fits = size.is_none_or(|size| {
        let bits = (8 * size as u64).saturating_sub(1);
        u64::from(precision) <= bits * 30_103 / 100_000
    });
    fits.then_some(Logical::Decimal { precision, scale })
}

#[cfg(test)]
mod tests;
