//! PostgreSQL: a table that the stream is written into.

use super::Preset;

pub(super) static PRESET: Preset = Preset {
    name: "postgres",
    about: "PostgreSQL: the highest sequence that a query on a table shows, by partition; right for tables that are appended to \
            and for upserts.",
    kind: "sql",
    object: "The table, with columns partition and sequence.",
    example: "events",
    url: "postgres://postgres@localhost:5432/postgres",
    // One worker, so that asking costs the system that is measured one core at most.
    fills: r#"
value = "sequence"
interval = "1s"
timeout = "5s"
session = ["SET default_transaction_read_only = on", "SET max_parallel_workers_per_gather = 0"]
query = "SELECT partition, max(sequence) FROM {object} GROUP BY partition"
"#,
    notes: &[
        "Needs an index on (partition, sequence); without one each poll reads the whole table.",
        "With markers, write a query that leaves their rows out.",
    ],
    tested: "Tested with PostgreSQL 15.",
};
