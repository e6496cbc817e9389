//! A delivery: the message as this command has always printed it, and the token that settles it.

use std::borrow::Cow;

use driftq_api::v1::{DeadLetter, Item, ItemEnvelope, Pairs, RetryPolicy, Routing};
use driftq_api::v2::{self, Labels};

/// One message on loan.
pub(super) struct Delivery {
    pub(super) item: Item<'static>,
    /// The value as it was sent, which may be no text.
    pub(super) payload: Vec<u8>,
    pub(super) token: String,
    /// Where the message was born.
    pub(super) origin: v2::ItemOrigin<'static>,
}

impl Delivery {
    pub(super) fn new(item: v2::Item<'static>) -> Self {
        let payload = item.payload().unwrap_or_default().into_owned();
        let (token, attempts) = match item.lease {
            Some(lease) => (lease.token.into_owned(), lease.attempt),
            None => (String::new(), 0),
        };
        let own =
            |topic| v2::ItemOrigin { topic, incarnation: 0, partition: item.partition, offset: item.offset };
        let origin = item.origin.unwrap_or_else(|| own(item.topic));
        let item = Item {
            partition: item.partition,
            offset: item.offset,
            attempts,
            key: item.key,
            // What is no text is shown as well as it can be.
            value: String::from_utf8_lossy(&payload).into_owned().into(),
            last_error: item.last_error,
            routing: item.routing.map(|routing| Routing { label: routing.label, meta: pairs(&routing.meta) }),
            envelope: item.envelope.map(envelope),
        };
        Self { item, payload, token, origin }
    }
}

fn envelope(envelope: v2::ItemEnvelope<'static>) -> ItemEnvelope<'static> {
    ItemEnvelope {
        labels: pairs(&envelope.labels),
        run_id: envelope.run_id,
        step_id: envelope.step_id,
        parent_step_id: envelope.parent_step_id,
        tenant_id: envelope.tenant_id,
        idempotency_key: envelope.idempotency_key,
        target_topic: envelope.target_topic,
        partition_override: envelope.partition_override,
        deadline: envelope.deadline,
        retry_policy: envelope.retry_policy.map(|policy| RetryPolicy {
            max_attempts: policy.max_attempts.unwrap_or_default(),
            backoff_ms: policy.backoff_ms.unwrap_or_default(),
            max_backoff_ms: policy.max_backoff_ms.unwrap_or_default(),
        }),
        dlq: envelope.dead_letter.map(|letter| dead_letter(*letter)),
    }
}

fn dead_letter(letter: v2::DeadLetter<'static>) -> DeadLetter<'static> {
    DeadLetter {
        topic: letter.topic,
        partition: letter.partition,
        offset: letter.offset,
        group: letter.group,
        attempts: letter.attempts,
        last_error: letter.last_error,
        reason: letter.reason,
        tenant_id: letter.tenant_id,
        idempotency_key: letter.idempotency_key,
        at: letter.at,
    }
}

fn pairs(labels: &Labels<'static>) -> Pairs<'static> {
    let owned = |text: &Cow<'static, str>| Cow::Owned(text.clone().into_owned());
    Pairs(labels.pairs().iter().map(|(name, value)| (owned(name), owned(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs read these lines: they are those of `/v1/consume`, to the letter.
    #[test]
    fn lines_are_what_they_were() {
        let native = r#"{"topic":"t","partition":1,"offset":7,"key":"k","value_b64":"/w==","priority":3,
            "produced_at":"2030-01-01T00:00:00Z","last_error":"boom","routing":{"label":"l","meta":{"a":"b"}},
            "lease":{"token":"T","attempt":2,"expires_at":"2030-01-01T00:00:00Z"},
            "envelope":{"run_id":"r","labels":{"model":"small"},"request_hash":"h","partition_override":0,
            "retry_policy":{"max_attempts":3},"dead_letter":{"topic":"s","partition":0,"offset":1,"group":"g",
            "attempts":3,"last_error":"e","reason":"x","at":"2030-01-01T00:00:00Z","history":[]}}}"#;
        let delivery = Delivery::new(serde_json::from_str(native).unwrap());
        assert_eq!((&*delivery.payload, &*delivery.token), (&b"\xff"[..], "T"));
        let line = serde_json::to_string(&delivery.item).unwrap();
        let expected = concat!(
            r#"{"partition":1,"offset":7,"attempts":2,"key":"k","value":"\u{fffd}","last_error":"boom","#,
            r#""routing":{"label":"l","meta":{"a":"b"}},"envelope":{"run_id":"r","partition_override":0,"#,
            r#""retry_policy":{"max_attempts":3},"labels":{"model":"small"},"dlq":{"topic":"s","partition":0,"#,
            r#""offset":1,"group":"g","attempts":3,"last_error":"e","reason":"x","tenant_id":"","#,
            r#""idempotency_key":"","at":"2030-01-01T00:00:00Z"}}}"#
        );
        assert_eq!(line, expected.replace("\\u{fffd}", "\u{fffd}"));
    }
}
