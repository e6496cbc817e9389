//! One request and its answer. Connections are kept and used again by hyper's pool.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Method, Request, header};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use super::address::Address;
use crate::error::{Error, Refusal, excerpt};

/// Most connections that are kept open for the next call.
pub const KEPT_MAX: usize = 32;
/// A kept connection that nobody used for this long is closed.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Largest answer that is read: one full of payloads and the largest message on top, every byte of it as six in JSON.
pub const ANSWER_BYTES_MAX: usize = 6 * (48 << 20) + (1 << 20);
/// Where an answer says which request it is to.
const REQUEST_ID: &str = "x-request-id";

/// The way to one server.
#[derive(Debug)]
pub(crate) struct Transport {
    address: Address,
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    answer_timeout: Duration,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// What the server was asked to wait, on top of the time that any answer may take.
    pub(crate) wait: Duration,
}

impl Transport {
    pub(crate) fn new(address: Address, connect_timeout: Duration, answer_timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(connect_timeout));
        // A call is one small write that waits for its answer.
        connector.set_nodelay(true);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(KEPT_MAX)
            .pool_idle_timeout(KEPT_FOR)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { address, http, answer_timeout }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends it once and reads the whole answer. If this is dropped in between, so is the connection.
    pub(crate) async fn send(&self, asked: &Asked, limit: Option<Duration>) -> Result<Bytes, Error> {
        let limit = limit.unwrap_or(self.answer_timeout).saturating_add(asked.wait);
        match timeout(limit, self.exchange(asked)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.lost(format!("no answer within {} ms", limit.as_millis()))),
        }
    }

    async fn exchange(&self, asked: &Asked) -> Result<Bytes, Error> {
        let mut request = Request::builder()
            .method(asked.method.clone())
            .uri(format!("{}{}", self.address.url(), asked.path))
            .header(header::HOST, self.address.authority());
        if !asked.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(asked.body.clone()))
            .map_err(|error| Error::Invalid(format!("no request can be made of {}: {error}", asked.path)))?;
        let answer = self.http.request(request).await.map_err(|error| self.failed(&error))?;
        let (head, body) = answer.into_parts();
        let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(self.foreign(&format!("more than {ANSWER_BYTES_MAX} bytes")));
            }
            Err(error) => return Err(self.lost(with_causes(&*error))),
        };
        if head.status.is_success() {
            return Ok(body);
        }
        let id = head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        match Refusal::read(&body, id) {
            Some(refusal) => Err(refusal.into()),
            // A proxy in front of a server that is away.
            None if matches!(head.status.as_u16(), 429 | 502..=504) => {
                Err(self.lost(format!("HTTP status {}", head.status.as_u16())))
            }
            None => Err(self.foreign(&format!("HTTP status {}: {}", head.status.as_u16(), excerpt(&body)))),
        }
    }

    fn failed(&self, error: &legacy::Error) -> Error {
        let why = with_causes(error);
        if error.is_connect() {
            return Error::Unreachable { url: self.address.url(), why };
        }
        let inner = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
        // Bytes that are no HTTP will not be any the next time either.
        if inner.is_some_and(hyper::Error::is_parse) { self.foreign(&why) } else { self.lost(why) }
    }

    fn lost(&self, why: String) -> Error {
        Error::ConnectionLost { url: self.address.url(), why }
    }

    pub(crate) fn foreign(&self, why: &str) -> Error {
        Error::NotDriftQ { url: self.address.url(), why: why.to_owned() }
    }
}

/// The error with the causes under it: the outermost alone often says nothing.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
