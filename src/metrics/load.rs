//! The load, by stream.

use super::{Kind, Metric, Series, seconds};
use crate::core::counters::{DropReason, FailReason, LimitedBy};
use crate::core::status::Snapshot;
use crate::core::stream::StreamSnapshot;

const LABELS: &[&str] = &["stream"];

/// One series for each stream.
fn each(snapshot: &Snapshot, out: &mut Series, value: impl Fn(&StreamSnapshot) -> f64) {
    for (name, stream) in &snapshot.streams {
        out.value(&[name], value(stream));
    }
}

/// One series for each stream and label of an enum, in the order of the enum.
fn by<const N: usize, T>(
    snapshot: &Snapshot,
    out: &mut Series,
    labels: [(T, &'static str); N],
    values: impl Fn(&StreamSnapshot) -> [f64; N],
) {
    for (name, stream) in &snapshot.streams {
        for ((_, label), value) in labels.iter().zip(values(stream)) {
            out.value(&[name, label], value);
        }
    }
}

pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "soakd_target_records_per_second",
        kind: Kind::Gauge,
        unit: "records per second",
        labels: LABELS,
        help: "Rate that the schedule follows now: 0 while paused, before the start and after the end. Absent at \"max\", which has no rate.",
        collect: |snapshot, out| {
            for (name, stream) in &snapshot.streams {
                if let Some(rate) = stream.target.per_second() {
                    out.value(&[name], rate);
                }
            }
        },
    },
    Metric {
        name: "soakd_rate_last_change_timestamp_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: LABELS,
        help: "Wall time at which the rate was last set, in seconds since 1970.",
        collect: |snapshot, out| {
            let clock = snapshot.clock;
            each(snapshot, out, |stream| clock.wall_seconds(stream.rate_changed_ns));
        },
    },
    Metric {
        name: "soakd_records_scheduled_total",
        kind: Kind::Counter,
        unit: "records",
        labels: LABELS,
        help: "Records that were due by the schedule: always sent + dropped + backlog.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.scheduled as f64),
    },
    Metric {
        name: "soakd_records_sent_total",
        kind: Kind::Counter,
        unit: "records",
        labels: LABELS,
        help: "Records handed over to the Kafka client: always acked + failed + in flight.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.sent as f64),
    },
    Metric {
        name: "soakd_records_acked_total",
        kind: Kind::Counter,
        unit: "records",
        labels: LABELS,
        help: "Records whose delivery the broker confirmed. From the client's delivery reports.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.acked as f64),
    },
    Metric {
        name: "soakd_records_failed_total",
        kind: Kind::Counter,
        unit: "records",
        labels: &["stream", "reason"],
        help: "Records that were sent and not confirmed, by reason; outcome_unknown may or may not be in the topic. From the client's delivery reports.",
        collect: |snapshot, out| {
            by(snapshot, out, FailReason::ALL, |stream| stream.counters.failed.map(|count| count as f64));
        },
    },
    Metric {
        name: "soakd_records_dropped_total",
        kind: Kind::Counter,
        unit: "records",
        labels: &["stream", "reason"],
        help: "Records that were due and given up before they were sent, by reason.",
        collect: |snapshot, out| {
            by(snapshot, out, DropReason::ALL, |stream| stream.counters.dropped.map(|count| count as f64));
        },
    },
    Metric {
        name: "soakd_watched_records_total",
        kind: Kind::Counter,
        unit: "records",
        labels: LABELS,
        help: "Records that others wrote to a stream that is only watched, since soakd began. From the broker's end offsets; absent for streams that soakd produces.",
        collect: |snapshot, out| {
            for (name, stream) in &snapshot.streams {
                if let Some(came) = stream.watched_records {
                    out.value(&[name], came as f64);
                }
            }
        },
    },
    Metric {
        name: "soakd_marker_records_total",
        kind: Kind::Counter,
        unit: "records",
        labels: LABELS,
        help: "Markers among the sent records: records on top of the rate, by which freshness is measured.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.markers as f64),
    },
    Metric {
        name: "soakd_records_in_flight",
        kind: Kind::Gauge,
        unit: "records",
        labels: LABELS,
        help: "Records sent and without a delivery report yet. From the client's queue.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.in_flight as f64),
    },
    Metric {
        name: "soakd_schedule_backlog_records",
        kind: Kind::Gauge,
        unit: "records",
        labels: LABELS,
        help: "Records due, and neither sent nor dropped yet. From the schedule's cursor.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.backlog as f64),
    },
    Metric {
        name: "soakd_bytes_acked_total",
        kind: Kind::Counter,
        unit: "bytes",
        labels: LABELS,
        help: "Bytes of keys and values of acked records, before compression.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.bytes_acked as f64),
    },
    Metric {
        name: "soakd_schedule_delay_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: LABELS,
        help: "From a record's intended time until it was handed to the client: how late soakd itself was.",
        collect: |snapshot, out| {
            for (name, stream) in &snapshot.streams {
                out.histogram(&[name], &stream.schedule_delay);
            }
        },
    },
    Metric {
        name: "soakd_ack_latency_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["stream", "from"],
        help: "Until a record was acked, from its intended time (what an independent client would see) or from when it was sent.",
        collect: |snapshot, out| {
            for (name, stream) in &snapshot.streams {
                out.histogram(&[name, "intended"], &stream.ack_from_intended);
                out.histogram(&[name, "sent"], &stream.ack_from_sent);
            }
        },
    },
    Metric {
        name: "soakd_load_limited",
        kind: Kind::Gauge,
        unit: "1",
        labels: &["stream", "by"],
        help: "1 while the load is not what the schedule says, by who holds it back: soakd (generator) or the broker. The system's figures are void while the generator is the limit.",
        collect: |snapshot, out| {
            by(snapshot, out, LimitedBy::ALL, |stream| stream.limited.map(|now| f64::from(u8::from(now))));
        },
    },
    Metric {
        name: "soakd_load_limited_seconds_total",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["stream", "by"],
        help: "Time that the load was limited, by whom, the running episode included; lanes that are limited together count once.",
        collect: |snapshot, out| {
            by(snapshot, out, LimitedBy::ALL, |stream| stream.counters.limited_ns.map(seconds));
        },
    },
    Metric {
        name: "soakd_stalls_total",
        kind: Kind::Counter,
        unit: "1",
        labels: LABELS,
        help: "Times that the broker held the load back: in flight was at its cap.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.stalls as f64),
    },
    Metric {
        name: "soakd_kafka_client_rebuilds_total",
        kind: Kind::Counter,
        unit: "1",
        labels: LABELS,
        help: "Times that a Kafka client was thrown away and built anew.",
        collect: |snapshot, out| each(snapshot, out, |stream| stream.counters.rebuilds as f64),
    },
    Metric {
        name: "soakd_broker_rtt_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: &["stream", "broker"],
        help: "Round trip to each broker, by its id; the slowest lane's average. From the client's last statistics.",
        collect: |snapshot, out| {
            for (name, stream) in &snapshot.streams {
                for (broker, micros) in &stream.broker_rtt_micros {
                    out.value(&[name, &broker.to_string()], *micros as f64 / 1e6);
                }
            }
        },
    },
];
