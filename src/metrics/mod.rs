//! Prometheus metrics: one catalogue whose entries read the one [`Snapshot`], so that `/metrics`, the status and
//! the record cannot disagree. An entry is name, type, labels, help and how its series are read; adding a metric is
//! adding an entry, and `soakd metrics` prints the same entries.

use std::sync::Mutex;

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::{self, MetricFamily};
use prometheus::{Encoder, TextEncoder};

use crate::core::histogram::{BOUNDS_MICROS, Buckets};
use crate::core::lock::lock;
use crate::core::status::Snapshot;

mod daemon;
mod load;
mod machine;
mod progress;
mod sut;
#[cfg(test)]
mod tests;

/// What the answer of `/metrics` says it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Never falls while the daemon lives.
    Counter,
    /// May rise and fall.
    Gauge,
    /// Cumulative buckets, sum and count.
    Histogram,
}

impl Kind {
    /// The type's name as in the exposition format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }

    const fn proto(self) -> proto::MetricType {
        match self {
            Self::Counter => proto::MetricType::COUNTER,
            Self::Gauge => proto::MetricType::GAUGE,
            Self::Histogram => proto::MetricType::HISTOGRAM,
        }
    }
}

/// One metric of the catalogue.
#[derive(Debug)]
pub struct Metric {
    /// Full name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Base unit, or "1" for a number without one.
    pub unit: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it is and where it comes from.
    pub help: &'static str,
    /// Reads its series off a snapshot.
    collect: fn(&Snapshot, &mut Series),
}

/// Metrics that belong together.
#[derive(Debug)]
pub struct Group {
    /// Heading in the printed catalogue.
    pub title: &'static str,
    /// The metrics, in the order of the printed catalogue.
    pub metrics: &'static [Metric],
}

/// Every metric that `/metrics` can show.
pub static CATALOGUE: &[Group] = &[
    Group { title: "Run", metrics: daemon::RUN },
    Group { title: "Load, by stream", metrics: load::METRICS },
    Group { title: "Progress of the system under test, by source", metrics: progress::METRICS },
    Group { title: "Processes of the system under test, by process", metrics: sut::METRICS },
    Group { title: "Machines, by machine", metrics: machine::METRICS },
    Group { title: "soakd itself", metrics: daemon::PROCESS },
];

/// All entries of the catalogue, in order.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    CATALOGUE.iter().flat_map(|group| group.metrics)
}

/// The series of one metric while they are collected.
#[derive(Debug)]
struct Series {
    kind: Kind,
    labels: &'static [&'static str],
    metrics: Vec<proto::Metric>,
}

impl Series {
    /// Adds a counter or gauge; the label values stand in the order of the catalogue's label names.
    fn value(&mut self, labels: &[&str], value: f64) {
        let mut metric = proto::Metric::from_label(self.pairs(labels));
        match self.kind {
            Kind::Counter => {
                let mut counter = proto::Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            Kind::Gauge | Kind::Histogram => {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        self.metrics.push(metric);
    }

    /// Adds a counter or gauge of whole things.
    fn count(&mut self, labels: &[&str], count: u64) {
        self.value(labels, count as f64);
    }

    /// Adds a histogram.
    fn histogram(&mut self, labels: &[&str], buckets: &Buckets) {
        let mut total = 0;
        let mut cumulative = Vec::with_capacity(BOUNDS_MICROS.len());
        for (bound, count) in BOUNDS_MICROS.iter().zip(buckets.counts) {
            total += count;
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(*bound as f64 / 1e6);
            bucket.set_cumulative_count(total);
            cumulative.push(bucket);
        }
        let mut histogram = proto::Histogram::default();
        histogram.set_bucket(cumulative);
        histogram.set_sample_count(buckets.count());
        histogram.set_sample_sum(buckets.sum_ns as f64 / 1e9);
        let mut metric = proto::Metric::from_label(self.pairs(labels));
        metric.set_histogram(histogram);
        self.metrics.push(metric);
    }

    fn pairs(&self, values: &[&str]) -> Vec<proto::LabelPair> {
        debug_assert_eq!(self.labels.len(), values.len(), "label names and values differ in number");
        self.labels
            .iter()
            .zip(values)
            .map(|(name, value)| {
                let mut pair = proto::LabelPair::default();
                pair.set_name((*name).to_owned());
                pair.set_value((*value).to_owned());
                pair
            })
            .collect()
    }
}

/// Nanoseconds as seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Renders snapshots; holds what the daemon's own `process_*` are read with.
#[derive(Debug)]
pub struct Renderer {
    // Its CPU counter is advanced by the difference to the last reading: two scrapes at once would add it twice.
    process: Mutex<ProcessCollector>,
}

impl Default for Renderer {
    fn default() -> Self {
        Self { process: Mutex::new(ProcessCollector::for_self()) }
    }
}

impl Renderer {
    /// The snapshot in Prometheus' text format ([`CONTENT_TYPE`]), followed by the daemon's own `process_*`.
    ///
    /// # Errors
    /// When the encoder refuses a family; the catalogue's test shows that it refuses none.
    pub fn render(&self, snapshot: &Snapshot) -> prometheus::Result<String> {
        self.encode(all(), snapshot)
    }

    /// What an agent knows: its build, processes and machine, followed by its own `process_*`.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn render_agent(&self, snapshot: &Snapshot) -> prometheus::Result<String> {
        let build = daemon::RUN.iter().take(1);
        self.encode(build.chain(sut::METRICS).chain(machine::METRICS), snapshot)
    }

    fn encode<'m>(
        &self,
        metrics: impl Iterator<Item = &'m Metric>,
        snapshot: &Snapshot,
    ) -> prometheus::Result<String> {
        let mut families: Vec<MetricFamily> = metrics.filter_map(|metric| family(metric, snapshot)).collect();
        families.extend(lock(&self.process).collect());
        let mut text = Vec::with_capacity(64 * 1024);
        TextEncoder::new().encode(&families, &mut text)?;
        String::from_utf8(text).map_err(|error| prometheus::Error::Msg(error.to_string()))
    }
}

/// The family of one metric, `None` when it has no series now.
fn family(metric: &Metric, snapshot: &Snapshot) -> Option<MetricFamily> {
    let mut series = Series { kind: metric.kind, labels: metric.labels, metrics: Vec::new() };
    (metric.collect)(snapshot, &mut series);
    if series.metrics.is_empty() {
        return None;
    }
    let mut family = MetricFamily::default();
    family.set_name(metric.name.to_owned());
    family.set_help(metric.help.to_owned());
    family.set_field_type(metric.kind.proto());
    family.set_metric(series.metrics);
    Some(family)
}

/// The catalogue as Markdown, a table a group.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("# Metrics of soakd\n");
    for group in CATALOGUE {
        text.push_str(&format!("\n## {}\n\n", group.title));
        text.push_str("| metric | type | unit | labels | what it is |\n| --- | --- | --- | --- | --- |\n");
        for metric in group.metrics {
            let labels =
                metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
            text.push_str(&format!(
                "| `{}` | {} | {} | {labels} | {} |\n",
                metric.name,
                metric.kind.name(),
                metric.unit,
                metric.help,
            ));
        }
    }
    text
}
