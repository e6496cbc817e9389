//! How a DriftQ server says no.

use std::borrow::Cow;
use std::fmt;

use driftq_api::Code;
use driftq_api::v1::ErrorBody;
use driftq_api::v2::{self, Problem};

/// A refusal by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// From the catalogue; `None` if this version does not know it.
    pub code: Option<Code>,
    /// The code as the server wrote it.
    pub word: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened to this request.
    pub detail: String,
    /// What to do about it.
    pub help: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// When to try again.
    pub retry_after_ms: Option<u64>,
    /// The server's name for the request, for its logs.
    pub request_id: Option<String>,
    /// The attempt that is current now, if the lease is stale.
    pub attempt: Option<u32>,
    /// The entity that has another version than was expected.
    pub entity: Option<String>,
    /// The version that it has.
    pub version: Option<u64>,
    /// The part of a commit that was refused, such as `ack[0]`.
    pub part: Option<String>,
    /// Which limit was reached, where the code is about several.
    pub reason: Option<String>,
}

impl Refusal {
    /// Reads a problem document; `None` if it is not one, and then it is not from a DriftQ server.
    #[must_use]
    pub fn read(body: &[u8], request_id: Option<String>) -> Option<Self> {
        let problem: Problem<'_> = serde_json::from_slice(body).ok()?;
        Some(Self {
            request_id: problem.instance.as_deref().map(str::to_owned).or(request_id),
            ..problem.into()
        })
    }

    /// Reads an error of `/v1`, which says less in its body; the code is what `CODE_HEADER` says.
    #[must_use]
    pub fn read_v1(status: u16, code: Option<&str>, body: &[u8], request_id: Option<String>) -> Option<Self> {
        let told: ErrorBody<'_> = serde_json::from_slice(body).ok()?;
        let bare = Self::bare(code.unwrap_or(&told.error), told.message, status);
        let reason = told.reason.map(Cow::into_owned);
        Some(Self { retry_after_ms: told.retry_after_ms, request_id, reason, ..bare })
    }

    fn bare(word: &str, detail: Cow<'_, str>, status: u16) -> Self {
        Self {
            code: Code::ALL.into_iter().find(|code| code.entry().code == word),
            word: word.to_owned(),
            status,
            detail: detail.into_owned(),
            help: String::new(),
            retryable: false,
            retry_after_ms: None,
            request_id: None,
            attempt: None,
            entity: None,
            version: None,
            part: None,
            reason: None,
        }
    }

    /// What happened, and to which part of a commit. A message about a single field names the part by itself.
    #[must_use]
    pub fn message(&self) -> Cow<'_, str> {
        match self.part.as_deref().filter(|part| !self.detail.starts_with(part)) {
            Some(part) => format!("{part}: {}", self.detail).into(),
            None => Cow::Borrowed(&self.detail),
        }
    }
}

impl From<Problem<'_>> for Refusal {
    fn from(problem: Problem<'_>) -> Self {
        Self {
            help: problem.help.into_owned(),
            retryable: problem.retryable,
            retry_after_ms: problem.retry_after_ms,
            request_id: problem.instance.map(Cow::into_owned),
            attempt: problem.attempt,
            entity: problem.entity.map(Cow::into_owned),
            version: problem.version,
            part: problem.part.map(Cow::into_owned),
            reason: problem.reason.map(Cow::into_owned),
            ..Self::bare(&problem.code, problem.detail, problem.status)
        }
    }
}

/// What became of one message of a batch.
impl From<v2::Refusal<'_>> for Refusal {
    fn from(refused: v2::Refusal<'_>) -> Self {
        let bare = Self::bare(&refused.code, refused.detail, 0);
        let entry = bare.code.map(Code::entry);
        Self {
            status: entry.map_or(0, |entry| entry.status),
            help: entry.map_or_else(String::new, |entry| entry.help.to_owned()),
            retryable: refused.retryable,
            retry_after_ms: refused.retry_after_ms,
            ..bare
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, HTTP {}); {}", self.message(), self.word, self.status, self.help)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Refusal> {
        Refusal::read(text.as_bytes(), Some("header".to_owned()))
    }

    fn problem(more: &str) -> Refusal {
        let head =
            r#"{"code":"STALE_LEASE","status":409,"title":"t","detail":"d","retryable":true,"help":"h""#;
        read(&format!("{head}{more}}}")).unwrap()
    }

    #[test]
    fn both_error_shapes_are_understood() {
        let v2 = problem(r#","retry_after_ms":5,"attempt":3"#);
        assert_eq!((v2.code, &*v2.word, v2.status), (Some(Code::StaleLease), "STALE_LEASE", 409));
        assert_eq!((v2.retryable, v2.retry_after_ms, v2.attempt), (true, Some(5), Some(3)));
        assert_eq!(v2.request_id.as_deref(), Some("header"));
        assert_eq!(problem(r#","instance":"own""#).request_id.as_deref(), Some("own"));
        let body = br#"{"error":"FAILED_PRECONDITION","message":"not owner"}"#;
        for (header, code, word) in
            [(None, None, "FAILED_PRECONDITION"), (Some("NOT_OWNER"), Some(Code::NotOwner), "NOT_OWNER")]
        {
            let v1 = Refusal::read_v1(409, header, body, None).unwrap();
            assert_eq!((v1.code, &*v1.word, &*v1.detail, v1.status), (code, word, "not owner", 409));
        }
    }

    #[test]
    fn what_is_no_problem_document_is_not_ours() {
        for text in ["", "bad gateway\n", "<html>", "[]", "{}", r#"{"code":5}"#, r#"{"code":"X"}"#] {
            assert_eq!(read(text), None, "{text}");
            assert_eq!(Refusal::read_v1(400, None, text.as_bytes(), None), None, "{text}");
        }
    }

    #[test]
    fn a_refused_commit_names_the_part_once() {
        assert_eq!(problem(r#","part":"ack[1]""#).message(), "ack[1]: d");
        let field =
            Refusal { detail: "ack[1].token: must be given".to_owned(), ..problem(r#","part":"ack[1]""#) };
        assert_eq!(field.message(), "ack[1].token: must be given");
        assert_eq!(problem("").to_string(), "d (STALE_LEASE, HTTP 409); h");
    }
}
