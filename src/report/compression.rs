//! What the codec reached, by the Kafka client's own statistics.

use serde::{Deserialize, Serialize};

use super::units::bytes;
use super::{Absent, Reasons};
use crate::store::record::{Compression, tidy};

/// What the codec reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompressionReport {
    /// The codec, and bytes before and after.
    #[serde(flatten)]
    pub compression: Compression,
    /// Bytes of keys and values in one byte as sent; below 1 without a codec, because the protocol adds some.
    pub ratio: Option<f64>,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "Absent::is_empty")]
    pub absent: Absent,
}

#[allow(clippy::cast_precision_loss)]
impl CompressionReport {
    pub(super) fn new(found: &Compression) -> Self {
        let mut why = Reasons::default();
        let ratio = found.payload_bytes as f64 / found.batch_bytes as f64;
        let reached = (found.batch_bytes > 0).then(|| tidy(ratio));
        let unknown =
            "the Kafka client gave no statistics: the run was too short, or statistics.interval.ms is 0";
        Self { compression: found.clone(), ratio: why.need("ratio", reached, unknown), absent: why.0 }
    }

    /// In words; `None` when not even the codec is known.
    pub(super) fn words(&self) -> Option<String> {
        let Compression { codec, payload_bytes, batch_bytes } = &self.compression;
        let reached = match self.ratio {
            Some(ratio) => format!(
                "ratio {ratio:.2} ({} of keys and values in {} as sent)",
                bytes(*payload_bytes as f64),
                bytes(*batch_bytes as f64)
            ),
            None => "ratio not known".to_owned(),
        };
        (!codec.is_empty()).then(|| format!("{codec}, {reached}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_told_or_why_it_is_not_known() {
        let mut found =
            Compression { codec: "lz4".to_owned(), payload_bytes: 2_030_000, batch_bytes: 1_000_000 };
        let report = CompressionReport::new(&found);
        assert_eq!(report.ratio, Some(2.03));
        let words = report.words().unwrap();
        assert!(words.starts_with("lz4, ratio 2.03 ("), "{words}");
        found.batch_bytes = 0;
        let report = CompressionReport::new(&found);
        assert_eq!(report.words().as_deref(), Some("lz4, ratio not known"));
        assert!(report.absent["ratio"].contains("statistics"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["codec"], "lz4");
        assert_eq!(serde_json::from_value::<CompressionReport>(json).unwrap(), report);
        assert_eq!(CompressionReport::default().words(), None);
    }
}
