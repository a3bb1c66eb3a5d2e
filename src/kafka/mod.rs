//! The kafka part.

pub mod client;
pub mod settings;
