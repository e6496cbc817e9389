//! The peer: a hyper server that reads a body and answers a fixed one, on the same runtime as ours.

use std::{convert::Infallible, io::Write, net::SocketAddr};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// Hidden name of the command.
pub const COMMAND: &str = "bench-bare";

/// As long as a produce's answer.
const ANSWER: &[u8] = br#"{"status":"produced","topic":"bench"}"#;

#[derive(clap::Args)]
pub struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

pub fn run(args: &Args) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting a runtime")?;
    runtime.block_on(async {
        let listener =
            TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
        let mut out = std::io::stdout();
        writeln!(out, "listening on http://{}", listener.local_addr()?)?;
        out.flush()?;
        loop {
            let (socket, _) = listener.accept().await?;
            tokio::spawn(connection(socket));
        }
    })
}

async fn connection(socket: TcpStream) {
    drop(socket.set_nodelay(true));
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
