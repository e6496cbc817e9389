//! A server of a cluster while another one has the broker: it passes on what it is asked.
//!
//! A request is read whole, as the serving server would read it, and sent to that one; what comes back is passed on as
//! it comes. While nobody serves, requests wait: a server that dies is replaced within seconds, and one that hands over
//! within less. A request that was sent and not answered is not sent again: whether it was carried out is for its sender
//! to find out. Who prefers to ask the serving server by itself is told where that is.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use driftq_api::v2::{Health, Operation};
use driftq_api::{Code, Fault};
use driftq_engine::cluster::{SEAT_TIME, Seat, Standing};
use driftq_http::{Address, Begun, Body, Client, Failure, Options as Way};
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use tokio::sync::watch;
use tokio::time::{sleep, timeout_at};

use super::answer::{Answer, json, put, refusal, whole};
use super::body::AnswerBody;
use super::budget::Budget;
use super::door::Entrance;
use super::endpoint::{Dialect, Endpoint, Target};
use super::front::SharedParts;
use super::options::Options;
use super::peer::Peer;
use super::pulse::Pulse;
use super::relay::{RELAYED, vouch};
use super::request::{check_url, discard_body, read_body};
use super::request_id::{RequestIds, X_REQUEST_ID};
use crate::metrics::Format;

/// Said in the header of a request that was [passed on](RELAYED) by a server that does not serve: nothing was done.
const NOT_HERE: &str = "not-here";
/// What a client asks for with `prefer: redirect`.
const REDIRECT: &str = "redirect";
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// How long a request waits for a server that serves. A seat is free when its time is over, and a log takes a moment to
/// be opened.
pub(super) const HOLD: Duration = SEAT_TIME.saturating_mul(5);
/// When a server that serves is asked again after it took no connection: it has just opened the log, or is gone.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// Connections to the serving server that are kept for the next request.
const KEPT_MAX: usize = 256;
/// All that there is to count: what the cluster does is counted by the server that serves.
const METRICS: &str =
    "# HELP driftq_ready 1 if requests are served\n# TYPE driftq_ready gauge\ndriftq_ready 0\n";
/// What belongs to one connection and not to the request.
const HOP_BY_HOP: [HeaderName; 6] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, EXPECT];

const NOBODY_FOR_A_WHILE: &str = "no server of the cluster has served for a while";
/// Said when the server that was asked is no longer the one to ask.
const REPLACED: &str = "another one serves now";

/// Resolves when another server serves.
type Replaced = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What all requests share while another server serves.
pub(super) struct Standby {
    options: Arc<Options>,
    ids: Arc<RequestIds>,
    budget: Arc<Budget>,
    standing: watch::Receiver<Standing>,
    /// The way to the server that served last, and its URL.
    way: Mutex<Option<(String, Client)>>,
    /// Held, so that the seat is kept as long as anybody serves.
    seat: Arc<Seat>,
}

impl Standby {
    pub(super) fn new(shared: &SharedParts, seat: Arc<Seat>) -> Self {
        Self {
            options: Arc::clone(&shared.options),
            ids: Arc::clone(&shared.ids),
            budget: Arc::clone(&shared.budget),
            standing: seat.standing(),
            way: Mutex::default(),
            seat,
        }
    }

    /// Answers one request; never fails, because a failure is an answer too.
    pub(super) async fn handle(
        self: Arc<Self>,
        pulse: Arc<Pulse>,
        peer: Arc<Peer>,
        request: Request<Incoming>,
    ) -> Answer {
        let (head, body) = request.into_parts();
        let id = self.ids.of(&head.headers);
        let answered = self.answered(&head, body, &id, (&peer, &pulse)).await;
        let mut answer = answered.unwrap_or_else(|fault| {
            let endpoint = Target::find(&head.method, head.uri.path()).endpoint;
            refusal(&fault, endpoint.dialect(), &id)
        });
        put(&mut answer, X_REQUEST_ID, id);
        self.options.door.grant(&head.headers, answer.headers_mut());
        if matches!(answer.body(), AnswerBody::Whole(_)) {
            pulse.begin_answer(Instant::now());
        }
        answer
    }

    async fn answered(
        &self,
        head: &Parts,
        body: Incoming,
        id: &HeaderValue,
        (peer, pulse): (&Peer, &Arc<Pulse>),
    ) -> Result<Answer, Fault> {
        let body = match self.options.door.admit(head, body).await? {
            Entrance::Open(body) => body,
            Entrance::Preflight(answer) => return Ok(answer),
        };
        check_url(head, self.options.url_bytes_max)?;
        if let Some(answer) = self.own(head) {
            discard_body(body).await;
            return answer;
        }
        if head.headers.contains_key(&RELAYED) {
            discard_body(body).await;
            return Ok(not_here(id));
        }
        if prefers_redirect(&head.headers)
            && let Some(answer) = self.redirected(head).await.transpose()
        {
            discard_body(body).await;
            return answer;
        }
        let body = read_body(head, body, &self.options, &self.budget).await?.unwrap_or_default();
        let (begun, replaced) = self.relayed(head, body, id, peer).await?;
        Ok(passed_on(begun, replaced, pulse))
    }

    /// What is asked about this server alone.
    fn own(&self, head: &Parts) -> Option<Result<Answer, Fault>> {
        let ok = |status: &'static str, note: Option<String>| {
            json(StatusCode::OK, &Health { status: status.into(), note: note.map(Into::into) })
        };
        let serving = || self.standing.borrow().serving.clone();
        match Target::find(&head.method, head.uri.path()).endpoint {
            Endpoint::Healthz | Endpoint::V2(Operation::Healthz) => Some(Ok(ok("ok", None))),
            Endpoint::V2(Operation::Readyz) => Some(match serving() {
                Some(url) => Ok(ok("ready", Some(format!("requests are passed on to {url}, which serves")))),
                None => Err(nobody("no server of the cluster serves at the moment")),
            }),
            Endpoint::Metrics => {
                let text = Bytes::from_static(METRICS.as_bytes());
                Some(Ok(whole(StatusCode::OK, Format::Text.content_type(), text)))
            }
            _ => None,
        }
    }

    /// Says where the server is that serves, as soon as there is one. `None` if that is this one, which opens the log:
    /// who is sent here again and again would give up before it is done.
    async fn redirected(&self, head: &Parts) -> Result<Option<Answer>, Fault> {
        let mut standing = self.standing.clone();
        let taker = timeout_at(
            (Instant::now() + HOLD).into(),
            standing.wait_for(|standing| standing.taker().is_some()),
        );
        let url = taker.await.ok().and_then(Result::ok).and_then(|now| now.taker().map(str::to_owned));
        if url.as_deref() == Some(self.seat.url()) {
            return Ok(None);
        }
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let location = url.map(|url| format!("{}{path}", url.trim_end_matches('/')));
        let location = location.and_then(|location| HeaderValue::try_from(location).ok());
        let location = location.ok_or_else(|| nobody(NOBODY_FOR_A_WHILE))?;
        let mut answer = whole(StatusCode::TEMPORARY_REDIRECT, Format::Text.content_type(), Bytes::new());
        put(&mut answer, LOCATION, location);
        put(&mut answer, PREFERENCE_APPLIED, HeaderValue::from_static(REDIRECT));
        Ok(Some(answer))
    }

    /// Sends a request to the server that serves, as soon as there is one that takes it.
    async fn relayed(
        &self,
        head: &Parts,
        body: Bytes,
        id: &HeaderValue,
        peer: &Peer,
    ) -> Result<(Begun, Replaced), Fault> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = end_to_end(&head.headers);
        headers.insert(RELAYED, vouch(&self.seat, peer, head, id));
        headers.insert(X_REQUEST_ID, id.clone());
        let until = Instant::now() + HOLD;
        let mut standing = self.standing.clone();
        loop {
            let serving = standing.borrow_and_update().taker().map(str::to_owned);
            let way = serving.and_then(|url| Some((self.way_to(&url)?, url)));
            let is_late = match way {
                Some((way, url)) => {
                    let mut replaced = self.replaced(url);
                    let sent = way.relay(head.method.clone(), path, headers.clone(), body.clone());
                    let sent = tokio::select! {
                        sent = sent => sent,
                        () = &mut replaced => return Err(unanswered(REPLACED)),
                    };
                    match sent {
                        Ok(begun) if !is_elsewhere(&begun) => return Ok((begun, replaced)),
                        // It never left, or nothing was done.
                        Ok(_) | Err(Failure::Unreachable { .. }) => {}
                        Err(failure) => return Err(unanswered(&failure.to_string())),
                    }
                    tokio::select! {
                        _ = standing.changed() => {}
                        () = sleep(ASK_AGAIN) => {}
                    }
                    Instant::now() > until
                }
                None => timeout_at(until.into(), standing.changed()).await.is_err(),
            };
            if is_late {
                return Err(nobody(NOBODY_FOR_A_WHILE));
            }
        }
    }

    /// Resolves when another server than this one serves: whatever it still says does not count.
    fn replaced(&self, url: String) -> Replaced {
        let mut standing = self.standing.clone();
        Box::pin(async move {
            let other =
                |standing: &Standing| standing.serving.as_ref().is_some_and(|serving| *serving != url);
            if standing.wait_for(other).await.is_err() {
                // The process ends.
                std::future::pending().await
            }
        })
    }

    /// The way to a server; none if its URL is none.
    fn way_to(&self, url: &str) -> Option<Client> {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, client)) = &*way
            && known == url
        {
            return Some(client.clone());
        }
        let address = Address::parse(url).ok()?;
        let client = Client::new(address, &Way { kept_max: KEPT_MAX, ..Way::new(usize::MAX) });
        let client =
            client.inspect_err(|error| tracing::error!(%error, url, "no way to the serving server")).ok()?;
        *way = Some((url.to_owned(), client.clone()));
        Some(client)
    }
}

/// What another server answers, on its way to whoever asked.
pub(crate) struct Relayed {
    body: Body,
    replaced: Replaced,
    /// Told when the answer is over.
    pulse: Arc<Pulse>,
}

impl Relayed {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        let Poll::Ready(piece) = self.body.poll_next(cx) else {
            // A server that was replaced while it slept never ends its answer.
            return self.replaced.as_mut().poll(cx).map(|()| Some(Err(io::Error::other(REPLACED))));
        };
        let now = Instant::now();
        match &piece {
            Some(_) => self.pulse.begin_write(now),
            None => self.pulse.begin_answer(now),
        }
        Poll::Ready(piece.map(|bytes| bytes.map_err(io::Error::other)))
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.body.length()
    }
}

fn passed_on(Begun { status, headers, body }: Begun, replaced: Replaced, pulse: &Arc<Pulse>) -> Answer {
    let relayed = Relayed { body, replaced, pulse: Arc::clone(pulse) };
    let mut answer = Response::new(AnswerBody::Relayed(Box::new(relayed)));
    *answer.status_mut() = status;
    *answer.headers_mut() = end_to_end(&headers);
    answer
}

/// The headers that go with a request or an answer wherever it goes. The door of this server has looked at where a page
/// came from; to the next server it is this one that asks.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in HOP_BY_HOP.iter().chain(&[HOST, ORIGIN, CONTENT_LENGTH]) {
        kept.remove(name);
    }
    for named in headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()) {
        for name in named.split(',') {
            kept.remove(name.trim());
        }
    }
    kept
}

/// Whether a client wants to be told where the serving server is instead of having its request passed on.
fn prefers_redirect(headers: &HeaderMap) -> bool {
    let said = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(REDIRECT))
}

/// What a server is told that has passed a request on to one that does not serve: it was not looked at.
pub(super) fn not_here(id: &HeaderValue) -> Answer {
    let mut answer = refusal(&nobody("this server does not serve any more"), Dialect::V2, id);
    put(&mut answer, RELAYED, HeaderValue::from_static(NOT_HERE));
    // Asked again in a moment, it may serve by then, and this edge be closing: a connection that was kept would take the
    // next request along.
    put(&mut answer, CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Whether a server has only said that it does not serve any more.
fn is_elsewhere(begun: &Begun) -> bool {
    begun.headers.get(RELAYED).is_some_and(|said| said == NOT_HERE)
}

pub(super) fn nobody(why: &str) -> Fault {
    let fault = Fault::new(Code::Unavailable, format!("{why}; another takes over within seconds"));
    Fault { retry_after_ms: Some(1_000), ..fault }
}

fn unanswered(why: &str) -> Fault {
    let text = format!(
        "the serving server of the cluster did not answer ({why}): the request may or may not have been carried out"
    );
    Fault::new(Code::Unavailable, text)
}
