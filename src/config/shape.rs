//! Words that settings add to their JSON schema for the layers of text.

/// Marks a list of short words that text separates by commas.
pub const COMMAS: &str = "x-soakd-commas";
/// Marks a map whose keys hold dots; an environment variable writes `_` for `.`.
pub const DOTTED: &str = "x-soakd-dotted";
