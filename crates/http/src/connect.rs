//! New connections, and what is known of them later.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use crate::Failure;
use crate::failure::SpeaksTls;
#[cfg(feature = "tls")]
use crate::tls::Tls;

/// How a TLS server answers what is not TLS: a record with an alert.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// Makes connections to one server.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    limit: Option<Duration>,
}

impl Connector {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let mut tcp = HttpConnector::new();
        // A call is one small write that waits for its answer.
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        Self {
            tcp,
            #[cfg(feature = "tls")]
            tls: None,
            limit,
        }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn over(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    async fn connect(mut self, server: Uri) -> Result<TokioIo<Socket>, Failure> {
        let tcp = self.tcp.call(server).await.map_err(|error| Failure::of_connecting(&error))?.into_inner();
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return Ok(TokioIo::new(Socket::new(tls.begin(tcp).await?, false)));
        }
        Ok(TokioIo::new(Socket::new(tcp, true)))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let (limit, connecting) = (self.limit, self.clone().connect(server));
        Box::pin(async move {
            let Some(limit) = limit else { return connecting.await };
            let too_late = |_| Failure::Unreachable { why: "no connection in time".to_owned(), kind: None };
            tokio::time::timeout(limit, connecting).await.map_err(too_late)?
        })
    }
}

/// When a connection was made: one that is older than a call was kept, and may have been closed without our knowing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(pub(crate) Instant);

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection, with TLS or without.
pub(crate) struct Socket {
    io: Box<dyn Io>,
    since: Since,
    /// Nothing was read yet, and what comes should be HTTP.
    expects_http: bool,
}

impl Socket {
    fn new(io: impl Io + 'static, expects_http: bool) -> Self {
        Self { io: Box::new(io), since: Since(Instant::now()), expects_http }
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.since)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let from = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        let is_first = std::mem::take(&mut self.expects_http);
        let speaks_tls = is_first && buffer.filled()[from..].starts_with(&TLS_ALERT);
        Poll::Ready(if speaks_tls { Err(io::Error::other(SpeaksTls)) } else { Ok(()) })
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }
}
