//! The service that the layer makes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::http::request::Parts;
use ::http::{HeaderMap, HeaderName, Request, Response};
use bytes::Bytes;
use tower_service::Service;

use super::problem::Problem;
use super::{Settings, stored};
use crate::Identity;
use crate::layers::{
    Answered, Attempt, Body, BoxError, Guarded, Looked, Nameless, Passed, Taken, only, quoted_string, take,
};

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

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Answer<S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that said it was ready handles this request; a copy stands in for the next.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let settings = Arc::clone(&self.settings);
        Box::pin(async move {
            match settings.looked_at(request).await {
                Looked::Through(request) => Ok(inner.call(*request).await?.map(Body::through)),
                Looked::Refused(problem) => Ok(problem.into_response(&settings.words)),
                Looked::Guarded(guarded) => settings.guarded(*guarded, inner).await,
            }
        })
    }
}

impl Settings {
    async fn looked_at<B>(&self, request: Request<B>) -> Looked<Body, Problem>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let key = match self.methods.contains(&parts.method) {
            true => key(&parts.headers, &self.key_header, self.strict_key),
            false => return Looked::through(parts, Body::through(body)),
        };
        let key = match key {
            Ok(Some(key)) => key,
            Ok(None) if self.guard.required => return Looked::Refused(Problem::key_missing()),
            Ok(None) => return Looked::through(parts, Body::through(body)),
            Err(why) => return Looked::Refused(Problem::key_invalid(why)),
        };
        let identity = match self.identity(&parts, &key) {
            Ok(identity) => identity,
            Err(problem) => return Looked::Refused(problem),
        };
        let limit = self.guard.request_bytes_max;
        let taken = take(body, limit).await;
        if taken.is_broken() {
            return Looked::Refused(Problem::body_unreadable());
        }
        if !taken.is_whole() {
            return Looked::Refused(Problem::body_too_large(limit));
        }
        let hash = (self.fingerprint)(&parts, &taken.data);
        Looked::guarded(identity, hash, parts, taken.into_body())
    }

    fn identity(&self, parts: &Parts, key: &str) -> Result<Identity, Problem> {
        let scope = (self.scope)(parts);
        self.guard.identity(parts, &scope, key).map_err(|nameless| match nameless {
            Nameless::NoPrincipal => Problem::no_principal(),
            Nameless::Key(error) => Problem::key_invalid(error),
            Nameless::Scope(error) => {
                tracing::error!(%error, scope, "the idempotency layer is set up with a scope that is none");
                Problem::misconfigured()
            }
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
        let limit = self.guard.kept_bytes_max();
        let (classify, on_lapse) = (Arc::clone(&self.classify), self.guard.terms.on_lapse);
        let ledger = self.guard.ledger.clone();
        let work = move |attempt: Attempt| async move {
            request.extensions_mut().insert(attempt.clone());
            let (parts, body) = inner.call(request).await?.into_parts();
            let taken = match stored::is_collected(&parts) {
                true => take(body, limit).await,
                false => Taken::untouched(body),
            };
            let meaning = attempt
                .said(&parts.extensions)
                .unwrap_or_else(|| classify(&parts, stored::meaning(parts.status, on_lapse)));
            let report = stored::report(&parts, &taken, meaning, &ledger.settings().headers);
            Ok(Answered { answer: Response::from_parts(parts, taken.into_body()), report })
        };
        let problem = match self.guard.pass(identity, hash, work).await {
            Passed::Answer(answer) => return Ok(answer),
            Passed::Broke(error) => return Err(error),
            Passed::Replay(outcome) => return Ok(stored::replay(outcome, &self.words)),
            Passed::Ended(outcome) => return Ok(stored::answer(outcome, &self.words)),
            Passed::InProgress { retry_after } => Problem::in_progress(retry_after),
            Passed::Unknown { since } => Problem::unknown(&since.to_string()),
            Passed::Conflict => Problem::key_reused(),
            Passed::Overtaken => Problem::overtaken(),
            Passed::Unrecorded => Problem::unrecorded(),
            Passed::Sealed => Problem::sealed(),
            Passed::Unavailable => Problem::unavailable(),
            Passed::Misconfigured => Problem::misconfigured(),
        };
        Ok(problem.into_response(&self.words))
    }
}

fn key(headers: &HeaderMap, name: &HeaderName, strict: bool) -> Result<Option<String>, &'static str> {
    only(headers, name.as_str())?.map(|value| quoted_string(value.as_bytes(), strict)).transpose()
}
