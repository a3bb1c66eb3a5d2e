//! What the client made of the records on their way to the broker.

use std::sync::Arc;

/// Bytes before and after batching and compression, by the client's own statistics. Cumulative; up to one interval of the
/// statistics old.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wire {
    /// The codec that the client is told to use; `None` before the first lane has published.
    pub codec: Option<Arc<str>>,
    /// Keys and values of the records that were put into batches.
    pub payload_bytes: u64,
    /// The batches as they are sent and kept by the broker: compressed, with everything that the protocol puts around
    /// a record (its headers, too). What is sent again after an error counts once.
    pub batch_bytes: u64,
}

impl Wire {
    /// Adds another lane's, or what came since.
    pub fn add(&mut self, other: &Self) {
        self.codec = self.codec.take().or_else(|| other.codec.clone());
        self.payload_bytes += other.payload_bytes;
        self.batch_bytes += other.batch_bytes;
    }

    /// Bytes of keys and values in one byte of a batch; `None` while nothing is known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn ratio(&self) -> Option<f64> {
        (self.batch_bytes > 0).then(|| self.payload_bytes as f64 / self.batch_bytes as f64)
    }
}
