//! Settings of a profile: a planned course of the rate, as people write it.

use std::time::Duration as Span;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{Duration, PaceSetting, Problem, RateSetting, RepeatSetting, key};
use crate::core::pace::Pace;
use crate::core::profile::{Course, Profile, Segment};
use crate::core::rate::Rate;
use crate::core::shape::Shape;

/// Longest segment: beyond a decade a typing error is more likely than a test.
const MAX_LENGTH: Span = Span::from_secs(3650 * 86_400);
/// Shortest segment, burst and period: shorter ones would be over between two looks of a lane.
const MIN_LENGTH: Span = Span::from_millis(10);
/// Longest period of a sine, so that its integral is exact enough to never fall.
const MAX_PERIOD: Span = Span::from_secs(31 * 86_400);
/// Most segments, steps counted one by one.
const MAX_SEGMENTS: usize = 1_000;

/// One part of a profile: exactly one of rate, ramp_to, sine, burst and steps, and how long it takes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a part like { rate, for }")]
pub struct ProfileEntry {
    /// This rate, or "max".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<PaceSetting>,
    /// In a line from the rate before to this one; in the first part from 0, or from the rate that was set before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp_to: Option<RateSetting>,
    /// Around a mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sine: Option<SineSetting>,
    /// Two rates in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstSetting>,
    /// Rates at equal distances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepsSetting>,
    /// How long rate, sine or burst lasts (a duration). The last part may be without: it never ends then.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Duration>,
    /// How long a ramp takes (a duration).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<Duration>,
}

/// `mean + amplitude · sin(2π · (t / period + phase))`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ mean, amplitude, period }")]
pub struct SineSetting {
    /// The middle, in records a second.
    pub mean: RateSetting,
    /// How far above and below it the rate goes, at most the mean.
    pub amplitude: RateSetting,
    /// From one crest to the next (a duration).
    pub period: Duration,
    /// Where it begins, as a part of a period, 0 to 1: 0 at the mean and rising, 0.25 at the crest, 0.75 at the trough.
    #[serde(default)]
    pub phase: f64,
}

/// Bursts with a quieter time between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ rate, for, every }")]
pub struct BurstSetting {
    /// The rate of a burst, which comes first, in records a second.
    pub rate: RateSetting,
    /// Length of a burst (a duration).
    #[serde(rename = "for")]
    pub lasts: Duration,
    /// The rate between bursts, in records a second.
    #[serde(default)]
    pub idle_rate: RateSetting,
    /// From the beginning of a burst to that of the next (a duration).
    pub every: Duration,
}

/// `from`, `from + by`, … up (or down) to `to`, each for the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{ from, to, by, each }")]
pub struct StepsSetting {
    /// The first rate, in records a second.
    pub from: RateSetting,
    /// The last one.
    pub to: RateSetting,
    /// The distance between two; the last one may be shorter.
    pub by: RateSetting,
    /// How long each lasts (a duration).
    pub each: Duration,
}

/// What is wrong in a profile: the field below it, and a sentence.
type Wrong = (String, String);

/// Makes a profile of its settings. A first ramp begins at `before`; no rate may be above `max_rate`. `at` is where the
/// profile stands, for the problems.
///
/// # Errors
/// Everything that is wrong, with the field, the value found and the remedy.
pub fn compile(
    entries: &[ProfileEntry],
    repeat: RepeatSetting,
    before: Pace,
    max_rate: RateSetting,
    at: &str,
) -> Result<Profile, Vec<Problem>> {
    let mut found = Compiled { segments: Vec::new(), reached: before, wrong: Vec::new() };
    let at_profile = key(at, "profile");
    let mut problems = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let open = index + 1 == entries.len() && repeat == RepeatSetting::Times(1);
        found.add(entry, open);
        let here = format!("{at_profile}[{index}]");
        let wrong = std::mem::take(&mut found.wrong).into_iter().chain(above(entry, max_rate));
        problems.extend(wrong.map(|(name, message)| Problem::new(format!("{here}{name}"), message)));
    }
    if found.segments.len() > MAX_SEGMENTS {
        let steps = found.segments.len();
        let message = format!("{steps} parts and steps are too many; use at most {MAX_SEGMENTS}");
        problems.push(Problem::new(at_profile.clone(), message));
    }
    let times = match repeat {
        RepeatSetting::Times(times) => times,
        RepeatSetting::Forever => u64::MAX,
    };
    let shown = json!({ "profile": entries, "profile_repeat": repeat });
    if !problems.is_empty() {
        return Err(problems);
    }
    let empty = "is empty; give it at least one part, like { rate = 1000, for = \"10m\" }";
    Profile::new(found.segments, times, shown).ok_or_else(|| vec![Problem::new(at_profile, empty)])
}

/// Makes a profile of JSON, as it stands under the same names in a settings file. A first ramp begins at `before`.
///
/// # Errors
/// The first thing that is wrong, with the field.
pub fn from_json(
    profile: &Value,
    repeat: Option<&Value>,
    before: Pace,
    max_rate: Rate,
) -> Result<Profile, Problem> {
    let (entries, repeat) = read(profile, repeat)?;
    let made = compile(&entries, repeat, before, RateSetting(max_rate.per_second()), "");
    made.map_err(|problems| {
        problems.into_iter().next().unwrap_or_else(|| Problem::new("profile", "is not valid"))
    })
}

/// Reads a profile from JSON of the shape `{"profile": […], "profile_repeat": …}`; `compile` says the rest.
///
/// # Errors
/// What cannot be read, with the field.
fn read(profile: &Value, repeat: Option<&Value>) -> Result<(Vec<ProfileEntry>, RepeatSetting), Problem> {
    let entries = serde_path_to_error::deserialize(profile).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." { "profile".to_owned() } else { format!("profile{path}") };
        Problem::new(at, error.inner().to_string())
    })?;
    let repeat = match repeat {
        None => RepeatSetting::default(),
        Some(repeat) => RepeatSetting::deserialize(repeat)
            .map_err(|error| Problem::new("profile_repeat", error.to_string()))?,
    };
    Ok((entries, repeat))
}

struct Compiled {
    segments: Vec<Segment>,
    /// The pace at the end of what was added so far.
    reached: Pace,
    wrong: Vec<Wrong>,
}

impl Compiled {
    fn add(&mut self, entry: &ProfileEntry, open: bool) {
        let kinds = [
            entry.rate.is_some(),
            entry.ramp_to.is_some(),
            entry.sine.is_some(),
            entry.burst.is_some(),
            entry.steps.is_some(),
        ];
        let given = kinds.iter().filter(|given| **given).count();
        if given != 1 {
            let message =
                format!("has {given} of rate, ramp_to, sine, burst and steps; a part of a profile has one");
            self.wrong.push((String::new(), message));
            return;
        }
        self.lengths_belong(entry);
        if let Some(pace) = entry.rate {
            let length_ns = self.length(entry, open);
            match pace {
                PaceSetting::Rate(rate) => {
                    let rate = self.rate(".rate", rate);
                    self.shape(Shape::Constant(rate), length_ns);
                }
                PaceSetting::Max => self.shape(Shape::Max, length_ns),
            }
        } else if let Some(to) = entry.ramp_to {
            self.ramp(to, entry.over);
        } else if let Some(sine) = &entry.sine {
            let length_ns = self.length(entry, open);
            self.sine(sine, length_ns);
        } else if let Some(burst) = &entry.burst {
            let length_ns = self.length(entry, open);
            self.burst(burst, length_ns);
        } else if let Some(steps) = &entry.steps {
            self.steps(steps);
        }
    }

    fn refuse(&mut self, field: &str, message: impl Into<String>) {
        self.wrong.push((field.to_owned(), message.into()));
    }

    /// A length that the part does not look at is a mistake.
    fn lengths_belong(&mut self, entry: &ProfileEntry) {
        if let Some(over) = entry.over.filter(|_| entry.ramp_to.is_none()) {
            self.refuse(".over", format!("{over} belongs to ramp_to; write for = \"{over}\""));
        }
        if let Some(lasts) = entry.lasts.filter(|_| entry.ramp_to.is_some()) {
            self.refuse(".for", format!("{lasts} does not belong to ramp_to; write over = \"{lasts}\""));
        }
        if let Some(lasts) = entry.lasts.filter(|_| entry.steps.is_some()) {
            self.refuse(
                ".for",
                format!("{lasts} does not belong to steps; their each says how long each takes"),
            );
        }
    }

    fn shape(&mut self, shape: Shape, length_ns: u64) {
        self.reached = shape.pace(length_ns);
        self.segments.push(Segment { course: Course::Shape(shape), length_ns });
    }

    /// How long a part lasts; only the last one may say nothing.
    fn length(&mut self, entry: &ProfileEntry, open: bool) -> u64 {
        match entry.lasts {
            Some(lasts) => self.span(".for", lasts, MAX_LENGTH),
            None if open => u64::MAX,
            None => {
                self.refuse(
                    ".for",
                    "is missing; only the last part of a profile that is not repeated may be without",
                );
                1
            }
        }
    }

    fn span(&mut self, field: &str, span: Duration, most: Span) -> u64 {
        let length = span.get();
        if length < MIN_LENGTH {
            self.refuse(field, format!("{span} is too short; use {} or more", Duration::from(MIN_LENGTH)));
        } else if length > most {
            self.refuse(field, format!("{span} is too long; use at most {} days", most.as_secs() / 86_400));
        }
        u64::try_from(length.min(most).as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn rate(&mut self, field: &str, rate: RateSetting) -> Rate {
        Rate::from_per_second(rate.0).unwrap_or_else(|error| {
            self.refuse(field, error.to_string());
            Rate::ZERO
        })
    }

    fn ramp(&mut self, to: RateSetting, over: Option<Duration>) {
        let to = self.rate(".ramp_to", to);
        let Some(over) = over else {
            return self.refuse(".over", "is missing; say how long the ramp takes, like over = \"10m\"");
        };
        let over_ns = self.span(".over", over, MAX_LENGTH);
        match self.reached {
            Pace::Steady(from) => self.shape(Shape::Ramp { from, to, over_ns, at_ns: 0 }, over_ns),
            Pace::Max => self.refuse(
                ".ramp_to",
                "has no rate to begin at after \"max\"; put a part with a rate between them",
            ),
        }
    }

    fn sine(&mut self, sine: &SineSetting, length_ns: u64) {
        let (mean, amplitude) =
            (self.rate(".sine.mean", sine.mean), self.rate(".sine.amplitude", sine.amplitude));
        if amplitude > mean {
            let (amplitude, mean) = (sine.amplitude, sine.mean);
            self.refuse(
                ".sine.amplitude",
                format!("{amplitude} is above mean = {mean}, which gives rates below 0; lower it"),
            );
        }
        let period_ns = self.span(".sine.period", sine.period, MAX_PERIOD);
        if !(0.0..=1.0).contains(&sine.phase) {
            self.refuse(".sine.phase", format!("{} is no part of a period; use 0 to 1", sine.phase));
        }
        // The shape counts from its trough, a quarter of a period before the rising mean.
        let part = (sine.phase.clamp(0.0, 1.0) + 0.25) % 1.0;
        let at_ns = (period_ns as f64 * part) as u64;
        self.shape(Shape::Sine { mean, amplitude: amplitude.min(mean), period_ns, at_ns }, length_ns);
    }

    fn burst(&mut self, burst: &BurstSetting, length_ns: u64) {
        let (rate, idle) =
            (self.rate(".burst.rate", burst.rate), self.rate(".burst.idle_rate", burst.idle_rate));
        let burst_ns = self.span(".burst.for", burst.lasts, MAX_LENGTH);
        let every_ns = self.span(".burst.every", burst.every, MAX_LENGTH);
        if every_ns < burst_ns {
            let (every, lasts) = (burst.every, burst.lasts);
            self.refuse(
                ".burst.every",
                format!("{every} is shorter than the burst, for = {lasts}; make it longer"),
            );
        }
        let segment = Segment { course: Course::Burst { rate, burst_ns, idle, every_ns }, length_ns };
        self.reached = if (length_ns - 1) % every_ns < burst_ns { rate.into() } else { idle.into() };
        self.segments.push(segment);
    }

    fn steps(&mut self, steps: &StepsSetting) {
        let (from, to) = (self.rate(".steps.from", steps.from), self.rate(".steps.to", steps.to));
        let by = self.rate(".steps.by", steps.by);
        let each_ns = self.span(".steps.each", steps.each, MAX_LENGTH);
        if by.is_zero() {
            return self.refuse(".steps.by", "0 is no distance; use the difference between two steps");
        }
        let (mut at, to, by) = (from.micros(), to.micros(), by.micros());
        loop {
            self.shape(Shape::Constant(Rate::from_micros(at)), each_ns);
            if at == to || self.segments.len() > MAX_SEGMENTS {
                return;
            }
            at = if at < to { at.saturating_add(by).min(to) } else { at.saturating_sub(by).max(to) };
        }
    }
}

/// The rates of a part that are above the stream's highest.
fn above(entry: &ProfileEntry, max_rate: RateSetting) -> Vec<Wrong> {
    let mut rates = Vec::new();
    let mut look = |field: &str, rate: Option<RateSetting>| {
        if let Some(rate) = rate.filter(|rate| *rate > max_rate) {
            rates.push((
                field.to_owned(),
                format!("{rate} is above max_rate = {max_rate}; lower it, or raise max_rate"),
            ));
        }
    };
    look(".rate", entry.rate.and_then(PaceSetting::rate));
    look(".ramp_to", entry.ramp_to);
    if let Some(burst) = &entry.burst {
        look(".burst.rate", Some(burst.rate));
        look(".burst.idle_rate", Some(burst.idle_rate));
    }
    if let Some(steps) = &entry.steps {
        look(".steps.from", Some(steps.from));
        look(".steps.to", Some(steps.to));
    }
    if let Some(sine) = &entry.sine
        && sine.mean.0 + sine.amplitude.0 > max_rate.0
    {
        let (mean, amplitude) = (sine.mean, sine.amplitude);
        rates.push((
            ".sine".to_owned(),
            format!(
                "its crest, {mean} + {amplitude}, is above max_rate = {max_rate}; lower it, or raise max_rate"
            ),
        ));
    }
    rates
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
