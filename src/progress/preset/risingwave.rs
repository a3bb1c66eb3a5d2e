//! RisingWave: a materialized view's progress by its rows, or by the system's account of its jobs.

use super::Preset;

const URL: &str = "postgres://root@localhost:4566/dev";

pub(super) static VIEW: Preset = Preset {
    name: "risingwave",
    about: "RisingWave: the last offset that a materialized view shows, by partition: the view's own progress rather than its source's.",
    kind: "sql",
    object: "A materialized view with columns partition and offset, one row a partition.",
    example: "soak_progress",
    url: URL,
    // Reads never wait there, so no session setting is needed.
    fills: r#"
value = "last_offset"
interval = "1s"
timeout = "5s"
query = "SELECT \"partition\", \"offset\" FROM {object}"
"#,
    notes: &[
        "Make it on top of the view in question, whose source says INCLUDE partition AS kafka_partition INCLUDE offset AS \
         kafka_offset: CREATE MATERIALIZED VIEW soak_progress AS SELECT kafka_partition AS \"partition\", \
         max(kafka_offset::bigint) AS \"offset\" FROM my_view GROUP BY kafka_partition.",
        "Progress comes in steps of a barrier, a second by default.",
        "A view that aggregates has to hand the columns on, as max(kafka_offset::bigint); a deleted row takes its offset along.",
    ],
    tested: "Not run against RisingWave: its question and the shape of its answer were tested with PostgreSQL 15 in its place.",
};

pub(super) static JOB: Preset = Preset {
    name: "risingwave_job",
    about: "RisingWave: the last offset that a materialized view's job has read, by partition, from rw_kafka_job_lag; for views that \
            cannot hand offsets on.",
    kind: "sql",
    object: "The name of the materialized view; it reads no other topic.",
    example: "my_view",
    url: URL,
    // The smallest, because a job may read one partition in several places.
    fills: r#"
value = "last_offset"
interval = "15s"
timeout = "5s"
query = """
SELECT l.partition_id, min(l.consumer_offset) FROM rw_catalog.rw_kafka_job_lag AS l \
JOIN rw_catalog.rw_materialized_views AS v ON v.id = l.job_id WHERE v.name = '{object}' GROUP BY l.partition_id"""
"#,
    notes: &[
        "RisingWave answers this out of the Prometheus that it is configured with: without one there are no rows, and a figure is as \
         old as the last scrape.",
        "What the job has read is not yet visible: that comes with the next barrier.",
    ],
    tested: "Not run against RisingWave: its question and the shape of its answer were tested with PostgreSQL 15 in its place.",
};
