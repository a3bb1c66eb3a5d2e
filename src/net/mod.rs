//! What parts share that talk to systems other than Kafka: whom TLS trusts, and one HTTP request, also over a Unix socket.

pub mod http;
mod session;
pub mod tls;
pub mod unix;
