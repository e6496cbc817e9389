//! One thing that went wrong with one request.

use std::borrow::Cow;

use crate::catalogue::{Code, Entry};
use crate::{v1, v2};

/// A refusal, before it is put into the words of `/v1` or `/v2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub code: Code,
    /// What happened to this request, in words.
    pub message: Cow<'static, str>,
    /// A finer word for machines, where `/v1` has one.
    pub reason: Option<&'static str>,
    /// When to try again.
    pub retry_after_ms: Option<u64>,
    /// The attempt that is current now, if a stale lease was used.
    pub attempt: Option<u32>,
    /// The entity that has another version than was expected, and the version that it has.
    pub entity: Option<Box<(String, u64)>>,
    /// The part of a commit that was refused, such as `effects[2]`.
    pub part: Option<Cow<'static, str>>,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self { code, message, reason: None, retry_after_ms: None, attempt: None, entity: None, part: None }
    }

    /// The same fault, found in this part of a commit.
    #[must_use]
    pub fn in_part(self, part: impl Into<Cow<'static, str>>) -> Self {
        Self { part: Some(part.into()), ..self }
    }

    /// A value that is missing or makes no sense.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The body could not be read as the JSON that was expected.
    #[must_use]
    pub fn json(error: &serde_json::Error) -> Self {
        // The one word in serde's texts that only a programmer of this broker would know.
        let text = error.to_string().replace("expected i64", "expected a 64-bit whole number");
        Self::new(Code::InvalidJson, format!("invalid json body: {text}"))
    }

    /// A limit on buffered work: come back after `retry_after_ms`.
    pub fn overloaded(
        message: impl Into<Cow<'static, str>>,
        reason: &'static str,
        retry_after_ms: u64,
    ) -> Self {
        Self {
            reason: Some(reason),
            retry_after_ms: Some(retry_after_ms),
            ..Self::new(Code::Overloaded, message)
        }
    }

    /// Its line of the catalogue.
    #[must_use]
    pub const fn entry(&self) -> &'static Entry {
        self.code.entry()
    }

    /// The body of the `/v1` answer.
    #[must_use]
    pub fn v1(&self) -> v1::ErrorBody<'_> {
        v1::ErrorBody {
            error: self.entry().v1_code.into(),
            message: Cow::Borrowed(&self.message),
            reason: self.reason.map(|reason| Cow::Borrowed(v1::told_reason(reason))),
            retry_after_ms: self.retry_after_ms,
        }
    }

    /// The body of the `/v2` answer.
    #[must_use]
    pub fn v2(&self) -> v2::Problem<'_> {
        let entry = self.entry();
        v2::Problem {
            code: entry.code.into(),
            status: entry.status,
            title: entry.title.into(),
            detail: Cow::Borrowed(&self.message),
            retryable: entry.retryable,
            retry_after_ms: self.retry_after_ms,
            help: entry.help.into(),
            kind: format!("urn:driftq:problem:{}", entry.code).into(),
            instance: None,
            attempt: self.attempt,
            entity: self.entity.as_ref().map(|entity| Cow::Borrowed(&*entity.0)),
            version: self.entity.as_ref().map(|entity| entity.1),
            part: self.part.as_deref().map(Cow::Borrowed),
            reason: self.reason.map(Cow::Borrowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_asked_for_in_plain_words() {
        let error = serde_json::from_str::<i64>("1.5").unwrap_err();
        let message = Fault::json(&error).message;
        assert!(message.contains("floating point `1.5`, expected a 64-bit whole number"), "{message}");
    }

    #[test]
    fn both_dialects() {
        let fault =
            Fault::overloaded("producer overload: partition_buffer_full", "partition_buffer_full", 1000);
        assert_eq!(
            serde_json::to_string(&fault.v1()).unwrap(),
            r#"{"error":"RESOURCE_EXHAUSTED","message":"producer overload: partition_buffer_full","reason":"partition_buffer_full","retry_after_ms":1000}"#
        );
        let fault = Fault::new(Code::TopicUnknown, "topic does not exist");
        assert_eq!(
            serde_json::to_string(&fault.v1()).unwrap(),
            r#"{"error":"INVALID_ARGUMENT","message":"topic does not exist"}"#
        );
        let problem = serde_json::to_string(&fault.v2()).unwrap();
        assert!(problem.starts_with(r#"{"code":"TOPIC_UNKNOWN","status":404,"title":"#), "{problem}");
        assert!(
            problem.contains(r#""detail":"topic does not exist","retryable":false,"help":"#),
            "{problem}"
        );
        assert!(problem.ends_with(r#","type":"urn:driftq:problem:TOPIC_UNKNOWN"}"#), "{problem}");
        let problem = serde_json::to_string(&fault.in_part("produce[1]").v2()).unwrap();
        assert!(problem.ends_with(r#":TOPIC_UNKNOWN","part":"produce[1]"}"#), "{problem}");
    }
}
