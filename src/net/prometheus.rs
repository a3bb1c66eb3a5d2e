//! Series of a target's /metrics, and answers of a Prometheus server.

mod series;

use std::collections::{BTreeMap, BTreeSet};

use hyper::header::CONTENT_TYPE;
use serde_json::Value;

use super::http::Answer;
use super::web::{AskError, AskErrorKind, excerpt, text_of};

pub use series::{NAME, Selector, Series};

/// What to say that a target may answer. The older format is preferred: it says the same and is what most targets were tested with.
pub const ACCEPT: &str =
    "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1";

fn shape(text: String) -> AskError {
    AskError::new(AskErrorKind::Shape, text)
}

/// Whether an answer is written in OpenMetrics, whose timestamps are seconds, and not in the older format with milliseconds.
#[must_use]
pub fn is_openmetrics(answer: &Answer) -> bool {
    let kind = answer.headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
    kind.is_some_and(|kind| kind.contains("openmetrics"))
}

/// What a target lists of the series that are meant.
///
/// # Errors
/// When it is no text of metrics, or not all of it.
pub fn listed(answer: &Answer, selector: &Selector) -> Result<Vec<Series>, AskError> {
    let text = text_of(answer, false)?;
    if text.is_empty() {
        return Err(shape("the answer is empty".to_owned()));
    }
    let ends = text.trim_end().lines().next_back() == Some("# EOF");
    if is_openmetrics(answer) && !ends {
        return Err(shape(
            "the answer is not whole: OpenMetrics ends with # EOF, and it does not".to_owned(),
        ));
    }
    let found = selector
        .find(text)
        .map_err(|why| shape(format!("the answer is no text of metrics, {why}: {}", excerpt(text))))?;
    // Cut within a number it would be a shorter one.
    if !text.ends_with('\n') {
        return Err(shape("the answer is not whole: its last line has no end".to_owned()));
    }
    let mut all = BTreeSet::new();
    if let Some(twice) = found.iter().find(|series| !all.insert(&series.labels)) {
        return Err(shape(format!("the target lists one series twice: {:?}", twice.labels)));
    }
    Ok(found)
}

/// What a server answered to a query.
///
/// # Errors
/// When the query failed, or returns something else than numbers.
pub fn answered(answer: &Answer) -> Result<Vec<Series>, AskError> {
    let text = text_of(answer, false)?;
    let unreadable = || shape(format!("the answer is not that of a Prometheus server: {}", excerpt(text)));
    let reply: Value = serde_json::from_str(text).map_err(|_| unreadable())?;
    if reply.get("status").and_then(Value::as_str) != Some("success") {
        let error = reply.get("error").and_then(Value::as_str).ok_or_else(unreadable)?;
        return Err(AskError::new(AskErrorKind::Refused, format!("the query failed: {}", excerpt(error))));
    }
    let result = reply.pointer("/data/result").and_then(Value::as_array).ok_or_else(unreadable)?;
    // When the query was answered, and the value.
    let value_of = |pair: Option<&Value>| {
        let pair = pair?;
        let timestamp = pair.get(0).filter(|at| at.is_number()).map(ToString::to_string);
        Some((timestamp, pair.get(1)?.as_str()?.to_owned()))
    };
    match reply.pointer("/data/resultType").and_then(Value::as_str) {
        Some("scalar") => {
            let (timestamp, value) = value_of(reply.pointer("/data/result")).ok_or_else(unreadable)?;
            Ok(vec![Series { labels: BTreeMap::new(), value, timestamp }])
        }
        Some("vector") => {
            let series = |one: &Value| {
                let (timestamp, value) = value_of(one.get("value")).ok_or_else(|| {
                    shape(
                        "the query returns a histogram; let it return numbers, as histogram_count(...) does"
                            .to_owned(),
                    )
                })?;
                let labels = one.get("metric").and_then(Value::as_object).into_iter().flatten();
                let labels =
                    labels.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
                Ok(Series { labels: labels.collect(), value, timestamp })
            };
            result.iter().map(series).collect()
        }
        Some(other) => {
            Err(shape(format!("the query returns a {other}; let it return one value a series, without [ ]")))
        }
        None => Err(unreadable()),
    }
}
