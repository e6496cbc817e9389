//! One request and its answer. Connections are kept and used again by hyper's pool.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::http::Extensions;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use crate::connect::{Connector, Since};
use crate::servers::{Choice, PREFER, REDIRECT, Told, Way};
use crate::{Address, Failure, Key, Servers};

/// A server on the same machine or network takes the connection by then, or is not there.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most connections that are kept open for the next call.
pub const KEPT_MAX: usize = 32;
/// Largest head of an answer.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// A kept connection that no call used for this long is closed.
pub const KEPT_FOR: Duration = Duration::from_secs(60);
/// The header that says which request an answer belongs to.
const REQUEST_ID: &str = "x-request-id";
/// Said of servers of which none will have it that it serves.
const IN_CIRCLES: &str = "the servers of the cluster point at each other; none of them says that it serves";
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const PROTOBUF: &str = "application/x-protobuf";
const FORM: &str = "application/x-www-form-urlencoded";

/// How a [`Client`] behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long it may take to make a connection.
    pub connect_timeout: Option<Duration>,
    /// Most connections that are kept open for the next call.
    pub kept_max: usize,
    /// Largest answer that is read.
    pub answer_bytes_max: usize,
    /// Every call is safe to repeat: if a connection that was kept turns out to be closed, the next one is taken. A new
    /// connection that fails means that no server is there.
    pub repeats: bool,
    /// Authorities to trust beside the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// What is shown to the server.
    pub key: Option<Key>,
    /// What goes with every call beside what HTTP and the key need.
    pub headers: Option<HeaderMap>,
}

impl Options {
    /// The usual values, with a bound on answers that fits what is asked.
    #[must_use]
    pub const fn new(answer_bytes_max: usize) -> Self {
        let connect_timeout = Some(CONNECT_TIMEOUT);
        Self {
            connect_timeout,
            kept_max: KEPT_MAX,
            answer_bytes_max,
            repeats: false,
            ca_file: None,
            key: None,
            headers: None,
        }
    }
}

/// The way to one server, or to several of a cluster, of which the one that serves is asked. Cheap to clone; any number of
/// tasks may use it at the same time.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// At least one.
    servers: Vec<Server>,
    choice: Choice,
    kept_max: usize,
    answer_bytes_max: usize,
    repeats: bool,
    key: Option<Key>,
    headers: Option<HeaderMap>,
}

/// One server, and the connections to it.
#[derive(Debug)]
struct Server {
    address: Address,
    http: legacy::Client<Connector, Full<Bytes>>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    body: Bytes,
    content_type: &'static str,
    accepts_json: bool,
}

impl Call {
    /// A call without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { method, path, body: Bytes::new(), content_type: JSON, accepts_json: false }
    }

    /// Carries JSON.
    #[must_use]
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), content_type: JSON, ..self }
    }

    /// Carries lines of JSON.
    #[must_use]
    pub fn lines(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), content_type: LINES, ..self }
    }

    /// Carries the fields of a form; [`escape`](crate::escape) writes names and values.
    #[must_use]
    pub fn form(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), content_type: FORM, ..self }
    }

    /// Carries a message of Protocol Buffers.
    #[must_use]
    pub fn protobuf(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), content_type: PROTOBUF, ..self }
    }

    /// Says that JSON is understood.
    #[must_use]
    pub fn accepting_json(self) -> Self {
        Self { accepts_json: true, ..self }
    }

    /// Where it goes.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    fn request(
        &self,
        server: &Server,
        Inner { key, headers, .. }: &Inner,
        prefers_redirect: bool,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let url = format!("{}{}", server.address.url(), self.path);
        let mut request = Request::builder().method(self.method.clone()).uri(url);
        if let (Some(given), Some(sent)) = (headers, request.headers_mut()) {
            sent.extend(given.clone());
        }
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        if self.accepts_json {
            request = request.header(ACCEPT, JSON);
        }
        if prefers_redirect {
            request = request.header(PREFER, REDIRECT);
        }
        if let Some(key) = key {
            request = request.header(AUTHORIZATION, key.header());
        }
        request.body(Full::new(self.body.clone())).map_err(|error| Failure::Invalid(error.to_string()))
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A header, if it is there and a text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The server's name for the request.
    #[must_use]
    pub fn request_id(&self) -> Option<String> {
        self.header(REQUEST_ID).map(str::to_owned)
    }
}

/// The body of an answer that has only begun. Dropping it closes the connection.
#[derive(Debug)]
pub struct Body(Incoming);

impl Body {
    /// The next bytes; none at the end. Cancel-safe.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::of_reading(&error)),
                // Trailers are not for us.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

impl Body {
    /// As [`Body::next`], for those who poll.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(Failure::of_reading(&error)))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }

    /// How long it is, if the server has said so.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.0.size_hint().exact()
    }
}

/// An answer whose body is still to come, whatever its status.
#[derive(Debug)]
pub struct Begun {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
}

impl Server {
    fn new(address: Address, options: &Options) -> Result<Self, Failure> {
        let connector = Connector::new(options.connect_timeout);
        #[cfg(feature = "tls")]
        let connector = match address.is_tls() {
            true => connector.over(crate::tls::Tls::new(&address, options.ca_file.as_deref())?),
            false => connector,
        };
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(options.kept_max)
            .pool_idle_timeout(KEPT_FOR)
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector);
        Ok(Self { address, http })
    }
}

/// Whether a server has said that none serves, or a gateway that no server is behind it.
const fn is_away(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Whether the connection is older than the call.
fn is_kept(known: &Extensions, began: Instant) -> bool {
    known.get::<Since>().is_some_and(|since| since.0 < began)
}

impl Client {
    /// The way to this server, or to these. Nothing is connected yet.
    ///
    /// # Errors
    /// If the authorities to trust cannot be read.
    pub fn new(servers: impl Into<Servers>, options: &Options) -> Result<Self, Failure> {
        let addresses = servers.into().into_addresses();
        let choice = Choice::new(&addresses);
        let servers: Result<_, _> =
            addresses.into_iter().map(|address| Server::new(address, options)).collect();
        let (kept_max, answer_bytes_max, repeats) =
            (options.kept_max, options.answer_bytes_max, options.repeats);
        let (key, headers) = (options.key.clone(), options.headers.clone());
        Ok(Self(Arc::new(Inner {
            servers: servers?,
            choice,
            kept_max,
            answer_bytes_max,
            repeats,
            key,
            headers,
        })))
    }

    /// Where the server is that is asked now.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.0.servers[self.0.choice.current()].address
    }

    /// `http://host:port`; of several servers all, with commas in between.
    #[must_use]
    pub fn url(&self) -> &str {
        self.0.choice.named()
    }

    /// Sends a call and reads the whole answer, within the limit. If this is dropped in between, so is the connection.
    ///
    /// # Errors
    /// If there is no whole answer. Any status is an answer.
    pub async fn call(&self, call: &Call, limit: Option<Duration>) -> Result<Answer, Failure> {
        let choice = &self.0.choice;
        let mut way = choice.way();
        let Some(limit) = limit else { return self.exchange(call, &mut way).await };
        let answer = timeout(limit, self.exchange(call, &mut way)).await;
        answer.unwrap_or_else(|_| {
            choice.leave(way.place());
            Err(Failure::TimedOut(limit))
        })
    }

    /// Sends a call: an answer that is good has its body still to come, any other is whole.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn open(&self, call: &Call) -> Result<Result<Body, Answer>, Failure> {
        let mut way = self.0.choice.way();
        let response = self.ask(call, Instant::now(), &mut way).await.map_err(|(failure, _)| failure)?;
        match response.status() {
            StatusCode::OK => Ok(Ok(Body(response.into_body()))),
            _ => Ok(Err(self.whole(response).await?)),
        }
    }

    /// Passes somebody's request on as it is: `path` has its query, `headers` are sent beside those that HTTP itself needs.
    /// After [`Failure::Unreachable`] nothing of it was sent.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn relay(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Begun, Failure> {
        let server = &self.0.servers[self.0.choice.current()];
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", server.address.url()))
            .body(Full::new(body));
        let mut request = request.map_err(|error| Failure::Invalid(error.to_string()))?;
        *request.headers_mut() = headers;
        let response = server.http.request(request).await.map_err(|error| Failure::of_sending(&error))?;
        let (head, body) = response.into_parts();
        Ok(Begun { status: head.status, headers: head.headers, body: Body(body) })
    }

    async fn exchange(&self, call: &Call, way: &mut Way) -> Result<Answer, Failure> {
        let began = Instant::now();
        // Each kept connection that turns out to be closed is gone, and a new one is not tried twice.
        for _ in 0..self.0.kept_max {
            match self.send(call, began, way).await {
                Err((Failure::Broken(_), true)) if self.0.repeats => {}
                outcome => return outcome.map_err(|(failure, _)| failure),
            }
        }
        self.send(call, began, way).await.map_err(|(failure, _)| failure)
    }

    /// The answer, or why there is none and whether the connection is older than the call.
    async fn send(&self, call: &Call, began: Instant, way: &mut Way) -> Result<Answer, (Failure, bool)> {
        *way = self.0.choice.way();
        let response = self.ask(call, began, way).await?;
        let was_kept = is_kept(response.extensions(), began);
        self.whole(response).await.map_err(|failure| (failure, was_kept))
    }

    /// Sends a call to the current server, to the one that serves if that one says where it is, or to the next if it takes
    /// no connection.
    async fn ask(
        &self,
        call: &Call,
        began: Instant,
        way: &mut Way,
    ) -> Result<Response<Incoming>, (Failure, bool)> {
        let choice = &self.0.choice;
        loop {
            let (place, prefers) = (way.place(), choice.prefers_redirect(way));
            let server = &self.0.servers[place];
            let request = call.request(server, &self.0, prefers).map_err(|failure| (failure, false))?;
            match server.http.request(request).await {
                Ok(response) => {
                    let head = (response.status(), response.headers());
                    match choice.follow(head, prefers, way) {
                        Told::Again => {}
                        Told::InCircles => {
                            return Err((Failure::Broken(IN_CIRCLES.to_owned()), false));
                        }
                        Told::Nothing => {
                            if is_away(response.status()) {
                                choice.leave(place);
                            }
                            return Ok(response);
                        }
                    }
                }
                Err(error) => match Failure::of_sending(&error) {
                    Failure::Unreachable { .. } if choice.try_next(way) => {}
                    failure => {
                        choice.leave(place);
                        let mut known = Extensions::new();
                        if let Some(connection) = error.connect_info() {
                            connection.get_extras(&mut known);
                        }
                        return Err((failure, is_kept(&known, began)));
                    }
                },
            }
        }
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<Answer, Failure> {
        let (head, body) = response.into_parts();
        let limit = self.0.answer_bytes_max;
        // An answer that announces that it is too long is not waited for.
        if body.size_hint().lower() > limit as u64 {
            return Err(Failure::TooLong(limit));
        }
        match Limited::new(body, limit).collect().await {
            Ok(body) => Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() }),
            Err(error) if error.is::<LengthLimitError>() => Err(Failure::TooLong(limit)),
            Err(error) => Err(Failure::of_reading(&*error)),
        }
    }
}
