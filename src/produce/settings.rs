//! Settings of a stream: its topic, its schedule and what happens when it cannot be kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::profile::{ProfileEntry, compile};
use crate::config::{Duration, PaceSetting, Problem, Properties, RateSetting, RepeatSetting, is_name, key};
use crate::core::pace::Pace;
use crate::core::profile::Profile;
use crate::core::rate::Rate;
use crate::record::settings::{HeaderSettings, KeySettings, MarkerSettings, ValueSettings};

/// A topic of its own for each run: nothing is left over from the last one.
const DEFAULT_TOPIC: &str = "soak-{run}";
/// Enough to see effects of partitions, few enough for a laptop.
const DEFAULT_PARTITIONS: u32 = 4;
/// A single broker cannot hold more.
const DEFAULT_REPLICATION_FACTOR: u16 = 1;
/// Slow enough for any system; the rate that matters is the one that is set.
const DEFAULT_RATE: PaceSetting = PaceSetting::Rate(RateSetting(1_000.0));
/// A typing error over HTTP (one zero too many) should not flood a shared cluster.
const DEFAULT_MAX_RATE: RateSetting = RateSetting(500_000.0);
/// One thread carries millions of records a second.
const DEFAULT_LANES: u32 = 1;
/// Each lane has a client with threads of its own; more of them than any machine has cores are a typing error.
const MAX_LANES: u32 = 256;
/// A state is kept for each partition, and no broker holds more of one topic in good health.
const MAX_PARTITIONS: u32 = 100_000;
/// Twice the rate works off an outage in as long as it took, without a burst that is a test of its own.
const DEFAULT_MAX_CATCH_UP: f64 = 2.0;
/// Longer than a change of leader; records older than that would make another test than the one planned.
const DEFAULT_MAX_DEBT: Duration = Duration::from_secs(10);

/// One topic with one schedule and one kind of record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StreamSettings {
    /// Name of the topic; `{run}` stands for the run's id. A topic that exists is used as it is.
    pub topic: String,
    /// Create the topic when it is missing; false makes a missing topic an error at start.
    pub create: bool,
    /// Number of partitions of a topic that is created, at most 100,000.
    pub partitions: u32,
    /// Number of copies of each partition of a topic that is created.
    pub replication_factor: u16,
    /// Settings of a topic that is created, by Kafka's own names and units, like `"retention.ms"`.
    pub topic_config: Properties,
    /// Load in records a second; 0 is no load; "max" is as fast as the client takes them, a closed loop. Not together with a profile.
    #[schemars(extend("default" = 1000))]
    pub rate: Option<PaceSetting>,
    /// A planned course of the load instead of a rate: parts one after the other. After the last one its rate is kept. Its clock begins after the warm-up, which holds the first rate.
    pub profile: Vec<ProfileEntry>,
    /// How often the profile is gone through: a number of times, or "forever".
    pub profile_repeat: RepeatSetting,
    /// When single records are due: even (at equal distances) or poisson (independent of each other, as many users are).
    pub arrivals: ArrivalSetting,
    /// Number of records to send as fast as the client takes them before the warm-up; not counted in records.
    pub preload: u64,
    /// Highest rate, in records a second, that may be set here or over HTTP; "max" and preload go above it.
    pub max_rate: RateSetting,
    /// Number of records after which the stream ends. Not set: the run's duration ends it.
    pub records: Option<u64>,
    /// What happens to records that cannot be sent when they are due.
    pub overload: OverloadSettings,
    /// Most records sent and not yet acked. Not set: one second of load beyond the client's `linger.ms`, at least 1,000; at "max" as many as 7 MB hold, 1,000 to 100,000.
    pub max_in_flight: Option<u64>,
    /// Produce the load. False: somebody else does, and soakd only watches; the topic must be there.
    pub produce: bool,
    /// Number of producer threads, at most one a partition and 256.
    pub lanes: u32,
    /// Streams with the same seed name send the same records. Not set: the stream's own name.
    pub seed_name: Option<String>,
    /// The records' keys.
    pub key: KeySettings,
    /// The records' values.
    pub value: ValueSettings,
    /// The records' headers.
    pub headers: HeaderSettings,
    /// Markers, by which freshness is measured.
    pub marker: MarkerSettings,
}

/// What happens to records that cannot be sent when they are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OverloadSettings {
    /// catch_up (send later, drop what is older than `max_debt`), skip (drop what is later than 100 ms) or wait (drop nothing).
    pub policy: OverloadPolicy,
    /// Highest rate of catching up, as a multiple of the rate; more than 1.
    pub max_catch_up: f64,
    /// Age (a duration) beyond which catch_up drops a record that is due.
    pub max_debt: Duration,
}

/// How single records arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalSetting {
    /// At equal distances.
    #[default]
    Even,
    /// Independent of each other: exponential gaps.
    Poisson,
}

/// What a stream does when it is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverloadPolicy {
    /// Send later, faster than the rate; drop what is older than `max_debt`.
    #[default]
    CatchUp,
    /// Drop what is later than 100 ms.
    Skip,
    /// Drop nothing.
    Wait,
}

impl Default for OverloadSettings {
    fn default() -> Self {
        OverloadSettings {
            policy: OverloadPolicy::default(),
            max_catch_up: DEFAULT_MAX_CATCH_UP,
            max_debt: DEFAULT_MAX_DEBT,
        }
    }
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings {
            topic: DEFAULT_TOPIC.into(),
            create: true,
            partitions: DEFAULT_PARTITIONS,
            replication_factor: DEFAULT_REPLICATION_FACTOR,
            topic_config: Properties::default(),
            rate: None,
            profile: Vec::new(),
            profile_repeat: RepeatSetting::default(),
            arrivals: ArrivalSetting::default(),
            preload: 0,
            max_rate: DEFAULT_MAX_RATE,
            records: None,
            overload: OverloadSettings::default(),
            max_in_flight: None,
            produce: true,
            lanes: DEFAULT_LANES,
            seed_name: None,
            key: KeySettings::default(),
            value: ValueSettings::default(),
            headers: HeaderSettings::default(),
            marker: MarkerSettings::default(),
        }
    }
}

impl StreamSettings {
    /// The pace that is set; of no account when there is a profile.
    #[must_use]
    pub fn pace(&self) -> PaceSetting {
        self.rate.unwrap_or(DEFAULT_RATE)
    }

    /// The highest pace that the settings come to, for what is sized by it. Rates that cannot be are 0.
    #[must_use]
    pub fn peak(&self) -> Pace {
        match (self.compile(""), self.pace()) {
            (Ok(profile), _) if !self.profile.is_empty() => profile.peak(),
            (_, PaceSetting::Max) => Pace::Max,
            (_, PaceSetting::Rate(rate)) => Rate::from_per_second(rate.0).unwrap_or_default().into(),
        }
    }

    /// The load as a profile, also when it is one rate.
    ///
    /// # Errors
    /// What is wrong with the profile.
    pub fn course(&self, at: &str) -> Result<Profile, Vec<Problem>> {
        if !self.profile.is_empty() {
            return self.compile(at);
        }
        let rate = ProfileEntry { rate: Some(self.pace()), ..ProfileEntry::default() };
        compile(&[rate], RepeatSetting::default(), Pace::default(), self.max_rate, at)
    }

    /// The profile.
    ///
    /// # Errors
    /// What is wrong with it; that it is empty is wrong too.
    pub fn compile(&self, at: &str) -> Result<Profile, Vec<Problem>> {
        compile(&self.profile, self.profile_repeat, Pace::default(), self.max_rate, at)
    }

    /// The number of records after which the stream ends, those of the preload included, if it has such an end.
    #[must_use]
    pub fn all_records(&self) -> Option<u64> {
        self.records.map(|records| records.saturating_add(self.preload))
    }

    /// Settings of a load that stand in a stream that has none.
    fn idle_problems(&self, at: &str) -> Vec<Problem> {
        let set = [
            ("rate", self.rate.is_some()),
            ("profile", !self.profile.is_empty()),
            ("preload", self.preload > 0),
            ("records", self.records.is_some()),
            ("marker.interval", self.marker.interval.is_some()),
        ];
        let message = "does nothing with produce = false, where somebody else produces; take it out";
        let wrong = set.iter().filter(|(_, is_set)| *is_set && !self.produce);
        wrong.map(|(name, _)| Problem::new(format!("{at}.{name}"), message)).collect()
    }

    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = self.idle_problems(at);
        let mut refuse = |name: &str, message: String| problems.push(Problem::new(key(at, name), message));
        if !is_topic(&self.topic) {
            refuse(
                "topic",
                format!(
                    "{:?} is not a topic; use 1 to 249 letters, digits, `.`, `_` or `-`, and `{{run}}`",
                    self.topic
                ),
            );
        }
        if self.partitions == 0 {
            refuse("partitions", "0 is no partition; use 1 or more".into());
        }
        if self.partitions > MAX_PARTITIONS {
            refuse("partitions", format!("{} are too many; use at most {MAX_PARTITIONS}", self.partitions));
        }
        if self.replication_factor == 0 {
            refuse("replication_factor", "0 is no copy; use 1 or more".into());
        }
        if let Some(rate) = self.rate.filter(|_| !self.profile.is_empty()) {
            refuse("rate", format!("{rate} stands beside a profile; take one of them out"));
        }
        if let Some(rate) = self.pace().rate().filter(|rate| *rate > self.max_rate) {
            refuse(
                "rate",
                format!("{rate} is above max_rate = {}; lower it, or raise max_rate", self.max_rate),
            );
        }
        for (name, rate) in
            [("rate", self.rate.and_then(PaceSetting::rate)), ("max_rate", Some(self.max_rate))]
        {
            if let Some(Err(error)) = rate.map(|rate| Rate::from_per_second(rate.0)) {
                refuse(name, error.to_string());
            }
        }
        if self.profile.is_empty() && self.profile_repeat != RepeatSetting::default() {
            refuse("profile_repeat", "repeats nothing; it needs a profile".into());
        }
        if self.records == Some(0) {
            refuse("records", "0 sends nothing; use 1 or more, or leave it out".into());
        }
        if self.max_in_flight == Some(0) {
            refuse("max_in_flight", "0 sends nothing; use 1 or more, or leave it out".into());
        }
        if let Some(max) = self.max_in_flight.filter(|max| (1..u64::from(self.lanes)).contains(max)) {
            refuse(
                "max_in_flight",
                format!(
                    "{max} is less than one record for each of lanes = {}; raise it, or use fewer lanes",
                    self.lanes
                ),
            );
        }
        if self.lanes == 0 || self.lanes > self.partitions {
            refuse(
                "lanes",
                format!(
                    "{} is not between 1 and partitions = {}: a partition has one lane",
                    self.lanes, self.partitions
                ),
            );
        }
        if self.lanes > MAX_LANES {
            refuse("lanes", format!("{} are too many; use at most {MAX_LANES}", self.lanes));
        }
        if let Some(name) = self.seed_name.as_ref().filter(|name| !is_name(name)) {
            refuse("seed_name", format!("{name:?} is not a name; use 1 to 64 letters, digits, `_` or `-`"));
        }
        if !self.profile.is_empty() {
            problems.extend(self.compile(at).err().into_iter().flatten());
        }
        problems.extend(self.overload.problems(&key(at, "overload")));
        problems.extend(self.key.problems(&key(at, "key"), &self.value, self.all_records()));
        problems.extend(self.value.problems(&key(at, "value")));
        problems.extend(self.headers.problems(&key(at, "headers")));
        problems.extend(self.marker.problems(&key(at, "marker")));
        problems
    }
}

impl OverloadSettings {
    fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(self.max_catch_up.is_finite() && self.max_catch_up > 1.0) {
            problems.push(Problem::new(
                key(at, "max_catch_up"),
                format!("{} catches up nothing; use a number above 1, like 2.0", self.max_catch_up),
            ));
        }
        if self.max_debt.is_zero() {
            problems.push(Problem::new(
                key(at, "max_debt"),
                "0s drops every record; use a longer one, or policy = \"skip\"",
            ));
        }
        problems
    }
}

/// Kafka's rule for topic names. The id that `{run}` stands for is made of such characters.
fn is_topic(topic: &str) -> bool {
    let plain = topic.replace("{run}", "r");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=249).contains(&plain.len()) && plain.chars().all(allowed) && plain != "." && plain != ".."
}
