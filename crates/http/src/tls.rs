//! TLS by rustls: the beginning of a connection.

use std::path::Path;

use driftq_tls::ADVICE;
use driftq_tls::tokio_rustls::TlsConnector;
use driftq_tls::tokio_rustls::client::TlsStream;
use driftq_tls::tokio_rustls::rustls::Error;
use driftq_tls::tokio_rustls::rustls::pki_types::ServerName;
use tokio::net::TcpStream;

use crate::{Address, Failure};

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
        let config = driftq_tls::client(ca_file).map_err(Failure::Invalid)?;
        Ok(Self { connector: TlsConnector::from(config), name })
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
