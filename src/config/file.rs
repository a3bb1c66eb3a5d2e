//! One settings file: read, decoded, parsed.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use config::{FileFormat, Format, ValueKind};
use serde_json::{Number, Value};
use toml::de::{DeTable, DeValue};

use super::error::{Origin, Problem};
use super::read::read_capped;
use super::secret::without_quoted;
use super::text::split_key;
use super::tree::Node;

/// Far above any settings file, far below what a wrong file (a device, a log) would cost.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Texts of the files, kept to tell lines.
#[derive(Clone, Default)]
pub(super) struct Sources(Vec<(PathBuf, String)>);

/// Without the texts: they hold the secrets of the files.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(path, _)| path)).finish()
    }
}

/// Reads a file and lays its values out; its text goes to `sources`.
pub(super) fn read(path: &Path, sources: &mut Sources) -> Result<Node, Problem> {
    let origin = Origin::File(path.to_owned());
    let wrong =
        |message: String, line| Problem { line, ..Problem::new("", message).from_origin(origin.clone()) };
    let format = format_of(path).map_err(|message| wrong(message, None))?;
    let bytes = read_bytes(path).map_err(|error| wrong(unreadable(path, &error), None))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        wrong("is not UTF-8 text".into(), Some(1 + good.iter().filter(|byte| **byte == b'\n').count()))
    })?;
    // Some editors begin a file with a byte order mark; no parser wants it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    // JSON has no empty document, but a file with nothing in it sets nothing, whatever its format.
    if text.trim().is_empty() {
        return Ok(Node::empty());
    }
    let table = format.parse(None, text).map_err(|error| {
        let (message, line) = explain(error.as_ref(), text);
        wrong(message, line)
    })?;
    if format == FileFormat::Toml {
        sources.0.push((path.to_owned(), text.to_owned()));
    }
    let pairs = table.into_iter().map(|(name, value)| (name, plain(value.kind)));
    Ok(Node::from_value(Value::Object(pairs.collect()), &origin))
}

fn format_of(path: &Path) -> Result<FileFormat, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        // A pipe (`-c /dev/stdin`) has no extension.
        None | Some("toml") => Ok(FileFormat::Toml),
        Some("yaml" | "yml") => Ok(FileFormat::Yaml),
        Some("json") => Ok(FileFormat::Json),
        Some(other) => {
            Err(format!("has the unknown extension {other:?}; known are .toml, .yaml, .yml and .json"))
        }
    }
}

/// A pipe is welcome here: whoever names one wants to wait for it.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    read_capped(File::open(path)?, MAX_FILE_BYTES)
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => "is a directory; name the settings file in it".into(),
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => "no permission to read it".into(),
        _ => format!("cannot read {}: {error}", path.display()),
    }
}

/// What a parser found wrong, and the line. Its picture of the line is left out: the line may hold a password.
fn explain(error: &(dyn std::error::Error + Send + Sync + 'static), text: &str) -> (String, Option<usize>) {
    if let Some(error) = error.downcast_ref::<toml::de::Error>() {
        let line = error.span().map(|span| line_at(text, span.start));
        return (format!("is not valid TOML: {}", error.message().replace('\n', ", ")), line);
    }
    if let Some(error) = error.downcast_ref::<serde_json::Error>() {
        let kind = if error.is_eof() { "it ends too early" } else { "unexpected character or value" };
        return (format!("is not valid JSON: {kind} in column {}", error.column()), Some(error.line()));
    }
    let message = without_quoted(&error.to_string());
    // The root's type is the one thing that the crate checks itself, for every format.
    if message.starts_with("invalid type") {
        return ("holds no table of settings".into(), None);
    }
    // The YAML parser tells the line in its text only, as "… at byte 7 line 2 column 3".
    let line = message.split_once(" line ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    (format!("cannot be parsed: {message}"), line)
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

fn plain(kind: ValueKind) -> Value {
    match kind {
        ValueKind::Nil => Value::Null,
        ValueKind::Boolean(flag) => flag.into(),
        ValueKind::I64(number) => number.into(),
        ValueKind::U64(number) => number.into(),
        // Too large for any setting: as text it is refused with the number shown.
        ValueKind::I128(number) => number.to_string().into(),
        ValueKind::U128(number) => number.to_string().into(),
        // JSON has no nan and inf; as text they are refused with their names.
        ValueKind::Float(number) => {
            Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number)
        }
        ValueKind::String(text) => text.into(),
        ValueKind::Array(items) => items.into_iter().map(|item| plain(item.kind)).collect(),
        ValueKind::Table(pairs) => {
            Value::Object(pairs.into_iter().map(|(name, value)| (name, plain(value.kind))).collect())
        }
    }
}

impl Sources {
    /// The line of a dotted key, or of the nearest table above it that stands in the file.
    pub(super) fn line(&self, path: &Path, key: &str) -> Option<usize> {
        // With the same file given twice, the later one counts.
        let (_, text) = self.0.iter().rev().find(|(source, _)| source == path)?;
        let document = DeTable::parse(text).ok()?;
        let mut table = document.get_ref();
        let mut line = None;
        for part in split_key(key.split('[').next()?).ok()? {
            let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref().as_ref() == part) else {
                break;
            };
            line = Some(line_at(text, name.span().start));
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_said_in_words() {
        // Root may read everything, so the refusal itself cannot be provoked by every user who runs the tests.
        let path = Path::new("/etc/soakd.toml");
        for (kind, says) in [
            (io::ErrorKind::PermissionDenied, "no permission to read it"),
            (io::ErrorKind::NotFound, "no such file"),
            (io::ErrorKind::IsADirectory, "is a directory; name the settings file in it"),
            (io::ErrorKind::TimedOut, "cannot read /etc/soakd.toml: timed out"),
        ] {
            assert_eq!(unreadable(path, &kind.into()), says);
        }
    }

    #[test]
    fn a_key_is_found_in_its_line_or_its_tables() {
        let path = PathBuf::from("a.toml");
        let text = "x = 1\n[a.b]\n'c.d' = 2\n[[l]]\ny = { z = 1 }\n";
        let sources = Sources(vec![(path.clone(), "x = 0".into()), (path.clone(), text.into())]);
        for (key, line) in
            [("x", Some(1)), ("a.b.\"c.d\"", Some(3)), ("a.b.e", Some(2)), ("l[0].y", Some(4)), ("q", None)]
        {
            assert_eq!(sources.line(&path, key), line, "{key}");
        }
        assert_eq!(sources.line(Path::new("b.toml"), "x"), None);
        assert_eq!(format!("{sources:?}"), "[\"a.toml\", \"a.toml\"]");
    }
}
