//! Flink: what the Kafka source of a job has read, over the REST interface of the job manager.

use super::Preset;

pub(super) static PRESET: Preset = Preset {
    name: "flink",
    about: "Flink over its REST interface: the offset of the last record that a job's Kafka source has read, by partition.",
    kind: "http",
    object: "The job's name.",
    example: "insert-into_default_catalog.default_database.events",
    url: "http://localhost:8081",
    fills: r#"
value = "last_offset"
interval = "1s"
timeout = "5s"
standstill_after = "30s"
lookup = [
    { name = "job", path = "/jobs/overview", rows = "/jobs", only = { "/name" = "^{object}$", "/state" = "^RUNNING$" }, take = "/jid" },
    { name = "vertex", path = "/jobs/{job}", rows = "/vertices", only = { "/name" = "^Source: " }, take = "/id" },
    { name = "metrics", path = "/jobs/{job}/vertices/{vertex}/subtasks/metrics", only = { "/id" = '\.KafkaSourceReader\.topic\.{topic}\.partition\.\d+\.currentOffset$' }, take = "/id", all = true },
]
path = "/jobs/{job}/vertices/{vertex}/subtasks/metrics?agg=max&get={metrics}"
regex = '"id":"[^"]*\.partition\.(?<partition>\d+)\.currentOffset","max":(?<value>[^,}]+)'
"#,
    notes: &[
        "The job manager collects metrics every metrics.fetcher.update-interval (10 s unless it is set): figures are up to that \
         much too old, and lag goes up and down with it; 1000 ms is a good value for a test.",
        "What was read is not yet written: what the job's sink shows is behind it by up to a checkpoint.",
    ],
    tested: "Tested with Flink 2.1.",
};

pub(super) static BACKLOG: Preset = Preset {
    name: "flink_backlog",
    about: "Flink over its REST interface: the lag of a job's Kafka source as Flink states it (pendingRecords).",
    kind: "http",
    object: "The job's name; all its Kafka sources read the stream's topic.",
    example: "insert-into_default_catalog.default_database.events",
    url: "http://localhost:8081",
    fills: r#"
value = "lag_records"
interval = "1s"
timeout = "5s"
standstill_after = "30s"
lookup = [
    { name = "job", path = "/jobs/overview", rows = "/jobs", only = { "/name" = "^{object}$", "/state" = "^RUNNING$" }, take = "/jid" },
    { name = "vertex", path = "/jobs/{job}", rows = "/vertices", only = { "/name" = "^Source: " }, take = "/id" },
    { name = "metric", path = "/jobs/{job}/vertices/{vertex}/subtasks/metrics", only = { "/id" = '\.pendingRecords$' }, take = "/id" },
]
path = "/jobs/{job}/vertices/{vertex}/subtasks/metrics?agg=sum&get={metric}"
json_pointer = "/0/sum"
"#,
    notes: &[
        "Flink's own figure, and as old as its metrics (metrics.fetcher.update-interval, 10 s unless it is set); preset flink is \
         exacter.",
    ],
    tested: "Tested with Flink 2.1.",
};

pub(super) static RECORDS: Preset = Preset {
    name: "flink_records",
    about: "Flink over its REST interface: how many records a job's source has taken in (numRecordsIn).",
    kind: "http",
    object: "The job's name; it has one source, which reads the stream's topic.",
    example: "insert-into_default_catalog.default_database.events",
    url: "http://localhost:8081",
    fills: r#"
value = "count"
counts = "records"
interval = "1s"
timeout = "5s"
standstill_after = "30s"
lookup = [
    { name = "job", path = "/jobs/overview", rows = "/jobs", only = { "/name" = "^{object}$", "/state" = "^RUNNING$" }, take = "/jid" },
    { name = "vertex", path = "/jobs/{job}", rows = "/vertices", only = { "/name" = "^Source: " }, take = "/id" },
    { name = "metric", path = "/jobs/{job}/vertices/{vertex}/subtasks/metrics", only = { "/id" = '^Source_.*\.numRecordsIn$' }, take = "/id" },
]
path = "/jobs/{job}/vertices/{vertex}/subtasks/metrics?agg=sum&get={metric}"
json_pointer = "/0/sum"
"#,
    notes: &[
        "The counter begins anew at 0 with each start of the job, a counted reset: from then on lag is too high by what the old job \
         read after the last look, and too low by what the new one read again. Start a new run then, or use preset flink, which is \
         exact after a restart too.",
        "As old as Flink's metrics (metrics.fetcher.update-interval, 10 s unless it is set).",
    ],
    tested: "Tested with Flink 2.1.",
};
