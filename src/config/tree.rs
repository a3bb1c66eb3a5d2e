//! The layers laid over each other: values with their origins.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::Origin;

/// A table, or a value with the layer it came from. A list is one value: a later layer replaces it whole.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Table(BTreeMap<String, Node>),
    Leaf(Value, Origin),
}

impl Node {
    pub(super) fn empty() -> Self {
        Node::Table(BTreeMap::new())
    }

    pub(super) fn from_value(value: Value, origin: &Origin) -> Self {
        match value {
            Value::Object(pairs) => {
                let node = |(name, value)| (name, Node::from_value(value, origin));
                Node::Table(pairs.into_iter().map(node).collect())
            }
            value => Node::Leaf(value, origin.clone()),
        }
    }

    /// Lays a later layer over this one.
    pub(super) fn lay(&mut self, later: Node) {
        match (self, later) {
            (Node::Table(below), Node::Table(above)) => {
                for (name, node) in above {
                    match below.get_mut(&name) {
                        Some(there) => there.lay(node),
                        None => {
                            below.insert(name, node);
                        }
                    }
                }
            }
            // In YAML a heading with nothing under it is null; it takes nothing away.
            (Node::Table(_), Node::Leaf(Value::Null, _)) => {}
            (there, later) => *there = later,
        }
    }

    /// Lays one value over this tree.
    pub(super) fn lay_at(&mut self, path: &[String], node: Node) {
        let wrap = |node, name: &String| Node::Table(BTreeMap::from([(name.clone(), node)]));
        self.lay(path.iter().rev().fold(node, wrap));
    }

    /// Lays one value under this tree: it holds where no layer has set anything.
    pub(super) fn lay_under(&mut self, path: &[String], node: Node) {
        let above = std::mem::replace(self, Node::empty());
        self.lay_at(path, node);
        self.lay(above);
    }

    /// The values without their origins.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Node::Table(children) => {
                Value::Object(children.iter().map(|(name, node)| (name.clone(), node.to_value())).collect())
            }
            Node::Leaf(value, _) => value.clone(),
        }
    }

    /// Puts one value in the place of what this tree has there, a table too.
    pub(super) fn replace_at(&mut self, path: &[String], node: Node) {
        // Nothing is left of a table under a value that is none.
        self.lay_at(path, Node::Leaf(Value::Bool(false), Origin::Default));
        self.lay_at(path, node);
    }

    pub(super) fn child(&self, name: &str) -> Option<&Node> {
        match self {
            Node::Table(children) => children.get(name),
            Node::Leaf(..) => None,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let children = match self {
            Node::Table(children) => Some(children),
            Node::Leaf(..) => None,
        };
        children.into_iter().flat_map(|children| children.keys()).map(String::as_str)
    }

    /// The origin of the value, or of the first value inside.
    pub(super) fn origin(&self) -> Option<&Origin> {
        match self {
            Node::Leaf(_, origin) => Some(origin),
            Node::Table(children) => children.values().find_map(Node::origin),
        }
    }
}
