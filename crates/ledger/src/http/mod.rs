//! The `Idempotency-Key` header, as a tower layer for axum and hyper.
//!
//! A client that does not know whether its `POST` arrived sends it again with the same key (IETF draft
//! `draft-ietf-httpapi-idempotency-key-header`). The layer asks the ledger before the handler runs: run it, or here is
//! its outcome, or keep off.
//!
//! ```
//! # use driftq_ledger::{Ledger, http::IdempotencyLayer, memory::MemoryStore};
//! # use axum::{Router, routing::post};
//! # let ledger = Ledger::new(MemoryStore::new());
//! let layer = IdempotencyLayer::new(ledger, |request| {
//!     // Whatever the authentication in front of this layer has found out. Never what the client says of itself.
//!     request.extensions.get::<String>().cloned()
//! });
//! let app: Router = Router::new().route("/payments", post(|| async { "paid" })).route_layer(layer.required(true));
//! ```
//!
//! # What a client is told
//!
//! | the request | the answer |
//! |---|---|
//! | another method than those selected, or no key and none required | the handler's, untouched |
//! | no key and one is required; several, or one that cannot be read | 400 |
//! | no principal (see [`IdempotencyLayer::new`]) | 401 |
//! | a body larger than [`request_bytes_max`](IdempotencyLayer::request_bytes_max) | 413 |
//! | the first with its key | the handler's, and it is written down before the first byte of it is sent |
//! | the same again | the stored one, with `Idempotent-Replayed: true` |
//! | the same again, and the first answer means that it may be tried again | the handler runs again while attempts are left |
//! | the same again while the first is handled | 409 with `Retry-After` |
//! | another request with a used key | 422 |
//! | the first was not heard of again, and may have happened | 409 `urn:driftq:idempotency:unknown`; no `Retry-After`, because an operator has to resolve it |
//! | the stored answer cannot be opened ([`Seal`](crate::Seal)) | 503 `urn:driftq:idempotency:sealed` with `Retry-After`; the handler has not run |
//! | the ledger cannot be asked | 503 with `Retry-After`; the handler has not run |
//! | the handler has run, and a newer attempt took over meanwhile | 409 `urn:driftq:idempotency:overtaken` |
//! | the handler has run, and that could not be written down | 503 `urn:driftq:idempotency:unrecorded`; no `Retry-After` |
//! | a replay of an answer that was too large to keep | 409 `urn:driftq:idempotency:answer-not-kept`, with `Idempotent-Replayed: true` and the stored status in `answer_status` |
//!
//! All of the layer's own answers are `application/problem+json` (RFC 9457). Title and detail of those that the draft
//! has (no key, a key that is used, a request that is outstanding) are the draft's own.
//!
//! # What counts as the same request
//!
//! Unless the service brings a [`fingerprint`](IdempotencyLayer::fingerprint) of its own: method, path and query, content
//! type, and body. A body whose content type is JSON counts by its canonical form
//! ([`RequestHash::of_json`](crate::RequestHash::of_json)), any other, and JSON that has none, by its bytes.
//!
//! Within `Router::nest` axum shows an inner layer the path without the prefix. Two nested routers that each have a
//! layer of their own then need a [`scope`](IdempotencyLayer::scope) of their own as well; or put one layer outside.
//!
//! # What an answer means
//!
//! | status | under `OnLapse::Hold` | under `OnLapse::Retry` |
//! |---|---|---|
//! | 2xx, 3xx | succeeded | succeeded |
//! | 405, 411, 413, 414, 415, 425, 431 | refused | refused |
//! | 400, 401, 403, 404, 406, 422 | failed for good | refused |
//! | other 4xx, but 408 and 429 | failed for good | failed for good |
//! | 408, 429, 5xx | unclear | failed, may be tried again |
//!
//! Refused: nothing is written down, and the key is unused again, also for a request that was put right. Unclear:
//! nothing is written down, the lease lapses, and the outcome is unknown until an operator has resolved it.
//!
//! The layer cannot see whether a handler did something before it answered. So under `Hold`, where a repetition may do
//! harm, only an answer about the message itself lets a handler run again: a handler does not give it after it has
//! begun. A 408 comes from a time-out that stopped a handler in the middle, a 503 perhaps from a provider that did not
//! answer, and a 422 perhaps after a part was done. A service that knows better says so: for a layer with
//! [`classify`](IdempotencyLayer::classify), for one answer with a [`Meaning`] in its extensions.
//!
//! # A handler that writes to the same database
//!
//! The layer puts an [`Attempt`] into the extensions of a request. A handler takes its lease and ends the effect in the
//! transaction of its own write (`finish_tx`): both are there, or neither. When it has answered, the layer asks the
//! ledger what is recorded, and that counts:
//!
//! | the ledger has, under this lease | the handler answers | the client gets |
//! |---|---|---|
//! | an outcome | anything | the stored answer, as every later request does |
//! | none: it was rolled back, or not even tried | 2xx, 3xx | 503 `unrecorded`; nothing is written down |
//! | none | a failure | that answer, which means what the table above says |
//! | a newer lease: another attempt took over | anything | 409 `overtaken` |
//!
//! So a commit whose answer was lost is no riddle: the handler answers 500, and the layer finds the outcome if there is
//! one. A handler that panics after its commit leaves the outcome behind for the next request.
//!
//! # What is kept of an answer
//!
//! The status, the body up to [`response_bytes_max`](IdempotencyLayer::response_bytes_max) (and the ledger's own
//! `payload_bytes_max`), and the headers that the ledger's settings list ([`KeptHeaders`](crate::KeptHeaders)), if they are text;
//! `Content-Length` is computed anew. Headers of the connection, `Date` and those that carry credentials are never kept. A body is read to its end before the client sees the first byte. One that is
//! larger, that breaks off, or that is `text/event-stream` (which is never read ahead) is not kept: it is written down
//! *that* the handler ended in this way, and then the body goes through whole. Trailers are not kept.
//!
//! # Who runs it
//!
//! From the question to the ledger on, everything runs in a task of its own: if the client hangs up, the handler runs
//! to its end, its outcome is written down, and the client finds it when it comes back. So there may be more handlers
//! at work than connections; a limit on them belongs inside this layer. The lease is renewed while the handler runs; if
//! another caller has taken over all the same, the handler is stopped where it stands. A handler that panics is not
//! known to have done nothing: the lease lapses and its terms decide, and the panic goes on to whatever is outside. A
//! ledger that does not take the outcome is asked again for as long as its setting `finish_patience` says, and the
//! client waits.

mod fingerprint;
mod problem;
mod service;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use ::http::request::Parts;
use ::http::{HeaderName, Method, response};

pub use fingerprint::fingerprint;
use problem::Words;
pub use service::Idempotency;

pub use crate::layers::{Attempt, Body, Meaning};
use crate::layers::{Classify, Guard, header_name, scope};
use crate::{Ledger, LedgerError, RequestHash, Terms};

/// The header that names a request.
pub const KEY_HEADER: &str = "idempotency-key";
/// The header that says that an answer is a stored one.
pub const REPLAYED_HEADER: &str = "idempotent-replayed";

/// Makes services answer what was asked before as they did then. See the [module](self) for how.
#[derive(Clone)]
pub struct IdempotencyLayer {
    settings: Settings,
}

type Fingerprint = Arc<dyn Fn(&Parts, &[u8]) -> RequestHash + Send + Sync>;
type Scope = Arc<dyn Fn(&Parts) -> String + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    guard: Guard,
    methods: Vec<Method>,
    scope: Scope,
    strict_key: bool,
    classify: Classify<response::Parts>,
    key_header: HeaderName,
    fingerprint: Fingerprint,
    words: Words,
}

impl IdempotencyLayer {
    /// `principal` tells on whose behalf a request comes. Clients with the same name share their keys, so it must come
    /// from an authentication that is outside this layer. `None`, a blank name and `unknown` are answered with 401.
    pub fn new(ledger: Ledger, principal: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        let guard = Guard::new(ledger, Arc::new(principal));
        let by_path = |parts: &Parts| scope(format!("{} {}", parts.method, parts.uri.path()));
        let settings = Settings {
            guard,
            methods: vec![Method::POST, Method::PATCH],
            scope: Arc::new(by_path),
            strict_key: false,
            classify: Arc::new(|_, usual| usual),
            key_header: HeaderName::from_static(KEY_HEADER),
            fingerprint: Arc::new(fingerprint),
            words: Words::default(),
        };
        Self { settings }
    }

    /// Whether a request without a key is refused. If not, which is the default, it goes through.
    #[must_use]
    pub const fn required(mut self, required: bool) -> Self {
        self.settings.guard.required = required;
        self
    }

    /// The methods that the layer looks at; `POST` and `PATCH` unless told otherwise.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.settings.methods = methods.into_iter().collect();
        self
    }

    /// What a key belongs to; the method and the path without its query unless told otherwise. A path that is longer
    /// than a ledger takes is cut and hashed; a scope that the service gives has 1 to 255 bytes.
    #[must_use]
    pub fn scope(mut self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.settings.scope = Arc::new(scope);
        self
    }

    /// On what terms handlers run.
    #[must_use]
    pub const fn terms(mut self, terms: Terms) -> Self {
        self.settings.guard.terms = terms;
        self
    }

    /// How long a duplicate waits for the one that is handled before it is told 409; not at all unless told otherwise.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.settings.guard.wait = wait;
        self
    }

    /// Most bytes of the body of a request with a key; 1 MiB unless told otherwise. It is held in memory.
    #[must_use]
    pub const fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.guard.request_bytes_max = bytes;
        self
    }

    /// Most bytes of the body of an answer that is kept; 1 MiB unless told otherwise.
    #[must_use]
    pub const fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.guard.response_bytes_max = bytes;
        self
    }

    /// What answers mean: from the head of an answer, and from what it would mean by itself (see
    /// [the table](self#what-an-answer-means)). A handler that says itself what its answer means, with a [`Meaning`] in
    /// the answer's extensions, is not overruled.
    ///
    /// ```
    /// # use driftq_ledger::{Class, Ledger, http::{IdempotencyLayer, Meaning}, memory::MemoryStore};
    /// # let layer = IdempotencyLayer::new(Ledger::new(MemoryStore::new()), |_| None);
    /// // All handlers behind this layer check a request before they do anything.
    /// let layer = layer.classify(|answer, usual| match answer.status.as_u16() {
    ///     400 | 422 => Meaning::Failed(Class::Refused),
    ///     _ => usual,
    /// });
    /// ```
    #[must_use]
    pub fn classify(
        mut self,
        classify: impl Fn(&response::Parts, Meaning) -> Meaning + Send + Sync + 'static,
    ) -> Self {
        self.settings.classify = Arc::new(classify);
        self
    }

    /// The header with the key; `Idempotency-Key` unless told otherwise. The layer's answers call it as it is written
    /// here.
    pub fn key_header(mut self, name: &str) -> Result<Self, LedgerError> {
        self.settings.key_header = header_name(name)?;
        name.clone_into(&mut self.settings.words.key_header);
        Ok(self)
    }

    /// What counts as the same request, from its head and its body; [`fingerprint`] unless told otherwise. A release that
    /// changes it recognises what the one before has begun with [`RequestHash::or_before`].
    #[must_use]
    pub fn fingerprint(
        mut self,
        fingerprint: impl Fn(&Parts, &[u8]) -> RequestHash + Send + Sync + 'static,
    ) -> Self {
        self.settings.fingerprint = Arc::new(fingerprint);
        self
    }

    /// The page of the service that explains its use of keys. The `type` of a problem is that page's address with the
    /// word for the problem as fragment, such as `https://developer.example.com/idempotency#key-reused`, instead of
    /// `urn:driftq:idempotency:key-reused`.
    #[must_use]
    pub fn documentation(mut self, url: &str) -> Self {
        self.settings.words.kind = format!("{url}#");
        self
    }

    /// Whether a key must be a string in quotes, as the draft has it. If not, which is the default, a bare token such
    /// as a UUID is taken, too.
    #[must_use]
    pub const fn strict_key(mut self, strict: bool) -> Self {
        self.settings.strict_key = strict;
        self
    }
}

impl<S> tower_layer::Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, Arc::new(self.settings.clone()))
    }
}
