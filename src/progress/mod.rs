//! The progress part.

pub mod settings;
