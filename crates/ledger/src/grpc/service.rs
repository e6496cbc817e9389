//! The service that the layer makes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::request::Parts;
use ::http::{HeaderMap, HeaderName, Request, Response};
use bytes::Bytes;
use tonic::body::Body;
use tower_service::Service;

use super::frame::{Framed, HEAD_BYTES, Message, framed};
use super::refusal::Refusal;
use super::{Settings, stored};
use crate::layers::{
    Answered, Attempt, BoxError, Guarded, Looked, Nameless, Passed, any_text, only, scope, take,
};
use crate::{Identity, RequestHash};

/// Names the compressions that a client can read.
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";
/// Names the compression of a message.
const ENCODING: &str = "grpc-encoding";

/// A service that answers what was asked before as it did then. Made by
/// [`IdempotencyLayer`](super::IdempotencyLayer).
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Idempotency<S> {
    pub(crate) const fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

type Answer<E> = Result<Response<Body>, E>;

impl<S, R> Service<Request<Body>> for Idempotency<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Answer<S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The one that said it was ready handles this request; a copy stands in for the next.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let settings = Arc::clone(&self.settings);
        Box::pin(async move {
            match settings.looked_at(request).await {
                Looked::Through(request) => Ok(inner.call(*request).await?.map(Body::new)),
                Looked::Refused(refusal) => Ok(refusal.into_response()),
                Looked::Guarded(guarded) => settings.guarded(*guarded, inner).await,
            }
        })
    }
}

impl Settings {
    async fn looked_at(&self, request: Request<Body>) -> Looked<Body, Refusal> {
        if !(self.methods)(request.uri().path()) {
            return Looked::Through(Box::new(request));
        }
        let key = match key(request.headers(), &self.key_metadata) {
            Ok(Some(key)) => key,
            Ok(None) if self.guard.required => {
                return Looked::Refused(Refusal::key_missing(self.key_metadata.as_str()));
            }
            Ok(None) => return Looked::Through(Box::new(request)),
            Err(why) => return Looked::Refused(Refusal::key_invalid(why)),
        };
        let (mut parts, body) = request.into_parts();
        let identity = match self.identity(&parts, &key) {
            Ok(identity) => identity,
            Err(refusal) => return Looked::Refused(refusal),
        };
        let limit = self.guard.request_bytes_max;
        let taken = take(body, limit.saturating_add(HEAD_BYTES)).await;
        let hash = match framed(&taken.data) {
            Framed::One(message) if taken.is_whole() => match &self.fingerprint {
                Some(fingerprint) => fingerprint(&parts, &message.bytes),
                None => hash(&parts, &message),
            },
            _ => return Looked::Refused(Refusal::not_unary(limit)),
        };
        parts.headers.remove(ACCEPT_ENCODING);
        Looked::guarded(identity, hash, parts, Body::new(taken.into_body()))
    }

    fn identity(&self, parts: &Parts, key: &str) -> Result<Identity, Refusal> {
        let scope = scope(parts.uri.path().to_owned());
        self.guard.identity(parts, &scope, key).map_err(|nameless| match nameless {
            Nameless::NoPrincipal => Refusal::no_principal(),
            Nameless::Key(error) => Refusal::key_invalid(error.to_string()),
            Nameless::Scope(_) => Refusal::misconfigured(),
        })
    }

    async fn guarded<S, R>(&self, guarded: Guarded<Body>, mut inner: S) -> Answer<S::Error>
    where
        S: Service<Request<Body>, Response = Response<R>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let Guarded { mut request, identity, hash } = guarded;
        let limit = self.guard.kept_bytes_max().saturating_add(HEAD_BYTES);
        let (classify, on_lapse) = (Arc::clone(&self.classify), self.guard.terms.on_lapse);
        let ledger = self.guard.ledger.clone();
        let work = move |attempt: Attempt| async move {
            request.extensions_mut().insert(attempt.clone());
            let (parts, body) = inner.call(request).await?.into_parts();
            let taken = take(body, limit).await;
            let code = stored::code_of(&parts, &taken);
            let meaning = attempt
                .said(&parts.extensions)
                .unwrap_or_else(|| classify(&code, stored::meaning(code, on_lapse)));
            let report = stored::report(&parts, &taken, (code, meaning), &ledger.settings().headers);
            Ok(Answered { answer: Response::from_parts(parts, Body::new(taken.into_body())), report })
        };
        let refusal = match self.guard.pass(identity, hash, work).await {
            Passed::Answer(answer) => return Ok(answer),
            Passed::Broke(error) => return Err(error),
            Passed::Replay(outcome) => return Ok(stored::replay(&outcome)),
            Passed::Ended(outcome) => return Ok(stored::answer(&outcome)),
            Passed::InProgress { retry_after } => Refusal::in_progress(retry_after),
            Passed::Unknown { since } => Refusal::unknown(&since.to_string()),
            Passed::Conflict => Refusal::key_reused(),
            Passed::Overtaken => Refusal::overtaken(),
            Passed::Unrecorded => Refusal::unrecorded(),
            Passed::Sealed => Refusal::sealed(),
            Passed::Unavailable => Refusal::unavailable(),
            Passed::Misconfigured => Refusal::misconfigured(),
        };
        Ok(refusal.into_response())
    }
}

/// What is asked for. Compressed bytes mean nothing without the name of the compression.
fn hash(parts: &Parts, message: &Message) -> RequestHash {
    if !message.compressed {
        return RequestHash::of_protobuf(&message.bytes);
    }
    let encoding = parts.headers.get(ENCODING).map_or(&b""[..], |value| value.as_bytes());
    RequestHash::of_bytes(&[b"grpc compressed ", encoding, b"\0", &message.bytes].concat())
}

fn key(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, &'static str> {
    only(headers, name.as_str())?.map(|value| any_text(value.as_bytes())).transpose()
}
