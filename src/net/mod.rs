//! What parts share that talk to systems other than Kafka: whom TLS trusts, HTTP requests (also over a Unix socket), and series of
//! Prometheus.

pub mod http;
pub mod prometheus;
mod session;
pub mod tls;
pub mod unix;
pub mod web;
