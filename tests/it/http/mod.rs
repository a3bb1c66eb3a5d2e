//! The HTTP server over real loopback sockets, spoken to byte by byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod changes;
mod daemon;
mod profile;
mod protocol;
mod reads;
mod serving;
