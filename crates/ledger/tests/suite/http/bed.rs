//! A service with a layer, and a client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use driftq_ledger::http::IdempotencyLayer;
use driftq_ledger::memory::ManualClock;
use driftq_ledger::{Identity, Ledger, Record};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::http::moody::Moody;
use crate::http::signals::{Signals, within};

pub(crate) struct Bed {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ledger: Ledger,
    pub(crate) store: Moody,
    pub(crate) signals: Arc<Signals>,
    address: SocketAddr,
}

impl Bed {
    /// A ledger in memory, and a layer that believes the header `x-user`.
    pub(crate) fn parts() -> (Arc<ManualClock>, Moody, Ledger, IdempotencyLayer) {
        let clock = Arc::new(ManualClock::default());
        let (store, ledger) = Moody::ledger(&clock);
        let layer = IdempotencyLayer::new(ledger.clone(), |parts| {
            Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned())
        });
        (clock, store, ledger, layer)
    }

    /// Serves `app`, which is told the layer and the signals.
    pub(crate) async fn start(app: impl FnOnce(IdempotencyLayer, Arc<Signals>) -> Router) -> Self {
        let (clock, store, ledger, layer) = Self::parts();
        let signals = Arc::new(Signals::default());
        let app = app(layer, Arc::clone(&signals));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { clock, ledger, store, signals, address }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A post by ann.
    pub(crate) fn post(&self, path: &str) -> Post {
        Post::new(self.address, path).header("x-user", "ann").header("content-type", "application/json")
    }

    pub(crate) async fn record(&self, method: &str, key: &str) -> Option<Record> {
        self.ledger.get(&Identity::new("ann", method, key).unwrap()).await.unwrap()
    }

    /// The record, as soon as it is as wanted.
    pub(crate) async fn record_when(&self, method: &str, key: &str, is: impl Fn(&Record) -> bool) -> Record {
        within(async {
            loop {
                if let Some(record) = self.record(method, key).await.filter(&is) {
                    return record;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
    }

    pub(crate) fn runs(&self) -> usize {
        self.signals.runs()
    }
}

#[derive(Clone)]
pub(crate) struct Post {
    address: SocketAddr,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Post {
    pub(crate) fn new(address: SocketAddr, path: &str) -> Self {
        let headers = HeaderMap::new();
        Self { address, method: Method::POST, path: path.to_owned(), headers, body: Bytes::new() }
    }

    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers.append(name, HeaderValue::from_bytes(value.as_ref()).unwrap());
        self
    }

    pub(crate) fn user(mut self, user: &str) -> Self {
        self.headers.insert("x-user", user.parse().unwrap());
        self
    }

    pub(crate) fn key(self, key: impl AsRef<[u8]>) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// `None` if the connection broke before there was an answer.
    pub(crate) async fn try_send(self) -> Option<http::Response<hyper::body::Incoming>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().unwrap();
        *request.headers_mut() = self.headers;
        request.headers_mut().insert("host", "localhost".parse().unwrap());
        within(sender.send_request(request)).await.ok()
    }

    pub(crate) async fn send(self) -> Answer {
        let (parts, body) = self.try_send().await.expect("an answer").into_parts();
        let body = within(body.collect()).await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").map(|seconds| seconds.parse().unwrap())
    }

    /// The problem that this is, which is as RFC 9457 has it.
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        for member in ["title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| text.len() > 5), "{problem}");
        }
        assert!(!problem.to_string().contains("secret-host"), "{problem}");
        problem
    }

    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, word: &str) {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.problem()["type"], format!("urn:driftq:idempotency:{word}"));
    }
}
