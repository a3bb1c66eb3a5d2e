//! Questions over HTTP, as sources ask them.

use super::poll::ProbeError;
use crate::core::status::ProgressErrorKind;
use crate::net::web::{AskError, AskErrorKind};

pub(super) use crate::net::web::{Access, Question, Web, as_part, excerpt, header_map, text_of};

pub use crate::net::web::WebError;

impl From<AskError> for ProbeError {
    fn from(error: AskError) -> Self {
        let kind = match error.kind {
            AskErrorKind::Connect => ProgressErrorKind::Connect,
            AskErrorKind::Timeout => ProgressErrorKind::Timeout,
            AskErrorKind::Refused => ProgressErrorKind::Query,
            AskErrorKind::Shape => ProgressErrorKind::Shape,
        };
        Self::new(kind, error.text).stale(error.stale)
    }
}

#[cfg(test)]
pub(super) mod tests;
