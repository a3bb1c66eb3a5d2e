//! How far the system under test is, by progress source. A series without a reading is absent: unknown is not zero.

use super::{Kind, Metric, Series, seconds};
use crate::core::lag::Reading;
use crate::core::status::{ProgressErrorKind, Snapshot, SourceStatus};

/// The labels of all metrics here but the error counter.
const LABELS: &[&str] = &["source", "stream"];

/// One series for each source that has a value.
fn each(snapshot: &Snapshot, out: &mut Series, value: impl Fn(&SourceStatus) -> Option<f64>) {
    for (name, source) in &snapshot.sources {
        if let Some(value) = value(source) {
            out.value(&[name, &source.stream], value);
        }
    }
}

/// One series for each source whose last reading has a value.
fn read(snapshot: &Snapshot, out: &mut Series, value: impl Fn(&Reading) -> Option<f64>) {
    each(snapshot, out, |source| source.reading.as_ref().and_then(&value));
}

pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "soakd_progress_up",
        kind: Kind::Gauge,
        unit: "1",
        labels: LABELS,
        help: "1 while the last poll of the source was answered, else 0.",
        collect: |snapshot, out| each(snapshot, out, |source| Some(f64::from(u8::from(source.up)))),
    },
    Metric {
        name: "soakd_progress_records",
        kind: Kind::Gauge,
        unit: "records",
        labels: LABELS,
        help: "Records that the system has ingested since the run began, by the source's own account; may fall when the system reads again. Absent while unknown.",
        collect: |snapshot, out| read(snapshot, out, |reading| reading.progress_records),
    },
    Metric {
        name: "soakd_progress_errors_total",
        kind: Kind::Counter,
        unit: "1",
        labels: &["source", "stream", "kind"],
        help: "Failed polls of the source by kind of failure.",
        collect: |snapshot, out| {
            for (name, source) in &snapshot.sources {
                for ((_, kind), count) in ProgressErrorKind::ALL.iter().zip(source.errors) {
                    out.count(&[name, &source.stream, kind], count);
                }
            }
        },
    },
    Metric {
        name: "soakd_progress_duration_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: LABELS,
        help: "How long polls of the source took, from the question until the answer.",
        collect: |snapshot, out| {
            for (name, source) in &snapshot.sources {
                out.histogram(&[name, &source.stream], &source.duration);
            }
        },
    },
    Metric {
        name: "soakd_progress_last_success_timestamp_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "Wall time of the last good sample in seconds since 1970; stays when the source is down, absent before the first.",
        collect: |snapshot, out| {
            let clock = snapshot.clock;
            each(snapshot, out, |source| source.last_success_ns.map(|at_ns| clock.wall_seconds(at_ns)));
        },
    },
    Metric {
        name: "soakd_progress_resets_total",
        kind: Kind::Counter,
        unit: "1",
        labels: LABELS,
        help: "Times that the source's progress fell.",
        collect: |snapshot, out| each(snapshot, out, |source| Some(source.resets as f64)),
    },
    Metric {
        name: "soakd_progress_unknown_partitions",
        kind: Kind::Gauge,
        unit: "1",
        labels: LABELS,
        help: "Partitions for which the source has no figure yet; they are not in the lag.",
        collect: |snapshot, out| {
            read(snapshot, out, |reading| Some(f64::from(reading.unknown_partitions)));
        },
    },
    Metric {
        name: "soakd_lag_records",
        kind: Kind::Gauge,
        unit: "records",
        labels: LABELS,
        help: "Records acked by the broker and not yet ingested, at the middle of the last good poll. Absent while unknown and after three missed polls. From soakd's own acks and the source's progress.",
        collect: |snapshot, out| read(snapshot, out, |reading| reading.lag_records.map(|lag| lag as f64)),
    },
    Metric {
        name: "soakd_lag_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "Age of the oldest record that is acked and not yet ingested, from its intended time; 0 when caught up. Absent while unknown. From the timeline of soakd's own records.",
        collect: |snapshot, out| read(snapshot, out, |reading| reading.lag_ns.map(seconds)),
    },
    Metric {
        name: "soakd_lag_at_least",
        kind: Kind::Gauge,
        unit: "1",
        labels: LABELS,
        help: "1 while soakd_lag_seconds is only a lower bound, because the record is older than the timeline, else 0.",
        collect: |snapshot, out| {
            read(snapshot, out, |reading| reading.lag_ns.map(|_| f64::from(u8::from(reading.lag_at_least))));
        },
    },
    Metric {
        name: "soakd_lag_uncertainty_records",
        kind: Kind::Gauge,
        unit: "records",
        labels: LABELS,
        help: "How far soakd_lag_records may be off either way, because records were acked during the poll.",
        collect: |snapshot, out| {
            read(snapshot, out, |reading| reading.lag_records.map(|_| reading.uncertainty_records));
        },
    },
    Metric {
        name: "soakd_expired_records",
        kind: Kind::Gauge,
        unit: "records",
        labels: LABELS,
        help: "Records that retention removed from the topic before they were ingested; not in the lag. From the broker's low watermarks.",
        collect: |snapshot, out| read(snapshot, out, |reading| Some(reading.expired_records as f64)),
    },
    Metric {
        name: "soakd_standstills_total",
        kind: Kind::Counter,
        unit: "1",
        labels: LABELS,
        help: "Times that there was lag and progress did not move for standstill_after (10 s unless it is set).",
        collect: |snapshot, out| each(snapshot, out, |source| Some(source.standstills as f64)),
    },
    Metric {
        name: "soakd_standstill_seconds_total",
        kind: Kind::Counter,
        unit: "seconds",
        labels: LABELS,
        help: "Time of all standstills, the running one included: from the last sample that showed progress to the first that shows it again, so to within a poll.",
        collect: |snapshot, out| each(snapshot, out, |source| Some(seconds(source.standstill_ns))),
    },
    Metric {
        name: "soakd_progress_resolution_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "How far apart two looks of the source are: its interval and the time that the last good poll took; what happens between is not told apart. Absent before the first good poll.",
        collect: |snapshot, out| each(snapshot, out, |source| source.resolution_ns.map(seconds)),
    },
    Metric {
        name: "soakd_ingest_records_per_second",
        kind: Kind::Gauge,
        unit: "records per second",
        labels: LABELS,
        help: "Records a second that the system ingests, over the last half minute and never across a reset. Absent while unknown and when it has stood still for so long.",
        collect: |snapshot, out| each(snapshot, out, |source| source.ingest_records_per_second),
    },
    Metric {
        name: "soakd_recovery_back_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "Of the last time that the source did not answer, its progress fell or stood still: how long until it answered, or moved, again, to within a poll. Absent before the first time and until then.",
        collect: |snapshot, out| each(snapshot, out, |source| source.recovery?.back_ns.map(seconds)),
    },
    Metric {
        name: "soakd_recovery_caught_up_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "Of the last time that the source did not answer, its progress fell or stood still: how long until the system was no further behind than before, or caught up, to within a poll. Absent until then.",
        collect: |snapshot, out| each(snapshot, out, |source| source.recovery?.caught_up_ns.map(seconds)),
    },
    Metric {
        name: "soakd_catch_up_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "Time until the system would have caught up if it went on as it does and no new load came. Absent when it has caught up, does not get nearer, and while unknown.",
        collect: |snapshot, out| each(snapshot, out, |source| source.catch_up_ns.map(seconds)),
    },
    Metric {
        name: "soakd_progress_clock_ahead_total",
        kind: Kind::Counter,
        unit: "1",
        labels: LABELS,
        help: "Good polls whose newest event time lay in the future, because another clock is ahead; it is taken as now.",
        collect: |snapshot, out| each(snapshot, out, |source| Some(source.clock_ahead as f64)),
    },
    Metric {
        name: "soakd_progress_lag_below_zero_total",
        kind: Kind::Counter,
        unit: "1",
        labels: LABELS,
        help: "Good polls in which the system stated a lag below zero, because its clocks differ or its figures are not of one moment; it is taken as 0.",
        collect: |snapshot, out| each(snapshot, out, |source| Some(source.below_zero as f64)),
    },
    Metric {
        name: "soakd_freshness_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: LABELS,
        help: "From a marker's intended time until a poll of the source showed it, to within soakd_progress_resolution_seconds. Only for sources that look for markers.",
        collect: |snapshot, out| {
            for (name, source) in &snapshot.sources {
                if let Some(freshness) = &source.freshness {
                    out.histogram(&[name, &source.stream], freshness.latency.buckets());
                }
            }
        },
    },
    Metric {
        name: "soakd_marker_oldest_unseen_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "Age of the oldest acked marker that the last good poll of the source did not show; 0 when it showed all. Absent while unknown.",
        collect: |snapshot, out| {
            each(snapshot, out, |source| source.freshness.as_ref()?.oldest_unseen_ns.map(seconds));
        },
    },
    Metric {
        name: "soakd_progress_skipped_records_total",
        kind: Kind::Counter,
        unit: "records",
        labels: LABELS,
        help: "Records of the system's output topic that the source left out of end-to-end latency, which is a sample then: there are more than it can read, or they were in a partition before it was found. Only for sources of kind topic whose records tell their intended time.",
        collect: |snapshot, out| {
            each(snapshot, out, |source| {
                source.end_to_end.as_ref()?;
                Some(source.skipped_records as f64)
            });
        },
    },
    Metric {
        name: "soakd_end_to_end_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: LABELS,
        help: "From a record's intended time until it was read from the system's output topic. Only for sources of kind topic.",
        collect: |snapshot, out| {
            for (name, source) in &snapshot.sources {
                if let Some(latency) = &source.end_to_end {
                    out.histogram(&[name, &source.stream], latency.buckets());
                }
            }
        },
    },
];
