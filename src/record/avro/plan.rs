//! From a schema to a plan: a tree of what to write, so that making a record only walks it.
//!
//! Types that hold themselves are unrolled a few times and then end: by null, an empty array or an empty map.

use super::bytes::encoded_long;
use super::facts::{FactFields, fact_node};
use super::hints::{Hints, NULLS, SIZE};
use super::scalar;
use super::schema::{Field, Named, Parsed, Schema};
use super::write::{Node, Null};
use crate::record::settings::avro::AvroValueSettings;

/// How often a type may stand inside itself.
const MAX_NESTING: usize = 3;
/// More is a schema that holds itself in many places, not a record that anybody sends.
const MAX_NODES: usize = 100_000;
/// Sizes of arrays and maps when nothing is said.
const ITEMS: (u32, u32) = (1, 3);

/// What is wrong: a key below the value's settings, and a sentence.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong {
    pub(super) key: String,
    pub(super) message: String,
}

impl Wrong {
    pub(super) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

/// Plans the values of a schema; also says whether one of its fields holds the sequence.
///
/// # Errors
/// When the settings name a field that is not there or that cannot be as they want, or when no value ends.
pub(super) fn plan(parsed: &Parsed, settings: &AvroValueSettings) -> Result<(Node, bool), Wrong> {
    let mut planner = Planner {
        parsed,
        hints: Hints::new(&settings.fields),
        facts: FactFields::new(&settings.facts),
        inside: Vec::new(),
        paths: Vec::new(),
        nodes: 0,
    };
    let node = planner.node(&parsed.root, "")?.ok_or_else(|| {
        Wrong::new(
            "schema",
            "every value holds another one, without end; give the inner one a union with null",
        )
    })?;
    planner.facts.check(&planner.paths)?;
    planner.hints.check(&planner.paths)?;
    Ok((node, planner.facts.has_sequence()))
}

struct Planner<'a> {
    parsed: &'a Parsed,
    hints: Hints<'a>,
    facts: FactFields<'a>,
    /// The types around the present one.
    inside: Vec<&'a str>,
    /// All fields that were met, for errors.
    paths: Vec<String>,
    nodes: usize,
}

impl<'a> Planner<'a> {
    /// What to write for a schema at a path; `None` when it cannot end here.
    fn node(&mut self, schema: &'a Schema, path: &str) -> Result<Option<Node>, Wrong> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Wrong::new(
                "schema",
                format!("has more than {MAX_NODES} parts when unrolled; take out types that hold themselves"),
            ));
        }
        if let Some(fact) = self.facts.at(path) {
            if let Some(node) = fact_node(fact, schema, path) {
                self.facts.found(fact);
                return Ok(Some(node));
            }
            self.facts.misfit(fact, schema)?;
        }
        self.hints.visit(path);
        match schema {
            Schema::Union(branches) => self.union(branches, path),
            Schema::Array(item) => self.items(item, path, false),
            Schema::Map(value) => self.items(value, path, true),
            Schema::Named(name) => match self.parsed.named.get_key_value(name) {
                Some((name, Named::Record(fields))) => self.record(name, fields, path),
                Some((_, named)) => scalar::named(named, path, &mut self.hints).map(Some),
                None => Ok(None),
            },
            scalar => scalar::node(scalar, path, &mut self.hints).map(Some),
        }
    }

    fn record(&mut self, name: &'a str, fields: &'a [Field], path: &str) -> Result<Option<Node>, Wrong> {
        if self.inside.iter().filter(|around| **around == name).count() >= MAX_NESTING {
            return Ok(None);
        }
        self.inside.push(name);
        let mut parts = Vec::with_capacity(fields.len());
        for field in fields {
            let path = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
            self.paths.push(path.clone());
            match self.node(&field.schema, &path)? {
                Some(node) => parts.push(node),
                None => break,
            }
        }
        self.inside.pop();
        Ok((parts.len() == fields.len()).then(|| Node::All(parts.into())))
    }

    fn items(&mut self, item: &'a Schema, path: &str, keyed: bool) -> Result<Option<Node>, Wrong> {
        let (least, most) = self.hints.sizes(path, ITEMS)?;
        let item_path = if path.is_empty() { "*".to_owned() } else { format!("{path}.*") };
        self.paths.push(item_path.clone());
        let item = self.node(item, &item_path)?;
        Ok(Some(match item {
            Some(item) => Node::Items { least, most, keyed, item: Box::new(item) },
            None => Node::Literal([0].into()),
        }))
    }

    fn union(&mut self, branches: &'a [Schema], path: &str) -> Result<Option<Node>, Wrong> {
        let (mut null, mut others) = (None, Vec::new());
        let picked = match self.hints.pick(path) {
            Some(_) => Some(scalar::fit_for_pick(self.parsed, branches, path, &self.hints)?),
            None => None,
        };
        for (index, branch) in (0_i64..).zip(branches) {
            let prefix: Box<[u8]> = encoded_long(index).into();
            if *branch == Schema::Null {
                null = Some(prefix);
            } else if picked.is_none_or(|picked| picked == branch)
                && let Some(node) = self.node(branch, path)?
            {
                others.push(Node::All([Node::Literal(prefix), node].into()));
            }
        }
        let share = match self.hints.get(path).and_then(|hint| hint.nulls) {
            Some(share) if null.is_some() => {
                self.hints.used(path, NULLS);
                share
            }
            _ => 1.0 / (others.len() as f64 + 1.0),
        };
        // Below 2^53 ÷ 2^53: 1 is always, 0 is never.
        let below = (share * (1_u64 << 53) as f64) as u64;
        Ok(match (null, others.is_empty()) {
            (None, true) => None,
            (Some(null), true) => Some(Node::Literal(null)),
            (null, false) => {
                let null = null.map(|prefix| Null { prefix, below });
                Some(Node::Choice { null, others: others.into() })
            }
        })
    }
}

impl Hints<'_> {
    /// Least and most bytes or items at a path.
    pub(super) fn sizes(&mut self, path: &str, usual: (u32, u32)) -> Result<(u32, u32), Wrong> {
        let Some(hint) = self.get(path) else { return Ok(usual) };
        let (size, min_size) = (hint.size, hint.min_size);
        self.used(path, SIZE);
        let most = size.unwrap_or(usual.1.max(min_size.unwrap_or(0)));
        let least = min_size.unwrap_or(if size.is_some() { most } else { usual.0 });
        if least > most {
            return Err(Wrong::new(
                Hints::key(path, "min_size"),
                format!("{least} is above size = {most}; lower it, or raise size"),
            ));
        }
        Ok((least, most))
    }
}
