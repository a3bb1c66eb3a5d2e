//! ClickHouse, asked over HTTP: a table that a materialized view fills from a Kafka engine, say.

use super::Preset;

pub(super) static PRESET: Preset = Preset {
    name: "clickhouse",
    about: "ClickHouse over HTTP: the highest sequence that a query on a table shows, by partition; right for tables that are \
            appended to and for upserts.",
    kind: "http",
    object: "The table, with columns partition and sequence.",
    example: "events",
    url: "http://localhost:8123",
    // One thread, so that asking costs the system that is measured one core at most; the whole answer or an error, never rows and
    // then an error behind a good status.
    fills: r#"
value = "sequence"
interval = "1s"
timeout = "5s"
standstill_after = "25s"
method = "post"
path = "/?wait_end_of_query=1&max_threads=1"
body = "SELECT partition, max(sequence) FROM {object} GROUP BY partition FORMAT JSONCompact"
rows = "/data"
partition = "/0"
json_pointer = "/1"
"#,
    notes: &[
        "Each poll reads both columns of the whole table; for a large one name a table that holds the highest sequence by partition.",
        "Rows show when a block is flushed, so lag goes up and down with kafka_flush_interval_ms (7.5 s unless it is set).",
        "With markers, write a body that leaves their rows out.",
    ],
    tested: "Tested with ClickHouse 25.8.",
};
