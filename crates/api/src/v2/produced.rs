//! What became of produced messages.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::batch::Form;
use crate::fault::Fault;
use crate::ndjson::end_line;

/// Where a message is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Produced<'a> {
    /// The topic that it went to, which a router or the envelope may have chosen.
    pub topic: Cow<'a, str>,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// Whether the same idempotency key had been stored before: then this is where the first one is.
    pub duplicate: bool,
}

/// Why one message of a batch was not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refused<'a> {
    /// The refusal.
    pub error: Refusal<'a>,
}

/// A refusal, shorter than a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal<'a> {
    /// The code, from the catalogue.
    pub code: Cow<'a, str>,
    /// What happened to this message.
    pub detail: Cow<'a, str>,
    /// Whether the same message may be stored later.
    pub retryable: bool,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The result of one message of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Outcome<'a> {
    /// It is stored.
    Stored(Produced<'a>),
    /// It is not.
    Refused(Refused<'a>),
}

impl<'a> From<&'a Fault> for Refused<'a> {
    fn from(fault: &'a Fault) -> Self {
        let entry = fault.entry();
        Self {
            error: Refusal {
                code: entry.code.into(),
                detail: Cow::Borrowed(&fault.message),
                retryable: entry.retryable,
                retry_after_ms: fault.retry_after_ms,
            },
        }
    }
}

/// Room for one stored message of a batch, with a topic of usual length.
const STORED_BYTES: usize = 80;

/// Writes the answer to a produce call, one result after the other.
#[derive(Clone, Debug)]
pub struct Outcomes {
    form: Form,
    out: Vec<u8>,
}

impl Outcomes {
    /// Room for `count` results in the form of the request.
    #[must_use]
    pub fn new(form: Form, count: usize) -> Self {
        let mut out = Vec::with_capacity(count.saturating_mul(STORED_BYTES) + 2);
        if form == Form::Array {
            out.push(b'[');
        }
        Self { form, out }
    }

    /// The next message is stored.
    pub fn stored(&mut self, produced: &Produced<'_>) {
        self.put(produced);
    }

    /// The next message is not stored.
    pub fn refused(&mut self, fault: &Fault) {
        self.put(&Refused::from(fault));
    }

    /// The whole body.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if self.form == Form::Array {
            self.out.push(b']');
        }
        self.out
    }

    fn put(&mut self, result: &impl Serialize) {
        if self.form == Form::Array && self.out.len() > 1 {
            self.out.push(b',');
        }
        let begin = self.out.len();
        serde_json::to_writer(&mut self.out, result).expect("texts and numbers always have a JSON form");
        if self.form == Form::Lines {
            end_line(&mut self.out, begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Code;

    #[test]
    fn the_answer_has_the_form_of_the_request() {
        let stored = Produced { topic: "t".into(), partition: 1, offset: 2, duplicate: false };
        let fault = Fault::overloaded("full", "partition_buffer_full", 50);
        let (first, second) = (
            r#"{"topic":"t","partition":1,"offset":2,"duplicate":false}"#,
            r#"{"error":{"code":"OVERLOADED","detail":"full","retryable":true,"retry_after_ms":50}}"#,
        );
        for (form, expected) in [
            (Form::Array, format!("[{first},{second},{first}]")),
            (Form::Lines, format!("{first}\n{second}\n{first}\n")),
        ] {
            let mut outcomes = Outcomes::new(form, 3);
            outcomes.stored(&stored);
            outcomes.refused(&fault);
            outcomes.stored(&stored);
            assert_eq!(String::from_utf8(outcomes.finish()).unwrap(), expected);
        }
        let mut one = Outcomes::new(Form::One, 1);
        one.stored(&stored);
        assert_eq!(one.finish(), first.as_bytes());
        assert_eq!(Outcomes::new(Form::Array, 0).finish(), b"[]");
        assert_eq!(serde_json::from_str::<Outcome<'_>>(first).unwrap(), Outcome::Stored(stored));
        let refused = Fault::new(Code::TopicUnknown, "none");
        let text = serde_json::to_string(&Refused::from(&refused)).unwrap();
        assert_eq!(serde_json::from_str::<Outcome<'_>>(&text).unwrap(), Outcome::Refused((&refused).into()));
    }
}
