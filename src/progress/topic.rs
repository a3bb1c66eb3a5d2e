//! Progress by the topic that the system under test writes to: its end, and what its records hold.

use tokio::time::Instant;

use crate::core::lag::Progress;
use crate::core::status::ProgressErrorKind;
use crate::core::stream::Stream;
use crate::kafka::settings::KafkaSettings;

use super::ProgressError;
use super::poll::{Answering, ProbeError, Source};
use super::settings::TopicSettings;

/// Not built yet: it can be set up in the settings, and is refused at the start.
pub(super) struct TopicSource;

impl TopicSource {
    /// A source for a stream. Reads files, connects to nothing.
    ///
    /// # Errors
    /// Always, as long as it is not built.
    pub(super) fn new(
        name: &str,
        _settings: &TopicSettings,
        _kafka: &KafkaSettings,
        _stream: &Stream,
    ) -> Result<Self, ProgressError> {
        Err(ProgressError::NotBuilt { name: name.to_owned(), kind: "topic" })
    }
}

impl Source for TopicSource {
    fn ready(&mut self, _deadline: Instant) -> Answering<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn ask(&mut self, _deadline: Instant) -> Answering<'_, Progress> {
        let error = ProbeError::new(ProgressErrorKind::Query, "is not built yet".to_owned());
        Box::pin(std::future::ready(Err(error)))
    }
}
