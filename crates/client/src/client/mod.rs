//! The way to a server: every call, with its time-outs and its patience.

mod calls;
mod collect;
mod leases;
mod transport;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use driftq_api::v2::{Commit, Committed, EffectBegin, EffectDecision};
pub use driftq_http::{CONNECT_TIMEOUT, KEPT_MAX};
use driftq_http::{Call, Method};
pub(crate) use driftq_http::{Patience, escape};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use collect::Collector;
pub use leases::Unread;
pub(crate) use leases::{reckoned, whole_ms};
pub use transport::ANSWER_BYTES_MAX;
pub(crate) use transport::Transport;

use crate::effect::{Effect, Run};
use crate::error::Error;
use crate::random::Jitter;

/// An answer that takes longer than this, and what the server was asked to wait, will not come.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What may succeed later is repeated for this long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A DriftQ server. Cheap to clone; any number of tasks may use it at the same time.
///
/// ```no_run
/// # async fn example() -> Result<(), driftq_client::Error> {
/// use driftq_client::{Client, json};
///
/// let client = Client::connect()?; // DRIFTQ_SERVER, else http://127.0.0.1:8080
/// let stored = client.produce("orders", json(&serde_json::json!({"order": 17}))).await?;
/// println!("stored at {}/{}", stored.partition, stored.offset);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Transport,
    begins: Arc<Collector<EffectDecision<'static>>>,
    commits: Arc<Collector<Committed<'static>>>,
    patience: Duration,
    jitter: Jitter,
    /// Whether the last call found no server; logged once when that begins and once when it is over.
    is_away: AtomicBool,
}

impl Shared {
    fn note_away(&self, error: &Error, patience: &Patience) {
        if matches!(error, Error::Unreachable { .. } | Error::ConnectionLost { .. })
            && !self.is_away.swap(true, Ordering::Relaxed)
        {
            let limit =
                patience.length().map_or_else(String::new, |length| format!(" ({length:?} at the most)"));
            let url = self.transport.url();
            tracing::warn!(%error, "the server at {url} is away, and is waited for{limit}");
        }
    }

    /// The caller has given up waiting: if the next one finds no server either, that is logged again.
    fn note_left(&self) {
        self.is_away.store(false, Ordering::Relaxed);
    }

    fn note_back(&self) {
        if self.is_away.load(Ordering::Relaxed) && self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!("the server is back");
        }
    }
}

/// How a [`Client`] behaves.
#[derive(Clone)]
pub struct ClientBuilder {
    url: Option<String>,
    connect_timeout: Duration,
    answer_timeout: Duration,
    patience: Duration,
    ca_file: Option<PathBuf>,
    key: Option<String>,
}

impl fmt::Debug for ClientBuilder {
    /// Without the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Where the server is; `DRIFTQ_SERVER` if not given, else `http://127.0.0.1:8080`. Of several servers of a cluster,
    /// with commas in between, the one that serves is asked, and the next one when it is gone.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// How long to wait for a connection; 5 s if not given.
    #[must_use]
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long to wait for an answer, on top of what the server was asked to wait; 30 s if not given.
    #[must_use]
    pub const fn answer_timeout(mut self, limit: Duration) -> Self {
        self.answer_timeout = limit;
        self
    }

    /// For how long a call is repeated that may succeed later; 30 s if not given, zero for never.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// A file of authorities, in PEM, whose certificates are trusted in addition to those that the system trusts; for a
    /// server at an `https://` URL that no public authority has signed.
    #[must_use]
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// The key to show to a server that asks for one; `DRIFTQ_KEY` if not given.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The client. Nothing is connected yet.
    ///
    /// # Errors
    /// If the URL or the key cannot be used, or the file of authorities cannot be read.
    pub fn build(self) -> Result<Client, Error> {
        let (connect_timeout, answer_timeout) = (self.connect_timeout, self.answer_timeout);
        let transport = Transport::new(
            self.url.as_deref(),
            connect_timeout,
            answer_timeout,
            (self.ca_file, self.key.as_deref()),
        )?;
        let shared = Shared {
            transport,
            begins: Arc::default(),
            commits: Arc::default(),
            patience: self.patience,
            jitter: Jitter::default(),
            is_away: AtomicBool::new(false),
        };
        Ok(Client { shared: Arc::new(shared) })
    }
}

impl Client {
    /// The server that `DRIFTQ_SERVER` names, else the one on this machine. Nothing is connected yet.
    ///
    /// # Errors
    /// If the URL in the environment cannot be used.
    pub fn connect() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// The server at this URL, such as `http://127.0.0.1:8080`, or the servers of a cluster at these, with commas in
    /// between. Nothing is connected yet.
    ///
    /// # Errors
    /// If the URL cannot be used.
    pub fn new(url: &str) -> Result<Self, Error> {
        Self::builder().url(url).build()
    }

    /// A client whose time-outs or patience are not the usual ones.
    #[must_use]
    pub const fn builder() -> ClientBuilder {
        ClientBuilder {
            url: None,
            connect_timeout: CONNECT_TIMEOUT,
            answer_timeout: ANSWER_TIMEOUT,
            patience: PATIENCE,
            ca_file: None,
            key: None,
        }
    }

    /// Where the server is.
    #[must_use]
    pub fn url(&self) -> String {
        self.shared.transport.url()
    }

    /// For how long a call is repeated that may succeed later.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.shared.patience
    }

    /// An effect of this scope, outside of any message. It needs a key.
    pub fn effect(&self, scope: impl Into<String>) -> Effect {
        Effect::alone(self.clone(), scope.into())
    }

    /// A run that was named: effects in it get their keys from the run, the step and what is asked for.
    #[must_use]
    pub fn run(&self, run_id: impl Into<String>, step_id: impl Into<String>) -> Run {
        Run::new(self.clone(), run_id.into(), step_id.into())
    }

    /// Asks to carry out an effect, together with the other callers that ask meanwhile. It does not wait for another
    /// holder.
    pub(crate) async fn begin_collected(
        &self,
        begin: &EffectBegin<'_>,
    ) -> Result<EffectDecision<'static>, Error> {
        self.shared.begins.ask(self, render(begin)?).await
    }

    /// Commits, together with the other callers that do so meanwhile; tries for as long as it takes.
    pub(crate) async fn commit_collected(&self, commit: &Commit<'_>) -> Result<Committed<'static>, Error> {
        self.shared.commits.ask(self, render(commit)?).await
    }

    /// Any `GET` of the API, for what this SDK has no method for.
    ///
    /// # Errors
    /// As every call.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask(Method::GET, path, Bytes::new(), Duration::ZERO).await
    }

    /// Any `POST` of the API, for what this SDK has no method for. It is repeated if it may succeed later, so it must
    /// be safe to repeat.
    ///
    /// # Errors
    /// As every call.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.ask(Method::POST, path, render(body)?, Duration::ZERO).await
    }

    /// Any `DELETE` of the API.
    ///
    /// # Errors
    /// As every call.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask(Method::DELETE, path, Bytes::new(), Duration::ZERO).await
    }

    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        wait: Duration,
    ) -> Result<T, Error> {
        let call = Call::new(method, path).json(body);
        self.repeat(&call, self.shared.transport.limit(wait), self.usual_patience()).await
    }

    /// A `POST` with a patience of its own.
    pub(crate) async fn post_with<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        wait: Duration,
        patience: Patience,
    ) -> Result<T, Error> {
        let call = Call::new(Method::POST, path).json(render(body)?);
        self.repeat(&call, self.shared.transport.limit(wait), patience).await
    }

    /// A `POST` that is sent once and answered within `limit`, or not at all.
    pub(crate) async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, Error> {
        let call = Call::new(Method::POST, path).json(render(body)?);
        let answer = self.shared.transport.send(&call, limit).await?;
        self.parse(&answer)
    }

    pub(in crate::client) async fn repeat<T: DeserializeOwned>(
        &self,
        call: &Call,
        limit: Duration,
        patience: Patience,
    ) -> Result<T, Error> {
        self.parse(&self.answer(call, limit, patience).await?)
    }

    async fn answer(&self, call: &Call, limit: Duration, mut patience: Patience) -> Result<Bytes, Error> {
        let mut has_waited = false;
        loop {
            let error = match self.shared.transport.send(call, limit).await {
                Ok(answer) => {
                    self.shared.note_back();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            // Many workers lose the same server at the same moment: they must not all come back at once.
            let share = self.shared.jitter.between(0.5, 1.0);
            let may_pass = error.is_transient() && !patience.heeds(error.code());
            let wait = patience.wait(error.retry_after(), Instant::now(), share).filter(|_| may_pass);
            let Some(wait) = wait else {
                if has_waited {
                    self.shared.note_left();
                }
                return Err(error);
            };
            has_waited = true;
            self.shared.note_away(&error, &patience);
            tracing::debug!(path = call.path(), %error, wait_ms = wait.as_millis() as u64, "trying again");
            sleep(wait).await;
        }
    }

    fn parse<'a, T: Deserialize<'a>>(&self, answer: &'a [u8]) -> Result<T, Error> {
        // An empty answer is read as `null`, the only value that it can stand for.
        let text: &[u8] = if answer.is_empty() { b"null" } else { answer };
        serde_json::from_slice(text).map_err(|error| {
            self.shared.transport.foreign(&format!("an answer that does not parse: {error}"))
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url()).finish_non_exhaustive()
    }
}

pub(crate) fn render(body: &impl Serialize) -> Result<Bytes, Error> {
    let text = serde_json::to_vec(body)
        .map_err(|error| Error::Invalid(format!("what was given has no JSON form: {error}")))?;
    Ok(text.into())
}
