//! What is stored of a response: which headers, and in which form its contents.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

use crate::{Decision, Ending, Identity, LedgerError, OMITTED, Outcome, Response, Settings};

/// The header that marks a stored response as sealed.
pub const SEALED: &str = "driftq-sealed";

/// Under this prefix, which no name of a header can have, the trailers of an answer are kept.
pub(crate) const TRAILER: &str = "trailer:";

/// Carry credentials, or ask for them. They are never stored, not even by request.
const CREDENTIALS: [&str; 9] = [
    "authentication-info",
    "authorization",
    "cookie",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
];

/// What an answer is of no use without, and what says how long it is good for.
const USUAL: [&str; 19] = [
    "allow",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
    "deprecation",
    "etag",
    "expires",
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "sunset",
    "vary",
];

/// Which headers of an answer [`Ledger::run`](crate::Ledger::run) and the layers store: those that are listed, and no
/// other, because what is stored is replayed to whoever has the key, and lies in a table for a day. Those that carry
/// credentials are not stored even if they are listed, also by [`Ledger::finish`](crate::Ledger::finish).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHeaders {
    names: BTreeSet<String>,
}

impl Default for KeptHeaders {
    /// `Content-Type` and the like, `Location`, `ETag`, `Cache-Control`, `Vary`, `Link`, `Retry-After`, and the status
    /// of gRPC.
    fn default() -> Self {
        Self { names: USUAL.map(str::to_owned).into() }
    }
}

impl KeptHeaders {
    /// These alone.
    pub fn only<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: names.into_iter().map(|name| name.as_ref().to_ascii_lowercase()).collect() }
    }

    /// One more.
    #[must_use]
    pub fn and(mut self, name: &str) -> Self {
        self.names.insert(name.to_ascii_lowercase());
        self
    }

    /// Whether a header is stored.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let name = name.strip_prefix(TRAILER).unwrap_or(name).to_ascii_lowercase();
        name == OMITTED || (self.names.contains(&name) && !is_credential(&name))
    }

    pub(crate) fn retain(&self, headers: &mut BTreeMap<String, String>) {
        headers.retain(|name, _| self.has(name));
    }
}

fn is_credential(name: &str) -> bool {
    let name = name.strip_prefix(TRAILER).unwrap_or(name);
    CREDENTIALS.iter().any(|credential| name.eq_ignore_ascii_case(credential))
}

/// Hides what is stored of a response: encrypts its contents, or leaves out what must not lie in a table. It is asked
/// before an outcome is written down, by every way to do so, and before one is given out.
///
/// Both are called on the caller's task and must not block: fetch keys beforehand. A response that is stored without
/// payload and headers is not sealed.
pub trait Seal: Send + Sync + 'static {
    /// What to store instead of a response. What is sealed twice may differ each time. If it fails, the outcome is stored
    /// without the response.
    fn seal(&self, identity: &Identity, response: Response)
    -> Result<Response, Box<dyn Error + Send + Sync>>;

    /// The response again, as far as it can be had. If it fails, callers are told [`LedgerError::Sealed`], and the effect
    /// is not run again.
    fn open(&self, identity: &Identity, stored: Response) -> Result<Response, Box<dyn Error + Send + Sync>>;
}

impl fmt::Debug for dyn Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Settings {
    /// An ending as it is stored: without credentials, and sealed.
    pub(crate) fn stored<'a>(
        &self,
        identity: &Identity,
        ending: &'a Ending,
    ) -> Result<Cow<'a, Ending>, LedgerError> {
        let mut stored = without_credentials(ending);
        let Some(seal) = &self.seal else { return Ok(stored) };
        let response = &stored.response;
        if response.payload.is_empty() && response.headers.keys().all(|name| name == OMITTED) {
            return Ok(stored);
        }
        let mut response = response.clone();
        let omitted = response.headers.remove(OMITTED);
        let mut sealed = seal
            .seal(identity, response)
            .map_err(|error| LedgerError::Invalid(format!("the response could not be sealed: {error}")))?;
        sealed.headers.extend(omitted.map(|bytes| (OMITTED.to_owned(), bytes)));
        sealed.headers.insert(SEALED.to_owned(), "1".to_owned());
        stored.to_mut().response = sealed;
        Ok(stored)
    }

    /// A response as it was before it was stored. What was stored when nothing was sealed, or by hand, is as it is.
    fn opened(&self, identity: &Identity, mut stored: Response) -> Result<Response, LedgerError> {
        if stored.headers.remove(SEALED).is_none() {
            return Ok(stored);
        }
        let Some(seal) = &self.seal else {
            return Err(LedgerError::Sealed("the ledger's settings have no seal".to_owned()));
        };
        let omitted = stored.headers.remove(OMITTED);
        let mut response =
            seal.open(identity, stored).map_err(|error| LedgerError::Sealed(error.to_string()))?;
        response.headers.extend(omitted.map(|bytes| (OMITTED.to_owned(), bytes)));
        Ok(response)
    }

    /// A decision with the outcome in it opened.
    pub(crate) fn opened_decision(
        &self,
        identity: &Identity,
        mut decision: Decision,
    ) -> Result<Decision, LedgerError> {
        if let Decision::Replay(outcome) | Decision::Retryable { outcome, .. } = &mut decision {
            self.open_outcome(identity, outcome)?;
        }
        Ok(decision)
    }

    /// Opens what an outcome says. If that cannot be done, it stays as it is stored.
    pub(crate) fn open_outcome(&self, identity: &Identity, outcome: &mut Outcome) -> Result<(), LedgerError> {
        outcome.response = self.opened(identity, outcome.response.clone())?;
        Ok(())
    }
}

/// An ending without what carries credentials.
pub(crate) fn without_credentials(ending: &Ending) -> Cow<'_, Ending> {
    let mut stored = Cow::Borrowed(ending);
    if ending.response.headers.keys().any(|name| is_credential(name)) {
        stored.to_mut().response.headers.retain(|name, _| !is_credential(name));
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_stored_and_no_credential() {
        let usual = KeptHeaders::default();
        for name in ["content-type", "Location", "trailer:grpc-status", OMITTED] {
            assert!(usual.has(name), "{name}");
        }
        for name in ["x-request-id", "Set-Cookie", "x-api-key", "trailer:x-token", SEALED] {
            assert!(!usual.has(name), "{name}");
        }
        let more = usual.and("X-Charge").and("Set-Cookie").and("www-authenticate");
        assert!(more.has("x-charge") && more.has("trailer:x-charge") && more.has("etag"));
        assert!(!more.has("set-cookie") && !more.has("WWW-Authenticate"));
        let few = KeptHeaders::only(["X-One"]);
        assert!(few.has("x-one") && !few.has("content-type"));
        let credentials = CREDENTIALS.iter().fold(few, |few, name| few.and(name));
        assert!(CREDENTIALS.iter().all(|name| !credentials.has(name)));
    }
}
