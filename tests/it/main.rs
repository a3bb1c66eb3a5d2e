//! Tests that need a service; one binary, so that they link once.

mod board;
mod postgres;
mod progress_group;
mod progress_sql;
