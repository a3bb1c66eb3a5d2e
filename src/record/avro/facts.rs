//! Which fields hold a record's facts.

use super::bytes::encoded_long;
use super::plan::Wrong;
use super::schema::{Logical, Schema, kind};
use super::write::Node;
use crate::config::{key, suggest};
use crate::record::settings::avro::AvroFactsSettings;

/// Something that a value says about its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    Sequence,
    Partition,
    Key,
    Intended,
    Marker,
}

/// How a fact is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Flag,
    Int,
    /// Times so much: an instant in milliseconds may be wanted in micro- or nanoseconds.
    Long(i64),
    Double,
    /// Digits; an instant by RFC 3339.
    Text,
}

/// The wanted fields, and which of them were found.
pub(super) struct FactFields<'a> {
    /// Fact, its key in the settings, the wanted path, the path without a wish, found.
    all: [(Fact, &'static str, Option<&'a str>, &'static str, bool); 5],
}

impl<'a> FactFields<'a> {
    pub(super) fn new(settings: &'a AvroFactsSettings) -> Self {
        Self {
            all: [
                (Fact::Sequence, "sequence", settings.sequence.as_deref(), "sequence", false),
                (Fact::Partition, "partition", settings.partition.as_deref(), "partition", false),
                (Fact::Key, "key", settings.key.as_deref(), "id", false),
                (Fact::Intended, "intended", settings.intended.as_deref(), "intended_ms", false),
                (Fact::Marker, "marker", settings.marker.as_deref(), "marker", false),
            ],
        }
    }

    /// The fact that belongs to a path.
    pub(super) fn at(&self, path: &str) -> Option<Fact> {
        let is_here = |wanted: &Option<&str>, usual: &str| path == wanted.unwrap_or(usual);
        self.all.iter().find(|(_, _, wanted, usual, _)| is_here(wanted, usual)).map(|(fact, ..)| *fact)
    }

    pub(super) fn found(&mut self, fact: Fact) {
        self.all.iter_mut().filter(|one| one.0 == fact).for_each(|one| one.4 = true);
    }

    /// Whether a field holds the sequence.
    pub(super) fn has_sequence(&self) -> bool {
        self.all.iter().any(|(fact, _, _, _, found)| *fact == Fact::Sequence && *found)
    }

    /// A field that was wished for must fit; one with a usual name only may.
    pub(super) fn misfit(&self, fact: Fact, schema: &Schema) -> Result<(), Wrong> {
        let wished = self.all.iter().find(|(one, _, wanted, ..)| *one == fact && wanted.is_some());
        let Some((_, name, ..)) = wished else { return Ok(()) };
        let types = match fact {
            Fact::Intended => "long, double or string",
            Fact::Marker => "boolean",
            _ => "int, long, double or string",
        };
        Err(Wrong::new(
            key("facts", name),
            format!(
                "the field is of type {}, which cannot hold it; use a field of type {types}",
                kind(schema)
            ),
        ))
    }

    /// # Errors
    /// When a wished field is not there.
    pub(super) fn check(&self, paths: &[String]) -> Result<(), Wrong> {
        for (index, (_, name, wanted, _, found)) in self.all.iter().enumerate() {
            if let Some(path) = wanted.filter(|_| !found) {
                let mut before = self.all.iter().take(index);
                if let Some((_, other, ..)) = before.find(|(_, _, wanted, ..)| *wanted == Some(path)) {
                    return Err(Wrong::new(
                        key("facts", name),
                        format!("the field {path:?} holds {other} already; name another one"),
                    ));
                }
                let hint = suggest(path, paths.iter().map(String::as_str));
                return Err(Wrong::new(
                    key("facts", name),
                    format!("the schema has no field {path:?}{hint}"),
                ));
            }
        }
        Ok(())
    }
}

/// What writes a fact into a field, when the field's type can hold it.
pub(super) fn fact_node(fact: Fact, schema: &Schema, path: &str) -> Option<Node> {
    if let Schema::Union(branches) = schema {
        return (0_i64..).zip(branches).find_map(|(index, branch)| {
            let node = fact_node(fact, branch, path)?;
            Some(Node::All([Node::Literal(encoded_long(index).into()), node].into()))
        });
    }
    let form = match (schema, fact) {
        (Schema::Boolean, Fact::Marker) => Form::Flag,
        (_, Fact::Marker) => return None,
        (Schema::Long(None | Some(Logical::TimestampMillis)), Fact::Intended) => Form::Long(1),
        (Schema::Long(Some(Logical::TimestampMicros)), Fact::Intended) => Form::Long(1_000),
        (Schema::Long(Some(Logical::TimestampNanos)), Fact::Intended) => Form::Long(1_000_000),
        (Schema::Int(None), Fact::Sequence | Fact::Partition | Fact::Key) => Form::Int,
        (Schema::Long(None), _) => Form::Long(1),
        (Schema::Double, _) => Form::Double,
        (Schema::String(None), _) => Form::Text,
        _ => return None,
    };
    Some(Node::Fact { fact, form, field: path.into() })
}
