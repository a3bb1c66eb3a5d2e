//! The produce part.

pub mod settings;
