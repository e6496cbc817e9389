//! TLS before HTTP: the handshake, certificates that can be replaced under way, and what a client shows of its own.

use std::io;
#[cfg(feature = "tls")]
use std::{sync::Arc, time::Duration};

#[cfg(feature = "tls")]
use driftq_tls::{Identity, IdentityFile, tokio_rustls::server::TlsStream};
#[cfg(feature = "tls")]
use tokio::{
    net::TcpStream,
    signal::unix::{SignalKind, signal},
};

use super::options::Options;
#[cfg(feature = "tls")]
use super::peer::{Certificate, CertificateKeys};

/// How often the files of the certificate are looked at.
#[cfg(feature = "tls")]
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Says what is wrong with the TLS of a configuration: what keeps the server from starting, or else what is odd.
pub(crate) fn examine(options: &Options) -> Result<Option<String>, (&'static str, String)> {
    examine_clients(options)?;
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
            let identity = Identity::load(certificate, key, options.tls_client_ca.as_deref())
                .map_err(|flaw| (at_fault(flaw.file), flaw.why))?;
            Ok(identity.warning())
        }
        #[cfg(not(feature = "tls"))]
        (Some(_), Some(_)) => Err((
            "tls_cert",
            "this build speaks no TLS; build it with `cargo build --release --features full`".to_owned(),
        )),
    }
}

/// The same of the certificates of clients.
fn examine_clients(options: &Options) -> Result<(), (&'static str, String)> {
    let refuse = |knob, why: &str| Err((knob, why.to_owned()));
    if options.tls_client_ca.is_none() {
        if options.tls_client.is_empty() {
            return Ok(());
        }
        return refuse(
            "tls_client",
            "clients are not asked for certificates; name the authority that signs theirs with --tls-client-ca",
        );
    }
    if options.tls_cert.is_none() && options.tls_key.is_none() {
        return refuse(
            "tls_client_ca",
            "certificates are shown by TLS, and this server speaks none; name its own with --tls-cert and --tls-key",
        );
    }
    if !options.keys_required {
        return refuse(
            "tls_client_ca",
            "a client's certificate stands for a key, and this server asks for none; start it with --keys required",
        );
    }
    Ok(())
}

/// The knob that a user has to look at.
#[cfg(feature = "tls")]
const fn at_fault(file: IdentityFile) -> &'static str {
    match file {
        IdentityFile::Certificate => "tls_cert",
        IdentityFile::Key => "tls_key",
        IdentityFile::ClientAuthority => "tls_client_ca",
    }
}

/// How connections begin.
#[cfg(feature = "tls")]
#[derive(Clone)]
pub(super) struct Secure {
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
        let identity = Identity::load(certificate, key, options.tls_client_ca.as_deref());
        let identity = identity.map_err(io::Error::other)?;
        // From now on the signal does not end the process, whoever listens to it.
        drop(signal(SignalKind::hangup())?);
        Ok(Some(Self { identity: Arc::new(identity) }))
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn new(options: &Options) -> io::Result<Option<Self>> {
        match examine(options) {
            Ok(_) => Ok(None),
            Err((_, why)) => Err(io::Error::other(why)),
        }
    }

    /// The handshake of a connection, within the time that a head has; with what the client has shown of itself.
    #[cfg(feature = "tls")]
    pub(super) async fn begin(
        &self,
        socket: TcpStream,
        limit: Duration,
        keys: &CertificateKeys,
    ) -> io::Result<(TlsStream<TcpStream>, Option<Certificate>)> {
        let handshake = self.identity.acceptor().accept(socket);
        let stream = tokio::time::timeout(limit, handshake).await.map_err(io::Error::from)??;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = shown.map(|shown| Certificate::new(driftq_tls::name_of(shown), keys));
        Ok((stream, certificate))
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
                    tracing::info!(
                        "the files of TLS have changed; new connections begin with what is in them now"
                    )
                }
                Ok(Err(why)) => {
                    tracing::error!("the certificate in use stays, with all else that TLS began with: {why}")
                }
                Ok(Ok(false)) | Err(_) => {}
            }
        }
    }
}
