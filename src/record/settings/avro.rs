//! Settings of Avro values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Duration, Problem, Secret, SecretUrl, key};

/// Long enough for a registry that wakes up, short enough that nobody wonders at a start that hangs.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Values of Avro.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AvroValueSettings {
    /// The schema as text.
    pub schema: Option<String>,
    /// File of the schema (.avsc), instead of its text.
    pub schema_file: Option<PathBuf>,
    /// The fields that hold the record's facts, by path.
    pub facts: AvroFactsSettings,
    /// How single fields are made, by their path: `"user.id"` is a field of a nested record, `"tags.*"` an item of an array or a value of a map.
    pub fields: BTreeMap<String, AvroFieldSettings>,
    /// Share of the records, from 0 to 1, that have no value and so delete their key.
    pub tombstones: f64,
    /// The schema registry. With its URL values have the Confluent wire format (0, schema id, Avro); without they are plain Avro.
    pub registry: RegistrySettings,
}

/// The fields that hold a record's facts, by path. One that is not named is taken by its usual name, when its type fits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AvroFactsSettings {
    /// Field with the record's number in the stream. Not set: `sequence`, when there is one.
    pub sequence: Option<String>,
    /// Field with its partition. Not set: `partition`, when there is one.
    pub partition: Option<String>,
    /// Field with the number of its key. Not set: `id`, when there is one.
    pub key: Option<String>,
    /// Field with the instant that it was due. Not set: `intended_ms`, when there is one.
    pub intended: Option<String>,
    /// Field that is true in markers and false in all others. Not set: `marker`, when there is one of type boolean.
    pub marker: Option<String>,
}

/// How one field is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AvroFieldSettings {
    /// Least number; dates and times in the unit that the schema gives them. Not set: the least of its type, 0 for decimals and fractions.
    pub min: Option<f64>,
    /// Largest number. Not set: the largest of its type, 1 for fractions.
    pub max: Option<f64>,
    /// Values that are equally likely, as text. In the environment and `--set` a JSON array.
    pub pick: Vec<String>,
    /// Most bytes of a text or of bytes (16 when not set), most items of an array or a map (3 when not set).
    pub size: Option<u32>,
    /// Least of them. Not set: as `size`, and 1 when that is not set either.
    pub min_size: Option<u32>,
    /// Share of nulls, 0 to 1, where null is allowed. Not set: as often as each other type of the union.
    pub nulls: Option<f64>,
}

/// A schema registry with Confluent's REST API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySettings {
    /// Where it is, like `http://registry:8081`. Not set: no registry.
    pub url: Option<SecretUrl>,
    /// User name (or API key), when it asks for one.
    pub username: Option<String>,
    /// Password (or API secret); shown nowhere.
    pub password: Option<Secret>,
    /// File that holds the password, instead of it.
    pub password_file: Option<PathBuf>,
    /// What the schema is kept under: topic_name (`TOPIC-value`), record_name or topic_record_name (`TOPIC-RECORD`). Not set: topic_name; for `openedx_tracking` topic_record_name.
    pub subject: Option<SubjectStrategy>,
    /// Register the schema at start; false only looks it up, so that it must be there.
    pub register: bool,
    /// Longest wait for an answer (a duration).
    pub timeout: Duration,
    /// File of the authorities (PEM) to trust with https, instead of the machine's.
    pub tls_ca_file: Option<PathBuf>,
}

/// What a schema is kept under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubjectStrategy {
    /// `TOPIC-value` or `TOPIC-key`.
    TopicName,
    /// The record's full name.
    RecordName,
    /// Both.
    TopicRecordName,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        RegistrySettings {
            url: None,
            username: None,
            password: None,
            password_file: None,
            subject: None,
            register: true,
            timeout: DEFAULT_TIMEOUT,
            tls_ca_file: None,
        }
    }
}

impl AvroValueSettings {
    /// What is wrong with the values, beyond their types. The schema itself is read when the records are built.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        match (&self.schema, &self.schema_file) {
            (None, None) => {
                problems.push(Problem::new(key(at, "schema"), "is missing; give a schema, or a schema_file"));
            }
            (Some(_), Some(_)) => problems
                .push(Problem::new(key(at, "schema_file"), "stands beside a schema; take one of them out")),
            _ => {}
        }
        for (path, field) in &self.fields {
            field.problems(&key(&key(at, "fields"), path), &mut problems);
        }
        problems.extend(self.registry.problems(&key(at, "registry")));
        problems
    }
}

impl AvroFieldSettings {
    fn problems(&self, at: &str, problems: &mut Vec<Problem>) {
        let mut refuse = |name: &str, message: String| problems.push(Problem::new(key(at, name), message));
        for (name, value) in [("min", self.min), ("max", self.max)] {
            if let Some(value) = value.filter(|value| !value.is_finite()) {
                refuse(name, format!("{value} is no number; use a finite one"));
            }
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            refuse("min", format!("{min} is above max = {max}; lower it, or raise max"));
        }
        if !self.pick.is_empty() {
            let others = [
                ("min", self.min.is_some()),
                ("max", self.max.is_some()),
                ("size", self.size.is_some()),
                ("min_size", self.min_size.is_some()),
            ];
            if let Some((name, _)) = others.iter().find(|(_, set)| *set) {
                refuse(name, "has no meaning beside pick; take one of them out".into());
            }
        }
        if let (Some(least), Some(most)) = (self.min_size, self.size)
            && least > most
        {
            refuse("min_size", format!("{least} is above size = {most}; lower it, or raise size"));
        }
        if let Some(nulls) = self.nulls.filter(|nulls| !(0.0..=1.0).contains(nulls)) {
            refuse("nulls", format!("{nulls} is not a share; use 0 to 1"));
        }
    }
}

impl RegistrySettings {
    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |name: &str, message: &str| problems.push(Problem::new(key(at, name), message));
        if self.url.as_ref().is_some_and(|url| url.expose().contains('@')) {
            refuse("url", "holds a user name or password; use username, and password or password_file");
        }
        if self.password.is_some() && self.password_file.is_some() {
            refuse("password_file", "stands beside a password; take one of them out");
        }
        let secret = self.password.is_some() || self.password_file.is_some();
        match &self.username {
            None if secret => refuse("username", "is missing, and there is a password; give both"),
            Some(_) if !secret => {
                refuse("password", "is missing, and there is a username; give a password or a password_file");
            }
            Some(name) if name.contains(':') => refuse("username", "holds a colon, which cannot be sent"),
            _ => {}
        }
        if self.timeout.is_zero() {
            refuse("timeout", "0s waits for nothing; use a longer one, like \"10s\"");
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_named_with_their_key() {
        let schema = "schema = '\"long\"'\n";
        for (text, at, says) in [
            ("", "v.schema", "is missing"),
            ("schema_file = 'x'\nschema = 'y'", "v.schema_file", "stands beside a schema"),
            ("fields.a = { min = 2, max = 1 }", "v.fields.a.min", "2 is above max = 1"),
            ("fields.a = { min_size = 2, size = 1 }", "v.fields.a.min_size", "2 is above size = 1"),
            ("fields.a = { pick = ['x'], size = 1 }", "v.fields.a.size", "no meaning beside pick"),
            ("fields.'a.b' = { nulls = 2 }", "v.fields.\"a.b\".nulls", "2 is not a share"),
            ("registry.url = 'http://u:hunter2@h'", "v.registry.url", "holds a user name or password"),
            ("registry = { password = 'hunter2' }", "v.registry.username", "is missing"),
            ("registry = { username = 'u' }", "v.registry.password", "is missing"),
            ("registry = { username = 'a:b', password = 'hunter2' }", "v.registry.username", "colon"),
            (
                "registry = { username = 'u', password = 'hunter2', password_file = 'x' }",
                "v.registry.password_file",
                "stands beside",
            ),
            ("registry.timeout = '0s'", "v.registry.timeout", "waits for nothing"),
        ] {
            let given = if text.is_empty() || text.contains("schema") { "" } else { schema };
            let settings: AvroValueSettings = toml::from_str(&format!("{given}{text}")).unwrap();
            let problems = settings.problems("v");
            assert!(
                problems.len() == 1 && problems[0].key == at && problems[0].message.contains(says),
                "{text}: {problems:?}"
            );
            assert!(!format!("{problems:?} {settings:?}").contains("hunter2"), "{text}");
        }
    }
}
