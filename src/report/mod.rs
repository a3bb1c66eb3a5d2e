//! The report: rates, averages and a judgement from the counts and sums of a run's record.
//!
//! [`summarize`] makes a [`Report`] of a record, [`text`] shows it on a terminal, [`verdict()`] judges it. Every number
//! in the JSON is finite. A number that does not exist is null, and the `absent` map beside it says why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::core::histogram::LatencySummary;
use crate::store::record::{Counts, MemorySlope, Outage, PartitionRecord, Phase, Spread};

mod compression;
pub mod line;
mod recovery;
mod remarks;
mod summary;
mod text;
mod units;
mod verdict;

pub use compression::CompressionReport;
pub use recovery::RecoveryReport;
pub use summary::summarize;
pub use text::text;
pub use verdict::{Verdict, verdict};

/// By field: why it is null.
pub type Absent = BTreeMap<String, String>;

/// A run, summed up and judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this format.
    pub format_version: u32,
    /// Version of soakd.
    pub soakd_version: String,
    /// The run's id.
    pub id: String,
    /// The test's name.
    pub name: String,
    /// Tags from the settings.
    pub tags: BTreeMap<String, String>,
    /// Whether the run came to its end in order.
    pub finished: bool,
    /// Why the load ended: `duration`, `records`, `signal`, `http`, ...
    pub cause: Option<String>,
    /// When the load began (RFC 3339, UTC).
    pub started_at: Option<String>,
    /// When the measured phase began.
    pub measuring_at: Option<String>,
    /// When the load ended.
    pub load_ended_at: Option<String>,
    /// When the drain ended.
    pub finished_at: Option<String>,
    /// The judgement.
    pub verdict: Verdict,
    /// The exit code that belongs to it.
    pub exit_code: u8,
    /// What a reader should know although it does not decide the verdict.
    pub remarks: Vec<String>,
    /// Largest share of the measured phase in which soakd itself limited a stream, 0 to 1.
    pub generator_limited_share: Option<f64>,
    /// The measured phase: pauses and warm-up are in no average.
    pub measured: Option<WindowReport>,
    /// The preload, apart: what was sent at "max" before the run's clock began.
    pub preload: Option<WindowReport>,
    /// The warm-up, apart.
    pub warm_up: Option<WindowReport>,
    /// Flush and drain after the load.
    pub drain: DrainReport,
    /// Times of constant load.
    pub segments: Vec<SegmentReport>,
    /// Segments that are part of another one because there were too many to keep.
    pub segments_merged: u64,
    /// The streams over the whole run.
    pub streams: BTreeMap<String, StreamReport>,
    /// Events of the daemon by kind; kinds that never happened are left out.
    pub events: BTreeMap<String, u64>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// A time of constant load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentReport {
    /// The phase it lies in.
    pub phase: Phase,
    /// What began it.
    pub began_by: String,
    /// Further segments that are part of this one.
    pub merged: u64,
    /// Its figures.
    pub figures: WindowReport,
}

/// Figures over some time of the run. Times are in seconds since the load began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// When it began.
    pub from_seconds: f64,
    /// When it ended.
    pub to_seconds: f64,
    /// Its length without pauses of the whole load: what rates are taken over.
    pub active_seconds: f64,
    /// Pauses of the whole load in it.
    pub paused_seconds: f64,
    /// The streams by name.
    pub streams: BTreeMap<String, StreamFigures>,
    /// The progress sources by name.
    pub sources: BTreeMap<String, SourceFigures>,
    /// The processes by name.
    pub processes: BTreeMap<String, ProcessFigures>,
}

/// A stream over some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// The rate of the schedule, weighted by time; none when there was any time at "max".
    pub target_records_per_second: Option<f64>,
    /// Time at "max": a closed loop, whose latencies say nothing about an open load.
    #[serde(default)]
    pub closed_loop_seconds: f64,
    /// Records acked, by time.
    pub achieved_records_per_second: Option<f64>,
    /// Keys and values acked, by time.
    pub achieved_bytes_per_second: Option<f64>,
    /// Whether at least 99 % of the records that were due were sent and did not fail; none at "max".
    pub rate_sustained: Option<bool>,
    /// When the first second began in which this was not so.
    pub first_missed_second: Option<f64>,
    /// All such seconds.
    pub missed_seconds: f64,
    /// Record counters.
    pub counts: Counts,
    /// Sent and without a delivery report at the end.
    pub in_flight: u64,
    /// Due and neither sent nor dropped at the end.
    pub backlog: u64,
    /// From intended time to hand-over.
    pub schedule_delay: Option<LatencySummary>,
    /// From intended time to the ack.
    pub ack_from_intended: Option<LatencySummary>,
    /// From hand-over to the ack.
    pub ack_from_sent: Option<LatencySummary>,
    /// Records of others that came, by time; only of a stream that is only watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_records_per_second: Option<f64>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// A progress source over some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceFigures {
    /// Share of the time in which lag was known, 0 to 1. Unknown time is in no other figure.
    pub coverage: Option<f64>,
    /// Known time in which some partitions had no figure, so that lag is without them.
    pub partly_known_seconds: f64,
    /// Records acked and not ingested.
    pub lag_records: Option<Spread>,
    /// Age of the oldest of them.
    pub lag_seconds: Option<Spread>,
    /// Some of the ages are only lower bounds.
    pub lag_at_least: bool,
    /// Records ingested, by time, without resets and gaps.
    pub ingest_records_per_second: Option<f64>,
    /// The lowest rate between samples at least a second apart.
    pub ingest_min_records_per_second: Option<f64>,
    /// The highest rate between samples at least a second apart.
    pub ingest_max_records_per_second: Option<f64>,
    /// Good polls.
    pub polls: u64,
    /// Failed polls.
    pub errors: u64,
    /// Times that progress fell.
    pub resets: u64,
    /// Times that lag was above 0 and progress did not move.
    pub standstills: u64,
    /// Total time of standstills.
    pub standstill_seconds: f64,
    /// From the intended times of the markers that became visible in this time until they were visible.
    #[serde(default)]
    pub freshness: Option<LatencySummary>,
    /// From the intended times of the records that were read from the system's output topic in this time until then.
    #[serde(default)]
    pub end_to_end: Option<LatencySummary>,
    /// How far apart two looks are: nothing in between is told apart.
    #[serde(default)]
    pub resolution_seconds: Option<f64>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// A process over some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessFigures {
    /// Share of the time in which the process was there, 0 to 1.
    pub coverage: Option<f64>,
    /// CPU time in user mode.
    pub cpu_user_seconds: Option<f64>,
    /// CPU time in system mode.
    pub cpu_system_seconds: Option<f64>,
    /// CPU time in both, and where only the sum is known.
    #[serde(default)]
    pub cpu_seconds: Option<f64>,
    /// CPU time by time, in cores.
    pub cpu_cores_mean: Option<f64>,
    /// 99 % of the time it used no more, between two looks.
    pub cpu_cores_p99: Option<f64>,
    /// The highest use between two looks.
    pub cpu_cores_peak: Option<f64>,
    /// Resident memory.
    pub memory_rss_bytes: Option<Spread>,
    /// Memory of the cgroup, as far as possible without page cache, where the resident memory is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_cgroup_bytes: Option<Spread>,
    /// How it grew.
    #[serde(default)]
    pub memory_slope: Option<MemorySlope>,
    /// Times that another process took its place.
    pub restarts: u64,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// What happened after the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrainReport {
    /// Whether every source had caught up at the end.
    pub drained: Option<bool>,
    /// From the end of the load to the end of the drain.
    pub seconds: Option<f64>,
    /// Longest wait that the settings allow.
    pub timeout_seconds: f64,
    /// Records without a delivery report when the flush deadline passed.
    pub undelivered_records: u64,
    /// The progress sources by name.
    pub sources: BTreeMap<String, SourceEnd>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// A progress source at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceEnd {
    /// `sql`, `consumer_group`, ...
    pub kind: String,
    /// What its figure means.
    pub value: String,
    /// The stream that it watches.
    pub stream: String,
    /// Whether it had caught up, within its tolerance.
    pub drained: Option<bool>,
    /// Records acked and not ingested.
    pub remaining_records: Option<u64>,
    /// Age of the oldest of them (for markers: of the oldest one not visible).
    #[serde(default)]
    pub remaining_seconds: Option<f64>,
    /// Partitions that are not in them, because the source had no figure for them.
    pub unknown_partitions: u32,
    /// So many remaining records count as caught up.
    pub tolerance_records: u64,
    /// From the end of the load until it had caught up to stay.
    pub caught_up_after_seconds: Option<f64>,
    /// Records that retention removed before they were ingested.
    pub expired_records: u64,
    /// Times that the system was away, fell back or stood still and needed to come back, over the whole run; the first ones.
    #[serde(default)]
    pub recoveries: Vec<RecoveryReport>,
    /// All such times.
    #[serde(default)]
    pub recoveries_total: u64,
    /// From markers' intended times until they were visible, over the whole run: also of those that were late enough to
    /// be seen only in the drain.
    #[serde(default)]
    pub freshness: Option<LatencySummary>,
    /// From records' intended times until they were read from the system's output topic, likewise.
    #[serde(default)]
    pub end_to_end: Option<LatencySummary>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// A stream over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The topic.
    pub topic: String,
    /// How records find their partition.
    pub partitioner: String,
    /// The queue limits in force.
    pub limits: Vec<String>,
    /// From the start of the load to the end of the drain, warm-up included.
    pub totals: Counts,
    /// Sent and without a delivery report at the end.
    pub in_flight: u64,
    /// Due and neither sent nor dropped at the end.
    pub backlog: u64,
    /// What the codec reached.
    #[serde(default)]
    pub compression: CompressionReport,
    /// The partitions in order.
    pub partitions: Vec<PartitionRecord>,
    /// Times without any ack although records were in flight, the first ones.
    pub outages: Vec<OutageReport>,
    /// All such times.
    pub outages_total: u64,
    /// What the broker says to our counts.
    pub reconciliation: Reconciliation,
    /// Records of others that came since soakd began; only of a stream that is only watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_records: Option<u64>,
}

/// A time without acks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutageReport {
    /// When it began and ended.
    #[serde(flatten)]
    pub outage: Outage,
    /// How long it was.
    pub seconds: Option<f64>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// Whether the broker has what it acknowledged: acked ≤ end − start ≤ acked + outcome unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// What came out.
    pub result: Reconciled,
    /// Records acked, over all partitions.
    pub acked: u64,
    /// Records whose outcome is not known.
    pub outcome_unknown: u64,
    /// Records that the broker's end offsets rose by.
    pub in_broker: Option<u64>,
    /// Acked records that the broker does not have; a surplus in one partition cancels nothing in another.
    pub missing_records: Option<u64>,
    /// Records in the broker beyond acked and outcome unknown.
    pub surplus_records: Option<u64>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: Absent,
}

/// What came out of a reconciliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reconciled {
    /// The counts agree.
    Agrees,
    /// Acked records are missing in the broker.
    Missing,
    /// The broker has more than we know of: another writer, or duplicates.
    Surplus,
    /// As `Surplus`, within the number of records that failed otherwise: a record that timed out in the client may
    /// have been written.
    SurplusOfFailed,
    /// The end offsets could not be read.
    NotReconciled,
}

/// Collects why fields are null.
#[derive(Debug, Default)]
struct Reasons(Absent);

impl Reasons {
    /// Notes the reason when there is no value.
    fn need<T>(&mut self, field: &str, value: Option<T>, why: impl Into<String>) -> Option<T> {
        if value.is_none() {
            self.0.insert(field.to_owned(), why.into());
        }
        value
    }
}
