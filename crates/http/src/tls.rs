//! TLS by rustls: whom to trust, and the beginning of a connection.

use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

use crate::{Address, Failure};

/// What to do about a certificate from an authority that is not trusted here.
const ADVICE: &str = "name the authority that signed it in a file with SSL_CERT_FILE, or ask the name that the \
                      certificate is for";

/// How TLS with one server begins.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Trusts the authorities of the system, or those of `SSL_CERT_FILE` or `SSL_CERT_DIR` as other programs do, and
    /// those in the file on top.
    pub(crate) fn new(address: &Address, ca_file: Option<&Path>) -> Result<Self, Failure> {
        let name = ServerName::try_from(address.name().to_owned());
        let name =
            name.map_err(|_| Failure::Invalid(format!("no certificate can be for {}", address.name())))?;
        let mut roots = RootCertStore::empty();
        // An authority that cannot be read signs nothing: a caller that needs it is told that it is unknown.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = ca_file {
            let broken =
                |why: String| Failure::Invalid(format!("the authorities in {}: {why}", file.display()));
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
            .map_err(|error| Failure::Invalid(format!("TLS: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(crate) async fn begin(&self, tcp: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        self.connector.connect(self.name.clone(), tcp).await.map_err(|error| {
            let said = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
            match said {
                Some(flaw @ Error::InvalidCertificate(_)) => Failure::Untrusted(format!("{flaw}; {ADVICE}")),
                Some(Error::InvalidMessage(_)) => {
                    Failure::Foreign("no TLS is spoken there; write the URL with http://".to_owned())
                }
                Some(flaw) => Failure::Foreign(format!("TLS: {flaw}")),
                None => Failure::of_connecting(&error),
            }
        })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}
