//! From the text of a template to its pieces.

use std::fmt;
use std::ops::Range;

use serde::de::IgnoredAny;

use super::super::Facts;
use super::super::hash::Random;
use super::super::text::escaped;
use super::place::{Arg, Place};
use super::{Fixed, Piece};

/// What is wrong with a template, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TemplateError {
    /// Line of the template, counted from 1.
    pub line: usize,
    /// Character of the line, counted from 1.
    pub column: usize,
    /// The nearest place, as it stands there.
    pub near: Option<String>,
    /// What was found, and the remedy.
    pub message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)?;
        if let Some(near) = &self.near {
            write!(f, ", near {near}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A part of the text.
#[derive(Debug, Clone, Copy)]
struct Part<'t> {
    /// Byte of the text.
    at: usize,
    text: &'t str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Literal,
    /// `{{…}}` inside quotes.
    Quoted,
    /// `{{…}}` as a whole value.
    Bare,
}

fn error(text: &str, at: usize, near: Option<&str>, message: impl Into<String>) -> TemplateError {
    let before = text.get(..at).unwrap_or(text);
    let line_at = before.rfind('\n').map_or(0, |end| end + 1);
    TemplateError {
        line: before.matches('\n').count() + 1,
        column: before.get(line_at..).unwrap_or_default().chars().count() + 1,
        near: near.map(str::to_owned),
        message: message.into(),
    }
}

/// Compiles a template.
pub(super) fn compile(text: &str, fixed: Fixed<'_>) -> Result<Vec<Piece>, TemplateError> {
    if text.trim().is_empty() {
        return Err(error(
            text,
            0,
            None,
            "the template is empty; write a JSON object like {\"n\": {{sequence}}}",
        ));
    }
    let parts = split(text)?;
    let mut pieces = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let wrong = |message: String| error(text, part.at, Some(part.text), message);
        pieces.push(match part.kind {
            Kind::Literal => Piece::Literal(part.text.as_bytes().into()),
            Kind::Quoted => place(part.text, fixed, false).map_err(wrong)?,
            Kind::Bare => {
                whole(&parts, index).map_err(wrong)?;
                place(part.text, fixed, true).map_err(wrong)?
            }
        });
    }
    let pads = parts.iter().zip(&pieces).filter(|(_, piece)| matches!(piece, Piece::Place(Place::Pad(_))));
    if let Some((second, _)) = pads.clone().nth(1) {
        return Err(error(text, second.at, Some(second.text), "a value is padded at one place only"));
    }
    validate(text, &parts, &pieces)?;
    Ok(tidy(&parts, pieces))
}

/// Cuts the text into literals and places.
fn split(text: &str) -> Result<Vec<Part<'_>>, TemplateError> {
    let (mut parts, mut literal, mut at, mut in_text) = (Vec::new(), 0, 0, false);
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        if bytes.get(at..).is_some_and(|rest| rest.starts_with(b"{{")) {
            push(&mut parts, text, literal..at, Kind::Literal);
            let end = end_of(bytes, at).ok_or_else(|| {
                error(text, at, None, "this {{ has no }}; close it, or write \\u007b{ for the characters")
            })?;
            push(&mut parts, text, at..end, if in_text { Kind::Quoted } else { Kind::Bare });
            (at, literal) = (end, end);
            continue;
        }
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => at += 1,
            _ => {}
        }
        at += 1;
    }
    push(&mut parts, text, literal..text.len(), Kind::Literal);
    Ok(parts)
}

fn push<'t>(parts: &mut Vec<Part<'t>>, text: &'t str, range: Range<usize>, kind: Kind) {
    let at = range.start;
    // Both ends stand beside ASCII characters, so the slice is one.
    if let Some(text) = text.get(range).filter(|text| !text.is_empty()) {
        parts.push(Part { at, text, kind });
    }
}

/// Where the place that begins here ends: behind the first `}}` outside quotes.
fn end_of(bytes: &[u8], from: usize) -> Option<usize> {
    let (mut at, mut quote) = (from + 2, None);
    while let Some(byte) = bytes.get(at) {
        match (byte, quote) {
            (b'\\', Some(_)) => at += 1,
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            (b'}', None) if bytes.get(at + 1) == Some(&b'}') => return Some(at + 2),
            _ => {}
        }
        at += 1;
    }
    None
}

/// A place outside quotes must be a whole value, so that no value of it can spoil the JSON around it.
fn whole(parts: &[Part<'_>], index: usize) -> Result<(), String> {
    let beside = |index: Option<usize>| index.and_then(|index| parts.get(index));
    let before = match beside(index.checked_sub(1)) {
        None => None,
        Some(Part { kind: Kind::Literal, text, .. }) => text.trim_end().chars().next_back(),
        Some(_) => Some('}'),
    };
    let after = match beside(index.checked_add(1)) {
        None => None,
        Some(Part { kind: Kind::Literal, text, .. }) => text.trim_start().chars().next(),
        Some(_) => Some('{'),
    };
    match (before, after) {
        (_, Some(':')) => Err("the name of a field must be in quotes; write \"{{…}}\": …".into()),
        (None | Some('[' | ',' | ':'), None | Some(',' | ']' | '}')) => Ok(()),
        (before, after) => {
            let beside = [before, after].into_iter().flatten().find(|c| !"[,:]}".contains(*c));
            let found = beside.map_or_else(String::new, |c| format!(" beside {c:?}"));
            Err(format!(
                "outside quotes a place must be a whole value, between `,`, `:` and brackets, not{found}; put the text and the \
                 place in one pair of quotes"
            ))
        }
    }
}

fn place(text: &str, fixed: Fixed<'_>, bare: bool) -> Result<Piece, String> {
    let inner = text.get(2..text.len().saturating_sub(2)).unwrap_or_default();
    let words = words(inner)?;
    let (name, args) = words.split_first().ok_or("the place is empty; write a name, like {{sequence}}")?;
    let literal = |value: &str| {
        let mut out = Vec::new();
        let quote: &[u8] = if bare { b"\"" } else { b"" };
        out.extend_from_slice(quote);
        escaped(value, &mut out);
        out.extend_from_slice(quote);
        Piece::Literal(out.into())
    };
    match (name.text.as_str(), args) {
        ("run", []) => Ok(literal(fixed.run_id)),
        ("topic", []) => Ok(literal(fixed.topic)),
        ("run" | "topic", _) => Err(format!("{} takes no words; write {{{{{}}}}}", name.text, name.text)),
        (name, args) => Ok(Piece::Place(Place::parse(name, args, bare)?)),
    }
}

/// Words, of which some stand in quotes; within quotes `\` takes the next character as it is.
fn words(text: &str) -> Result<Vec<Arg>, String> {
    let (mut words, mut chars) = (Vec::new(), text.chars().peekable());
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(first) = chars.peek().copied() else { return Ok(words) };
        let mut word = String::new();
        let quoted = matches!(first, '"' | '\'');
        if quoted {
            chars.next();
            loop {
                match chars.next() {
                    None => return Err(format!("a {first} is not closed")),
                    Some('\\') => word.extend(chars.next()),
                    Some(c) if c == first => break,
                    Some(c) => word.push(c),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
        }
        words.push(Arg { text: word, quoted });
    }
}

/// Makes a value and reads it as JSON. One is enough: a place outside quotes is always a whole value, and one inside is
/// always a part of a text.
fn validate(text: &str, parts: &[Part<'_>], pieces: &[Piece]) -> Result<(), TemplateError> {
    let (mut sample, mut random, mut starts) = (Vec::new(), Random::of(1, 1), Vec::new());
    for piece in pieces {
        starts.push(sample.len());
        match piece {
            Piece::Literal(literal) => sample.extend_from_slice(literal),
            Piece::Place(place) => write_whole(
                place,
                is_bare(parts, starts.len() - 1),
                |out| {
                    place.write(&Facts::LONGEST, &mut random, out);
                },
                &mut sample,
            ),
        }
    }
    let Err(wrong) = serde_json::from_slice::<IgnoredAny>(&sample) else { return Ok(()) };
    let line_at = match wrong.line() {
        0 | 1 => 0,
        line => sample
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .nth(line - 2)
            .map_or(0, |(at, _)| at + 1),
    };
    let offset = (line_at + wrong.column().saturating_sub(1)).min(sample.len());
    let index = starts.partition_point(|start| *start <= offset).saturating_sub(1);
    let at = parts.get(index).map_or(0, |part| match part.kind {
        Kind::Literal => part.at + offset - starts.get(index).copied().unwrap_or(offset),
        Kind::Quoted | Kind::Bare => part.at,
    });
    let is_place = |part: &&Part<'_>| part.kind != Kind::Literal;
    let near = parts.iter().take(index + 1).rfind(is_place).or_else(|| parts.iter().find(is_place));
    let what = wrong.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    Err(error(text, at, near.map(|part| part.text), format!("the values would not be JSON: {what}")))
}

fn is_bare(parts: &[Part<'_>], index: usize) -> bool {
    parts.get(index).is_some_and(|part| part.kind == Kind::Bare)
}

/// A place with its quotes, when it needs them.
fn write_whole(place: &Place, bare: bool, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let quotes = bare && place.is_text();
    if quotes {
        out.push(b'"');
    }
    write(out);
    if quotes {
        out.push(b'"');
    }
}

/// Takes out the blanks outside texts, gives texts their quotes, and joins neighbouring literals.
fn tidy(parts: &[Part<'_>], pieces: Vec<Piece>) -> Vec<Piece> {
    let (mut tidied, mut literal, mut in_text, mut escape) = (Vec::new(), Vec::new(), false, false);
    for (part, piece) in parts.iter().zip(pieces) {
        match piece {
            // The run's id and the topic are literals that were places.
            Piece::Literal(bytes) if part.kind != Kind::Literal => literal.extend_from_slice(&bytes),
            Piece::Literal(bytes) => {
                for byte in bytes {
                    if in_text || !byte.is_ascii_whitespace() {
                        literal.push(byte);
                    }
                    match (byte, escape) {
                        (_, true) => escape = false,
                        (b'\\', false) => escape = in_text,
                        (b'"', false) => in_text = !in_text,
                        _ => {}
                    }
                }
            }
            Piece::Place(place) => {
                let quote: &[u8] = if part.kind == Kind::Bare && place.is_text() { b"\"" } else { b"" };
                literal.extend_from_slice(quote);
                if !literal.is_empty() {
                    tidied.push(Piece::Literal(std::mem::take(&mut literal).into()));
                }
                tidied.push(Piece::Place(place));
                literal.extend_from_slice(quote);
            }
        }
    }
    if !literal.is_empty() {
        tidied.push(Piece::Literal(literal.into()));
    }
    tidied
}
