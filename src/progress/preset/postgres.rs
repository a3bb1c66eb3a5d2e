//! PostgreSQL: a table that the stream is written into.

use super::Preset;

pub(super) static PRESET: Preset = Preset {
    name: "postgres",
    about: "PostgreSQL: the highest sequence that a query on a table shows, by partition; right for tables that are appended to \
            and for upserts.",
    kind: "sql",
    object: "The table, with columns partition and sequence; or a query in brackets that returns them.",
    example: "events",
    url: "postgres://postgres@localhost:5432/postgres",
    // By partition, so that each is one look at the end of the index. One worker, so that asking costs the system that is
    // measured one core at most.
    fills: r#"
value = "sequence"
interval = "1s"
timeout = "5s"
session = ["SET default_transaction_read_only = on", "SET max_parallel_workers_per_gather = 0"]
query = "SELECT {partition}, max(sequence) FROM {object} AS t WHERE partition = {partition}"
"#,
    notes: &[
        "Needs an index on (partition, sequence); without one each poll reads the whole table.",
        "With markers, leave their rows out: object = \"(SELECT * FROM events WHERE id < 1000)\", say; rows of earlier runs too: \
         WHERE run = '{run}'.",
    ],
    tested: "Tested with PostgreSQL 15.",
};
