//! CockroachDB: a table that the stream is written into.

use super::Preset;

pub(super) static PRESET: Preset = Preset {
    name: "cockroachdb",
    about: "CockroachDB: the highest sequence that a query on a table shows, by partition; right for tables that are appended to \
            and for upserts.",
    kind: "sql",
    object: "The table, with columns partition and sequence; or a query in brackets that returns them.",
    example: "events",
    url: "postgres://root@localhost:26257/defaultdb",
    // By partition and with constants: its planner makes a reverse scan of one row of max() then, and reads whole partitions
    // for a join.
    fills: r#"
value = "sequence"
interval = "1s"
timeout = "5s"
session = ["SET default_transaction_read_only = on"]
query = "SELECT {partition}, max(sequence) FROM {object} AS t WHERE partition = {partition}"
"#,
    notes: &[
        "Needs an index on (partition, sequence); without one each poll reads the whole table.",
        "A read waits for writes of the same rows that are under way, as every reader's does; follower reads are seconds old, and \
         the lag would be too.",
        "With markers, leave their rows out: object = \"(SELECT * FROM events WHERE id < 1000)\", say; rows of earlier runs too: \
         WHERE run = '{run}'.",
    ],
    tested: "Not run against CockroachDB: its question was tested with PostgreSQL 15 in its place.",
};
