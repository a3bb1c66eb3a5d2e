//! The integration tests: real systems, real processes, real files.

mod process;
