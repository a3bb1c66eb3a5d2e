//! The run part.

pub mod collector;
