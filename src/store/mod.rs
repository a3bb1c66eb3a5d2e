//! The store part.

pub mod settings;
