//! A delivery, as one line of JSON.

use std::borrow::Cow;

use driftq_api::v1::{DeadLetter, Item, ItemEnvelope, Pairs, RetryPolicy, Routing};
use driftq_api::{Moment, end_line};
use driftq_engine::Delivered;
use driftq_engine::core;

use bytes::Bytes;

/// Room for everything around key and value that a plain message has.
const FRAME_BYTES: usize = 128;

/// Why a delivery could not be put into words.
pub(crate) type Unreadable = core::Malformed;

/// The line of a delivery, with its newline.
pub(crate) fn line(delivered: &Delivered) -> Result<Bytes, Unreadable> {
    let message = core::Message::decode(&delivered.payload)?;
    let item = Item {
        partition: delivered.partition,
        offset: delivered.offset,
        attempts: delivered.attempt,
        // Only UTF-8 comes in through /v1; whatever else is stored is shown as well as this wire can.
        key: String::from_utf8_lossy(&message.key),
        value: String::from_utf8_lossy(&message.value),
        last_error: Cow::Borrowed(&delivered.last_error),
        routing: message.routing.as_ref().map(routing),
        envelope: message.envelope.as_deref().map(envelope),
    };
    let mut out = Vec::with_capacity(delivered.payload.len() + FRAME_BYTES);
    serde_json::to_writer(&mut out, &item).expect("texts and numbers always have a JSON form");
    end_line(&mut out, 0);
    Ok(Bytes::from(out))
}

fn routing<'a>(routing: &'a core::Routing<'_>) -> Routing<'a> {
    Routing { label: Cow::Borrowed(&routing.label), meta: pairs(&routing.meta) }
}

fn envelope<'a>(envelope: &'a core::Envelope<'_>) -> ItemEnvelope<'a> {
    ItemEnvelope {
        run_id: Cow::Borrowed(&envelope.run_id),
        step_id: Cow::Borrowed(&envelope.step_id),
        parent_step_id: Cow::Borrowed(&envelope.parent_step_id),
        tenant_id: Cow::Borrowed(&envelope.tenant_id),
        idempotency_key: Cow::Borrowed(&envelope.idempotency_key),
        target_topic: Cow::Borrowed(&envelope.target_topic),
        partition_override: envelope.partition_override,
        deadline: envelope
            .deadline
            .map(|at| Moment::saturating_at_offset(at.seconds, at.nanos, at.offset_minutes)),
        retry_policy: envelope.retry_policy.map(|policy| RetryPolicy {
            max_attempts: policy.max_attempts,
            backoff_ms: policy.backoff_ms,
            max_backoff_ms: policy.max_backoff_ms,
        }),
        labels: pairs(&envelope.labels),
        dlq: envelope.dead_letter.as_ref().map(dead_letter),
    }
}

fn dead_letter<'a>(letter: &'a core::DeadLetter<'_>) -> DeadLetter<'a> {
    DeadLetter {
        topic: Cow::Borrowed(&letter.topic),
        partition: letter.partition,
        offset: letter.offset,
        group: Cow::Borrowed(&letter.group),
        attempts: letter.attempts,
        last_error: Cow::Borrowed(&letter.last_error),
        reason: Cow::Borrowed(&letter.reason),
        tenant_id: Cow::Borrowed(&letter.tenant_id),
        idempotency_key: Cow::Borrowed(&letter.idempotency_key),
        at: Moment::saturating_from_epoch_ms(letter.at.0),
    }
}

fn pairs<'a>(pairs: &'a [(Cow<'_, str>, Cow<'_, str>)]) -> Pairs<'a> {
    Pairs(pairs.iter().map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(&**value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(message: &core::Message<'_>) -> Delivered {
        Delivered {
            partition: 1,
            offset: 7,
            attempt: 2,
            last_error: "boom".into(),
            payload: message.encode().into(),
            expires: core::Time(0),
            at: core::Time(0),
            priority: 0,
            due: None,
            waited: None,
            receipt: core::Receipt {
                topic: core::TopicId::default(),
                group: core::GroupId::default(),
                partition: 1,
                offset: 7,
                token: core::Token::default(),
            },
        }
    }

    #[test]
    fn a_plain_message() {
        let message = core::Message { value: b"a\"b"[..].into(), ..core::Message::default() };
        assert_eq!(
            line(&delivered(&message)).unwrap(),
            "{\"partition\":1,\"offset\":7,\"attempts\":2,\"key\":\"\",\"value\":\"a\\\"b\",\"last_error\":\"boom\"}\n"
        );
    }

    #[test]
    fn a_dead_letter_with_everything() {
        let message = core::Message {
            key: b"k"[..].into(),
            value: b"\xff"[..].into(),
            envelope: Some(Box::new(core::Envelope {
                labels: vec![("model".into(), "small".into())],
                partition_override: Some(0),
                deadline: Some(core::Deadline { seconds: 1, nanos: 500_000_000, offset_minutes: 90 }),
                retry_policy: Some(core::RetryPolicy { max_attempts: 3, ..core::RetryPolicy::default() }),
                dead_letter: Some(core::DeadLetter { topic: "t".into(), ..core::DeadLetter::default() }),
                ..core::Envelope::default()
            })),
            routing: Some(core::Routing { label: "l".into(), meta: vec![("a".into(), "b".into())] }),
            origin: Some(core::Origin::default()),
        };
        let line = line(&delivered(&message)).unwrap();
        let item: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(item["value"], "\u{fffd}", "what is not UTF-8 is shown lossily");
        assert_eq!(item["routing"], serde_json::json!({"label": "l", "meta": {"a": "b"}}));
        let envelope = &item["envelope"];
        assert_eq!(envelope["labels"], serde_json::json!({"model": "small"}));
        assert_eq!(envelope["partition_override"], 0);
        assert_eq!(envelope["deadline"], "1970-01-01T01:30:01.5+01:30");
        assert_eq!(envelope["retry_policy"], serde_json::json!({"max_attempts": 3}));
        assert_eq!(envelope["dlq"]["topic"], "t");
        assert!(envelope.get("run_id").is_none());
    }

    #[test]
    fn damaged_bytes_are_an_error_and_not_a_panic() {
        let broken =
            Delivered { payload: Bytes::from_static(b"\x07junk"), ..delivered(&core::Message::default()) };
        assert!(line(&broken).is_err());
    }
}
