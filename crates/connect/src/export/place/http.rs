//! The way to an object store: the house's HTTP and TLS under the `object_store` crate.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use driftq_tls::tokio_rustls::TlsConnector;
use driftq_tls::tokio_rustls::rustls::ClientConfig;
use driftq_tls::tokio_rustls::rustls::pki_types::ServerName;
use http_body_util::BodyExt as _;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector as Tcp};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

/// A store takes the connection by then, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The head of an answer comes by then, after all of a part was sent, or will not come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Most connections that are kept open for the next request.
const KEPT_MAX: usize = 4;
/// A kept connection that no request used for this long is closed.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// Makes clients of a store.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = driftq_tls::client(None)
            .map_err(|why| object_store::Error::Generic { store: "https", source: why.into() })?;
        let mut tcp = Tcp::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(KEPT_MAX)
            .pool_idle_timeout(KEPT_FOR)
            .pool_timer(TokioTimer::new())
            .build(Dialer { tcp, tls });
        Ok(HttpClient::new(Requests(client)))
    }
}

#[derive(Debug)]
struct Requests(Client<Dialer, HttpRequestBody>);

/// What `async_trait` makes of the trait's one method.
type Answered<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Requests {
    fn call<'service, 'answer>(&'service self, request: HttpRequest) -> Answered<'answer>
    where
        'service: 'answer,
        Self: 'answer,
    {
        Box::pin(async move {
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.0.request(request)).await;
            let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
            let answer = answer.map_err(|error| HttpError::new(kind_of(&error), error))?;
            let (head, body) = answer.into_parts();
            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
            Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
        })
    }
}

/// What is tried again depends on this: a certificate that is not trusted will not be trusted later.
fn kind_of(error: &legacy::Error) -> HttpErrorKind {
    if driftq_tls::is_untrusted(error) {
        HttpErrorKind::Unknown
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else {
        HttpErrorKind::Interrupted
    }
}

/// Makes connections, with TLS if the URL says so.
#[derive(Clone, Debug)]
struct Dialer {
    tcp: Tcp,
    tls: Arc<ClientConfig>,
}

type DialError = Box<dyn StdError + Send + Sync>;

impl Dialer {
    async fn dial(mut self, server: Uri) -> Result<TokioIo<Socket>, DialError> {
        let is_tls = server.scheme_str() == Some("https");
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let tcp = self.tcp.call(server).await?.into_inner();
        if !is_tls {
            return Ok(TokioIo::new(Socket(Box::new(tcp))));
        }
        let name = ServerName::try_from(host)?;
        let tls = TlsConnector::from(self.tls).connect(name, tcp).await?;
        Ok(TokioIo::new(Socket(Box::new(tls))))
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<Socket>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let dialing = self.clone().dial(server);
        Box::pin(async move { tokio::time::timeout(CONNECT_TIMEOUT, dialing).await? })
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection, with TLS or without.
struct Socket(Box<dyn Io>);

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
