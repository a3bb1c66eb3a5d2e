//! Values that are the lines of a file. Record n is a line that (seed, n) alone decide.

mod field;
mod index;
mod order;
mod reader;

use std::fmt;
use std::sync::Arc;

use field::Field;
use index::Index;
use order::Order;
use reader::Reader;

use super::Facts;
use super::format::Of;
use super::format::{BuildError, Format, MakeError};
use super::settings::{FileFormat, FileValueSettings};
use super::text;

/// Longest key that is taken from a line. Kafka has no limit of its own; a longer one is a wrong field.
const MAX_KEY_BYTES: usize = 4096;
/// The facts of a marker stand here when no line has any.
const DEFAULT_FACTS_FIELD: &str = "_soakd";

/// Makes values from the lines of a file.
pub struct File {
    shared: Arc<Shared>,
    reader: Reader,
    /// A key that only its presence is asked of.
    scratch: Vec<u8>,
}

/// What all lanes have in common.
struct Shared {
    index: Arc<Index>,
    order: Order,
    format: FileFormat,
    repeats: bool,
    field: Option<Field>,
    /// `,"name":`, what comes before the facts in a JSON line.
    facts_head: Option<Box<[u8]>>,
    /// What comes before and after a marker's id, and before its facts.
    marker: [Box<[u8]>; 3],
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.shared.index.path)
            .field("lines", &self.shared.index.lines)
            .finish_non_exhaustive()
    }
}

impl File {
    /// Reads the file through once.
    ///
    /// # Errors
    /// When it cannot be read, is empty, or its lines are not what the settings say.
    pub fn new(of: Of<'_>, settings: &FileValueSettings) -> Result<Self, BuildError> {
        let index = Arc::new(Index::build(of.at, settings)?);
        let field = index.field.clone();
        let facts_head = settings.facts_field.as_deref().map(|name| {
            let mut head = b",\"".to_vec();
            text::escaped(name, &mut head);
            head.extend_from_slice(b"\":");
            head.into()
        });
        let shared = Shared {
            order: Order::new(of.seed, index.lines, index.lines_per_block, settings.order),
            format: settings.format,
            repeats: settings.r#loop,
            marker: marker(settings, &index),
            field,
            facts_head,
            index: Arc::clone(&index),
        };
        Ok(Self { shared: Arc::new(shared), reader: Reader::new(index), scratch: Vec::new() })
    }

    fn line_of(&self, sequence: u64) -> Result<u64, MakeError> {
        let lines = self.shared.index.lines;
        if sequence >= lines && !self.shared.repeats {
            return Err(MakeError(format!(
                "{} has {lines} lines and loop = false, and this is record {sequence}",
                self.shared.index.path.display()
            )));
        }
        Ok(self.shared.order.line(sequence))
    }

    /// Holds a line's key against what is right, once as long as the line is in memory.
    fn check_key(&mut self, line: u64) -> Result<(), MakeError> {
        let Some(field) = &self.shared.field else { return Ok(()) };
        let known = self.reader.has_key(line);
        let has_key = match known {
            Some(has_key) => has_key,
            None => {
                self.scratch.clear();
                let found = field.read(self.reader.line(line)?, &mut self.scratch);
                let has_key = found.is_ok() && self.scratch.len() <= MAX_KEY_BYTES;
                self.reader.set_has_key(line, has_key);
                has_key
            }
        };
        if has_key {
            return Ok(());
        }
        self.scratch.clear();
        let why = match field.read(self.reader.line(line)?, &mut self.scratch) {
            Err(why) => why,
            Ok(()) => format!("its key has {} bytes, more than {MAX_KEY_BYTES}", self.scratch.len()),
        };
        Err(self.shared.unmade(line, &why))
    }
}

impl Format for File {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        if facts.marker {
            self.shared.write_marker(facts, value);
            return Ok(());
        }
        let line = self.line_of(facts.sequence)?;
        self.check_key(line)?;
        let shared = Arc::clone(&self.shared);
        let bytes = self.reader.line(line)?;
        shared.write_line(bytes, facts, value).map_err(|why| shared.unmade(line, &why))
    }

    fn max_bytes(&self) -> usize {
        // Markers may be longer than any line; four numbers with commas are shorter than the object.
        let facts = self.shared.facts_head.as_deref().map_or(0, |head| head.len() + text::FACTS_BYTES);
        let marker = self.shared.marker.iter().map(|text| text.len()).sum::<usize>()
            + text::NUMBER_BYTES
            + text::FACTS_BYTES
            + 1;
        (self.shared.index.longest_bytes + facts).max(marker)
    }

    fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let line = self.line_of(sequence).ok()?;
        let bytes = self.reader.line(line).ok()?;
        let found = self.shared.field.as_ref()?.read(bytes, key).is_ok() && key.len() <= MAX_KEY_BYTES;
        self.reader.set_has_key(line, found);
        if !found {
            key.clear();
            return None;
        }
        Some(field::key_id(key))
    }

    fn max_key_bytes(&self) -> usize {
        self.shared.index.longest_bytes.min(MAX_KEY_BYTES)
    }

    fn records(&self) -> Option<u64> {
        (!self.shared.repeats).then_some(self.shared.index.lines)
    }

    fn warnings(&self) -> Vec<String> {
        self.shared.index.warnings.clone()
    }

    fn for_lane(&self) -> Box<dyn Format> {
        let reader = Reader::new(Arc::clone(&self.shared.index));
        Box::new(Self { shared: Arc::clone(&self.shared), reader, scratch: Vec::new() })
    }
}

impl Shared {
    /// Why a line makes no record. The index knows where lines begin, not how many blank ones came before.
    fn unmade(&self, line: u64, why: &str) -> MakeError {
        let path = self.index.path.display();
        MakeError(format!("{path} line {} (blank lines and the header not counted): {why}", line + 1))
    }

    fn write_line(&self, line: &[u8], facts: &Facts, value: &mut Vec<u8>) -> Result<(), String> {
        let Some(head) = &self.facts_head else {
            value.extend_from_slice(line);
            return Ok(());
        };
        if self.format == FileFormat::Csv {
            value.extend_from_slice(line);
            write_columns(facts, value);
            return Ok(());
        }
        let inner = line.trim_ascii().strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
        let inner = inner.ok_or("it is not a JSON object, so facts_field has no place in it")?;
        value.push(b'{');
        value.extend_from_slice(inner.trim_ascii_end());
        // The comma of the head belongs behind a field.
        let empty = value.len() == 1;
        value.extend_from_slice(head.get(usize::from(empty)..).unwrap_or_default());
        text::facts_object(facts, value);
        value.push(b'}');
        Ok(())
    }

    fn write_marker(&self, facts: &Facts, value: &mut Vec<u8>) {
        let [before_id, after_id, before_facts] = &self.marker;
        value.extend_from_slice(before_id);
        if !after_id.is_empty() || self.format == FileFormat::Csv {
            text::number(facts.key_id, value);
        }
        value.extend_from_slice(after_id);
        value.extend_from_slice(before_facts);
        match self.format {
            FileFormat::Csv => write_columns(facts, value),
            FileFormat::Json => {
                text::facts_object(facts, value);
                value.push(b'}');
            }
            FileFormat::Raw => text::facts_object(facts, value),
        }
    }
}

/// The facts as columns behind others.
fn write_columns(facts: &Facts, value: &mut Vec<u8>) {
    for number in [facts.key_id, u64::from(facts.partition), facts.sequence] {
        value.push(b',');
        text::number(number, value);
    }
    value.push(b',');
    text::number(facts.intended_ms, value);
}

/// A marker is no line of the file: an object with nothing but its key and its facts, a row with nothing but them, or
/// `soakd marker {…}`.
fn marker(settings: &FileValueSettings, index: &Index) -> [Box<[u8]>; 3] {
    let (mut before, mut after, mut facts) = (Vec::new(), Vec::new(), Vec::new());
    let name = settings.facts_field.as_deref().unwrap_or(DEFAULT_FACTS_FIELD);
    match (settings.format, &index.field) {
        (FileFormat::Json, Some(Field::Json(path))) => {
            for name in path.iter() {
                before.extend_from_slice(b"{\"");
                text::escaped(name, &mut before);
                before.extend_from_slice(b"\":");
            }
            after.resize(path.len().saturating_sub(1), b'}');
            after.push(b',');
        }
        (FileFormat::Json, _) => before.push(b'{'),
        (FileFormat::Csv, field) => {
            let column = match field {
                Some(Field::Csv(column)) => *column,
                _ => 0,
            };
            before.resize(column, b',');
            after.resize(index.columns.saturating_sub(column + 1), b',');
        }
        (FileFormat::Raw, _) => before.extend_from_slice(b"soakd marker "),
    }
    if settings.format == FileFormat::Json {
        facts.push(b'"');
        text::escaped(name, &mut facts);
        facts.extend_from_slice(b"\":");
    }
    [before.into(), after.into(), facts.into()]
}

#[cfg(test)]
mod tests;
