//! The kafka part.

pub mod settings;
