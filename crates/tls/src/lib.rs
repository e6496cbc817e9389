//! TLS by rustls: whom to trust, and who a server or a client says it is. The HTTP client and the ledger's way to PostgreSQL trust
//! alike.
#![warn(missing_docs)]

mod name;
#[cfg(unix)]
mod server;

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

pub use name::{NAME_BYTES_MAX, name_of};
#[cfg(unix)]
pub use server::{Identity, IdentityFile, IdentityFlaw};
pub use tokio_rustls;

/// What to do about a certificate from an authority that is not trusted here.
pub const ADVICE: &str = "name the authority that signed it in a file with SSL_CERT_FILE, or ask the name that the \
                          certificate is for";

/// How a client begins TLS. It trusts the authorities of the system, or those of `SSL_CERT_FILE` or `SSL_CERT_DIR` as
/// other programs do, and those in the file on top.
///
/// # Errors
/// If the file has no certificates that can be read; the text says what is wrong.
pub fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // An authority that cannot be read signs nothing: a caller that needs it is told that it is unknown.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca_file {
        let broken = |why: String| format!("the authorities in {}: {why}", file.display());
        let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let found = found.map_err(|error| broken(error.to_string()))?;
        if found.is_empty() {
            return Err(broken("there is no certificate in it".to_owned()));
        }
        for certificate in found {
            roots.add(certificate).map_err(|error| broken(error.to_string()))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Whether a connection failed because the server's certificate is not trusted, anywhere behind the error.
#[must_use]
pub fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut behind = Some(error);
    while let Some(error) = behind {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let said = error.downcast_ref::<Error>().or_else(|| inner?.downcast_ref::<Error>());
        if matches!(said, Some(Error::InvalidCertificate(_))) {
            return true;
        }
        behind = error.source();
    }
    false
}
