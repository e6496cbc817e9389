//! Calls of a server: JSON there, JSON back.

use std::path::PathBuf;
use std::time::Duration;

use driftq_api::v2::WAIT_MS_MAX;
use driftq_http::{Call, Client, Failure, Key, Method, Options, Servers};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::refusal::Trouble;
use crate::LedgerError;

/// Largest answer that is read: a page of a thousand records with long errors is some ten megabytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Most calls that are under way at once; the others queue, in order.
pub const CALLS_MAX: usize = 64;
/// Most calls that wait for another holder's outcome at once. They do not count among the others: the call that they
/// wait for must get through.
pub const WAITING_MAX: usize = 64;
/// An answer that takes longer than this will not come; time spent waiting for another holder comes on top.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A server, as the ledger calls it.
#[derive(Debug)]
pub(super) struct Server {
    http: Client,
    calls: Semaphore,
    waiting: Semaphore,
}

/// One of the places for calls that wait for another holder.
pub(super) struct PlaceToWait<'a>(
    #[expect(dead_code, reason = "it is given back when dropped")] SemaphorePermit<'a>,
);

impl Server {
    /// What was given is not repeated in the error: it may hold a password.
    pub(super) fn new(url: &str, key: Option<Key>, ca_file: Option<PathBuf>) -> Result<Self, LedgerError> {
        let invalid = |why: &dyn std::fmt::Display| {
            LedgerError::Invalid(format!(
                "the server's URL cannot be used: {why}; write it as http://127.0.0.1:8080"
            ))
        };
        let options = Options { repeats: true, key, ca_file, ..Options::new(ANSWER_BYTES_MAX) };
        let servers = Servers::parse(url).map_err(|why| invalid(&why))?;
        Ok(Self {
            http: Client::new(servers, &options).map_err(|why| LedgerError::Invalid(why.to_string()))?,
            calls: Semaphore::new(CALLS_MAX),
            waiting: Semaphore::new(WAITING_MAX),
        })
    }

    /// A place for a call that waits, if there is one left.
    pub(super) fn place_to_wait(&self) -> Option<PlaceToWait<'_>> {
        self.waiting.try_acquire().ok().map(PlaceToWait)
    }

    /// Sends a body; with a place to wait it may take as long as the server lets a caller wait.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        place: Option<&PlaceToWait<'_>>,
    ) -> Result<T, Trouble> {
        let body = serde_json::to_vec(body)
            .map_err(|error| LedgerError::Invalid(format!("the call cannot be written as JSON: {error}")))?;
        self.call(Call::new(Method::POST, path).json(body), place).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        self.call(Call::new(Method::GET, path), None).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        call: Call,
        place: Option<&PlaceToWait<'_>>,
    ) -> Result<T, Trouble> {
        let call = call.accepting_json();
        let limit = match place {
            None => ANSWER_TIMEOUT,
            Some(_) => ANSWER_TIMEOUT + Duration::from_millis(WAIT_MS_MAX),
        };
        let answer = timeout(limit, async {
            let _turn = match place {
                Some(_) => None,
                // The semaphore is never closed.
                None => self.calls.acquire().await.ok(),
            };
            self.http.call(&call, None).await.map_err(|failure| self.failed(failure))
        });
        let answer = answer.await.unwrap_or(Err(LedgerError::TimedOut(limit)))?;
        let url = self.http.url();
        if !answer.status.is_success() {
            return Err(Trouble::read(url, &answer));
        }
        let read = serde_json::from_slice(&answer.body);
        read.map_err(|error| {
            let what = format!("{url} answered {} with what is no answer to it: {error}", call.path());
            LedgerError::Corrupt(what).into()
        })
    }

    fn failed(&self, failure: Failure) -> LedgerError {
        let url = self.http.url();
        match failure {
            Failure::Untrusted(why) => {
                LedgerError::Denied(format!("the certificate of {url} is not trusted ({why})"))
            }
            Failure::Foreign(why) => LedgerError::Corrupt(format!("{url} does not speak HTTP ({why})")),
            Failure::TooLong(limit) => LedgerError::Corrupt(format!(
                "{url} answered with more than {limit} bytes; ask for less at once"
            )),
            Failure::TimedOut(limit) => LedgerError::TimedOut(limit),
            Failure::Invalid(why) => LedgerError::Invalid(format!("the call is no HTTP request: {why}")),
            other => LedgerError::Unavailable(format!("{url}: {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_spoken_to_is_refused_without_being_repeated() {
        for (url, expected) in [
            ("", "not a URL"),
            ("secret:8080", "http://"),
            ("http://me:secret@broker", "no user"),
            ("http://broker/secret", "path"),
            ("http://:8080", "host"),
        ] {
            let error = Server::new(url, None, None).unwrap_err();
            assert_eq!(error.word(), "invalid");
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("secret"), "{url}: {text}");
        }
    }
}
