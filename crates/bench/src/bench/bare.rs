//! The peer: a hyper server that reads a body and answers a fixed one, on the same runtime as ours and with the same TLS.

use std::{convert::Infallible, io::Write, net::SocketAddr};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};

/// Hidden name of the command.
pub const COMMAND: &str = "bench-bare";

/// As long as a produce's answer.
const ANSWER: &[u8] = br#"{"status":"produced","topic":"bench"}"#;

#[derive(clap::Args)]
pub struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[cfg(feature = "tls")]
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<std::path::PathBuf>,
    #[cfg(feature = "tls")]
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<std::path::PathBuf>,
}

/// How connections begin: with TLS, or at once.
#[cfg(feature = "tls")]
type Secure = Option<driftq_tls::tokio_rustls::TlsAcceptor>;
#[cfg(not(feature = "tls"))]
type Secure = Option<Infallible>;

impl Args {
    #[cfg(feature = "tls")]
    fn secure(&self) -> Result<Secure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let identity = driftq_tls::Identity::load(certificate, key, None).map_err(anyhow::Error::msg)?;
        Ok(Some(identity.acceptor()))
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unnecessary_wraps, reason = "with TLS it can fail")]
    fn secure(&self) -> Result<Secure> {
        Ok(None)
    }
}

pub fn run(args: &Args) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting a runtime")?;
    let secure = args.secure()?;
    runtime.block_on(async {
        let listener =
            TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
        let mut out = std::io::stdout();
        writeln!(out, "listening on http://{}", listener.local_addr()?)?;
        out.flush()?;
        loop {
            let (socket, _) = listener.accept().await?;
            tokio::spawn(connection(socket, secure.clone()));
        }
    })
}

async fn connection(socket: TcpStream, secure: Secure) {
    drop(socket.set_nodelay(true));
    match secure {
        None => converse(socket).await,
        #[cfg(feature = "tls")]
        Some(secure) => match secure.accept(socket).await {
            Ok(socket) => converse(socket).await,
            Err(error) => drop(error),
        },
        #[cfg(not(feature = "tls"))]
        Some(never) => match never {},
    }
}

async fn converse(socket: impl AsyncRead + AsyncWrite + Unpin) {
    let serving =
        http1::Builder::new().pipeline_flush(true).serve_connection(TokioIo::new(socket), service_fn(answer));
    // A client that goes away is how every round ends.
    drop(serving.await);
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    drop(request.into_body().collect().await);
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    let json = header::HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}
