//! A client that asks again until it has an answer, as clients should.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Longer than the server needs for anything.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a client tries before it gives up.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) replayed: bool,
    pub(crate) body: String,
}

impl Answer {
    /// Whether nobody knows if it happened: asking again does not help.
    pub(crate) fn is_unknown(&self) -> bool {
        self.status == 409 && self.body.contains("idempotency:unknown")
    }

    /// Whether it is worth asking again.
    const fn is_for_now(&self) -> bool {
        matches!(self.status, 409 | 503)
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    /// Where the server is; it moves when it is started again.
    server: watch::Receiver<SocketAddr>,
    requests: Arc<AtomicU64>,
}

impl Client {
    pub(crate) fn new(server: watch::Receiver<SocketAddr>) -> Self {
        Self { server, requests: Arc::default() }
    }

    /// How many requests were sent.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Sends a request once.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &str) -> Result<Answer> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let address = *self.server.borrow();
        timeout(ANSWER_PATIENCE, exchange(address, path, key, body)).await.context("no answer in time")?
    }

    /// Sends the same request until there is an answer that stays.
    pub(crate) async fn insist(&self, path: &str, key: &str, body: &str) -> Result<Answer> {
        let until = Instant::now() + PATIENCE;
        loop {
            let last = self.post(path, key, body).await;
            match &last {
                Ok(answer) if answer.is_unknown() || !answer.is_for_now() => return last,
                Ok(answer) if Instant::now() > until => bail!("{key}: still {answer:?} after {PATIENCE:?}"),
                Err(error) if Instant::now() > until => bail!("{key}: still {error:#} after {PATIENCE:?}"),
                Ok(_) | Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

async fn exchange(address: SocketAddr, path: &str, key: &str, body: &str) -> Result<Answer> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post(path)
        .header("host", address.to_string())
        .header("authorization", "Bearer ann")
        .header("content-type", "application/json")
        .header("idempotency-key", format!("\"{key}\""))
        .body(Full::new(Bytes::from(body.to_owned())))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let replayed = response.headers().contains_key("idempotent-replayed");
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok(Answer { status, replayed, body: String::from_utf8_lossy(&body).into_owned() })
}
