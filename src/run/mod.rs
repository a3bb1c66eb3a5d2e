//! The run part.

pub mod collector;
pub mod settings;
