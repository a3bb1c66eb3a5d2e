//! soakd: the map (being written).

pub mod core;
pub mod report;
pub mod run;
pub mod store;
