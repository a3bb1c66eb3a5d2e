//! The integration tests: real systems, real processes, real files.
// clippy.toml allows these in tests, but not in what tests share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

mod process;
