//! One request and its answer, in the words of this SDK.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use driftq_http::{AddressError, Answer, Call, Failure, Key, Options, Refusal, Servers};

use crate::error::{Error, excerpt};

/// Largest answer that is read: one full of payloads plus the largest message, with every byte written as six in JSON.
pub const ANSWER_BYTES_MAX: usize = 6 * (48 << 20) + (1 << 20);
/// The server if neither the caller nor the environment names one.
const ADDRESS_DEFAULT: &str = "http://127.0.0.1:8080";
/// The environment variable that says where the server is.
const ADDRESS_VARIABLE: &str = "DRIFTQ_SERVER";

/// The URLs that were given, else the environment's, else this machine's.
fn servers(given: Option<&str>) -> Result<Servers, Error> {
    let named = env::var(ADDRESS_VARIABLE).ok().filter(|url| !url.is_empty());
    let url = given.or(named.as_deref()).unwrap_or(ADDRESS_DEFAULT);
    Servers::parse(url).map_err(|why| {
        Error::Invalid(match why {
            // What is in front of the @ may be a password, and is not repeated.
            AddressError::User { host } => format!(
                "the server's URL for {host} names a user, and a DriftQ server knows none: leave user and password out, as in {ADDRESS_DEFAULT}"
            ),
            why => format!(
                "the server's URL {url:?} cannot be used: {why}; write it as {ADDRESS_DEFAULT}, or set {ADDRESS_VARIABLE}"
            ),
        })
    })
}

/// The way to one server, or to several of a cluster.
#[derive(Debug)]
pub(crate) struct Transport {
    http: driftq_http::Client,
    answer_timeout: Duration,
}

impl Transport {
    pub(crate) fn new(
        url: Option<&str>,
        connect_timeout: Duration,
        answer_timeout: Duration,
        (ca_file, key): (Option<PathBuf>, Option<&str>),
    ) -> Result<Self, Error> {
        let connect_timeout = Some(connect_timeout);
        let key = match key {
            Some(key) => Key::new(key).map(Some),
            None => Key::from_environment(),
        };
        let key = key.map_err(|why| Error::Invalid(format!("the key, or DRIFTQ_KEY: {why}")))?;
        let options = Options { connect_timeout, ca_file, key, ..Options::new(ANSWER_BYTES_MAX) };
        let http = driftq_http::Client::new(servers(url)?, &options);
        Ok(Self { http: http.map_err(|failure| Error::Invalid(failure.to_string()))?, answer_timeout })
    }

    pub(crate) fn url(&self) -> String {
        self.http.url().to_owned()
    }

    /// How long an answer may take if the server is asked to wait for `wait`.
    pub(crate) const fn limit(&self, wait: Duration) -> Duration {
        self.answer_timeout.saturating_add(wait)
    }

    /// Sends it once and reads the whole answer. If this is dropped in between, so is the connection.
    pub(crate) async fn send(&self, call: &Call, limit: Duration) -> Result<Bytes, Error> {
        let answer = self.http.call(call, Some(limit)).await;
        let answer = answer.map_err(|failure| self.failed(failure, call))?;
        if answer.status.is_success() { Ok(answer.body) } else { Err(self.refused(&answer)) }
    }

    fn refused(&self, answer: &Answer) -> Error {
        let status = answer.status.as_u16();
        match Refusal::read(&answer.body, answer.request_id()) {
            Some(refusal) => refusal.into(),
            // A proxy in front of a server that is away.
            None if matches!(status, 429 | 502..=504) => {
                Error::ConnectionLost { url: self.url(), why: format!("HTTP status {status}") }
            }
            None => self.foreign(&format!("HTTP status {status}: {}", excerpt(&answer.body))),
        }
    }

    fn failed(&self, failure: Failure, call: &Call) -> Error {
        let url = self.url();
        match failure {
            Failure::Unreachable { why, .. } => Error::Unreachable { url, why },
            Failure::Untrusted(why) => Error::Untrusted { url, why },
            Failure::Foreign(_) | Failure::TooLong(_) => self.foreign(&failure.to_string()),
            Failure::Invalid(why) => {
                Error::Invalid(format!("no request can be made of {}: {why}", call.path()))
            }
            other => Error::ConnectionLost { url, why: other.to_string() },
        }
    }

    pub(crate) fn foreign(&self, why: &str) -> Error {
        Error::NotDriftQ { url: self.url(), why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_url() {
        for url in ["", "127.0.0.1:8080", "http://a/v1", "ftp://a", "http://", "http://a,"] {
            let error = servers(Some(url)).unwrap_err().to_string();
            assert!(error.contains("http://127.0.0.1:8080"), "{url}: {error}");
        }
    }

    #[test]
    fn a_user_in_the_url_is_refused_and_its_password_not_repeated() {
        for url in [
            "http://me:secret@broker:8080",
            "http://me@broker",
            "https://:secret@broker",
            "http://me:my,secret@broker,http://b",
        ] {
            let error = servers(Some(url)).unwrap_err().to_string();
            assert!(error.contains("user") && !error.contains("secret"), "{error}");
        }
    }
}
