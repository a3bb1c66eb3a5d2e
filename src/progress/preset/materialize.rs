//! Materialize: its source's progress, a view's progress, and how far a view lags behind the clock.
//!
//! Under the default isolation, strict serializable, a query waits until what it reads has caught up with the moment of
//! asking: lag would show as slow answers and never as a figure. Serializable answers at once with what there is.

use super::Preset;

const URL: &str = "postgres://materialize@localhost:6875/materialize";

pub(super) static SOURCE: Preset = Preset {
    name: "materialize",
    about: "Materialize: the offset that a Kafka source will ingest next, by partition. Views on it may be behind that: see \
            materialize_view and materialize_lag.",
    kind: "sql",
    object: "The source's progress relation: its name with _progress at the end; the source itself where tables are created from it.",
    example: "events_progress",
    url: URL,
    fills: r#"
value = "next_offset"
interval = "1s"
timeout = "5s"
session = ["SET transaction_isolation = 'serializable'"]
query = """
SELECT partition, "offset" FROM (SELECT upper(partition)::uint8 AS partition, "offset" FROM {object}) AS progress \
WHERE partition IS NOT NULL"""
"#,
    notes: &[
        "Progress comes in steps of a second, Materialize's tick.",
        "Runs in the session's cluster; SET cluster = '…' as one more session statement chooses another.",
        "Not mz_source_statistics: that is renewed about once a minute.",
    ],
    tested: "Not run against Materialize: its question and the shape of its answer were tested with PostgreSQL 15 in its place.",
};

pub(super) static VIEW: Preset = Preset {
    name: "materialize_view",
    about: "Materialize: the last offset that a view shows, by partition: the view's own progress rather than its source's.",
    kind: "sql",
    object: "An indexed view with columns partition and offset, one row a partition.",
    example: "soak_progress",
    url: URL,
    fills: r#"
value = "last_offset"
interval = "1s"
timeout = "5s"
session = ["SET transaction_isolation = 'serializable'"]
query = "SELECT partition, \"offset\" FROM {object}"
"#,
    notes: &[
        "Make it on top of the view in question, whose source says INCLUDE PARTITION, OFFSET: CREATE VIEW soak_progress AS SELECT \
         partition, max(\"offset\") AS \"offset\" FROM my_view GROUP BY partition; CREATE INDEX ON soak_progress (partition).",
        "A view that aggregates has to hand the columns on, as max(\"offset\"); a deleted row takes its offset along.",
        "Runs in the session's cluster, which has to be the index's; SET cluster = '…' as one more session statement chooses another.",
    ],
    tested: "Not run against Materialize: its question and the shape of its answer were tested with PostgreSQL 15 in its place.",
};

pub(super) static LAG: Preset = Preset {
    name: "materialize_lag",
    about: "Materialize: how far a view, source or index is behind the wall clock, in seconds, by its own account; for views that \
            cannot hand offsets on.",
    kind: "sql",
    object: "The name of the view, source or index.",
    example: "my_view",
    url: URL,
    // A view that is not hydrated lags decades behind: unknown, and no lag.
    fills: r#"
value = "lag_seconds"
interval = "10s"
timeout = "5s"
tolerance = 2
session = ["SET transaction_isolation = 'serializable'"]
query = """
SELECT l.lag FROM mz_internal.mz_wallclock_global_lag AS l JOIN mz_catalog.mz_objects AS o ON o.id = l.object_id \
WHERE o.name = '{object}' AND l.lag < INTERVAL '1 year'"""
"#,
    notes: &[
        "In whole seconds, a healthy view is about one behind; renewed about once a minute, so that a short lag may not show.",
        "The schema mz_internal is not a stable interface of Materialize.",
    ],
    tested: "Not run against Materialize: its question and the shape of its answer were tested with PostgreSQL 15 in its place.",
};
