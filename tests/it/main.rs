//! The integration tests: real systems, real processes, real files; one binary, so that they link once.
// clippy.toml allows these in tests, but not in what tests share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::float_cmp,
    unreachable_pub
)]

mod avro;
mod avro_reader;
mod avro_registry;
mod board;
mod children;
mod clickhouse;
mod clock;
mod control;
mod daemon;
mod embedded;
mod figures;
mod flink;
mod formats;
mod freshness;
mod house;
mod http;
mod ingest;
mod lag;
mod load;
mod looks;
mod mock;
mod postgres;
mod process;
mod progress_group;
mod progress_http;
mod progress_sql;
mod proof;
mod real_kafka;
mod report;
mod services;
mod settings;
mod stops;
mod truth;
mod whose_limit;
