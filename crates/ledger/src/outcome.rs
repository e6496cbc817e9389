//! How effects end, and what is kept of it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Moment, Status};

/// Most headers of a response.
pub const HEADERS_MAX: usize = 64;
/// Most bytes of a header's name.
pub const HEADER_NAME_BYTES_MAX: usize = 255;
/// Most bytes of a header's value.
pub const HEADER_VALUE_BYTES_MAX: usize = 8192;
/// Most bytes of an error's text; what is longer is cut.
pub const ERROR_BYTES_MAX: usize = 4096;

/// The header that stands for a payload that was too large to keep; its value is the number of bytes.
pub const OMITTED: &str = "driftq-omitted-bytes";

/// What came of an effect, for the caller that asked for it. The ledger keeps it and gives it back as it was.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Response {
    /// A number of the caller's own: an HTTP status, a gRPC code.
    pub code: Option<i32>,
    /// Small facts in addition to the payload.
    pub headers: BTreeMap<String, String>,
    /// The answer itself.
    pub payload: Bytes,
}

impl Response {
    /// Just bytes.
    #[must_use]
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), ..Self::default() }
    }

    /// With a code.
    #[must_use]
    pub const fn code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The same without its payload, and with a note of how large it was.
    #[must_use]
    pub fn omit_payload(mut self) -> Self {
        let bytes = self.payload.len();
        self.payload = Bytes::new();
        self.header(OMITTED, bytes.to_string())
    }

    /// How large the payload was, if it was too large to keep.
    #[must_use]
    pub fn omitted(&self) -> Option<u64> {
        self.headers.get(OMITTED)?.parse().ok()
    }
}

/// What a holder that ran an effect says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How it ended.
    pub end: End,
    /// What to answer.
    pub response: Response,
    /// Why it failed, in words.
    pub error: String,
}

/// How an effect can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It happened.
    Succeeded,
    /// It did not happen and is not to be tried again.
    FailedFinal,
    /// It did not happen and may be tried again.
    FailedRetryable,
}

impl From<End> for Status {
    fn from(end: End) -> Self {
        match end {
            End::Succeeded => Self::Succeeded,
            End::FailedFinal => Self::FailedFinal,
            End::FailedRetryable => Self::FailedRetryable,
        }
    }
}

impl End {
    /// The end that a record's status stands for; `None` if it stands for none.
    #[must_use]
    pub const fn of(status: Status) -> Option<Self> {
        match status {
            Status::Succeeded => Some(Self::Succeeded),
            Status::FailedFinal => Some(Self::FailedFinal),
            Status::FailedRetryable => Some(Self::FailedRetryable),
            Status::InProgress | Status::Unknown => None,
        }
    }
}

impl Ending {
    /// It happened, and this is the answer.
    #[must_use]
    pub const fn succeeded(response: Response) -> Self {
        Self { end: End::Succeeded, response, error: String::new() }
    }

    /// It did not happen and is not to be tried again.
    #[must_use]
    pub fn failed_final(error: impl Into<String>) -> Self {
        Self { end: End::FailedFinal, response: Response::default(), error: error.into() }
    }

    /// It did not happen and may be tried again.
    #[must_use]
    pub fn failed_retryable(error: impl Into<String>) -> Self {
        Self { end: End::FailedRetryable, response: Response::default(), error: error.into() }
    }

    /// Nothing was done: what is said of a lease that is given up, where its record cannot go.
    pub(crate) fn given_up() -> Self {
        Self::failed_retryable("the lease was given up before anything was done")
    }

    /// With an answer to give.
    #[must_use]
    pub fn response(mut self, response: Response) -> Self {
        self.response = response;
        self
    }

    /// Tells this ending from any other.
    #[must_use]
    pub fn digest(&self) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(b"driftq ledger ending 1");
        field(crate::words::of_end(self.end).as_bytes());
        match self.response.code {
            None => field(b""),
            Some(code) => field(&code.to_le_bytes()),
        }
        field(&(self.response.headers.len() as u64).to_le_bytes());
        for (name, value) in &self.response.headers {
            field(name.as_bytes());
            field(value.as_bytes());
        }
        field(&self.response.payload);
        field(self.error.as_bytes());
        let mut digest = [0; 16];
        hasher.finalize_xof().fill(&mut digest);
        digest
    }
}

/// How an effect ended, as the ledger remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// What to answer.
    pub response: Response,
    /// Why it failed, in words.
    pub error: String,
    /// When it ended, by the store's clock.
    pub finished_at: Moment,
    /// The lease, or the resolution, under which it ended.
    pub epoch: u32,
    /// The attempt that ended.
    pub attempt: u32,
    /// Who decided it and how that was known, if it was resolved by hand.
    pub resolved: Option<Resolver>,
}

/// Who decided how an effect ended, and how that was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Who.
    pub by: String,
    /// How that was known.
    pub why: String,
}

/// What an operator has found out about how an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// Which.
    pub identity: crate::Identity,
    /// The epoch that was looked at; if it is not the newest any more, nothing changes.
    pub epoch: Option<u32>,
    /// How it ended.
    pub ending: Ending,
    /// Who says so, and how that is known.
    pub resolver: Resolver,
    /// How long to remember it.
    pub ttl: std::time::Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_that_differ_anywhere_have_different_digests() {
        let said = || Ending::succeeded(Response::new("body").code(200).header("a", "b"));
        let base = said();
        let changed = [
            Ending { end: End::FailedFinal, ..base.clone() },
            Ending { error: "x".to_owned(), ..base.clone() },
            base.clone().response(Response::new("body").code(201).header("a", "b")),
            base.clone().response(Response::new("body").header("a", "b")),
            base.clone().response(Response::new("bod").code(200).header("a", "b")),
            base.clone().response(Response::new("body").code(200).header("ab", "")),
            base.clone().response(Response::new("body").code(200)),
            base.clone().response(Response::new("body").code(200).header("a", "b").header("c", "")),
        ];
        for (at, one) in changed.iter().enumerate() {
            assert_ne!(one.digest(), base.digest(), "{one:?}");
            for other in &changed[at + 1..] {
                assert_ne!(one.digest(), other.digest(), "{one:?} {other:?}");
            }
        }
        assert_eq!(base.digest(), said().digest());
    }

    #[test]
    fn an_omitted_payload_leaves_its_size_behind() {
        let omitted = Response::new("12345").code(200).omit_payload();
        assert_eq!((omitted.omitted(), omitted.payload.len(), omitted.code), (Some(5), 0, Some(200)));
        assert_eq!(Response::new("12345").omitted(), None);
    }
}
