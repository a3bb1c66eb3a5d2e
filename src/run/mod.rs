//! The run: its life and what is gathered on the way.

pub mod collector;
pub mod lifecycle;
pub mod settings;
pub mod told;
