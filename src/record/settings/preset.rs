//! Settings of presets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::avro::RegistrySettings;
use crate::config::{Problem, key};

/// A value is made in memory.
const LARGEST_BYTES: u32 = 100 << 20;
/// Fields of a record of `ycsb`.
const YCSB_FIELDS: u32 = 10;
/// Numbers of keys and customers fit any column.
const LARGEST_CARDINALITY: u64 = 1 << 40;
/// A weight of 8 bytes is held for each of the actors.
const MOST_ACTORS: u64 = 1_000_000;

/// Records of a known workload, with keys of their own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PresetValueSettings {
    /// fillseq, upsert, ycsb, openedx_tracking, xapi or orders; docs/values.md shows a record of each.
    pub name: Option<PresetName>,
    /// The table of `orders` that this stream holds: customers, products, orders or order_lines. Streams of one shop need the same seed_name.
    pub table: Option<OrdersTable>,
    /// How `openedx_tracking` is written: json or avro (key and value, with CloudEvents headers, as on the event bus). Not set: json.
    pub encoding: Option<PresetEncoding>,
    /// Number of distinct keys (fillseq, upsert, ycsb), actors (openedx_tracking, xapi), or customers of the shop (orders). Not set: 1,000,000 keys (fillseq: no end), 10,000 actors or customers.
    pub cardinality: Option<u64>,
    /// Size in bytes of a value (fillseq, upsert) or of each of the ten fields (ycsb). Not set: 400, 500 or 100.
    pub size: Option<u32>,
    /// Share of the records, from 0 to 1, that have no value and so delete their key.
    pub tombstones: f64,
    /// The schema registry of `openedx_tracking` in Avro. With its URL keys and values have the Confluent wire format.
    pub registry: RegistrySettings,
}

/// The presets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PresetName {
    /// RocksDB's fillseq: keys of 20 digits in order.
    Fillseq,
    /// Overwriting of 8-byte keys.
    Upsert,
    /// YCSB's records of ten fields.
    Ycsb,
    /// Tracking-log events of Open edX.
    OpenedxTracking,
    /// Statements of the Experience API.
    Xapi,
    /// A small order-entry schema.
    Orders,
}

/// The tables of `orders`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrdersTable {
    /// Who orders; rows are written again, round after round.
    Customers,
    /// What is ordered; rows are written again, round after round.
    Products,
    /// Orders, each written four times as its status moves.
    Orders,
    /// What each order holds.
    OrderLines,
}

/// How `openedx_tracking` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PresetEncoding {
    /// As JSON.
    #[default]
    Json,
    /// As Avro, with CloudEvents headers.
    Avro,
}

impl PresetValueSettings {
    /// Whether the preset's own key can come twice among the first `records` records (`None`: no end is known).
    pub(super) fn key_repeats(&self, records: Option<u64>) -> bool {
        match (self.name, self.table) {
            (Some(PresetName::Fillseq), _) => {
                self.cardinality.is_some_and(|keys| records.is_none_or(|records| records > keys))
            }
            (Some(PresetName::Orders), Some(OrdersTable::OrderLines)) => false,
            _ => true,
        }
    }

    /// Bytes of a value in the mean, about, as measured.
    pub(in crate::record) fn typical_bytes(&self) -> f64 {
        let sized = |default: f64| self.size.map_or(default, f64::from);
        match (self.name, self.table) {
            (Some(PresetName::Fillseq), _) => sized(400.0),
            (Some(PresetName::Upsert), _) => sized(500.0),
            (Some(PresetName::Ycsb), _) => 10.0 * (sized(100.0) + 12.0) + 96.0,
            (Some(PresetName::OpenedxTracking), _) => 913.0,
            (Some(PresetName::Xapi), _) => 1136.0,
            (_, Some(OrdersTable::Products)) => 159.0,
            (_, Some(OrdersTable::Customers)) => 188.0,
            (_, Some(OrdersTable::Orders)) => 155.0,
            _ => 173.0,
        }
    }

    /// What is wrong with the values, beyond their types.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        use PresetName::{Fillseq, OpenedxTracking, Orders, Upsert, Xapi, Ycsb};
        let Some(name) = self.name else {
            let message =
                "kind = \"preset\" needs one: fillseq, upsert, ycsb, openedx_tracking, xapi or orders";
            return vec![Problem::new(key(at, "name"), message)];
        };
        let mut problems = Vec::new();
        let mut refuse = |name: &str, message: String| problems.push(Problem::new(key(at, name), message));
        match (name, self.table) {
            (Orders, None) => refuse(
                "table",
                "orders needs one: customers, products, orders or order_lines; a shop has a stream for each"
                    .into(),
            ),
            (Orders, Some(_)) | (_, None) => {}
            (_, Some(_)) => refuse("table", "only name = \"orders\" has tables; leave it out".into()),
        }
        if self.encoding.is_some() && name != OpenedxTracking {
            refuse("encoding", "only name = \"openedx_tracking\" has encodings; leave it out".into());
        }
        if self.registry.url.is_some() && self.encoding != Some(PresetEncoding::Avro) {
            refuse("registry", "only encoding = \"avro\" has schemas to register; leave it out".into());
        }
        let most = if matches!(name, OpenedxTracking | Xapi) { MOST_ACTORS } else { LARGEST_CARDINALITY };
        if let Some(cardinality) = self.cardinality.filter(|cardinality| !(1..=most).contains(cardinality)) {
            refuse(
                "cardinality",
                format!("{cardinality} is not a number of keys of this preset; use 1 to {most}"),
            );
        }
        match (name, self.size) {
            (OpenedxTracking | Xapi | Orders, Some(_)) => {
                refuse(
                    "size",
                    "the records of this preset have the sizes that they have; leave it out".into(),
                );
            }
            (Fillseq | Upsert, Some(size)) if size > LARGEST_BYTES => {
                refuse("size", format!("{size} is too large; use at most {LARGEST_BYTES} bytes"));
            }
            (Ycsb, Some(size)) if size > LARGEST_BYTES / YCSB_FIELDS => {
                let most = LARGEST_BYTES / YCSB_FIELDS;
                refuse(
                    "size",
                    format!("{size} is too large for each of {YCSB_FIELDS} fields; use at most {most} bytes"),
                );
            }
            _ => {}
        }
        problems.extend(self.registry.problems(&key(at, "registry")));
        problems
    }
}
