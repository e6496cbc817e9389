//! The `idempotency-key` metadata, as a tower layer for tonic.
//!
//! ```no_run
//! # use driftq_ledger::{Ledger, grpc::IdempotencyLayer, memory::MemoryStore};
//! # let ledger = Ledger::new(MemoryStore::new());
//! let layer = IdempotencyLayer::new(ledger, |request| {
//!     // Whatever the authentication in front of this layer has found out. Never what the client says of itself.
//!     request.extensions.get::<String>().cloned()
//! });
//! let server = tonic::transport::Server::builder()
//!     .layer(layer.required(true).methods(|path| path == "/shop.v1.Payments/Charge"));
//! ```
//!
//! The scope of a key is the path of the call (`/shop.v1.Payments/Charge`). What counts as the same request is the bytes
//! of its message ([`RequestHash::of_protobuf`](crate::RequestHash::of_protobuf)); of a compressed message, the
//! compressed ones and the name of the compression. Metadata does not count.
//!
//! The key is any visible ASCII text of 1 to 255 bytes. One that begins with a quote is read as the quoted string of
//! the HTTP header, so a gateway may copy the header.
//!
//! # Unary calls only
//!
//! A call that the layer guards has one message each way. More than one, half a one, or one that is larger than
//! [`request_bytes_max`](IdempotencyLayer::request_bytes_max) is `INVALID_ARGUMENT`, and the handler has not run: a
//! stream has no end that could be waited for. Streaming methods are left out by
//! [`methods`](IdempotencyLayer::methods), and then go through untouched, as do calls without a key where none is
//! required. The handler's answers through this layer are not compressed, because a caller that gets the replay may not
//! be able to read the compression that the first caller could.
//!
//! # What a client is told
//!
//! Every answer of the layer's own has the metadata `idempotency-problem` with one word for what is wrong.
//!
//! | the call | word | code | why this code |
//! |---|---|---|---|
//! | no key and one is required | `key-missing` | `INVALID_ARGUMENT` | it is wrong whatever the state of the service |
//! | several keys, or one that cannot be read | `key-invalid` | `INVALID_ARGUMENT` | the same |
//! | more than one message, or too large | `not-unary` | `INVALID_ARGUMENT` | the same |
//! | the call has no principal | `no-principal` | `UNAUTHENTICATED` | |
//! | the same call is being handled | `in-progress` | `ABORTED`, with `retry-after-ms` | the code for calls that meet; unlike `UNAVAILABLE`, no client library repeats it at once by itself |
//! | another message under a used key | `key-reused` | `INVALID_ARGUMENT` | a mistake that only the caller can put right; `FAILED_PRECONDITION` is for what an operator can |
//! | it may have happened | `unknown` | `FAILED_PRECONDITION` | not to be repeated until an operator has resolved it |
//! | the handler has run, and a newer attempt took over | `overtaken` | `ABORTED`, with `retry-after-ms` | ask again for its answer |
//! | the answer was too large to keep | `answer-not-kept` | `FAILED_PRECONDITION`, with `idempotent-replayed` and `answer-code` | no repetition brings it back |
//! | it failed before, and the operator who resolved it gave no answer | `failed` | `FAILED_PRECONDITION`, with `idempotent-replayed` | |
//! | the stored answer cannot be opened ([`Seal`](crate::Seal)); the handler has not run | `sealed` | `UNAVAILABLE`, with `retry-after-ms` | |
//! | the ledger cannot be asked; the handler has not run | `unavailable` | `UNAVAILABLE`, with `retry-after-ms` | to be repeated as it is |
//! | the handler has run, and that could not be written down | `unrecorded` | `INTERNAL` | one of the codes after which it is unknown whether it happened, which is the case |
//! | the layer is set up with terms or a scope that no ledger takes | `misconfigured` | `INTERNAL` | |
//!
//! A replay has the message, and of metadata and trailers those that the ledger's settings list
//! ([`KeptHeaders`](crate::KeptHeaders); status, text and details are among them) of the stored answer, and the metadata `idempotent-replayed: true`.
//!
//! # What an answer means
//!
//! | code | under `OnLapse::Hold` | under `OnLapse::Retry` |
//! |---|---|---|
//! | `OK` | succeeded | succeeded |
//! | `UNIMPLEMENTED` | refused | refused |
//! | `INVALID_ARGUMENT`, `OUT_OF_RANGE`, `NOT_FOUND`, `PERMISSION_DENIED`, `UNAUTHENTICATED` | failed for good | refused |
//! | `ALREADY_EXISTS`, `FAILED_PRECONDITION` | failed for good | failed for good |
//! | `UNAVAILABLE`, `RESOURCE_EXHAUSTED`, `ABORTED`, `DEADLINE_EXCEEDED`, `CANCELLED`, `UNKNOWN`, `INTERNAL`, `DATA_LOSS`, and codes that do not exist | unclear | failed, may be tried again |
//!
//! Refused: nothing is written down, and the key is unused again. Unclear: it may have happened. To keep that as a
//! failure for good would invite a client to take a new key for something that did happen; to repeat it would be worse.
//! So nothing is written down, the lease lapses, and the outcome is unknown until an operator has resolved it. A
//! service that knows better says so: for a layer with [`classify`](IdempotencyLayer::classify), for one answer with
//! [`Attempt::means`].
//!
//! A handler that writes to the database of the ledger takes the lease of its [`Attempt`], which is in the extensions of
//! the request, and ends the call in its own transaction, as in `http`: the payload of the stored response is the
//! encoded message, its code that of gRPC. A handler says with [`Attempt::means`] what a `Status` means.
//!
//! The call runs in a task of its own, as in `http`: a client that cancels or runs out of time finds the outcome when
//! it comes back. A message of an answer that is larger than what is kept, or the messages of a stream that was guarded
//! by mistake, go through whole, after it is written down *that* the call ended in this way.

mod frame;
mod refusal;
mod service;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderName;
use ::http::request::Parts;

pub use service::Idempotency;

pub use crate::layers::{Attempt, Meaning};
use crate::layers::{Classify, Guard, header_name};
use crate::{Ledger, LedgerError, RequestHash, Terms};

/// The metadata that names a call.
pub const KEY_METADATA: &str = "idempotency-key";
/// The metadata that says that an answer is a stored one.
pub const REPLAYED_METADATA: &str = "idempotent-replayed";
/// The metadata that says in how many milliseconds it is worth asking again.
pub const RETRY_AFTER_METADATA: &str = "retry-after-ms";
/// The metadata that says in one word why the layer gives an answer of its own.
pub const PROBLEM_METADATA: &str = "idempotency-problem";
/// The metadata that tells the code of an answer that was not kept.
pub const ANSWER_CODE_METADATA: &str = "answer-code";

/// Makes services answer what was asked before as they did then. See the [module](self) for how.
#[derive(Clone)]
pub struct IdempotencyLayer {
    settings: Settings,
}

type Fingerprint = Arc<dyn Fn(&Parts, &[u8]) -> RequestHash + Send + Sync>;
type Selected = Arc<dyn Fn(&str) -> bool + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    guard: Guard,
    methods: Selected,
    classify: Classify<tonic::Code>,
    key_metadata: HeaderName,
    fingerprint: Option<Fingerprint>,
}

impl IdempotencyLayer {
    /// `principal` tells on whose behalf a call comes, from its metadata (the headers of the request) or from what an
    /// authentication outside this layer has put into its extensions. Callers with the same name share their keys.
    /// `None`, a blank name and `unknown` are answered with `UNAUTHENTICATED`.
    pub fn new(ledger: Ledger, principal: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        let guard = Guard::new(ledger, Arc::new(principal));
        let settings = Settings {
            guard,
            methods: Arc::new(|_| true),
            classify: Arc::new(|_, usual| usual),
            key_metadata: HeaderName::from_static(KEY_METADATA),
            fingerprint: None,
        };
        Self { settings }
    }

    /// Whether a call without a key is refused. If not, which is the default, it goes through.
    #[must_use]
    pub const fn required(mut self, required: bool) -> Self {
        self.settings.guard.required = required;
        self
    }

    /// The methods that the layer looks at, by their path; all unless told otherwise.
    #[must_use]
    pub fn methods(mut self, methods: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.settings.methods = Arc::new(methods);
        self
    }

    /// On what terms handlers run.
    #[must_use]
    pub const fn terms(mut self, terms: Terms) -> Self {
        self.settings.guard.terms = terms;
        self
    }

    /// How long a duplicate waits for the one that is handled before it is told `ABORTED`; not at all unless told
    /// otherwise.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.settings.guard.wait = wait;
        self
    }

    /// Most bytes of the message of a call with a key; 1 MiB unless told otherwise. It is held in memory.
    #[must_use]
    pub const fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.guard.request_bytes_max = bytes;
        self
    }

    /// Most bytes of the message of an answer that is kept; 1 MiB unless told otherwise.
    #[must_use]
    pub const fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.guard.response_bytes_max = bytes;
        self
    }

    /// The metadata with the key; `idempotency-key` unless told otherwise.
    pub fn key_metadata(mut self, name: &str) -> Result<Self, LedgerError> {
        self.settings.key_metadata = header_name(name)?;
        Ok(self)
    }

    /// What counts as the same call, from its head and the bytes of its message, which may be compressed; unless told
    /// otherwise, the message.
    #[must_use]
    pub fn fingerprint(
        mut self,
        fingerprint: impl Fn(&Parts, &[u8]) -> RequestHash + Send + Sync + 'static,
    ) -> Self {
        self.settings.fingerprint = Some(Arc::new(fingerprint));
        self
    }

    /// What answers mean: from the code of an answer, and from what it would mean by itself (see
    /// [the table](self#what-an-answer-means)).
    #[must_use]
    pub fn classify(
        mut self,
        classify: impl Fn(tonic::Code, Meaning) -> Meaning + Send + Sync + 'static,
    ) -> Self {
        self.settings.classify = Arc::new(move |code, usual| classify(*code, usual));
        self
    }
}

impl<S> tower_layer::Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, Arc::new(self.settings.clone()))
    }
}
