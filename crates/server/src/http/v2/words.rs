//! Messages in the words of `/v2`.

use std::borrow::Cow;

use bytes::Bytes;
use driftq_api::v2::{
    Attempt, DeadLetter, Envelope, Item, ItemEnvelope, ItemOrigin, ItemRouting, Jitter, Labels, Lease,
    RetryPolicy,
};
use driftq_api::{Moment, end_line};
use driftq_engine::core::{self, Deadline, Time, TopicId};
use driftq_engine::{Broker, Delivered, Seen};

use crate::trace::Tracer;

/// Room for everything around key and value that a plain delivery has.
pub(super) const FRAME_BYTES: usize = 400;

/// Names the topic of an item: messages do not carry it.
pub(crate) struct Reader<'a> {
    pub(crate) topic: &'a str,
    pub(crate) broker: &'a Broker,
    /// Whether the caller may see the values of messages that are not lent to it.
    pub(crate) shows_payloads: bool,
    /// Who traces what is lent, and to which group it is.
    pub(crate) traced: Option<(&'a Tracer, &'a str)>,
}

/// The line of a delivery, with its newline.
pub(crate) fn line(reader: &Reader<'_>, delivered: &Delivered) -> Result<Bytes, core::Malformed> {
    let mut out = Vec::with_capacity(delivered.payload.len() + FRAME_BYTES);
    with_item(reader, delivered, |item| item.write(&mut out))?;
    end_line(&mut out, 0);
    Ok(Bytes::from(out))
}

/// Shows a delivery as an item.
pub(super) fn with_item(
    reader: &Reader<'_>,
    delivered: &Delivered,
    show: impl FnOnce(&Item<'_>),
) -> Result<(), core::Malformed> {
    let message = core::Message::decode(&delivered.payload)?;
    let token = reader.broker.token(&delivered.receipt);
    let labels = message.envelope.as_deref().map_or(&[][..], |envelope| &envelope.labels);
    let traced =
        reader.traced.and_then(|(tracer, group)| tracer.lent(delivered, labels, (reader.topic, group)));
    let item = Item {
        topic: Cow::Borrowed(reader.topic),
        partition: delivered.partition,
        offset: delivered.offset,
        last_error: Cow::Borrowed(&delivered.last_error),
        priority: delivered.priority,
        produced_at: moment(delivered.at),
        deliver_at: delivered.due.map(moment),
        origin: Some(origin(
            reader,
            &message,
            delivered.receipt.topic,
            (delivered.partition, delivered.offset),
        )),
        lease: Some(Lease {
            token: Cow::Borrowed(&token),
            attempt: delivered.attempt,
            expires_at: moment(delivered.expires),
            traceparent: traced.map(|context| Cow::Owned(context.to_string())),
        }),
        ..item(&message)
    };
    show(&item.with_key(&message.key).with_payload(&message.value));
    Ok(())
}

/// A message that was only looked at, with what could be read of it.
pub(super) type Looked<'a> = (&'a Seen, core::Message<'a>);

/// What can be read of messages that were looked at. What was gone by then is left out.
pub(super) fn looked(seen: &[Seen]) -> impl Iterator<Item = Looked<'_>> {
    seen.iter().filter_map(|seen| Some((seen, core::Message::decode(seen.payload.as_ref()?).ok()?)))
}

/// Shows a message that was only looked at.
pub(super) fn seen_item<'a>(reader: &Reader<'a>, (seen, message): &'a Looked<'_>) -> Item<'a> {
    let (partition, offset) = (seen.found.partition, seen.found.offset);
    let item = Item {
        topic: Cow::Borrowed(reader.topic),
        partition,
        offset,
        priority: seen.found.priority,
        produced_at: moment(seen.found.at),
        deliver_at: seen.found.due.map(moment),
        origin: Some(origin(reader, message, seen.topic, (partition, offset))),
        kept: seen.found.stage == core::Stage::Done,
        payload_hidden: !reader.shows_payloads,
        ..item(message)
    };
    let item = item.with_key(&message.key);
    if reader.shows_payloads { item.with_payload(&message.value) } else { item }
}

/// What the message itself says.
fn item<'a>(message: &'a core::Message<'_>) -> Item<'a> {
    Item {
        topic: Cow::Borrowed(""),
        partition: 0,
        offset: 0,
        key: Cow::Borrowed(""),
        key_b64: None,
        value: None,
        value_b64: None,
        priority: 0,
        produced_at: Moment::saturating_from_epoch_ms(0),
        deliver_at: None,
        envelope: message.envelope.as_deref().map(envelope),
        routing: message.routing.as_ref().map(routing),
        last_error: Cow::Borrowed(""),
        origin: None,
        lease: None,
        kept: false,
        payload_hidden: false,
    }
}

/// Where a message was born that lies in a topic of that number.
fn origin<'a>(
    reader: &Reader<'a>,
    message: &'a core::Message<'_>,
    topic: TopicId,
    (partition, offset): (u32, u64),
) -> ItemOrigin<'a> {
    let own = core::Origin { topic: Cow::Borrowed(reader.topic), incarnation: topic, partition, offset };
    let born = message.born(own, |name| reader.broker.topic_number(name));
    ItemOrigin {
        topic: born.topic,
        incarnation: born.incarnation.0,
        partition: born.partition,
        offset: born.offset,
    }
}

fn routing<'a>(routing: &'a core::Routing<'_>) -> ItemRouting<'a> {
    ItemRouting { label: Cow::Borrowed(&routing.label), meta: pairs(&routing.meta) }
}

fn envelope<'a>(envelope: &'a core::Envelope<'_>) -> ItemEnvelope<'a> {
    ItemEnvelope {
        run_id: Cow::Borrowed(&envelope.run_id),
        step_id: Cow::Borrowed(&envelope.step_id),
        parent_step_id: Cow::Borrowed(&envelope.parent_step_id),
        tenant_id: Cow::Borrowed(&envelope.tenant_id),
        labels: pairs(&envelope.labels),
        idempotency_key: Cow::Borrowed(&envelope.idempotency_key),
        request_hash: Cow::Borrowed(""),
        target_topic: Cow::Borrowed(&envelope.target_topic),
        partition_override: envelope.partition_override,
        deadline: envelope.deadline.map(|at| Moment::saturating_from_parts(at.seconds, at.nanos)),
        retry_policy: envelope.retry_policy.map(shown_policy),
        dead_letter: envelope.dead_letter.as_ref().map(|letter| Box::new(dead_letter(letter))),
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
        at: moment(letter.at),
        tenant_id: Cow::Borrowed(&letter.tenant_id),
        idempotency_key: Cow::Borrowed(&letter.idempotency_key),
        history: letter.history.iter().map(attempt).collect(),
    }
}

pub(super) fn attempt<'a>(attempt: &'a core::Attempt<'_>) -> Attempt<'a> {
    Attempt {
        attempt: attempt.number,
        owner: Cow::Borrowed(&attempt.owner),
        error: Cow::Borrowed(&attempt.error),
        leased_at: moment(attempt.leased),
        ended_at: moment(attempt.ended),
    }
}

fn pairs<'a>(pairs: &'a [(Cow<'_, str>, Cow<'_, str>)]) -> Labels<'a> {
    let pairs = pairs.iter().map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(&**value)));
    Labels::stored(pairs.collect())
}

/// A retry policy as the wire shows it.
pub(super) fn shown_policy(policy: core::RetryPolicy) -> RetryPolicy {
    RetryPolicy {
        max_attempts: Some(policy.max_attempts).filter(|most| *most > 0),
        backoff_ms: Some(policy.backoff_ms),
        max_backoff_ms: Some(policy.max_backoff_ms).filter(|most| *most > 0),
        jitter: match policy.jitter {
            core::Jitter::Full => Jitter::Full,
            core::Jitter::Half => Jitter::Half,
            core::Jitter::None => Jitter::None,
        },
    }
}

/// A retry policy as the broker takes it.
pub(super) fn taken_policy(policy: RetryPolicy) -> core::RetryPolicy {
    core::RetryPolicy {
        max_attempts: policy.max_attempts.unwrap_or(0),
        backoff_ms: policy.backoff_ms.unwrap_or(0),
        max_backoff_ms: policy.max_backoff_ms.unwrap_or(0),
        jitter: match policy.jitter {
            Jitter::Full => core::Jitter::Full,
            Jitter::Half => core::Jitter::Half,
            Jitter::None => core::Jitter::None,
        },
    }
}

/// An envelope as the broker takes it.
pub(super) fn taken_envelope(envelope: Envelope<'_>) -> core::Envelope<'_> {
    core::Envelope {
        run_id: envelope.run_id,
        step_id: envelope.step_id,
        parent_step_id: envelope.parent_step_id,
        tenant_id: envelope.tenant_id,
        labels: envelope.labels.into_pairs(),
        idempotency_key: envelope.idempotency_key,
        target_topic: envelope.target_topic,
        partition_override: envelope.partition_override,
        deadline: envelope.deadline.map(|moment| {
            let (seconds, nanos) = moment.parts();
            Deadline { seconds, nanos, offset_minutes: moment.offset_minutes() }
        }),
        retry_policy: envelope.retry_policy.map(taken_policy),
        dead_letter: None,
    }
}

/// A time of the broker on the wire.
pub(super) fn moment(time: Time) -> Moment {
    Moment::saturating_from_epoch_ms(time.0)
}

/// A time of the wire on the broker's clock, rounded down.
pub(super) fn time(moment: Moment) -> Time {
    let (seconds, nanos) = moment.parts();
    Deadline { seconds, nanos, offset_minutes: 0 }.time()
}
