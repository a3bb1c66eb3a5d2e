//! The http part.

pub mod settings;
