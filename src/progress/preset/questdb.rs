//! QuestDB: a table that the stream is written into.

use super::Preset;

pub(super) static PRESET: Preset = Preset {
    name: "questdb",
    about: "QuestDB: the sequence of the newest row that a query on a table shows, by partition.",
    kind: "sql",
    object: "The table, with columns timestamp (its designated one, the record's), partition (a SYMBOL) and sequence; a WHERE may follow.",
    example: "events",
    url: "postgres://admin:quest@localhost:8812/qdb",
    // By time it reads from the end and stops when every symbol was seen; max() would read the whole table.
    fills: r#"
value = "sequence"
interval = "1s"
timeout = "5s"
query = "SELECT \"partition\", sequence FROM {object} LATEST ON timestamp PARTITION BY \"partition\""
"#,
    notes: &[
        "Rows of a WAL table show when they are applied, so that the time which that takes is in the lag.",
        "With markers, leave their rows out: object = \"events WHERE id < 1000\", say; rows of earlier runs too: run = '{run}'. In \
         brackets each poll would read the whole table.",
    ],
    tested: "Tested with QuestDB 9.0.",
};
