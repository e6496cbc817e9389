//! One send over HTTP, and what is certain about it afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderMap;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::attempt::Ending;
use super::connect::{ConnectError, Connections};
use super::target::Target;
use super::watched::{Trace, Watched};

/// Most bytes of an answer that are read.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Most bytes of an answer that are kept.
pub const ANSWER_BYTES_KEPT: usize = 2 << 10;
/// Most bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long the body of an answer may take after its head: it changes nothing any more.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// Longest value of a header that is kept.
const HEADER_BYTES_KEPT: usize = 256;
/// The headers of an answer that are kept: none of them is likely to have a secret in it.
const HEADERS_KEPT: [&str; 8] = [
    "cf-ray",
    "content-length",
    "content-type",
    "date",
    "request-id",
    "retry-after",
    "server",
    "x-request-id",
];

/// How a send ended, and what the receiver said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How it ended.
    pub ending: Ending,
    /// The status of the answer, of HTTP or SMTP.
    pub status: Option<u16>,
    /// Some of the answer's headers.
    pub headers: BTreeMap<String, String>,
    /// The beginning of the answer.
    pub body: String,
    /// What went wrong.
    pub error: String,
}

impl Sent {
    /// It was not sent, or not wanted.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::without_answer(Ending::Failed, error)
    }

    pub(super) fn without_answer(ending: Ending, error: impl Into<String>) -> Self {
        let (headers, body) = (BTreeMap::new(), String::new());
        Self { ending, status: None, headers, body, error: error.into() }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection broke before there was an answer: {0}")]
    Broken(#[from] hyper::Error),
    #[error("there was no answer within {} ms", .0.as_millis())]
    TooLate(Duration),
}

/// Sends the request once, follows no redirect, and says what is certain: only an answer is. Without one it did not
/// arrive if nothing was written, and may have arrived if anything was.
pub async fn send(
    connections: &Connections,
    target: &Target,
    request: Request<Full<Bytes>>,
    limit: Duration,
) -> Sent {
    let trace = Trace::default();
    let until = Instant::now() + limit;
    // The task that drives the connection ends with this.
    let mut drivers = JoinSet::new();
    let exchange = async {
        let mut way = open(connections, target, &trace, &mut drivers).await?;
        Ok(way.send_request(request).await?)
    };
    let answer = match timeout_at(until, exchange).await {
        Ok(answer) => answer,
        Err(_) => Err(ExchangeError::TooLate(limit)),
    };
    match answer {
        Ok(answer) => read(answer, until).await,
        Err(error) => {
            let ending = if trace.is_set() { Ending::Unknown } else { Ending::Failed };
            Sent::without_answer(ending, text(&error))
        }
    }
}

async fn open(
    connections: &Connections,
    target: &Target,
    trace: &Trace,
    drivers: &mut JoinSet<()>,
) -> Result<SendRequest<Full<Bytes>>, ExchangeError> {
    let io = Watched { io: connections.open(target).await?, trace: trace.clone() };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (way, connection) = builder.handshake(TokioIo::new(io)).await?;
    // How it ended is told to whoever waits for the answer.
    drivers.spawn(async move { drop(connection.await) });
    Ok(way)
}

/// The head of the answer decides. A body that is too long, comes too slowly or breaks off changes nothing.
async fn read(answer: Response<Incoming>, until: Instant) -> Sent {
    let (head, mut body) = answer.into_parts();
    let mut kept = Vec::new();
    let reading = async {
        let mut count = 0;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(bytes) = frame.data_ref() else { continue };
            let room = ANSWER_BYTES_KEPT.saturating_sub(kept.len()).min(bytes.len());
            kept.extend_from_slice(&bytes[..room]);
            count += bytes.len();
            if count >= ANSWER_BYTES_MAX {
                break;
            }
        }
    };
    // With what is left of the time, but at least a moment: what is there already is read.
    let until = until.min(Instant::now() + BODY_WITHIN);
    let _ = timeout_at(until, reading).await;
    let is_delivered = head.status.is_success();
    Sent {
        ending: if is_delivered { Ending::Delivered } else { Ending::Failed },
        status: Some(head.status.as_u16()),
        headers: kept_headers(&head.headers),
        body: cut(&String::from_utf8_lossy(&kept), ANSWER_BYTES_KEPT),
        error: if is_delivered { String::new() } else { refusal(head.status) },
    }
}

fn refusal(status: StatusCode) -> String {
    let number = status.as_u16();
    match status {
        status if status.is_redirection() => {
            format!("the receiver answered {number}: redirects are not followed; correct the endpoint's URL")
        }
        StatusCode::GONE => format!("the receiver answered {number}: it wants no more deliveries"),
        _ => format!("the receiver answered {number}"),
    }
}

fn kept_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let kept = HEADERS_KEPT.iter().filter_map(|name| {
        let value = String::from_utf8_lossy(headers.get(*name)?.as_bytes());
        Some(((*name).to_owned(), cut(&value, HEADER_BYTES_KEPT)))
    });
    kept.collect()
}

/// What fits, and whole characters of it.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// An error with its causes.
pub(super) fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors repeat their causes.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
