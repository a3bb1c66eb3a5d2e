//! What an answer says: out of JSON by pointers, out of any text by a regular expression. Never the first of several in
//! silence, and never a part of a number.

use regex_lite::{Captures, Match, Regex};
use serde_json::Value;

use crate::core::status::ProgressErrorKind;
use crate::progress::poll::ProbeError;
use crate::progress::rows::Answer;
use crate::progress::settings::HttpSettings;
use crate::progress::web::excerpt;

/// Names of the groups of a regular expression.
const PARTITION: &str = "partition";
const VALUE: &str = "value";
const TOPIC: &str = "topic";

/// Where an answer holds what.
#[derive(Debug)]
pub(super) enum Pick {
    Json(Pointers),
    Text(Regex),
}

/// JSON pointers.
#[derive(Debug)]
pub(super) struct Pointers {
    value: String,
    rows: Option<String>,
    partition: Option<String>,
    topic: Option<String>,
}

impl Pick {
    /// From settings without problems.
    ///
    /// # Errors
    /// When the regular expression cannot be used.
    pub(super) fn new(settings: &HttpSettings) -> Result<Self, String> {
        if let Some(regex) = &settings.regex {
            return compile(regex).map(Self::Text).map_err(|why| format!("regex {why}"));
        }
        Ok(Self::Json(Pointers {
            value: settings.json_pointer.clone().unwrap_or_default(),
            rows: settings.rows.clone(),
            partition: settings.partition.clone(),
            topic: settings.topic.clone(),
        }))
    }

    /// Whether pages for people are meant to be read.
    pub(super) fn reads_html(&self) -> bool {
        matches!(self, Self::Text(regex) if regex.as_str().contains('<'))
    }

    /// The rows of an answer, without those of other topics.
    ///
    /// # Errors
    /// When it does not hold what it should, with what it holds.
    pub(super) fn read(&self, text: &str, topic: &str) -> Result<Answer, ProbeError> {
        match self {
            Self::Json(pointers) => pointers.read(&json(text)?, topic),
            // Servers end a text with a line break, and `^(\d+)$` means the number that is seen.
            Self::Text(regex) if regex.is_match(text) => by_regex(regex, text, topic),
            Self::Text(regex) => by_regex(regex, text.trim_end(), topic),
        }
    }
}

fn shape(text: String) -> ProbeError {
    ProbeError::new(ProgressErrorKind::Shape, text)
}

/// Reads JSON.
///
/// # Errors
/// When it is none.
pub(super) fn json(text: &str) -> Result<Value, ProbeError> {
    if text.trim().is_empty() {
        return Err(shape("the answer is empty".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| {
        // The one thing that is right JSON and cannot be read.
        let kind = if error.to_string().contains("out of range") {
            ProgressErrorKind::BadValue
        } else {
            ProgressErrorKind::Shape
        };
        ProbeError::new(kind, format!("the answer is no JSON that can be read ({error}): {}", excerpt(text)))
    })
}

/// What a pointer points to.
///
/// # Errors
/// When there is nothing, with what there is.
pub(super) fn at<'v>(value: &'v Value, pointer: &str, within: &str) -> Result<&'v Value, ProbeError> {
    // An empty text in the settings is one that is not set.
    let path = if pointer == "/" { "" } else { pointer };
    value.pointer(path).ok_or_else(|| {
        shape(format!("{within} has nothing at {pointer:?}; it is {}", excerpt(&value.to_string())))
    })
}

/// A number or text as text; `None` for null.
///
/// # Errors
/// When it is something else.
pub(super) fn cell(value: &Value, pointer: &str) -> Result<Option<String>, ProbeError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::Bool(flag) => {
            let text = format!("the value at {pointer:?} is {flag}, not a number");
            Err(ProbeError::new(ProgressErrorKind::BadValue, text))
        }
        Value::Array(_) | Value::Object(_) => {
            Err(shape(format!("at {pointer:?} there is no number but {}", excerpt(&value.to_string()))))
        }
    }
}

/// The items of a list or a table with their places.
pub(super) fn items(value: &Value) -> Option<Vec<(String, &Value)>> {
    match value {
        Value::Array(items) => {
            Some(items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect())
        }
        Value::Object(items) => Some(items.iter().map(|(name, item)| (name.clone(), item)).collect()),
        _ => None,
    }
}

impl Pointers {
    fn read(&self, answer: &Value, topic: &str) -> Result<Answer, ProbeError> {
        let Some(rows) = &self.rows else { return self.read_value(answer) };
        let list = at(answer, rows, "the answer")?;
        let list = items(list).ok_or_else(|| {
            shape(format!("at {rows:?} there are no rows but {}", excerpt(&list.to_string())))
        })?;
        let partition = self.partition.as_deref();
        let columns = vec![partition.unwrap_or(PARTITION).to_owned(), self.value.clone()];
        let mut read = Answer { columns, ..Answer::default() };
        for (place, row) in list {
            let within = format!("the row {place}");
            if let Some(pointer) = &self.topic
                && cell(at(row, pointer, &within)?, pointer)?.as_deref() != Some(topic)
            {
                continue;
            }
            let partition = match partition {
                Some(pointer) => cell(at(row, pointer, &within)?, pointer)?,
                None => Some(place),
            };
            let value = cell(at(row, &self.value, &within)?, &self.value)?;
            read.rows.push(vec![partition, value]);
        }
        Ok(read)
    }

    /// One value, or a list or table of them by partition.
    fn read_value(&self, answer: &Value) -> Result<Answer, ProbeError> {
        let found = at(answer, &self.value, "the answer")?;
        let Some(values) = items(found) else {
            let columns = vec![self.value.clone()];
            return Ok(Answer { columns, rows: vec![vec![cell(found, &self.value)?]], ..Answer::default() });
        };
        let columns = vec![PARTITION.to_owned(), VALUE.to_owned()];
        let row = |(place, value)| Ok(vec![Some(place), cell(value, &self.value)?]);
        let rows = values.into_iter().map(row).collect::<Result<_, ProbeError>>()?;
        Ok(Answer { columns, rows, ..Answer::default() })
    }
}

/// Makes a regular expression that can find a value.
///
/// # Errors
/// Why it cannot, a phrase.
pub(in crate::progress) fn compile(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| format!("cannot be read: {error}"))?;
    let named = |name: &str| regex.capture_names().flatten().any(|known| known == name);
    if named(PARTITION) && !named(VALUE) {
        return Err("has a group partition and no group value, as in (?<value>\\d+)".to_owned());
    }
    match regex.captures_len() {
        1 => Err("has no group; put the value in parentheses, as in count (\\d+)".to_owned()),
        2 => Ok(regex),
        _ if named(VALUE) => Ok(regex),
        _ => Err("has several groups; name the value's, as in (?<value>\\d+)".to_owned()),
    }
}

fn by_regex(regex: &Regex, text: &str, topic: &str) -> Result<Answer, ProbeError> {
    let has = |name: &str| regex.capture_names().flatten().any(|known| known == name);
    let by_partition = has(PARTITION);
    let columns = if by_partition { vec![PARTITION, VALUE] } else { vec![VALUE] };
    let columns = columns.into_iter().map(ToOwned::to_owned).collect();
    let mut read = Answer { columns, ..Answer::default() };
    let mut matches = 0_usize;
    for found in regex.captures_iter(text) {
        matches += 1;
        if has(TOPIC) && found.name(TOPIC).is_some_and(|group| group.as_str() != topic) {
            continue;
        }
        let value = group(regex, &found).map(|group| whole(group, &found, text)).transpose()?;
        if by_partition {
            read.rows.push(vec![found.name(PARTITION).map(|group| group.as_str().to_owned()), value]);
        } else {
            read.rows.push(vec![value]);
        }
    }
    // A text without a single row is how a table without rows is printed.
    let nothing_to_find = by_partition && text.trim().is_empty();
    if matches == 0 && !nothing_to_find {
        let what = if text.trim().is_empty() { "it is empty".to_owned() } else { excerpt(text) };
        return Err(shape(format!("the regular expression finds nothing in the answer: {what}")));
    }
    if !by_partition && read.rows.len() > 1 {
        return Err(shape(format!(
            "the regular expression finds {} values in the answer; it must find one, or have a group partition: {}",
            read.rows.len(),
            excerpt(text)
        )));
    }
    Ok(read)
}

fn group<'t>(regex: &Regex, found: &Captures<'t>) -> Option<Match<'t>> {
    let named = regex.capture_names().flatten().any(|name| name == VALUE);
    if named { found.name(VALUE) } else { found.get(1) }
}

/// The text of a group, unless it is a number cut out of a longer one that the expression did not look at.
fn whole(group: Match<'_>, found: &Captures<'_>, text: &str) -> Result<String, ProbeError> {
    let all = found.get(0).map_or(group.range(), |all| all.range());
    let before = text.get(..group.start()).unwrap_or_default();
    let after = text.get(group.end()..).unwrap_or_default();
    // A sign is a part of the number wherever the expression has it: `-?(\d+)` too.
    let cut_before = (all.start == group.start() || before.ends_with('-')) && ends_in_number(before);
    let cut_after = all.end == group.end() && goes_on(after);
    if cut_before || cut_after {
        let text = format!(
            "the regular expression takes {:?} out of a longer number; let it take all of it: {}",
            group.as_str(),
            excerpt(text)
        );
        return Err(ProbeError::new(ProgressErrorKind::BadValue, text));
    }
    Ok(group.as_str().to_owned())
}

/// Whether what follows belongs to a number that ends here: a digit, a point, a sign that is no hyphen.
fn ends_in_number(before: &str) -> bool {
    let mut back = before.chars().rev();
    match back.next() {
        Some(c) if c.is_ascii_digit() => true,
        Some('.') => back.next().is_some_and(|c| c.is_ascii_digit()),
        Some('-') => !back.next().is_some_and(char::is_alphanumeric),
        Some(c) if is_separator(c) => back.next().is_some_and(|c| c.is_ascii_digit()),
        _ => false,
    }
}

/// What stands between thousands: `1,234`, `1_234`, `1'234`, and the blanks that do not break a line.
const fn is_separator(c: char) -> bool {
    matches!(c, ',' | '_' | '\'' | '\u{a0}' | '\u{2009}' | '\u{202f}')
}

/// Whether a number that ended here goes on.
fn goes_on(after: &str) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        Some(c) if c.is_ascii_digit() => true,
        Some(c) if c == '.' || is_separator(c) => rest.next().is_some_and(|c| c.is_ascii_digit()),
        Some('e' | 'E') => rest.next().is_some_and(|c| c.is_ascii_digit() || c == '+' || c == '-'),
        _ => false,
    }
}
