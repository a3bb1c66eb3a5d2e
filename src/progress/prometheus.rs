//! Progress by a series of a target's /metrics, or by a query to a Prometheus server.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::config::Properties;
use crate::core::lag::{Progress, ValueKind};
use crate::core::status::ProgressErrorKind;
use crate::core::stream::Stream;
use crate::net::prometheus::{ACCEPT, Selector, Series, answered, listed};

use super::number::{self, Whole};
use super::poll::{Answering, ProbeError, Source};
use super::rows::{Answer, interpret, is_below_zero};
use super::settings::{OnReset, PrometheusSettings};
use super::web::{Question, Web, WebError, as_part};

/// A broker's exporter lists every partition of every group: some mebibytes.
const MOST_BYTES: usize = 16 << 20;

/// Most counters that are remembered.
const MOST_SERIES: usize = 100_000;

/// Counters by their labels, as they were when they were last listed.
#[derive(Debug, Clone, Default)]
struct Counted(BTreeMap<BTreeMap<String, String>, Series>);

impl Counted {
    /// What was found, and the counters that were there before and are not listed now, as they were: what they have counted
    /// has happened. Without them a sum would fall, and what they show when they are back would count as new.
    fn with_gone(&mut self, found: Vec<Series>) -> Vec<Series> {
        for series in found {
            if self.0.len() < MOST_SERIES || self.0.contains_key(&series.labels) {
                self.0.insert(series.labels.clone(), series);
            }
        }
        self.0.values().cloned().collect()
    }
}

/// Asks for series.
pub(super) struct PrometheusSource {
    web: Web,
    asking: Asking,
    label: Option<String>,
    kind: ValueKind,
    partitions: u32,
    /// Of counters: each series as it was when it was last listed.
    counted: Option<Counted>,
    /// Good answers with a lag below zero.
    below_zero: u64,
}

enum Asking {
    /// A target for what it lists.
    Target { selector: Selector, series: String },
    /// A server for the answer to a query.
    Server { path: String },
}

impl PrometheusSource {
    /// A source for a stream. Reads files, connects to nothing.
    ///
    /// # Errors
    /// When URL, credentials, files or the selection of series cannot be used.
    pub(super) fn new(
        settings: &PrometheusSettings,
        kind: ValueKind,
        stream: &Stream,
    ) -> Result<Self, WebError> {
        let (asking, accept) = match (&settings.series, &settings.query) {
            (Some(series), _) => {
                let selector =
                    Selector::parse(series).map_err(|why| WebError::Setting(format!("series {why}")))?;
                (Asking::Target { selector, series: series.clone() }, ACCEPT)
            }
            (None, query) => {
                let query = query.as_deref().unwrap_or_default();
                let path = format!("/api/v1/query?query={}", as_part(query));
                (Asking::Server { path }, "application/json")
            }
        };
        let headers = Properties::from_iter([("accept", accept)]);
        Ok(Self {
            web: Web::new(&settings.access(), &headers, MOST_BYTES)?,
            asking,
            label: settings.partition_label.clone(),
            kind,
            partitions: stream.partitions,
            counted: (kind == ValueKind::Count && settings.on_reset != Some(OnReset::True))
                .then(Counted::default),
            below_zero: 0,
        })
    }

    async fn asked(&mut self, deadline: Instant) -> Result<Progress, ProbeError> {
        let path = match &self.asking {
            Asking::Target { .. } => String::new(),
            Asking::Server { path } => path.clone(),
        };
        let answer = self.web.ask(&Question::get(path), deadline).await?;
        let found = match &self.asking {
            Asking::Target { selector, .. } => listed(&answer, selector)?,
            Asking::Server { .. } => answered(&answer)?,
        };
        if found.is_empty() {
            return Ok(Progress::NoData(match &self.asking {
                Asking::Target { series, .. } => format!("the target has no series {series}"),
                Asking::Server { .. } => "the query returns no series".to_owned(),
            }));
        }
        // What cannot be read is not remembered.
        let mut counted = self.counted.clone();
        let found = match &mut counted {
            Some(counted) => counted.with_gone(found),
            None => found,
        };
        let below_zero = found.iter().any(|series| is_below_zero(&series.value, self.kind));
        let progress =
            interpret(&rows(found, self.label.as_deref(), self.kind)?, self.kind, self.partitions)?;
        self.below_zero += u64::from(below_zero);
        self.counted = counted;
        Ok(progress)
    }
}

impl Source for PrometheusSource {
    fn ready(&mut self, deadline: Instant) -> Answering<'_, ()> {
        Box::pin(async move { Ok(self.web.ready(deadline).await?) })
    }

    fn ask(&mut self, deadline: Instant) -> Answering<'_, Progress> {
        Box::pin(self.asked(deadline))
    }

    fn below_zero(&self) -> u64 {
        self.below_zero
    }
}

fn shape(text: String) -> ProbeError {
    ProbeError::new(ProgressErrorKind::Shape, text)
}

/// Series as rows: by the partition that a label holds, or as one value. Only what counts records is added up.
fn rows(found: Vec<Series>, label: Option<&str>, kind: ValueKind) -> Result<Answer, ProbeError> {
    let adds = matches!(kind, ValueKind::Count | ValueKind::LagRecords);
    let Some(label) = label else {
        let columns = vec!["value".to_owned()];
        let several = found.len();
        let value = match <[Series; 1]>::try_from(found) {
            Ok([one]) => one.value,
            Err(found) if adds => sum(found.iter().map(|series| series.value.as_str()), kind)?,
            Err(_) => {
                return Err(shape(format!(
                    "{several} series match, and value = {:?} cannot be added up; choose one by its labels, or set partition_label",
                    kind.name()
                )));
            }
        };
        return Ok(Answer { columns, rows: vec![vec![Some(value)]], ..Answer::default() });
    };
    let mut partitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Series { labels, value, .. } in found {
        let partition = labels.get(label).ok_or_else(|| {
            shape(format!("a series has no label {label:?} for its partition; it has {labels:?}"))
        })?;
        partitions.entry(partition.clone()).or_default().push(value);
    }
    let columns = vec![label.to_owned(), "value".to_owned()];
    let mut rows = Vec::new();
    for (partition, values) in partitions {
        if adds && values.len() > 1 {
            let sum = sum(values.iter().map(String::as_str), kind)?;
            rows.push(vec![Some(partition), Some(sum)]);
        } else {
            rows.extend(values.into_iter().map(|value| vec![Some(partition.clone()), Some(value)]));
        }
    }
    Ok(Answer { columns, rows, ..Answer::default() })
}

/// The sum of whole numbers, exactly. A lag below zero is none: it makes no other one less.
fn sum<'v>(values: impl Iterator<Item = &'v str>, kind: ValueKind) -> Result<String, ProbeError> {
    let bad = |why: String| ProbeError::new(ProgressErrorKind::BadValue, why);
    let mut sum = 0_u64;
    for value in values.filter(|value| !is_below_zero(value, kind)) {
        let number = match number::parse(value).map_err(|why| bad(format!("the value {why}")))? {
            Whole::Number(number) => number,
            Whole::MinusOne if kind.may_be_minus_one() => {
                return Err(bad(format!(
                    "the value {value:?} says that there is none yet, so that there is no sum; choose series by their labels, or set \
                     partition_label"
                )));
            }
            Whole::MinusOne => return Err(bad(format!("the value {value:?} is negative"))),
        };
        sum = sum.checked_add(number).ok_or_else(|| bad("the sum is above 2^64".to_owned()))?;
    }
    Ok(sum.to_string())
}

#[cfg(test)]
mod tests;
