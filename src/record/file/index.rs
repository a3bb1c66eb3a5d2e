//! The one pass over a file before the run: where its lines are, and whether they are what the settings say.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::SystemTime;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::format::BuildError;
use super::super::settings::{FileFormat, FileValueSettings};
use super::field::{Field, csv_columns};
use crate::config::{key, open_regular, suggest};

/// Lines of a block in a small file: enough that reading a block is cheap for each of them.
const LINES_PER_BLOCK: u64 = 64;
/// Most blocks: 8 bytes each, 512 KiB. When there are more, each gets twice the lines.
const MAX_BLOCKS: usize = 1 << 16;
/// Lines whose content is looked at; the rest of a huge file is only counted.
const CHECKED_LINES: u64 = 10_000;
/// A file from this size on takes seconds to read, which should not look like a hang.
const LARGE_FILE_BYTES: u64 = 1 << 30;
const READ_BYTES: usize = 1 << 18;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// By which a file that was changed is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Identity {
    pub(super) fn of(about: &Metadata) -> Self {
        Self { bytes: about.len(), modified: about.modified().ok() }
    }
}

/// Where the lines of a file are. Blank lines are none.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) identity: Identity,
    pub(super) lines: u64,
    pub(super) lines_per_block: u64,
    /// First byte of each block.
    starts: Vec<u64>,
    pub(super) longest_bytes: usize,
    /// The key's place in a line.
    pub(super) field: Option<Field>,
    /// Columns of a CSV file.
    pub(super) columns: usize,
    pub(super) warnings: Vec<String>,
}

impl Index {
    /// Reads the file through once.
    pub(super) fn build(at: &str, settings: &FileValueSettings) -> Result<Self, BuildError> {
        let path = &settings.path;
        let wrong =
            |message: String| BuildError::new(key(at, "path"), format!("{}: {message}", path.display()));
        let (file, about) =
            open_regular(path).map_err(|error| wrong(format!("cannot be opened: {error}")))?;
        if about.len() >= LARGE_FILE_BYTES {
            let gib = about.len() as f64 / 1_073_741_824.0;
            tracing::info!("reading {} ({gib:.1} GiB) once to find its lines", path.display());
        }
        let identity = Identity::of(&about);
        let reading = file.try_clone().map_err(|error| wrong(format!("cannot be opened twice: {error}")))?;
        let mut pass = Pass::new(at, settings);
        pass.run(BufReader::with_capacity(READ_BYTES, reading))?;
        match file.metadata().map(|about| Identity::of(&about)) {
            Ok(now) if now == identity => {}
            _ => return Err(wrong("changed while it was read; start when its writer is done".into())),
        }
        if pass.lines == 0 {
            let what = if pass.offset == 0 { "is empty" } else { "has no line to send" };
            return Err(wrong(format!("{what}; name a file with at least one line")));
        }
        let warnings = pass.finish()?;
        Ok(Self {
            path: path.clone(),
            file,
            identity,
            lines: pass.lines,
            lines_per_block: pass.lines_per_block,
            starts: pass.starts,
            longest_bytes: pass.longest_bytes,
            field: pass.field,
            columns: pass.columns,
            warnings,
        })
    }

    /// The first byte of a block and of the next one.
    pub(super) fn block(&self, block: u64) -> Option<(u64, u64)> {
        let index = usize::try_from(block).ok()?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.identity.bytes);
        self.starts.get(index).map(|start| (*start, end))
    }

    /// Number of lines in a block.
    pub(super) fn lines_in(&self, block: u64) -> u64 {
        self.lines.saturating_sub(block * self.lines_per_block).min(self.lines_per_block)
    }

    /// Bytes of a block, on average.
    pub(super) fn block_bytes(&self) -> u64 {
        self.identity.bytes / self.starts.len().max(1) as u64
    }

    pub(super) fn blocks(&self) -> usize {
        self.starts.len()
    }
}

/// A line without its end; `None` when it is blank.
pub(super) fn content(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    (!line.trim_ascii().is_empty()).then_some(line)
}

/// The names of an object's fields.
#[derive(Deserialize)]
#[serde(transparent)]
struct Names(BTreeMap<String, IgnoredAny>);

/// What a pass has found so far.
struct Pass<'a> {
    at: &'a str,
    settings: &'a FileValueSettings,
    lines: u64,
    lines_per_block: u64,
    starts: Vec<u64>,
    offset: u64,
    longest_bytes: usize,
    field: Option<Field>,
    columns: usize,
    header_read: bool,
    /// Of the lines looked at, those without a key, with the reason of the first.
    keyless: u64,
    keyless_why: String,
    /// The names in the first line, for the error that suggests one.
    names: Vec<String>,
}

impl<'a> Pass<'a> {
    fn new(at: &'a str, settings: &'a FileValueSettings) -> Self {
        let is_json = settings.format == FileFormat::Json;
        Self {
            at,
            settings,
            lines: 0,
            lines_per_block: LINES_PER_BLOCK,
            starts: Vec::new(),
            offset: 0,
            longest_bytes: 0,
            field: settings.key_field.as_deref().filter(|_| is_json).map(Field::json),
            columns: 0,
            header_read: settings.format != FileFormat::Csv,
            keyless: 0,
            keyless_why: String::new(),
            names: Vec::new(),
        }
    }

    fn run(&mut self, mut reader: impl BufRead) -> Result<(), BuildError> {
        let (mut line, mut number, max) = (Vec::new(), 0_u64, u64::from(self.settings.max_line));
        loop {
            line.clear();
            number += 1;
            // A line that is longer than it may be, with a mark before it and its end, is not read any further.
            let read = (&mut reader).take(max + 6).read_until(b'\n', &mut line);
            let bytes =
                read.map_err(|error| self.wrong("path", number, &format!("cannot be read: {error}")))?;
            if bytes == 0 {
                return Ok(());
            }
            let mut start = self.offset;
            self.offset += bytes as u64;
            let mut whole = line.as_slice();
            if let Some(rest) = whole.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1) {
                start += BYTE_ORDER_MARK.len() as u64;
                whole = rest;
            }
            if let Some(content) = content(whole) {
                self.line(number, start, content)?;
            }
        }
    }

    /// Takes up a line that is not blank.
    fn line(&mut self, number: u64, start: u64, line: &[u8]) -> Result<(), BuildError> {
        let max = self.settings.max_line as usize;
        if line.len() > max {
            return Err(self.wrong(
                "max_line",
                number,
                &format!(
                    "is longer than max_line = {max} bytes; raise it (and message.max.bytes), or cut the line"
                ),
            ));
        }
        if self.settings.format == FileFormat::Csv {
            if line.iter().filter(|byte| **byte == b'"').count() % 2 == 1 {
                let found = "has a quoted field that goes on in the next line; a record is one line, so take such line ends out";
                return Err(self.wrong("path", number, found));
            }
            if !self.header_read {
                self.header_read = true;
                self.header(line)?;
                if self.settings.header {
                    return Ok(());
                }
            }
        }
        if self.lines < CHECKED_LINES {
            self.check(number, line)?;
        }
        if self.lines.is_multiple_of(self.lines_per_block) {
            if self.starts.len() == MAX_BLOCKS {
                let mut keep = false;
                self.starts.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.lines_per_block *= 2;
            }
            if self.lines.is_multiple_of(self.lines_per_block) {
                self.starts.push(start);
            }
        }
        self.lines += 1;
        self.longest_bytes = self.longest_bytes.max(line.len());
        Ok(())
    }

    /// The first line of a CSV file: finds the key's column.
    fn header(&mut self, line: &[u8]) -> Result<(), BuildError> {
        let names = csv_columns(line);
        self.columns = names.len();
        let Some(wanted) = self.settings.key_field.as_deref() else { return Ok(()) };
        let by_name = || names.iter().position(|name| name.trim() == wanted);
        let by_number = || wanted.parse::<usize>().ok().filter(|number| (1..=names.len()).contains(number));
        let column = if self.settings.header { by_name() } else { by_number().map(|number| number - 1) };
        let Some(column) = column else {
            let remedy = if self.settings.header {
                format!(
                    "the first line names {}{}",
                    names.join(", "),
                    suggest(wanted, names.iter().map(String::as_str))
                )
            } else {
                format!("without a header it is a number from 1 to {}", names.len())
            };
            return Err(BuildError::new(
                key(self.at, "key_field"),
                format!("{} has no column {wanted:?}; {remedy}", self.settings.path.display()),
            ));
        };
        self.field = Some(Field::Csv(column));
        Ok(())
    }

    /// Looks at the content of a line.
    fn check(&mut self, number: u64, line: &[u8]) -> Result<(), BuildError> {
        if self.settings.format == FileFormat::Json {
            if let Err(error) = serde_json::from_slice::<IgnoredAny>(line) {
                let found = format!("is not JSON: {error}; use format = \"raw\" to send lines as they are");
                return Err(self.wrong("path", number, &found));
            }
            if self.settings.facts_field.is_some() && !line.trim_ascii().starts_with(b"{") {
                return Err(self.wrong(
                    "facts_field",
                    number,
                    "is no JSON object and has no place for the field",
                ));
            }
            if let Some(name) = &self.settings.facts_field
                && serde_json::from_slice::<Names>(line).is_ok_and(|names| names.0.contains_key(name))
            {
                let found = format!("has a field {name:?} of its own; name the facts another way");
                return Err(self.wrong("facts_field", number, &found));
            }
            if self.lines == 0 && self.field.is_some() {
                let first = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line);
                self.names = first.map(|first| first.keys().cloned().collect()).unwrap_or_default();
            }
        }
        if let Some(field) = &self.field
            && let Err(why) = field.read(line, &mut Vec::new())
        {
            if self.keyless == 0 {
                self.keyless_why = format!("line {number}: {why}");
            }
            self.keyless += 1;
        }
        Ok(())
    }

    /// What the lines without a key mean.
    fn finish(&self) -> Result<Vec<String>, BuildError> {
        let checked = self.lines.min(CHECKED_LINES);
        let wanted = self.settings.key_field.as_deref().unwrap_or_default();
        if self.keyless == 0 {
            return Ok(Vec::new());
        }
        let found =
            format!("{} of the first {checked} lines have no key ({})", self.keyless, self.keyless_why);
        if self.keyless < checked {
            return Ok(vec![format!("{found}; their records will be dropped as unmade")]);
        }
        let names = match self.names.as_slice() {
            [] => String::new(),
            names => format!(
                "; the first line has {}{}",
                names.join(", "),
                suggest(wanted, names.iter().map(String::as_str))
            ),
        };
        Err(BuildError::new(
            key(self.at, "key_field"),
            format!("{}: {found}{names}", self.settings.path.display()),
        ))
    }

    fn wrong(&self, name: &str, line: u64, found: &str) -> BuildError {
        BuildError::new(key(self.at, name), format!("{}: line {line} {found}", self.settings.path.display()))
    }
}
