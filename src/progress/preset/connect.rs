//! Kafka Connect: the offsets of a sink connector.

use super::Preset;

pub(super) static PRESET: Preset = Preset {
    name: "connect",
    about: "Kafka Connect over its REST interface: the committed offsets of a sink connector, by partition.",
    kind: "http",
    object: "The connector.",
    example: "sink",
    url: "http://localhost:8083",
    fills: r#"
value = "next_offset"
interval = "1s"
timeout = "5s"
standstill_after = "3m"
path = "/connectors/{object}/offsets"
rows = "/offsets"
topic = "/partition/kafka_topic"
partition = "/partition/kafka_partition"
json_pointer = "/offset/kafka_offset"
"#,
    notes: &[
        "Needs Kafka Connect 3.5.",
        "Offsets are committed every offset.flush.interval.ms (60 s unless it is set), so lag goes up and down with it, and what \
         is committed was written before.",
    ],
    tested: "Tested with Kafka Connect 4.4.",
};
