//! Calls of a server: JSON there, JSON back.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use driftq_api::v2::WAIT_MS_MAX;

use super::address::Address;
use super::pool::Pool;
use super::refusal::{Refusal, Trouble};
use crate::LedgerError;

/// Most calls that are under way at once; the others queue, in order.
pub const CALLS_MAX: usize = 64;
/// Most calls that wait for somebody else's outcome at once. They do not count among the others: whoever is waited for
/// must get through.
pub const WAITING_MAX: usize = 64;
/// An answer that takes longer than this will not come; time spent waiting for somebody else comes on top.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";

/// A server, as the ledger calls it.
#[derive(Debug)]
pub(super) struct Server {
    pool: Pool,
    calls: Semaphore,
    waiting: Semaphore,
}

/// One of the places for calls that wait for somebody else.
pub(super) struct PlaceToWait<'a>(
    #[expect(dead_code, reason = "it is given back when dropped")] SemaphorePermit<'a>,
);

impl Server {
    pub(super) fn new(address: Address) -> Self {
        Self {
            pool: Pool::new(address.authority),
            calls: Semaphore::new(CALLS_MAX),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }

    /// A place for a call that waits, if there is one left.
    pub(super) fn place_to_wait(&self) -> Option<PlaceToWait<'_>> {
        self.waiting.try_acquire().ok().map(PlaceToWait)
    }

    /// Sends a body; with a place to wait it may take as long as the server lets anybody wait.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        place: Option<&PlaceToWait<'_>>,
    ) -> Result<T, Trouble> {
        let body = serde_json::to_vec(body)
            .map_err(|error| LedgerError::Invalid(format!("the call cannot be written as JSON: {error}")))?;
        self.call(Method::POST, path, body.into(), place).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        self.call(Method::GET, path, Bytes::new(), None).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        place: Option<&PlaceToWait<'_>>,
    ) -> Result<T, Trouble> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.pool.authority())
            .header(ACCEPT, JSON);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, JSON);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| LedgerError::Invalid(format!("the call is no HTTP request: {error}")))?;
        let limit = match place {
            None => ANSWER_TIMEOUT,
            Some(_) => ANSWER_TIMEOUT + Duration::from_millis(WAIT_MS_MAX),
        };
        let answer = timeout(limit, async {
            let _turn = match place {
                Some(_) => None,
                // It is never closed.
                None => self.calls.acquire().await.ok(),
            };
            self.pool.call(request).await
        });
        let answer = answer.await.unwrap_or(Err(LedgerError::TimedOut(limit)))?;
        let authority = self.pool.authority();
        if !answer.status.is_success() {
            return Err(Trouble::Refused(Refusal::read(authority, answer.status.as_u16(), &answer.body)));
        }
        let read = serde_json::from_slice(&answer.body);
        read.map_err(|error| {
            let what = format!("http://{authority} answered {path} with what is no answer to it: {error}");
            LedgerError::Corrupt(what).into()
        })
    }
}
