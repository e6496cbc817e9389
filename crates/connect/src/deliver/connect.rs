//! A connection to an address that was judged, with TLS if the URL says so.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use driftq_tls::tokio_rustls::TlsConnector;
use driftq_tls::tokio_rustls::client::TlsStream;
use driftq_tls::tokio_rustls::rustls::ClientConfig;
use driftq_tls::tokio_rustls::rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address::Allowed;
use super::target::{ResolveError, Resolver, Target};

/// By when there is a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error("{address} cannot be connected to: {error}")]
    Refused { address: SocketAddr, error: io::Error },
    #[error("TLS with {host} failed ({error}); {}", driftq_tls::ADVICE)]
    Untrusted { host: String, error: io::Error },
    #[error("TLS with {host} failed: {error}")]
    Tls { host: String, error: io::Error },
    #[error("there was no connection within {} s", .0.as_secs())]
    TooLate(Duration),
}

/// Makes connections for deliveries.
#[derive(Clone, Debug)]
pub struct Connections {
    tls: Arc<ClientConfig>,
    resolver: Resolver,
    allowed: Allowed,
    ca_file: Option<PathBuf>,
    limit: Duration,
}

/// An open connection.
#[derive(Debug)]
pub(super) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connections {
    /// Trusts the authorities of the system, and those in the file on top.
    ///
    /// # Errors
    /// If the file has no certificates that can be read.
    pub fn new(allowed: Allowed, resolver: Resolver, ca_file: Option<&Path>) -> Result<Self, String> {
        let (tls, ca_file) = (driftq_tls::client(ca_file)?, ca_file.map(Path::to_owned));
        Ok(Self { tls, resolver, allowed, ca_file, limit: CONNECT_TIMEOUT })
    }

    /// The authorities that are trusted on top of those of the system.
    pub(super) fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// Connects to the first address that answers; all of them were judged, at this moment and by one resolution.
    pub(super) async fn open(&self, target: &Target) -> Result<Connection, ConnectError> {
        let opened = timeout(self.limit, async {
            let socket = self.tcp(target).await?;
            if target.scheme.is_tls() {
                self.tls(target, socket).await
            } else {
                Ok(Connection::Plain(socket))
            }
        });
        opened.await.map_err(|_| ConnectError::TooLate(self.limit))?
    }

    async fn tcp(&self, target: &Target) -> Result<TcpStream, ConnectError> {
        let mut last = None;
        for address in target.resolve(&self.resolver, &self.allowed).await? {
            match TcpStream::connect(address).await {
                Ok(socket) => {
                    // A request is one small write that waits for its answer.
                    let _ = socket.set_nodelay(true);
                    return Ok(socket);
                }
                Err(error) => last = Some(ConnectError::Refused { address, error }),
            }
        }
        Err(last.expect("a resolution has at least one address"))
    }

    async fn tls(&self, target: &Target, socket: TcpStream) -> Result<Connection, ConnectError> {
        let host = || target.host.clone();
        let name = ServerName::try_from(host())
            .map_err(|error| ConnectError::Tls { host: host(), error: io::Error::other(error) })?;
        let begun = TlsConnector::from(Arc::clone(&self.tls)).connect(name, socket).await;
        let stream = begun.map_err(|error| match driftq_tls::is_untrusted(&error) {
            true => ConnectError::Untrusted { host: host(), error },
            false => ConnectError::Tls { host: host(), error },
        })?;
        Ok(Connection::Tls(Box::new(stream)))
    }
}

impl Connection {
    /// Who is at its other end.
    pub(super) fn peer(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Plain(socket) => socket.peer_addr(),
            Self::Tls(stream) => stream.get_ref().0.peer_addr(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
