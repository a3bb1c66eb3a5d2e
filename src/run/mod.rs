//! The run part.

pub mod settings;
