//! TLS for PostgreSQL sessions.

use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use postgres_openssl::{MakeTlsConnector, set_postgresql_alpn};
use tokio_postgres::config::SslNegotiation;

use super::dsn::{Dsn, Protection};
pub use crate::net::tls::TlsError;
use crate::net::tls::trust;

/// What makes the TLS side of each session. Reads files, so it is made once, at start.
///
/// # Errors
/// When the file of authorities cannot be used.
pub(super) fn connector(dsn: &Dsn) -> Result<MakeTlsConnector, TlsError> {
    let mut builder = SslConnector::builder(SslMethod::tls_client())?;
    if dsn.hosts.iter().any(|host| host.get_ssl_negotiation() == SslNegotiation::Direct) {
        set_postgresql_alpn(&mut builder)?;
    }
    if dsn.protection.verifies() {
        trust(&mut builder, dsn.ca_file.as_deref())?;
    } else {
        builder.set_verify(SslVerifyMode::NONE);
    }
    let mut connector = MakeTlsConnector::new(builder.build());
    if dsn.protection != Protection::VerifyFull {
        connector.set_callback(|session, _| {
            session.set_verify_hostname(false);
            Ok(())
        });
    }
    Ok(connector)
}
