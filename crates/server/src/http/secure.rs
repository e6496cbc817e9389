//! TLS before HTTP: the handshake, and a certificate that can be replaced under way.

use std::io;
#[cfg(feature = "tls")]
use std::{path::Path, sync::Arc, time::Duration};

#[cfg(feature = "tls")]
use driftq_tls::{
    Identity,
    tokio_rustls::{TlsAcceptor, server::TlsStream},
};
#[cfg(feature = "tls")]
use tokio::{
    net::TcpStream,
    signal::unix::{SignalKind, signal},
};

use super::options::Options;

/// How often the files of the certificate are looked at.
#[cfg(feature = "tls")]
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Says what is wrong with the TLS of a configuration: what keeps the server from starting, or else what is odd.
pub(crate) fn examine(options: &Options) -> Result<Option<String>, (&'static str, String)> {
    match (&options.tls_cert, &options.tls_key) {
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(("tls_cert", "a certificate needs its private key; name it with --tls-key".to_owned()))
        }
        (None, Some(_)) => {
            Err(("tls_key", "a private key needs its certificate; name it with --tls-cert".to_owned()))
        }
        #[cfg(feature = "tls")]
        (Some(certificate), Some(key)) => {
            let identity =
                Identity::load(certificate, key).map_err(|why| (at_fault(certificate, &why), why))?;
            Ok(identity.warning())
        }
        #[cfg(not(feature = "tls"))]
        (Some(_), Some(_)) => Err((
            "tls_cert",
            "this build speaks no TLS; build it with `cargo build --release --features full`".to_owned(),
        )),
    }
}

/// The knob that a user has to look at.
#[cfg(feature = "tls")]
fn at_fault(certificate: &Path, why: &str) -> &'static str {
    let about_certificate = format!("the certificate {}", certificate.display());
    if why.starts_with(&about_certificate) { "tls_cert" } else { "tls_key" }
}

/// How connections begin.
#[cfg(feature = "tls")]
#[derive(Clone)]
pub(super) struct Secure {
    acceptor: TlsAcceptor,
    identity: Arc<Identity>,
}

/// A build without TLS has no such thing.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(super) enum Secure {}

impl Secure {
    /// Reads the certificate; none if connections begin with HTTP.
    #[cfg(feature = "tls")]
    pub(super) fn new(options: &Options) -> io::Result<Option<Self>> {
        let (Some(certificate), Some(key)) = (&options.tls_cert, &options.tls_key) else { return Ok(None) };
        let identity = Identity::load(certificate, key).map_err(io::Error::other)?;
        let acceptor = identity.acceptor().map_err(io::Error::other)?;
        // From now on the signal does not end the process, whoever listens to it.
        drop(signal(SignalKind::hangup())?);
        Ok(Some(Self { acceptor, identity: Arc::new(identity) }))
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn new(options: &Options) -> io::Result<Option<Self>> {
        match examine(options) {
            Ok(_) => Ok(None),
            Err((_, why)) => Err(io::Error::other(why)),
        }
    }

    /// The handshake of a connection, within the time that a head has.
    #[cfg(feature = "tls")]
    pub(super) async fn begin(&self, socket: TcpStream, limit: Duration) -> io::Result<TlsStream<TcpStream>> {
        tokio::time::timeout(limit, self.acceptor.accept(socket)).await.map_err(io::Error::from)?
    }

    /// Reads the certificate again whenever its files change, for ever.
    #[cfg(feature = "tls")]
    pub(super) async fn keep_fresh(self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                return tracing::error!(%error, "cannot catch SIGHUP; the certificate stays as it is");
            }
        };
        loop {
            tokio::select! {
                _ = hangup.recv() => {}
                () = tokio::time::sleep(LOOK_PAUSE) => {}
            }
            let identity = Arc::clone(&self.identity);
            match tokio::task::spawn_blocking(move || identity.refresh()).await {
                Ok(Ok(true)) => {
                    tracing::info!("the certificate was replaced; new connections see the new one")
                }
                Ok(Err(why)) => tracing::error!("the certificate in use stays: {why}"),
                Ok(Ok(false)) | Err(_) => {}
            }
        }
    }
}
