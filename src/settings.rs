//! The root of all parts' settings, and the rules that hold between parts.

pub mod agent;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{self, ConfigErrors, Duration, Loaded, Problem, is_name, key};
use crate::core::lag::ValueKind;
use crate::core::machine::OWN_MACHINE;
use crate::http::settings::HttpSettings;
use crate::kafka::settings::KafkaSettings;
use crate::process::settings::{ProcessSettings, ToldMachine};
use crate::produce::settings::StreamSettings;
use crate::progress::preset;
use crate::progress::settings::{ProgressValue, SourceSettings};
use crate::record::settings::KeyKind;
use crate::run::settings::RunSettings;
use crate::store::settings::StoreSettings;

/// All settings of the daemon.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The run as a whole.
    pub run: RunSettings,
    /// How Kafka is reached.
    pub kafka: KafkaSettings,
    /// The streams by name; a run needs at least one.
    pub streams: BTreeMap<String, StreamSettings>,
    /// The progress sources by name: how far the system under test is.
    pub progress: BTreeMap<String, SourceSettings>,
    /// The watched processes by name: what the system under test costs.
    pub processes: BTreeMap<String, ProcessSettings>,
    /// The HTTP server.
    pub http: HttpSettings,
    /// Where runs are recorded.
    pub store: StoreSettings,
}

impl Settings {
    /// Loads the layers and holds the result against all rules.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(
        files: &[PathBuf],
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Loaded<Settings>, ConfigErrors> {
        let loaded = Self::layers(files, env, sets)?;
        match loaded.settings.validate() {
            Ok(()) => Ok(loaded),
            Err(problems) => Err(loaded.blame(problems)),
        }
    }

    /// Loads the layers, with what presets fill in, and holds the result against types only.
    ///
    /// # Errors
    /// When the layers cannot be read into settings at all.
    pub fn layers(
        files: &[PathBuf],
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Loaded<Settings>, ConfigErrors> {
        config::load(files, env, sets, &preset::fill)
    }

    /// Holds the values against all rules, those of each part and those between parts.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn validate(&self) -> Result<(), Vec<Problem>> {
        let mut problems = self.run.problems("run");
        problems.extend(self.kafka.problems("kafka"));
        problems.extend(self.http.problems("http"));
        problems.extend(self.store.problems("store"));
        problems.extend(self.stream_problems());
        for (name, source) in &self.progress {
            let at = key("progress", name);
            problems.extend(name_problem(name, &at));
            problems.extend(source.problems(&at));
            problems.extend(self.source_problem(source, &at));
        }
        for (name, process) in &self.processes {
            let at = key("processes", name);
            problems.extend(name_problem(name, &at));
            problems.extend(process.problems(&at));
        }
        problems.extend(machine_problems(&self.processes));
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn stream_problems(&self) -> Vec<Problem> {
        if self.streams.is_empty() {
            return vec![Problem::new(
                "streams",
                "no stream is set; a run needs one, like [streams.main] with rate = 1000",
            )];
        }
        let of_one = |(name, stream): (&String, &StreamSettings)| {
            let at = key("streams", name);
            name_problem(name, &at).into_iter().chain(stream.problems(&at)).collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(of_one).chain(self.shared_topics()).collect()
    }

    /// What the broker holds of a topic is held against what one stream has sent.
    fn shared_topics(&self) -> Vec<Problem> {
        let mut first = BTreeMap::new();
        let mut shared = Vec::new();
        for (name, stream) in &self.streams {
            let Some(other) = first.insert(&stream.topic, name) else { continue };
            shared.push(Problem::new(
                key(&key("streams", name), "topic"),
                format!(
                    "{:?} is the topic of the stream {other:?} too; give each stream a topic of its own, like \"soak-{{run}}-{name}\"",
                    stream.topic
                ),
            ));
        }
        shared
    }

    /// A source needs its stream, a stream that is only watched has no sequences, and counting needs keys that never come twice: an upsert of a repeated key adds no row.
    fn source_problem(&self, source: &SourceSettings, at: &str) -> Option<Problem> {
        let Some(stream) = self.streams.get(source.stream()) else {
            let known = self.streams.keys().map(String::as_str);
            let hint = config::suggest(source.stream(), known);
            return Some(Problem::new(
                key(at, "stream"),
                format!("there is no stream {:?}{hint}", source.stream()),
            ));
        };
        if !stream.produce {
            return watched_problem(source, at);
        }
        if source.common().value == ProgressValue::Marker && stream.marker.interval.is_none() {
            let interval = key(&key(&key("streams", source.stream()), "marker"), "interval");
            return Some(Problem::new(
                key(at, "value"),
                format!(
                    "\"marker\" finds nothing in the stream {:?}, which has no markers; set {interval} = \"1s\"",
                    source.stream()
                ),
            ));
        }
        let repeats = stream.key.repeats(self.most_records(stream), &stream.value);
        // The markers of a partition have one key, unless a table is appended to and knows no keys.
        let markers = stream.marker.interval.is_some() && stream.key.kind_for(&stream.value) != KeyKind::None;
        if !source.counts_rows() || !(repeats || markers || stream.value.tombstones() > 0.0) {
            return None;
        }
        if markers && !repeats {
            return Some(Problem::new(
                key(at, "value"),
                format!(
                    "\"count\" is wrong for the stream {0:?}, whose markers come with the same keys again and again: a table by key \
                     then holds fewer rows than there are records; use \"sequence\" or \"next_offset\", or take streams.{0}.marker away",
                    source.stream()
                ),
            ));
        }
        if !repeats {
            let tombstones = key(&key(&key("streams", source.stream()), "value"), "tombstones");
            return Some(Problem::new(
                key(at, "value"),
                format!(
                    "\"count\" is wrong for the stream {:?}, which has tombstones: a table holds fewer rows than there are \
                     records; use \"sequence\" or \"next_offset\", or set {tombstones} = 0",
                    source.stream()
                ),
            ));
        }
        let stream_key = key(&key("streams", source.stream()), "key");
        Some(Problem::new(
            key(at, "value"),
            format!(
                "\"count\" is wrong for the stream {:?}, whose keys come more than once: a table by key then holds fewer rows than \
                 records; use \"sequence\" or \"next_offset\", or set {stream_key}.kind = \"none\", \"unique\", \"random64\", or \"sequential\" with a \
                 cardinality of at least the number of records; a figure that counts records, whatever their keys, says so by counts = \"records\"",
                source.stream()
            ),
        ))
    }

    /// The most records a stream can send, when its own end or the run's gives one: no rate is ever above `max_rate`, but "max"
    /// has none.
    fn most_records(&self, stream: &StreamSettings) -> Option<u64> {
        let seconds = |span: Duration| span.get().as_secs_f64();
        let by_time = || {
            let duration = self.run.duration?;
            Some((stream.max_rate.0 * (seconds(self.run.warmup) + seconds(duration))).ceil() as u64)
        };
        let records = stream.records.or_else(|| if stream.peak().is_max() { None } else { by_time() });
        records.map(|records| records.saturating_add(stream.preload))
    }
}

/// Nobody knows sequences, markers or intended times of records that somebody else produces, nor which of them add a row.
fn watched_problem(source: &SourceSettings, at: &str) -> Option<Problem> {
    let value = source.common().value;
    let watched = matches!(
        value,
        ProgressValue::NextOffset
            | ProgressValue::LastOffset
            | ProgressValue::LagRecords
            | ProgressValue::LagSeconds
    );
    let message = || {
        format!(
            "{:?} needs records that soakd produces, and the stream {:?} has produce = false; use \"next_offset\", \
             \"last_offset\", \"lag_records\" or \"lag_seconds\"",
            ValueKind::from(value).name(),
            source.stream()
        )
    };
    (!watched).then(|| Problem::new(key(at, "value"), message()))
}

/// A machine has one name, and a name one machine.
pub(crate) fn machine_problems(processes: &BTreeMap<String, ProcessSettings>) -> Vec<Problem> {
    let mut known = BTreeMap::from([(OWN_MACHINE.to_owned(), String::new())]);
    let mut problems = Vec::new();
    for (name, process) in processes {
        let Some(ToldMachine { name: machine, from }) = process.machine(name) else { continue };
        if *known.entry(machine.clone()).or_insert_with(|| from.clone()) == from {
            continue;
        }
        let message = match machine.as_str() {
            OWN_MACHINE => {
                format!("{OWN_MACHINE:?} is the name of soakd's own machine; give this one another")
            }
            _ => format!("{machine:?} is the name of another machine already; give each a name of its own"),
        };
        problems.push(Problem::new(key(&key("processes", name), "machine"), message));
    }
    problems
}

/// Names become metric labels, file names and parts of URLs, so they are plain.
fn name_problem(name: &str, at: &str) -> Option<Problem> {
    let message = || format!("{name:?} is not a name; use 1 to 64 letters, digits, `_` or `-`");
    (!is_name(name)).then(|| Problem::new(at, message()))
}
