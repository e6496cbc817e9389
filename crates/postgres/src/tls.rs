//! TLS with PostgreSQL, by rustls.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use driftq_tls::tokio_rustls::TlsConnector;
use driftq_tls::tokio_rustls::client::TlsStream;
use driftq_tls::tokio_rustls::rustls::ClientConfig;
use driftq_tls::tokio_rustls::rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};

/// How TLS begins with any host of a database.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Trusts the authorities of the system, and those in the file on top.
    ///
    /// # Errors
    /// If the file cannot be read, or has no authorities; with the words for the user.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        driftq_tls::client(ca_file).map(Self)
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secured<S>;
    type TlsConnect = Beginning;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Beginning> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::other(format!("no certificate can be for {host:?}")))?;
        Ok(Beginning { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// How TLS begins with one host.
pub struct Beginning {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Beginning
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secured<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(Secured(Box::new(self.connector.connect(self.name, stream).await?))) })
    }
}

/// A connection over TLS. In a box: it is some kilobytes, and moved about while a connection is made.
pub struct Secured<S>(Box<TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Secured<S> {
    /// A password is not tied to the connection: the certificate was checked, name and all.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
