//! Whom TLS trusts.

use std::path::{Path, PathBuf};

use openssl::error::ErrorStack;
use openssl::ssl::SslConnectorBuilder;
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;

use crate::config::read_file;

/// A system's whole bundle of authorities is a quarter of a mebibyte.
const MAX_PEM_BYTES: u64 = 8 << 20;

/// TLS cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of authorities cannot be read.
    #[error("cannot read the authorities in {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no certificate in PEM form", .0.display())]
    NoCertificate(PathBuf),
    /// OpenSSL refused.
    #[error("cannot prepare tls: {0}")]
    OpenSsl(#[from] ErrorStack),
}

/// Trusts the authorities of a file and no others, or the machine's.
///
/// # Errors
/// When the file of authorities cannot be used.
pub fn trust(builder: &mut SslConnectorBuilder, ca_file: Option<&Path>) -> Result<(), TlsError> {
    match ca_file {
        Some(path) => trust_only(builder, path)?,
        None => trust_the_machines(builder),
    }
    Ok(())
}

fn trust_only(builder: &mut SslConnectorBuilder, path: &Path) -> Result<(), TlsError> {
    let pem =
        read_file(path, MAX_PEM_BYTES).map_err(|source| TlsError::Read { path: path.to_owned(), source })?;
    let authorities = X509::stack_from_pem(&pem)?;
    if authorities.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    let mut store = X509StoreBuilder::new()?;
    for authority in authorities {
        store.add_cert(authority)?;
    }
    builder.set_cert_store(store.build());
    Ok(())
}

/// An OpenSSL that was built along with soakd does not know where this machine keeps its authorities.
fn trust_the_machines(builder: &mut SslConnectorBuilder) {
    let found = openssl_probe::probe();
    let folders = found.cert_dir.iter().map(|folder| (None, Some(folder.as_path())));
    for (file, folder) in found.cert_file.iter().map(|file| (Some(file.as_path()), None)).chain(folders) {
        // A place that cannot be read is no reason not to start: a session that needs it will say what is missing.
        let _ = builder.load_verify_locations(file, folder);
    }
}
