//! `soakd metrics`: the metric catalogue as Markdown.

/// What the command prints; it needs neither settings nor a running daemon.
#[must_use]
pub fn text() -> String {
    crate::metrics::markdown()
}
