//! A poll that failed.

use crate::core::status::ProgressErrorKind;

/// Longest error text that is kept: a server may send a page.
pub(super) const TEXT_CHARS: usize = 400;

/// Why a source gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ProbeError {
    /// The series of the error counter.
    pub kind: ProgressErrorKind,
    /// What was tried and what happened. Holds no secrets.
    pub text: String,
    /// What was used had served before and may just have been closed: worth one more try in the same poll.
    pub(in crate::progress) stale: bool,
    /// No later poll can be answered: the question itself is wrong, rather than not answerable yet.
    pub hopeless: bool,
}

impl ProbeError {
    pub(in crate::progress) fn new(kind: ProgressErrorKind, text: String) -> Self {
        let mut text = text.replace(['\n', '\r'], " ");
        if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS) {
            text.truncate(end);
            text.push('…');
        }
        Self { kind, text, stale: false, hopeless: false }
    }

    pub(in crate::progress) const fn hopeless(mut self, hopeless: bool) -> Self {
        self.hopeless = hopeless;
        self
    }

    pub(in crate::progress) const fn stale(mut self, stale: bool) -> Self {
        self.stale = stale;
        self
    }
}
