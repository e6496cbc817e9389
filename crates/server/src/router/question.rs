//! The JSON that a brain is asked with.

use std::borrow::Cow;

use driftq_api::Moment;
use driftq_api::v1::{ItemEnvelope, Pairs, RetryPolicy};
use driftq_engine::core;
use serde::Serialize;

/// A brain sees no more of a value than this: it says what a message is, it does not process it.
pub const VALUE_BYTES_MAX: usize = 256 << 10;

#[derive(Serialize)]
struct One<'a> {
    topic: &'a str,
    message: Told<'a>,
}

#[derive(Serialize)]
struct Many<'a> {
    topic: &'a str,
    messages: Vec<Told<'a>>,
}

/// A message as the brain sees it.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes: Option<usize>,
    #[serde(skip_serializing_if = "is_false")]
    value_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    envelope: Option<ItemEnvelope<'a>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The body of the question: the form for one message if there is one, else the form for many.
pub(super) fn write(topic: &str, messages: &[&core::Message<'_>]) -> serde_json::Result<Vec<u8>> {
    match messages {
        [message] => serde_json::to_vec(&One { topic, message: told(message) }),
        _ => {
            let messages = messages.iter().map(|message| told(message)).collect();
            serde_json::to_vec(&Many { topic, messages })
        }
    }
}

fn told<'a>(message: &'a core::Message<'_>) -> Told<'a> {
    let (key, key_b64) = text_or_base64(&message.key);
    let length = message.value.len();
    let (value, value_b64) = text_or_base64(beginning(&message.value));
    let value_truncated = length > VALUE_BYTES_MAX;
    Told {
        key,
        key_b64,
        value,
        value_b64,
        value_bytes: value_truncated.then_some(length),
        value_truncated,
        envelope: message.envelope.as_deref().map(envelope),
    }
}

/// As much of a value as a brain gets to see. If the whole would be text, so is the beginning: a character that the
/// cut goes through is left out.
fn beginning(value: &[u8]) -> &[u8] {
    let Some(cut) = value.get(..VALUE_BYTES_MAX) else { return value };
    if cut.len() == value.len() {
        return value;
    }
    match str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => &cut[..error.valid_up_to()],
        _ => cut,
    }
}

fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    str::from_utf8(bytes).map_or_else(|_| (None, Some(base64(bytes))), |text| (Some(text), None))
}

fn envelope<'a>(envelope: &'a core::Envelope<'_>) -> ItemEnvelope<'a> {
    let text = |text: &'a str| Cow::Borrowed(text);
    ItemEnvelope {
        run_id: text(&envelope.run_id),
        step_id: text(&envelope.step_id),
        parent_step_id: text(&envelope.parent_step_id),
        tenant_id: text(&envelope.tenant_id),
        idempotency_key: text(&envelope.idempotency_key),
        target_topic: text(&envelope.target_topic),
        partition_override: envelope.partition_override,
        deadline: envelope
            .deadline
            .map(|deadline| Moment::saturating_from_parts(deadline.seconds, deadline.nanos)),
        retry_policy: envelope.retry_policy.map(|policy| RetryPolicy {
            max_attempts: policy.max_attempts,
            backoff_ms: policy.backoff_ms,
            max_backoff_ms: policy.max_backoff_ms,
        }),
        labels: Pairs(envelope.labels.iter().map(|(name, value)| (text(name), text(value))).collect()),
        ..ItemEnvelope::default()
    }
}

/// RFC 4648, the standard alphabet, padded.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asked(messages: &[core::Message<'_>]) -> Value {
        let messages: Vec<_> = messages.iter().collect();
        serde_json::from_slice(&write("t", &messages).unwrap()).unwrap()
    }

    fn message(key: &'static [u8], value: Vec<u8>) -> core::Message<'static> {
        core::Message { key: key.into(), value: value.into(), ..core::Message::default() }
    }

    #[test]
    fn one_message_and_many_have_their_forms() {
        let envelope = core::Envelope {
            tenant_id: "acme".into(),
            labels: vec![("model".into(), "small".into())],
            partition_override: Some(0),
            deadline: Some(core::Deadline { seconds: 1_766_318_400, nanos: 0, offset_minutes: 0 }),
            ..core::Envelope::default()
        };
        let plain = message(b"k", b"v".to_vec());
        let full = core::Message { envelope: Some(Box::new(envelope)), ..plain.clone() };
        let expected = json!({"key": "k", "value": "v", "envelope": {"tenant_id": "acme",
            "partition_override": 0, "deadline": "2025-12-21T12:00:00Z", "labels": {"model": "small"}}});
        assert_eq!(asked(std::slice::from_ref(&full)), json!({"topic": "t", "message": expected}));
        let plain_expected = json!({"key": "k", "value": "v"});
        assert_eq!(asked(&[full, plain]), json!({"topic": "t", "messages": [expected, plain_expected]}));
    }

    #[test]
    fn bytes_that_are_no_text_come_as_base64() {
        let asked = asked(&[message(&[0xff], vec![0, 0xfe])]);
        assert_eq!(asked["message"], json!({"key_b64": "/w==", "value_b64": "AP4="}));
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn of_a_long_value_only_the_beginning_comes() {
        let fits = asked(&[message(b"", vec![b'x'; VALUE_BYTES_MAX])]);
        assert_eq!(fits["message"]["value_truncated"], Value::Null);
        let long = asked(&[message(b"", "é".repeat(VALUE_BYTES_MAX).into_bytes())]);
        assert_eq!(long["message"]["value_truncated"], json!(true));
        assert_eq!(long["message"]["value_bytes"], json!(2 * VALUE_BYTES_MAX));
        assert_eq!(long["message"]["value"].as_str().unwrap().len(), VALUE_BYTES_MAX);
        let odd = asked(&[message(b"", format!("x{}", "é".repeat(VALUE_BYTES_MAX)).into_bytes())]);
        assert_eq!(odd["message"]["value"].as_str().unwrap().len(), VALUE_BYTES_MAX - 1);
        let binary = asked(&[message(b"", vec![0xff; VALUE_BYTES_MAX + 1])]);
        assert!(binary["message"]["value_b64"].is_string());
    }
}
