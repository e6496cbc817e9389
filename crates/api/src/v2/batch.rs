//! Many messages in one body: a JSON array, or one JSON object per line.
//!
//! A body is read whole before anything is stored: one bad line refuses all of them, and nothing of the batch is
//! kept. What is refused later, message by message, has its own place in the answer.

use std::fmt;

use memchr::{memchr, memchr_iter};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use super::limits::BATCH_MESSAGES_MAX;
use super::message::Message;
use super::read;
use crate::catalogue::Code;
use crate::fault::Fault;

/// How the messages of a body are written; the results of the answer are written the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object.
    One,
    /// A JSON array of objects.
    Array,
    /// One JSON object per line.
    Lines,
}

impl Form {
    /// By the `Content-Type` of the request and, for JSON, by the first byte of the body.
    pub fn of(content_type: Option<&str>, body: &[u8]) -> Result<Self, Fault> {
        match media_type(content_type) {
            MediaType::Lines => Ok(Self::Lines),
            MediaType::Json => match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'[') => Ok(Self::Array),
                _ => Ok(Self::One),
            },
            MediaType::Other => Err(unsupported("application/json or application/x-ndjson")),
        }
    }

    /// For how many messages of `body` room is worth having: as many as it has lines, if those can be told.
    #[must_use]
    pub fn lines(self, body: &[u8]) -> usize {
        match self {
            Self::Lines => (memchr_iter(b'\n', body).count() + 1).min(BATCH_MESSAGES_MAX),
            Self::One | Self::Array => 1,
        }
    }
}

/// Refuses a body that says it is something else than JSON.
pub fn expect_json(content_type: Option<&str>) -> Result<(), Fault> {
    if media_type(content_type) == MediaType::Json { Ok(()) } else { Err(unsupported("application/json")) }
}

fn unsupported(allowed: &str) -> Fault {
    Fault::new(Code::UnsupportedMediaType, format!("Content-Type must be {allowed}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediaType {
    Json,
    Lines,
    Other,
}

fn media_type(content_type: Option<&str>) -> MediaType {
    let Some(text) = content_type else { return MediaType::Json };
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        MediaType::Json
    } else if essence.eq_ignore_ascii_case("application/x-ndjson") {
        MediaType::Lines
    } else {
        MediaType::Other
    }
}

/// Hands every message of `body` to `visit`, in order. On a refusal, what was visited is to be thrown away.
pub fn each_message<'a>(form: Form, body: &'a [u8], mut visit: impl FnMut(Message<'a>)) -> Result<(), Fault> {
    match form {
        Form::One => visit(Message::from_json(body)?),
        Form::Lines => each_line(body, visit)?,
        Form::Array => {
            let explain =
                |error: Option<&_>| read::explain_seed(Elements { visit: drop::<Message<'_>> }, body, error);
            let text = std::str::from_utf8(body).map_err(|_| explain(None))?;
            let mut json = serde_json::Deserializer::from_str(text);
            let read = Elements { visit }.deserialize(&mut json).and_then(|()| json.end());
            read.map_err(|error| explain(Some(&error)))?;
        }
    }
    Ok(())
}

/// Every message of `body`.
pub fn messages(form: Form, body: &[u8]) -> Result<Vec<Message<'_>>, Fault> {
    let mut messages = Vec::new();
    each_message(form, body, |message| messages.push(message))?;
    Ok(messages)
}

fn each_line<'a>(body: &'a [u8], mut visit: impl FnMut(Message<'a>)) -> Result<(), Fault> {
    let (mut rest, mut number, mut count) = (body, 0_usize, 0_usize);
    while !rest.is_empty() {
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        number += 1;
        // A blank line says nothing, and many writers end with one.
        if line.trim_ascii().is_empty() {
            continue;
        }
        if count == BATCH_MESSAGES_MAX {
            return Err(Fault::invalid(too_many()));
        }
        count += 1;
        match Message::from_json(line) {
            Ok(message) => visit(message),
            Err(fault) => {
                return Err(Fault::new(fault.code, format!("line {number}: {}", fault.message)));
            }
        }
    }
    if count == 0 { Err(Fault::invalid(NONE)) } else { Ok(()) }
}

const NONE: &str = "the batch holds no message";

fn too_many() -> String {
    format!("the batch holds more than {BATCH_MESSAGES_MAX} messages")
}

/// Reads an array without keeping it.
struct Elements<V> {
    visit: V,
}

impl<'de, V: FnMut(Message<'de>)> DeserializeSeed<'de> for Elements<V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, V: FnMut(Message<'de>)> Visitor<'de> for Elements<V> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(message) = elements.next_element()? {
            if count == BATCH_MESSAGES_MAX {
                return Err(Error::custom(too_many()));
            }
            count += 1;
            (self.visit)(message);
        }
        if count == 0 { Err(Error::custom(NONE)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::hint::black_box;
    use std::time::Instant;

    use super::*;
    use crate::moment::Moment;
    use crate::v2::{Due, Envelope, Jitter, Labels, RetryPolicy};

    fn refusal(form: Form, body: &str) -> String {
        messages(form, body.as_bytes()).unwrap_err().message.into_owned()
    }

    const FULL: &str = r#"{"key":"k","value":"v","priority":9,"delay_ms":316224000000,"envelope":{"run_id":"r","step_id":"s","parent_step_id":"p","tenant_id":"t","labels":{"b":"2","a":"1"},"idempotency_key":"i","request_hash":"h","target_topic":"other","partition_override":4095,"deadline":"2025-12-21T12:00:00Z","retry_policy":{"max_attempts":3,"backoff_ms":250,"max_backoff_ms":0,"jitter":"none"}}}"#;

    fn full() -> Message<'static> {
        Message {
            key: Cow::Borrowed(b"k"),
            value: Cow::Borrowed(b"v"),
            priority: 9,
            due: Some(Due::AfterMs(316_224_000_000)),
            envelope: Some(Box::new(Envelope {
                run_id: "r".into(),
                step_id: "s".into(),
                parent_step_id: "p".into(),
                tenant_id: "t".into(),
                labels: Labels::new(vec![("a".into(), "1".into()), ("b".into(), "2".into())]).unwrap(),
                idempotency_key: "i".into(),
                request_hash: "h".into(),
                target_topic: "other".into(),
                partition_override: Some(4095),
                deadline: Moment::parse("2025-12-21T12:00:00Z"),
                retry_policy: Some(RetryPolicy {
                    max_attempts: Some(3),
                    backoff_ms: Some(250),
                    max_backoff_ms: Some(0),
                    jitter: Jitter::None,
                }),
            })),
        }
    }

    #[test]
    fn the_three_forms_say_the_same() {
        let (array, lines) = (format!(" [{FULL},\n{FULL}]"), format!("{FULL}\n\r\n{FULL}"));
        assert_eq!(messages(Form::One, FULL.as_bytes()).unwrap(), [full()]);
        assert_eq!(messages(Form::Array, array.as_bytes()).unwrap(), [full(), full()]);
        assert_eq!(messages(Form::Lines, lines.as_bytes()).unwrap(), [full(), full()]);
        let again = serde_json::to_vec(&full()).unwrap();
        assert_eq!(Message::from_json(&again).unwrap(), full());
    }

    #[test]
    fn payloads() {
        let value = |body: &'static str| Message::from_json(body.as_bytes()).unwrap().value;
        assert!(matches!(value(r#"{"value":"plain"}"#), Cow::Borrowed(b"plain")));
        assert_eq!(*value(r#"{"value":"a\nb"}"#), *b"a\nb");
        assert_eq!(*value(r#"{"value":null,"value_b64":"/w=="}"#), [0xff]);
        for (json, stored) in [
            (r#"{"a": [1, "x"],"a":1.50}"#, r#"{"a": [1, "x"],"a":1.50}"#),
            ("[]", "[]"),
            (" 1e3 ", "1e3"),
            ("-0", "-0"),
            ("true", "true"),
            ("null", "null"),
            (r#""null""#, "null"),
            (r#""{\"a\":1}""#, r#"{"a":1}"#),
            (r#""\u0061\u00e9""#, "aé"),
        ] {
            let body = format!(r#"{{"value":{json},"value_b64":null}}"#);
            for (form, body) in
                [(Form::One, body.clone()), (Form::Array, format!("[{body}]")), (Form::Lines, body)]
            {
                let messages = messages(form, body.as_bytes()).unwrap();
                assert_eq!(*messages[0].value, *stored.as_bytes(), "{form:?} {body}");
            }
        }
        let bytes = Message { value: Cow::Borrowed(&[0xff]), ..Message::default() };
        let text = serde_json::to_string(&bytes).unwrap();
        assert_eq!(text, r#"{"value_b64":"/w==","priority":0}"#);
        assert_eq!(Message::from_json(text.as_bytes()).unwrap(), bytes);
    }

    #[test]
    fn keys() {
        let key = |body: &'static str| Message::from_json(body.as_bytes()).map(|message| message.key);
        assert!(matches!(key(r#"{"key":"k","value":"v"}"#), Ok(Cow::Borrowed(b"k"))));
        assert_eq!(*key(r#"{"key_b64":"/wA=","value":"v"}"#).unwrap(), [0xff, 0]);
        assert_eq!(*key(r#"{"key":null,"key_b64":"aw==","value":"v"}"#).unwrap(), *b"k");
        assert_eq!(*key(r#"{"value":"v"}"#).unwrap(), *b"");
        let bytes = Message { key: Cow::Borrowed(&[0xff]), value: Cow::Borrowed(b"v"), ..Message::default() };
        let text = serde_json::to_string(&bytes).unwrap();
        assert_eq!(text, r#"{"key_b64":"/w==","value":"v","priority":0}"#);
        assert_eq!(Message::from_json(text.as_bytes()).unwrap(), bytes);
        let long = |bytes: usize| {
            let key = Cow::Owned(vec![0xff; bytes]);
            let message = Message { key, value: Cow::Borrowed(b"v"), ..Message::default() };
            refused(Message::from_json(&serde_json::to_vec(&message).unwrap()))
        };
        assert_eq!(
            (long(4096), long(4097)),
            (None, Some("key_b64: must have at most 4096 bytes".to_owned()))
        );
    }

    fn refused(read: Result<Message<'_>, Fault>) -> Option<String> {
        read.err().map(|fault| fault.message.into_owned())
    }

    #[test]
    fn refusals_of_one_message() {
        let base64 = "value_b64: must be base64 with the standard alphabet and padding: ";
        for (body, message) in [
            ("{}", "one of value and value_b64 is required"),
            (r#"{"value_b64":null}"#, "one of value and value_b64 is required"),
            (r#"{"value":"null","value_b64":"/w=="}"#, "value and value_b64 exclude each other"),
            (r#"{"value":{},"value_b64":"/w=="}"#, "value and value_b64 exclude each other"),
            (r#"{"value":{"a":}}"#, "invalid JSON: expected value at line 1 column 15"),
            (r#"{"value":"\ud800"}"#, "value: unexpected end of hex escape"),
            (r#"{"value":"\ud800x"}"#, "value: "),
            (r#"{"value":"v","key":"k","key_b64":"aw=="}"#, "key and key_b64 exclude each other"),
            (r#"{"value":"v","key_b64":""}"#, "key_b64: must have at least 1 byte, has 0"),
            (r#"{"value":"v","value_b64":"/w=="}"#, "value and value_b64 exclude each other"),
            (r#"{"value":""}"#, "value: must have at least 1 byte, has 0"),
            (r#"{"value_b64":""}"#, "value_b64: must have at least 1 byte, has 0"),
            (r#"{"value_b64":"/w"}"#, base64),
            (r#"{"value_b64":"_w=="}"#, base64),
            (r#"{"value_b64":"/x=="}"#, base64),
            (r#"{"value":"v","priority":10}"#, "priority: must be between 0 and 9"),
            (r#"{"value":"v","delay_ms":316224000001}"#, "delay_ms: must be between 0 and 316224000000"),
            (
                r#"{"value":"v","delay_ms":1,"deliver_at":"2025-12-21T12:00:00Z"}"#,
                "deliver_at and delay_ms exclude each other",
            ),
            (
                r#"{"value":"v","deliver_at":"soon"}"#,
                "deliver_at: invalid value: string \"soon\", expected an RFC",
            ),
            (
                r#"{"value":"v","envelope":{"run_id":""}}"#,
                "envelope.run_id: must have 1 to 4096 bytes, has 0",
            ),
            (r#"{"value":"v","envelope":{"labels":{"":"x"}}}"#, "envelope.labels: a label's name must have"),
            (
                r#"{"value":"v","envelope":{"partition_override":4096}}"#,
                "envelope.partition_override: must be",
            ),
            (
                r#"{"value":"v","envelope":{"retry_policy":{"max_attempts":0}}}"#,
                "envelope.retry_policy.max_attempts: ",
            ),
            (
                r#"{"value":"v","envelope":{"dlq":{}}}"#,
                "envelope.dlq: unknown field, expected one of `run_id`",
            ),
            (
                r#"{"value":"v","topic":"t"}"#,
                "topic: unknown field, expected one of `key`, `key_b64`, `value`",
            ),
        ] {
            let found = refusal(Form::One, body);
            assert!(found.starts_with(message), "{body}: {found}");
        }
    }

    #[test]
    fn one_bad_message_refuses_the_batch_and_is_named() {
        let good = r#"{"value":"v"}"#;
        for (bad, message) in [
            (r#"{"value":"v","priority":10}"#, "priority: must be between 0 and 9"),
            ("{}", "one of value and value_b64 is required"),
        ] {
            assert_eq!(
                refusal(Form::Lines, &format!("{good}\n\n{bad}\n{good}")),
                format!("line 3: {message}")
            );
            let separator = if message.starts_with("one") { ": " } else { "." };
            let expected = format!("[1]{separator}{message}");
            assert_eq!(refusal(Form::Array, &format!("[{good},{bad},{good}]")), expected);
        }
        let cut = refusal(Form::Lines, "{\"value\":\"v\"}\n{\"value\":");
        assert_eq!(cut, "line 2: invalid JSON: EOF while parsing a value at line 1 column 9");
        assert_eq!(
            refusal(Form::Array, "[{\"value\":\"v\"}"),
            "invalid JSON: EOF while parsing a list at line 1 column 14"
        );
        assert!(refusal(Form::Array, "[{\"value\":\"v\"}] x").contains("trailing characters"));
        assert!(
            messages(Form::Lines, b"{\"value\":\"\xff\"}")
                .unwrap_err()
                .message
                .contains("line 1: invalid JSON")
        );
    }

    #[test]
    fn batches_are_bounded() {
        let array = |count: usize| format!("[{}]", vec![r#"{"value":"v"}"#; count].join(","));
        let lines = |count: usize| "{\"value\":\"v\"}\n".repeat(count);
        let (max, more) = (BATCH_MESSAGES_MAX, "the batch holds more than 10000 messages");
        assert_eq!(messages(Form::Array, array(max).as_bytes()).unwrap().len(), max);
        assert_eq!(messages(Form::Lines, lines(max).as_bytes()).unwrap().len(), max);
        assert!(refusal(Form::Array, &array(max + 1)).ends_with(more));
        assert_eq!(refusal(Form::Lines, &lines(max + 1)), more);
        for (form, body) in [(Form::Array, "[]"), (Form::Lines, ""), (Form::Lines, "\n \n")] {
            assert_eq!(refusal(form, body), "the batch holds no message");
        }
    }

    #[test]
    fn forms_by_content_type() {
        for (content_type, body, expected) in [
            (None, "{}", Some(Form::One)),
            (None, " \n[", Some(Form::Array)),
            (Some("application/json; charset=utf-8"), "{}", Some(Form::One)),
            (Some("Application/JSON"), "[]", Some(Form::Array)),
            (Some("application/x-ndjson"), "[]", Some(Form::Lines)),
            (Some("text/plain"), "{}", None),
            (Some(""), "{}", None),
        ] {
            assert_eq!(Form::of(content_type, body.as_bytes()).ok(), expected, "{content_type:?}");
        }
        assert_eq!(Form::of(Some("text/plain"), b"").unwrap_err().code, Code::UnsupportedMediaType);
        assert!(expect_json(Some("application/json")).is_ok() && expect_json(None).is_ok());
        assert!(expect_json(Some("application/x-ndjson")).is_err());
    }

    /// `cargo test --release -p driftq-api speed -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement, not a check"]
    fn speed_of_reading() {
        let value = "v".repeat(60);
        for (name, line) in [
            ("plain", format!("{{\"key\":\"user:12345\",\"value\":\"{value}\"}}\n")),
            (
                "with envelope",
                format!(
                    "{{\"key\":\"k\",\"value\":\"{value}\",\"envelope\":{{\"run_id\":\"run-1\",\"idempotency_key\":\"key-1\",\"labels\":{{\"model\":\"small\"}}}}}}\n"
                ),
            ),
        ] {
            let body = line.repeat(BATCH_MESSAGES_MAX);
            let array = format!("[{}]", vec![line.trim(); BATCH_MESSAGES_MAX].join(","));
            for (form, body) in [(Form::Lines, &body), (Form::Array, &array)] {
                let (rounds, start) = (100, Instant::now());
                for _ in 0..rounds {
                    each_message(form, body.as_bytes(), |message| drop(black_box(message))).unwrap();
                }
                let rate = (rounds * BATCH_MESSAGES_MAX) as f64 / start.elapsed().as_secs_f64();
                println!("{form:?} {name} ({} bytes): {:.2} M messages/s", line.len(), rate / 1e6);
            }
        }
    }
}
