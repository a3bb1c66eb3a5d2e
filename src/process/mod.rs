//! The process part.

pub mod settings;
