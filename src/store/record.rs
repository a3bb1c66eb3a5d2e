//! What a run leaves behind, as plain data: counts, sums and summaries, no rates and no judgement. `run` writes it,
//! `report` reads it. Times are in seconds since the load began; every number is finite.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::core::histogram::LatencySummary;
use crate::core::recovery::Trouble;

mod counts;

pub use counts::{Counts, SUSTAINED_SHARE};

/// Version of the format of record and report. Files of a higher version are refused by name.
pub const FORMAT_VERSION: u32 = 1;

/// What is known of a run before it begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The run's id.
    pub id: String,
    /// The test's name from the settings.
    pub name: String,
    /// Tags from the settings.
    pub tags: BTreeMap<String, String>,
    /// Longest wait for the system under test after the load; 0 means that no drain is asked for.
    pub drain_timeout_seconds: f64,
    /// The streams by name.
    pub streams: BTreeMap<String, StreamInfo>,
    /// By progress source: records of residual lag that count as caught up.
    pub tolerance_records: BTreeMap<String, u64>,
}

/// What is known of a stream before it begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamInfo {
    /// How records find their partition, in words.
    pub partitioner: String,
    /// The queue limits in force, one sentence each.
    pub limits: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`FORMAT_VERSION`] of the program that wrote it.
    pub format_version: u32,
    /// Version of soakd.
    pub soakd_version: String,
    /// What was known before the start.
    pub run: RunInfo,
    /// When the load began (RFC 3339, UTC).
    pub started_at: Option<String>,
    /// When the measured phase began.
    pub measuring_at: Option<String>,
    /// When the load ended.
    pub load_ended_at: Option<String>,
    /// When the drain ended.
    pub finished_at: Option<String>,
    /// Whether the run came to its end in order.
    pub finished: bool,
    /// Why the load ended: `duration`, `records`, `signal`, `http`, ...
    pub cause: Option<String>,
    /// Records without a delivery report when the flush deadline passed.
    pub undelivered_records: u64,
    /// The streams over the whole run.
    pub streams: BTreeMap<String, StreamRecord>,
    /// The progress sources at the end.
    pub sources: BTreeMap<String, SourceRecord>,
    /// From the start of the load to the run's clock: what was sent at "max" before.
    #[serde(default)]
    pub preload: Option<Window>,
    /// From the start of the run's clock to the measured phase.
    pub warm_up: Option<Window>,
    /// The measured phase; pauses are inside, but not in its averages.
    pub measured: Option<Window>,
    /// From the end of the load to the end of the drain.
    pub drain: Option<Window>,
    /// Times of constant load, warm-up included.
    pub segments: Vec<Segment>,
    /// Segments that are part of another one because there were too many to keep.
    pub segments_merged: u64,
    /// Events of the daemon by kind, up to the end of the run; kinds that never happened are left out.
    pub events: BTreeMap<String, u64>,
}

/// A stream over the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// The topic.
    pub topic: String,
    /// From the start of the load to the end of the drain.
    pub totals: Counts,
    /// Due and neither sent nor dropped at the end.
    pub backlog: u64,
    /// Sent and without a delivery report at the end.
    pub in_flight: u64,
    /// What the Kafka client made of the records.
    #[serde(default)]
    pub compression: Compression,
    /// The partitions in order.
    pub partitions: Vec<PartitionRecord>,
    /// Times without any ack although records were in flight, the first ones.
    pub outages: Vec<Outage>,
    /// All such times, kept or not.
    pub outages_total: u64,
    /// Of a stream that is only watched: records that came since soakd began, by the broker's end offsets.
    #[serde(default)]
    pub watched_records: Option<u64>,
    /// The broker's end offsets by partition, before the load and after the drain; absent when they could not be
    /// read.
    pub watermarks: Option<Vec<Watermarks>>,
}

/// What the Kafka client made of a stream's records, by its own statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compression {
    /// The codec that the client was told to use.
    pub codec: String,
    /// Keys and values that were put into batches up to the last statistics.
    pub payload_bytes: u64,
    /// Those batches as they were sent: compressed, with all that the protocol puts around a record.
    pub batch_bytes: u64,
}

/// One partition over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRecord {
    /// Records acked in this partition.
    pub acked: u64,
    /// The offset after the highest acked one.
    pub next_offset: u64,
    /// The broker's end offset at the start.
    pub baseline: u64,
    /// The broker's low watermark when it was last looked at.
    pub log_start: u64,
    /// How often its offsets began again: the topic was deleted and made anew, or the log was cut short.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u64,
    /// Acked records that went with those logs, about.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A partition's end offset before and after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    /// Before the load.
    pub start: u64,
    /// After flush and drain.
    pub end: u64,
}

/// A time without acks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    /// When acks stopped: the last look that saw one come in, or nothing in flight.
    pub start_seconds: f64,
    /// The same in wall time (RFC 3339, UTC).
    pub start_at: String,
    /// When acks came again; absent when they never did.
    pub end_seconds: Option<f64>,
    /// The same in wall time.
    pub end_at: Option<String>,
}

/// A time that a system needed to come back, as one source saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecoveryRecord {
    /// What it came back from.
    pub trouble: Trouble,
    /// When that began: the poll that showed it first, or the last one before a standstill that showed progress.
    pub start_seconds: f64,
    /// The same in wall time (RFC 3339, UTC).
    pub start_at: String,
    /// From then until it answered, or moved, again; absent when it did not.
    pub back_seconds: Option<f64>,
    /// From then until it was no further behind than before, or had caught up; absent when it was not.
    pub caught_up_seconds: Option<f64>,
}

/// A progress source at the end of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// `sql`, `consumer_group`, ...
    pub kind: String,
    /// What its figure means.
    pub value: String,
    /// The stream that it watches.
    pub stream: String,
    /// Records acked and not ingested at the end of the drain; absent when that was not known then, or when the source
    /// tells seconds only.
    pub remaining_records: Option<u64>,
    /// Age of the oldest of them (for markers: of the oldest one not visible); absent when that was not known then.
    #[serde(default)]
    pub remaining_seconds: Option<f64>,
    /// Why it was not known.
    pub unknown_reason: Option<String>,
    /// Partitions that are not in the remaining records, because the source had no figure for them.
    pub unknown_partitions: u32,
    /// Whether the remaining lag was within the tolerance.
    pub caught_up: bool,
    /// From the end of the load to the sample that found it caught up to stay.
    pub caught_up_after_seconds: Option<f64>,
    /// Records that retention removed before they were ingested.
    pub expired_records: u64,
    /// Times that the system needed to come back, from the start of the load on, the first ones.
    #[serde(default)]
    pub recoveries: Vec<RecoveryRecord>,
    /// All such times.
    #[serde(default)]
    pub recoveries_total: u64,
    /// From markers' intended times until they were visible, from the start to the end of the drain.
    #[serde(default)]
    pub freshness: Option<LatencySummary>,
    /// From records' intended times until they were read from the output topic, likewise.
    #[serde(default)]
    pub end_to_end: Option<LatencySummary>,
}

/// Where a segment lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Phase {
    Preload,
    WarmUp,
    Measured,
}

/// A time of constant load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// The phase it lies in.
    pub phase: Phase,
    /// What began it: `preload_start`, `load_start`, `measuring`, `rate_changed`, `paused`, `resumed`.
    pub began_by: String,
    /// Further segments that are part of this one because there were too many to keep.
    pub merged: u64,
    /// Its figures.
    pub window: Window,
}

/// Figures over some time of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// When it began.
    pub from_seconds: f64,
    /// When it ended.
    pub to_seconds: f64,
    /// Its length without pauses of the whole load.
    pub active_seconds: f64,
    /// Pauses of the whole load in it.
    pub paused_seconds: f64,
    /// The streams by name.
    pub streams: BTreeMap<String, StreamWindow>,
    /// The progress sources by name.
    pub sources: BTreeMap<String, SourceWindow>,
    /// The processes by name.
    pub processes: BTreeMap<String, ProcessWindow>,
}

/// A stream over some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamWindow {
    /// The rate that the schedule followed, times the time it did; time at "max" is not in it.
    pub target_records: f64,
    /// Time at "max": a closed loop, which has no target.
    #[serde(default)]
    pub closed_loop_seconds: f64,
    /// Record counters.
    pub counts: Counts,
    /// Sent and without a delivery report at the end of the window.
    pub in_flight: u64,
    /// Due and neither sent nor dropped at the end of the window.
    pub backlog: u64,
    /// Seconds in which fewer records were sent (and not failed) than were due.
    pub missed_seconds: f64,
    /// When the first such second began.
    pub first_missed_second: Option<f64>,
    /// From intended time to hand-over.
    pub schedule_delay: Option<LatencySummary>,
    /// From intended time to the ack.
    pub ack_from_intended: Option<LatencySummary>,
    /// From hand-over to the ack.
    pub ack_from_sent: Option<LatencySummary>,
    /// Of a stream that is only watched: records that came, by the broker's end offsets.
    #[serde(default)]
    pub watched_records: Option<u64>,
}

/// A distribution over time: every value weighs as long as it was the last one known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Spread {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    pub last: f64,
}

/// A progress source over some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceWindow {
    /// The time looked at.
    pub seconds: f64,
    /// The part of it in which lag was known.
    pub known_seconds: f64,
    /// The part of that in which some partitions had no figure, so that lag is without them.
    pub partly_known_seconds: f64,
    /// Good polls.
    pub polls: u64,
    /// Failed polls.
    pub errors: u64,
    /// Records acked and not ingested.
    pub lag_records: Option<Spread>,
    /// Age of the oldest of them.
    pub lag_seconds: Option<Spread>,
    /// Some of the ages were only lower bounds.
    pub lag_at_least: bool,
    /// Records ingested between samples that follow each other without a reset or a gap.
    pub ingested_records: f64,
    /// The time between those samples.
    pub ingest_seconds: f64,
    /// Lowest rate between samples at least a second apart.
    pub ingest_min_records_per_second: Option<f64>,
    /// Highest rate between samples at least a second apart.
    pub ingest_max_records_per_second: Option<f64>,
    /// Times that progress fell.
    pub resets: u64,
    /// Times that lag was above 0 and progress did not move.
    pub standstills: u64,
    /// Total time of standstills.
    pub standstill_seconds: f64,
    /// Why lag was last unknown.
    pub unknown_reason: Option<String>,
    /// From the intended times of the markers that became visible in this time until they were visible.
    #[serde(default)]
    pub freshness: Option<LatencySummary>,
    /// From the intended times of the records that were read from the output topic in this time until then.
    #[serde(default)]
    pub end_to_end: Option<LatencySummary>,
    /// How far apart two looks were at the end: nothing in between is told apart.
    #[serde(default)]
    pub resolution_seconds: Option<f64>,
}

/// A process over some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessWindow {
    /// The time looked at.
    pub seconds: f64,
    /// The part of it in which the process was there.
    pub up_seconds: f64,
    /// The part of it over which CPU time was counted.
    pub cpu_known_seconds: f64,
    /// CPU time in user mode in that part.
    pub cpu_user_seconds: f64,
    /// CPU time in system mode in that part.
    pub cpu_system_seconds: f64,
    /// CPU time of which only the sum is known.
    #[serde(default)]
    pub cpu_unsplit_seconds: f64,
    /// CPU use in cores between two looks.
    pub cpu_cores: Option<Spread>,
    /// Resident memory in bytes.
    pub memory_rss_bytes: Option<Spread>,
    /// Memory of the cgroup in bytes, as far as possible without page cache, where the resident memory is not known.
    #[serde(default)]
    pub memory_cgroup_bytes: Option<Spread>,
    /// How its memory grew; absent when that was seen for too short a time.
    #[serde(default)]
    pub memory_slope: Option<MemorySlope>,
    /// Times that another process took its place.
    pub restarts: u64,
}

/// How the memory of a process grew: a robust slope, with its error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MemorySlope {
    /// Bytes in an hour.
    pub bytes_per_hour: f64,
    /// Half the width of the 95 % interval.
    pub error_bytes_per_hour: f64,
    /// 0 lies within the error, and the error is at most a tenth of the memory in an hour: it neither grows nor shrinks. With
    /// a larger error nobody can tell yet.
    pub flat: bool,
    /// The time that it was seen over: since the beginning, or since the last restart.
    pub over_seconds: f64,
}

/// A number as files carry it: finite and with nine significant digits, so that it reads back as it was written.
#[must_use]
pub fn tidy(number: f64) -> f64 {
    if !number.is_finite() || number.abs() < 1e-12 {
        return 0.0;
    }
    format!("{number:.8e}").parse().unwrap_or(0.0)
}

/// Seconds of a monotonic time in nanoseconds, as files carry them.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn seconds(ns: u64) -> f64 {
    tidy(ns as f64 / 1e9)
}
