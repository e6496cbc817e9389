//! What the benchmark asks of a server besides its load: a stream of lines, and pages of text.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, body::Incoming, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

/// A line longer than this is no message: the server accepts no payload near it.
const LINE_BYTES_MAX: usize = 256 << 20;
/// A page that takes longer than this will not come.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The answer, whose body has only begun.
async fn get(address: SocketAddr, path: &str) -> Result<Response<Incoming>> {
    let socket = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    // It ends with the answer's body, or when that is dropped.
    tokio::spawn(connection);
    let request = Request::get(path).header(HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    ensure!(answer.status().is_success(), "{path} was answered with {}", answer.status());
    Ok(answer)
}

/// The body of the answer as text.
pub(super) async fn text(address: SocketAddr, path: &str) -> Result<String> {
    let page = async { anyhow::Ok(get(address, path).await?.into_body().collect().await?.to_bytes()) };
    let page = timeout(PAGE_TIMEOUT, page).await.with_context(|| format!("waiting for {path}"))??;
    String::from_utf8(page.into()).context("not UTF-8")
}

/// An open stream of lines, as `/v1/consume` sends them. Dropping it closes the connection.
pub(super) struct Stream {
    body: Incoming,
    buffer: BytesMut,
    /// How much of the buffer holds no line end, so that a long line is searched once.
    searched: usize,
}

impl Stream {
    pub(super) async fn open(address: SocketAddr, path: &str) -> Result<Self> {
        let body = get(address, path).await?.into_body();
        Ok(Self { body, buffer: BytesMut::new(), searched: 0 })
    }

    /// The next line that is not blank (blank ones only keep the connection alive); none when the server ended the
    /// stream. Cancel-safe: what has arrived stays in the buffer.
    pub(super) async fn next_line(&mut self) -> Result<Option<BytesMut>> {
        loop {
            while let Some(line) = self.take_line() {
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
            }
            ensure!(self.buffer.len() <= LINE_BYTES_MAX, "a line of more than {LINE_BYTES_MAX} bytes");
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => self.buffer.extend(frame?.into_data()),
            }
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + at + 1);
        self.searched = 0;
        Some(line)
    }
}
