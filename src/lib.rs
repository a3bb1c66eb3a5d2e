//! soakd: the map (being written).

pub mod core;
