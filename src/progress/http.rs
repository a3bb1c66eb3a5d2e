//! Progress by an answer over HTTP: a number in JSON or text, or rows of partition and number.

use tokio::time::Instant;

use crate::core::lag::{Progress, ValueKind};
use crate::core::status::ProgressErrorKind;
use crate::core::stream::Stream;

use super::ProgressError;
use super::poll::{Answering, ProbeError, Source};
use super::settings::HttpSettings;

/// Not built yet: it can be set up in the settings, and is refused at the start.
pub(super) struct HttpSource;

impl HttpSource {
    /// A source for a stream. Reads files, connects to nothing.
    ///
    /// # Errors
    /// Always, as long as it is not built.
    pub(super) fn new(
        name: &str,
        _settings: &HttpSettings,
        _kind: ValueKind,
        _stream: &Stream,
    ) -> Result<Self, ProgressError> {
        Err(ProgressError::NotBuilt { name: name.to_owned(), kind: "http" })
    }
}

impl Source for HttpSource {
    fn ready(&mut self, _deadline: Instant) -> Answering<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn ask(&mut self, _deadline: Instant) -> Answering<'_, Progress> {
        let error = ProbeError::new(ProgressErrorKind::Query, "is not built yet".to_owned());
        Box::pin(std::future::ready(Err(error)))
    }
}
