//! What is allowed where: a view of the settings' JSON schema.
//!
//! Text from the environment and `--set` has no type of its own; the schema says what it is meant to be.

use serde_json::Value;

/// Marks a list of short words that text separates by commas.
pub const COMMAS: &str = "x-soakd-commas";
/// Marks a map whose keys hold dots; an environment variable writes `_` for `.`.
pub const DOTTED: &str = "x-soakd-dotted";
/// Marks a value that its own type checks: a number, a table or a list, say. Text is read as JSON or TOML.
pub const ANY: &str = "x-soakd-any";
/// The key that chooses among the variants of a setting.
pub(super) const KIND: &str = "kind";

/// The schema of one setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'s>(&'s Value);

impl<'s> Shape<'s> {
    /// `schema` has no `$ref`: it is made with inlined sub-schemas.
    pub(super) fn new(schema: &'s Value) -> Self {
        // An optional table is "anyOf: the table or null"; only the table is of interest.
        let alternatives: Vec<&Value> = alternatives(schema).filter(|one| !is_null(one)).collect();
        match alternatives.as_slice() {
            [only] if only.get("const").is_none() => Shape(only),
            _ => Shape(schema),
        }
    }

    /// A keyword of the schema, when it is there.
    pub(super) fn keyword(self, name: &str) -> Option<&'s Value> {
        self.0.get(name)
    }

    /// Whether "not set" is a value.
    pub(super) fn nullable(self) -> bool {
        self.allows("null")
    }

    /// Whether a value of this JSON type is allowed.
    pub(super) fn allows(self, kind: &str) -> bool {
        match self.0.get("type") {
            Some(Value::String(one)) => one == kind,
            Some(Value::Array(many)) => many.iter().any(|one| one == kind),
            _ => kind == "string" && !self.choices().is_empty(),
        }
    }

    /// The words of an enumeration; empty when any text is allowed.
    pub(super) fn choices(self) -> Vec<&'s str> {
        let of_enum =
            self.0.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let of_const = alternatives(self.0).filter_map(|one| one.get("const")).filter_map(Value::as_str);
        of_enum.chain(of_const).collect()
    }

    /// The tables among which `kind` chooses; empty for anything else.
    pub(super) fn variants(self) -> Vec<Variant<'s>> {
        let variant = |one: &'s Value| {
            let kind = one.get("properties")?.get(KIND)?.get("const")?.as_str()?;
            Some(Variant { kind, shape: Shape(one) })
        };
        alternatives(self.0).filter_map(variant).collect()
    }

    /// The `kind` that holds when none is given.
    pub(super) fn default_kind(self) -> Option<&'s str> {
        self.0.get("default")?.get(KIND)?.as_str()
    }

    /// Whether this is a table with keys of its own (one or several variants of them).
    pub(super) fn is_record(self) -> bool {
        self.0.get("properties").is_some() || !self.variants().is_empty()
    }

    /// The shape of every value of a map; `None` for anything else.
    pub(super) fn map_values(self) -> Option<Shape<'s>> {
        self.0.get("additionalProperties").filter(|schema| schema.is_object()).map(Shape::new)
    }

    /// The shape of every item of a list; `None` for anything else.
    pub(super) fn items(self) -> Option<Shape<'s>> {
        self.allows("array").then(|| self.0.get("items")).flatten().map(Shape::new)
    }

    /// The shape behind one key of a record, in whichever variant has it.
    pub(super) fn field(self, name: &str) -> Option<Shape<'s>> {
        let own = |shape: Shape<'s>| shape.0.get("properties")?.get(name).map(Shape::new);
        own(self).or_else(|| self.variants().into_iter().find_map(|variant| own(variant.shape)))
    }

    /// The keys of a record, over all variants.
    pub(super) fn fields(self) -> Vec<&'s str> {
        let own = |shape: Shape<'s>| {
            let properties = shape.0.get("properties").and_then(Value::as_object);
            properties.into_iter().flat_map(|properties| properties.keys()).map(String::as_str)
        };
        let mut names: Vec<&str> =
            own(self).chain(self.variants().into_iter().flat_map(|variant| own(variant.shape))).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The keys that must be there.
    pub(super) fn required(self) -> impl Iterator<Item = &'s str> {
        self.0.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether the schema marks this setting with a word of ours or of JSON schema.
    pub(super) fn marked(self, word: &str) -> bool {
        self.0.get(word) == Some(&Value::Bool(true))
    }

    /// What the setting is, in the words of its documentation.
    pub(super) fn description(self) -> &'s str {
        self.0.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// How its text is to be read: `duration`, `rate`, `socket-address`, `uint32`, …
    pub(super) fn format(self) -> &'s str {
        self.0.get("format").and_then(Value::as_str).unwrap_or_default()
    }

    /// What is right, for the end of "found …, expected …".
    pub(super) fn expected(self) -> String {
        let choices = self.choices();
        if !choices.is_empty() {
            let words: Vec<String> = choices.iter().map(|word| format!("{word:?}")).collect();
            return format!("one of {}", words.join(", "));
        }
        let words = match self.format() {
            "duration" => "a duration as text with its unit, like \"500ms\", \"10s\" or \"2h\"",
            "rate" => "a number of records a second, 0 or more",
            "pace" => "a number of records a second, 0 or more, or \"max\"",
            "repeat" => "a whole number of times, 1 or more, or \"forever\"",
            "size" => "a number of bytes, { min, max }, { mean, sigma } or a list of { size, weight }",
            "socket-address" => "an address with its port, like \"127.0.0.1:9640\"",
            _ if self.is_record() || self.map_values().is_some() => "a table",
            _ if self.allows("array") => "a list",
            _ if self.allows("string") => "text in quotes",
            _ if self.allows("boolean") => "true or false",
            _ if self.allows("integer") => "a whole number",
            _ => "a number",
        };
        words.to_owned()
    }
}

/// One table among which `kind` chooses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant<'s> {
    /// The value of `kind` that chooses it.
    pub(super) kind: &'s str,
    /// The table's keys.
    pub(super) shape: Shape<'s>,
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let of = |word: &str| schema.get(word).and_then(Value::as_array).into_iter().flatten();
    of("oneOf").chain(of("anyOf"))
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}
