//! `GET /api/v1/status`: everything at one instant. What is not known is null, never 0.

mod machine;
mod source;

use std::collections::BTreeMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::source::SourceBody;
use super::achieved::Rates;
use super::health::degraded;
use super::problem::Problem;
use super::runs::RunBody;
use super::{App, Shared};
use crate::core::clock::Clock;
use crate::core::counters::{Counters, DropReason, FailReason, LimitedBy};
use crate::core::histogram::LatencySummary;
use crate::core::pace::Pace;
use crate::core::slope::Growth;
use crate::core::status::ProcessStatus;
use crate::core::stream::{Stream, StreamSnapshot};

#[derive(Debug, Serialize)]
struct StatusBody {
    /// Wall time of the snapshot.
    time: String,
    version: &'static str,
    uptime_seconds: f64,
    state: &'static str,
    run: RunBody,
    /// What is out of order now, a sentence each; the same as of `/readyz`.
    degraded: Vec<String>,
    totals: TotalsBody,
    streams: BTreeMap<String, StreamBody>,
    sources: BTreeMap<String, SourceBody>,
    processes: BTreeMap<String, ProcessBody>,
    machines: BTreeMap<String, machine::MachineBody>,
    /// Effective settings with their origins.
    settings: Value,
}

/// All streams added up.
#[derive(Debug, Serialize)]
struct TotalsBody {
    target_records_per_second: Pace,
    set_records_per_second: Pace,
    #[serde(flatten)]
    achieved: AchievedBody,
    records: RecordsBody,
}

/// Over the last seconds; null in the first moments.
#[derive(Debug, Default, Serialize)]
struct AchievedBody {
    achieved_records_per_second: Option<f64>,
    sent_records_per_second: Option<f64>,
    achieved_over_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct RecordsBody {
    scheduled: u64,
    sent: u64,
    acked: u64,
    failed: u64,
    dropped: u64,
    backlog: u64,
    in_flight: u64,
    failed_by_reason: BTreeMap<&'static str, u64>,
    dropped_by_reason: BTreeMap<&'static str, u64>,
    bytes_acked: u64,
    markers: u64,
}

#[derive(Debug, Serialize)]
struct StreamBody {
    topic: String,
    paused: bool,
    target_records_per_second: Pace,
    set_records_per_second: Pace,
    max_records_per_second: f64,
    rate_changed: String,
    #[serde(flatten)]
    achieved: AchievedBody,
    records: RecordsBody,
    oldest_backlog_seconds: f64,
    limited_by: Vec<&'static str>,
    limited_seconds: BTreeMap<&'static str, f64>,
    acks_stopped: bool,
    stalls: u64,
    client_rebuilds: u64,
    latency: LatencyBody,
    broker_rtt_seconds: BTreeMap<i32, f64>,
    compression: CompressionBody,
    /// Records that others wrote since the start; null for a stream that soakd produces.
    watched_records: Option<u64>,
    partitions: Vec<PartitionBody>,
}

/// What the client's codec reached; the ratio is null before its first statistics.
#[derive(Debug, Serialize)]
struct CompressionBody {
    codec: Option<String>,
    ratio: Option<f64>,
    payload_bytes: u64,
    batch_bytes: u64,
}

/// Since the start; null before the first record.
#[derive(Debug, Serialize)]
struct LatencyBody {
    schedule_delay: Option<LatencySummary>,
    ack_from_intended: Option<LatencySummary>,
    ack_from_sent: Option<LatencySummary>,
}

#[derive(Debug, Serialize)]
struct PartitionBody {
    partition: usize,
    next_offset: u64,
    last_sequence: Option<u64>,
    acked: u64,
    baseline: u64,
    log_start: u64,
}

#[derive(Debug, Serialize)]
struct ProcessBody {
    up: bool,
    error: Option<String>,
    pid: Option<u32>,
    processes: u32,
    cpu_cores: Option<f64>,
    cpu_user_seconds: Option<f64>,
    cpu_system_seconds: Option<f64>,
    cpu_unsplit_seconds: Option<f64>,
    cpu_throttled_seconds: Option<f64>,
    memory_rss_bytes: Option<u64>,
    memory_pss_bytes: Option<u64>,
    memory_cgroup_bytes: Option<u64>,
    memory_cgroup_peak_bytes: Option<u64>,
    memory_working_set_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    memory_slope_bytes_per_hour: Option<f64>,
    memory_slope_error_bytes_per_hour: Option<f64>,
    threads: Option<u64>,
    open_fds: Option<u64>,
    io_read_bytes: Option<u64>,
    io_written_bytes: Option<u64>,
    oom_kills: Option<u64>,
    start_time_seconds: Option<f64>,
    restarts: u64,
}

impl From<Rates> for AchievedBody {
    fn from(rates: Rates) -> Self {
        Self {
            achieved_records_per_second: Some(rates.achieved_records_per_second),
            sent_records_per_second: Some(rates.sent_records_per_second),
            achieved_over_seconds: Some(rates.achieved_over_seconds),
        }
    }
}

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/api/v1/status", get(status))
}

/// What to show beside the usual.
#[derive(Debug, Default, Deserialize)]
struct Wanted {
    /// Each source by partition.
    #[serde(default)]
    partitions: bool,
}

async fn status(
    State(app): State<Shared>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<StatusBody>, Problem> {
    let Query(wanted) =
        wanted.map_err(|_| Problem::bad_request("the query may hold partitions=true or partitions=false"))?;
    Ok(Json(body(&app, &wanted)))
}

fn body(app: &App, wanted: &Wanted) -> StatusBody {
    let board = app.board();
    let snapshot = board.snapshot();
    let (now_ns, clock) = (snapshot.now_ns, snapshot.clock);
    let degraded = degraded(&snapshot);
    let achieved = app.achieved.rates(&snapshot);
    let totals = totals(snapshot.streams.values(), &achieved);
    let streams = snapshot.streams.into_iter().filter_map(|(name, seen)| {
        let body = stream(board.streams.get(&name)?, seen, achieved.get(&name).copied(), clock);
        Some((name, body))
    });
    StatusBody {
        time: clock.rfc3339(now_ns),
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: seconds(now_ns),
        state: snapshot.run.state.name(),
        run: RunBody::new(&snapshot.run, clock, app.control.stop_requested()),
        degraded,
        totals,
        streams: streams.collect(),
        sources: snapshot
            .sources
            .into_iter()
            .map(|(name, seen)| (name, source::body(seen, now_ns, clock, wanted.partitions)))
            .collect(),
        processes: snapshot
            .processes
            .into_iter()
            .map(|(name, seen)| {
                let slope = snapshot.run.memory_slopes.get(&name).copied();
                (name, process(seen, slope))
            })
            .collect(),
        machines: snapshot.machines.into_iter().map(|(name, seen)| (name, machine::body(seen))).collect(),
        settings: app.settings.clone(),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Values by their labels, in the order of the enum.
fn by_label<T, V, const N: usize>(
    labels: [(T, &'static str); N],
    values: [V; N],
) -> BTreeMap<&'static str, V> {
    labels.into_iter().map(|(_, label)| label).zip(values).collect()
}

fn totals<'a>(
    streams: impl Iterator<Item = &'a StreamSnapshot>,
    achieved: &BTreeMap<String, Rates>,
) -> TotalsBody {
    let mut counters = Counters::default();
    let (mut target, mut set) = (Pace::default(), Pace::default());
    for stream in streams {
        counters.add(&stream.counters);
        target = Pace::total([target, stream.target]);
        set = Pace::total([set, stream.set_rate]);
    }
    let sum = |pick: fn(&Rates) -> f64| achieved.values().map(pick).sum();
    let total = achieved.values().next().map(|any| Rates {
        achieved_records_per_second: sum(|rates| rates.achieved_records_per_second),
        sent_records_per_second: sum(|rates| rates.sent_records_per_second),
        ..*any
    });
    TotalsBody {
        target_records_per_second: target,
        set_records_per_second: set,
        achieved: total.map(AchievedBody::from).unwrap_or_default(),
        records: records(&counters),
    }
}

fn records(counters: &Counters) -> RecordsBody {
    RecordsBody {
        scheduled: counters.scheduled,
        sent: counters.sent,
        acked: counters.acked,
        failed: counters.failed_total(),
        dropped: counters.dropped_total(),
        backlog: counters.backlog,
        in_flight: counters.in_flight,
        failed_by_reason: by_label(FailReason::ALL, counters.failed),
        dropped_by_reason: by_label(DropReason::ALL, counters.dropped),
        bytes_acked: counters.bytes_acked,
        markers: counters.markers,
    }
}

fn stream(stream: &Stream, seen: StreamSnapshot, achieved: Option<Rates>, clock: Clock) -> StreamBody {
    let latencies = stream.latencies();
    let limited = LimitedBy::ALL.iter().zip(seen.limited).filter(|(_, now)| *now);
    let rtt = seen.broker_rtt_micros.into_iter().map(|(broker, micros)| (broker, micros as f64 / 1e6));
    StreamBody {
        topic: seen.topic,
        paused: seen.paused,
        target_records_per_second: seen.target,
        set_records_per_second: seen.set_rate,
        max_records_per_second: stream.max_rate.per_second(),
        rate_changed: clock.rfc3339(seen.rate_changed_ns),
        achieved: achieved.map(AchievedBody::from).unwrap_or_default(),
        records: records(&seen.counters),
        oldest_backlog_seconds: seconds(seen.oldest_backlog_ns),
        limited_by: limited.map(|((_, by), _)| *by).collect(),
        limited_seconds: by_label(LimitedBy::ALL, seen.counters.limited_ns.map(seconds)),
        acks_stopped: seen.acks_stopped,
        stalls: seen.counters.stalls,
        client_rebuilds: seen.counters.rebuilds,
        latency: LatencyBody {
            schedule_delay: latencies.schedule_delay.summary(),
            ack_from_intended: latencies.ack_from_intended.summary(),
            ack_from_sent: latencies.ack_from_sent.summary(),
        },
        broker_rtt_seconds: rtt.collect(),
        compression: CompressionBody {
            codec: seen.wire.codec.as_deref().map(str::to_owned),
            ratio: seen.wire.ratio(),
            payload_bytes: seen.wire.payload_bytes,
            batch_bytes: seen.wire.batch_bytes,
        },
        watched_records: seen.watched_records,
        partitions: partitions(stream),
    }
}

fn partitions(stream: &Stream) -> Vec<PartitionBody> {
    let heads = stream.heads().into_iter().enumerate();
    heads
        .map(|(partition, head)| PartitionBody {
            partition,
            next_offset: head.next_offset,
            last_sequence: head.last_sequence,
            acked: head.acked,
            baseline: head.baseline,
            log_start: head.log_start,
        })
        .collect()
}

fn process(seen: ProcessStatus, slope: Option<Growth>) -> ProcessBody {
    ProcessBody {
        up: seen.up,
        error: seen.error,
        pid: seen.pid,
        processes: seen.processes,
        cpu_cores: seen.cpu_cores,
        cpu_user_seconds: seen.cpu_user_ns.map(seconds),
        cpu_system_seconds: seen.cpu_system_ns.map(seconds),
        cpu_unsplit_seconds: seen.cpu_unsplit_ns.map(seconds),
        cpu_throttled_seconds: seen.cpu_throttled_ns.map(seconds),
        memory_rss_bytes: seen.memory_rss_bytes,
        memory_pss_bytes: seen.memory_pss_bytes,
        memory_cgroup_bytes: seen.memory_cgroup_bytes,
        memory_cgroup_peak_bytes: seen.memory_cgroup_peak_bytes,
        memory_working_set_bytes: seen.memory_working_set_bytes,
        memory_limit_bytes: seen.memory_limit_bytes,
        memory_slope_bytes_per_hour: slope.map(|slope| slope.per_hour),
        memory_slope_error_bytes_per_hour: slope.map(|slope| slope.error_per_hour),
        threads: seen.threads,
        open_fds: seen.open_fds,
        io_read_bytes: seen.io_read_bytes,
        io_written_bytes: seen.io_written_bytes,
        oom_kills: seen.oom_kills,
        start_time_seconds: seen.start_time_seconds,
        restarts: seen.restarts,
    }
}
