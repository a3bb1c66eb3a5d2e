//! The record part.

pub mod settings;
