//! What has to be found out before the question can be put: the numbers that a system gave its jobs, say. Each look-up takes
//! texts out of rows of JSON, and the questions after it have them in their paths.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use regex_lite::Regex;
use tokio::time::Instant;

use crate::core::status::ProgressErrorKind;
use crate::progress::poll::ProbeError;
use crate::progress::settings::{HttpLookup, HttpSettings};
use crate::progress::web::{Question, Web, as_part, text_of};

use super::pick::{at, cell, items, json};

/// Stands for the topic of the stream, in paths and in the regular expressions of look-ups.
pub(super) const TOPIC: &str = "topic";
/// Ways that are gone through. More of them are no look-up.
const MOST_FOUND: usize = 1000;

/// What was found, by name; several texts where all were asked for.
pub(super) type Found = BTreeMap<String, Vec<String>>;

/// Puts what was found into a text, each `{name}` by its texts, which `write` prepares; several are separated by commas.
pub(super) fn put_in(text: &str, found: &Found, write: impl Fn(&str) -> String) -> String {
    found.iter().fold(text.to_owned(), |text, (name, values)| {
        let values: Vec<String> = values.iter().map(|value| write(value)).collect();
        text.replace(&format!("{{{name}}}"), &values.join(","))
    })
}

/// A topic as a pattern: systems write other letters for what their names do not allow.
fn topic_pattern(topic: &str) -> String {
    topic.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '.' }).collect()
}

/// A pattern of the settings with what was found in it.
fn pattern(text: &str, found: &Found) -> Result<Regex, String> {
    let topic = found.get(TOPIC).and_then(|topic| topic.first()).map(|topic| topic_pattern(topic));
    let text = text.replace(&format!("{{{TOPIC}}}"), &topic.unwrap_or_default());
    let text = put_in(&text, found, regex_lite::escape);
    Regex::new(&text).map_err(|error| format!("is no regular expression: {error}"))
}

/// What is wrong with the look-ups of a source.
pub(in crate::progress) fn refuse(settings: &HttpSettings, refuse: &mut dyn FnMut(&str, &str)) {
    let mut found: Found = BTreeMap::from([(TOPIC.to_owned(), vec!["t".to_owned()])]);
    for (index, lookup) in settings.lookup.iter().enumerate() {
        let at = |key: &str| format!("lookup[{index}].{key}");
        let last = index + 1 == settings.lookup.len();
        if lookup.name.is_empty() || found.contains_key(&lookup.name) {
            refuse(&at("name"), "has to be a name that no other look-up has");
        }
        if lookup.all && !last {
            refuse(&at("all"), "is for the last look-up: those after it would not know which to take");
        }
        for (pointer, text) in &lookup.only {
            if let Err(why) = pattern(text, &found) {
                refuse(&at("only"), &format!("{pointer:?} {why}"));
            }
        }
        let pointers = lookup.only.keys().chain([&lookup.rows, &lookup.take]);
        if let Some(wrong) = pointers.into_iter().find(|pointer| !is_pointer(pointer)) {
            refuse(&at("take"), &format!("{wrong:?} is no JSON pointer; write it like /data/0/id"));
        }
        found.insert(lookup.name.clone(), vec!["x".to_owned()]);
    }
}

/// Whether a text can be a JSON pointer.
pub(in crate::progress) fn is_pointer(text: &str) -> bool {
    text.is_empty() || text.starts_with('/')
}

/// What one way led to.
struct Way {
    found: Found,
}

/// Goes through the look-ups in order. Where one finds several, each is gone on with, and exactly one must lead to the end: of
/// two jobs of one name only one may read the topic.
///
/// # Errors
/// When none leads to the end, or several do.
pub(super) async fn look_up(
    web: &mut Web,
    lookups: &[HttpLookup],
    topic: &str,
    deadline: Instant,
) -> Result<Found, ProbeError> {
    let start = BTreeMap::from([(TOPIC.to_owned(), vec![topic.to_owned()])]);
    let mut ways = Vec::new();
    let mut dead_end = None;
    go_on(web, lookups, start, deadline, &mut ways, &mut dead_end).await?;
    let several = ways.len();
    match (ways.pop(), several) {
        (Some(way), 1) => Ok(way.found),
        (Some(_), _) => {
            let name = lookups.first().map(|lookup| lookup.name.as_str()).unwrap_or_default();
            let text = format!(
                "the look-ups find {several} of what is asked about, not one; let only, that of {name:?} say, leave the others out"
            );
            Err(ProbeError::new(ProgressErrorKind::Shape, text))
        }
        (None, _) => Err(dead_end.unwrap_or_else(|| {
            ProbeError::new(ProgressErrorKind::Query, "the look-ups find nothing".to_owned())
        })),
    }
}

fn go_on<'a>(
    web: &'a mut Web,
    lookups: &'a [HttpLookup],
    found: Found,
    deadline: Instant,
    ways: &'a mut Vec<Way>,
    dead_end: &'a mut Option<ProbeError>,
) -> Pin<Box<dyn Future<Output = Result<(), ProbeError>> + Send + 'a>> {
    Box::pin(async move {
        let Some((lookup, rest)) = lookups.split_first() else {
            ways.push(Way { found });
            return Ok(());
        };
        let path = put_in(&lookup.path, &found, as_part);
        let answer = web.ask(&Question::get(path), deadline).await?;
        let texts = take(lookup, text_of(&answer, false)?, &found)?;
        if texts.is_empty() {
            let text = format!(
                "the look-up {:?} finds nothing: no row at {:?} of {} fits {:?}",
                lookup.name, lookup.rows, lookup.path, lookup.only
            );
            *dead_end = Some(ProbeError::new(ProgressErrorKind::Query, text));
            return Ok(());
        }
        let branches: Vec<Vec<String>> =
            if lookup.all { vec![texts] } else { texts.into_iter().map(|text| vec![text]).collect() };
        for texts in branches {
            let mut found = found.clone();
            found.insert(lookup.name.clone(), texts);
            go_on(&mut *web, rest, found, deadline, &mut *ways, &mut *dead_end).await?;
        }
        Ok(())
    })
}

/// The texts of the rows that fit.
fn take(lookup: &HttpLookup, text: &str, found: &Found) -> Result<Vec<String>, ProbeError> {
    let shape = |text: String| ProbeError::new(ProgressErrorKind::Shape, text);
    let what = format!("the look-up {:?}", lookup.name);
    let answer = json(text)?;
    let rows = items(at(&answer, &lookup.rows, &what)?)
        .ok_or_else(|| shape(format!("{what}: at {:?} there are no rows", lookup.rows)))?;
    let mut only = Vec::new();
    for (pointer, text) in &lookup.only {
        only.push((
            pointer,
            pattern(text, found).map_err(|why| shape(format!("{what}: {pointer:?} {why}")))?,
        ));
    }
    let mut texts = Vec::new();
    for (_, row) in rows {
        let fits = |(pointer, regex): &(&String, Regex)| {
            let cell = row.pointer(pointer).and_then(|value| cell(value, pointer).ok().flatten());
            cell.is_some_and(|text| regex.is_match(&text))
        };
        if !only.iter().all(fits) {
            continue;
        }
        let text = cell(at(row, &lookup.take, &what)?, &lookup.take)?;
        texts.extend(text.filter(|text| !text.is_empty()));
        if texts.len() > MOST_FOUND {
            return Err(shape(format!("{what} finds more than {MOST_FOUND} rows; let only leave some out")));
        }
    }
    texts.sort();
    texts.dedup();
    Ok(texts)
}
