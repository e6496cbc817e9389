//! What became of produced messages.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::batch::Form;
use super::write::{ObjectWriter, put_json};
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

impl Produced<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Self { topic, partition, offset, duplicate } = self;
        let mut object = ObjectWriter::new(out);
        object.text("topic", topic);
        object.value("partition", partition);
        object.value("offset", offset);
        object.value("duplicate", duplicate);
        object.end();
    }
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
    /// The topic of the message before, and how its result began: most batches have one topic.
    topic: String,
    begin: Vec<u8>,
}

impl Outcomes {
    /// Room for `count` results in the form of the request.
    #[must_use]
    pub fn new(form: Form, count: usize) -> Self {
        let mut out = Vec::with_capacity(count.saturating_mul(STORED_BYTES) + 2);
        if form == Form::Array {
            out.push(b'[');
        }
        Self { form, out, topic: String::new(), begin: Vec::new() }
    }

    /// The next message is stored.
    pub fn stored(&mut self, produced: &Produced<'_>) {
        let Produced { topic, partition, offset, duplicate } = produced;
        if self.begin.is_empty() || self.topic != **topic {
            (**topic).clone_into(&mut self.topic);
            self.begin = self.begun();
        }
        self.part();
        self.out.extend_from_slice(&self.begin);
        put_json(&mut self.out, partition);
        self.out.extend_from_slice(b",\"offset\":");
        put_json(&mut self.out, offset);
        self.out.extend_from_slice(if *duplicate {
            b",\"duplicate\":true}"
        } else {
            b",\"duplicate\":false}"
        });
        if self.form == Form::Lines {
            self.out.push(b'\n');
        }
    }

    /// How the result of a message in this topic begins.
    fn begun(&self) -> Vec<u8> {
        let mut begin = b"{\"topic\":".to_vec();
        put_json(&mut begin, &self.topic);
        if self.form == Form::Lines {
            end_line(&mut begin, 0);
            begin.pop();
        }
        begin.extend_from_slice(b",\"partition\":");
        begin
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

    /// Between two results.
    fn part(&mut self) {
        if self.form == Form::Array && self.out.len() > 1 {
            self.out.push(b',');
        }
    }

    fn put(&mut self, result: &impl Serialize) {
        self.part();
        let begin = self.out.len();
        put_json(&mut self.out, result);
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
        let odd = Produced { topic: "\u{2028}\"".into(), duplicate: true, ..stored.clone() };
        let mut lines = Outcomes::new(Form::Lines, 3);
        [&stored, &odd, &stored].iter().for_each(|stored| lines.stored(stored));
        let text = String::from_utf8(lines.finish()).unwrap();
        let second = r#"{"topic":"\u2028\"","partition":1,"offset":2,"duplicate":true}"#;
        assert_eq!(text, format!("{first}\n{second}\n{first}\n"), "each has its own topic");
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
