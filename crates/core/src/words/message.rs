//! A message with its envelope, and the bytes in which it is stored.
//!
//! The shard never looks into these bytes: the edge writes them, the edge reads them, and the dead-letter writer turns
//! them into a dead letter ([`Message::into_dead_letter`]).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Time, TopicId};
use crate::words::letter::DeadLetter;
use crate::words::origin::Origin;
use crate::words::policy::RetryPolicy;

/// A text that is borrowed from stored bytes or owned.
pub(crate) type Text<'a> = Cow<'a, str>;

/// First byte of every stored message.
const VERSION: u8 = 1;

/// What a producer sends and a reader gets.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message<'a> {
    /// Chooses the partition; may be empty.
    pub key: Cow<'a, [u8]>,
    /// The payload proper.
    pub value: Cow<'a, [u8]>,
    /// Workflow identity, routing controls and policy.
    pub envelope: Option<Box<Envelope<'a>>>,
    /// What a router said about it.
    pub routing: Option<Routing<'a>>,
    /// Where it was born, unless that is where it lies.
    pub origin: Option<Origin<'a>>,
}

/// Metadata of an agent's message. Empty texts mean "not given".
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// The workflow run.
    pub run_id: Text<'a>,
    /// The step within the run.
    pub step_id: Text<'a>,
    /// The step that caused it.
    pub parent_step_id: Text<'a>,
    /// Whose it is.
    pub tenant_id: Text<'a>,
    /// Free tags, sorted by name.
    pub labels: Vec<(Text<'a>, Text<'a>)>,
    /// Names the operation, for the idempotency gates.
    pub idempotency_key: Text<'a>,
    /// Goes there instead of the topic named by the producer.
    pub target_topic: Text<'a>,
    /// Goes there instead of the key's partition.
    pub partition_override: Option<u32>,
    /// Of no use after this.
    pub deadline: Option<Deadline>,
    /// How often and when to try again.
    pub retry_policy: Option<RetryPolicy>,
    /// Where a dead letter came from.
    pub dead_letter: Option<DeadLetter<'a>>,
}

/// A point in time with the precision that producers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Deadline {
    /// Whole seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Minutes from UTC in which the producer wrote it: it comes back as it was given.
    pub offset_minutes: i16,
}

impl Deadline {
    /// The deadline on the shard's clock, rounded down.
    #[must_use]
    pub fn time(self) -> Time {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        Time(seconds.saturating_mul(1000).saturating_add(u64::from(self.nanos / 1_000_000)))
    }
}

/// What a router said about a message.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Routing<'a> {
    /// What the message is.
    pub label: Text<'a>,
    /// More about it, sorted by name.
    pub meta: Vec<(Text<'a>, Text<'a>)>,
}

impl<'a> Message<'a> {
    /// Key and value bytes, as the backpressure limits count them.
    #[must_use]
    pub fn size(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// The bytes in which the message is stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // An envelope with a key and a label or two fits.
        let about = if self.envelope.is_some() { 192 } else { 32 };
        let mut out = Vec::with_capacity(self.size() + about);
        out.put_u8(VERSION);
        let parts = [self.envelope.is_some(), self.routing.is_some(), self.origin.is_some()];
        out.put_u8(parts.iter().enumerate().fold(0, |bits, (bit, given)| bits | u8::from(*given) << bit));
        out.put_bytes(&self.key);
        out.put_bytes(&self.value);
        if let Some(envelope) = &self.envelope {
            envelope.encode(&mut out);
        }
        if let Some(routing) = &self.routing {
            out.put_text(&routing.label);
            put_pairs(&mut out, &routing.meta);
        }
        if let Some(origin) = &self.origin {
            origin.encode(&mut out);
        }
        out
    }

    /// Reads stored bytes back, borrowing every text from them.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut take = Take::new(bytes, "message");
        if take.u8()? != VERSION {
            return Err(Malformed("message version"));
        }
        let parts = take.u8()?;
        let key = Cow::Borrowed(take.bytes()?);
        let value = Cow::Borrowed(take.bytes()?);
        let envelope = if parts & 1 == 0 { None } else { Some(Box::new(Envelope::decode(&mut take)?)) };
        let routing = if parts & 2 == 0 {
            None
        } else {
            Some(Routing { label: take.text()?.into(), meta: take_pairs(&mut take)? })
        };
        let origin = if parts & 4 == 0 { None } else { Some(Origin::decode(&mut take)?) };
        take.done()?;
        Ok(Self { key, value, envelope, routing, origin })
    }

    /// The dead letter of this message: everything that says what it is stays, everything that would route or
    /// retry it goes. Unless it was born elsewhere, it was born where it died: in the topic of that number.
    #[must_use]
    pub fn into_dead_letter(self, mut letter: DeadLetter<'a>, incarnation: TopicId) -> Self {
        let origin = self.origin.clone().unwrap_or_else(|| letter.source(incarnation));
        let mut envelope = self.envelope.unwrap_or_default();
        letter.tenant_id = envelope.tenant_id.clone();
        letter.idempotency_key = envelope.idempotency_key.clone();
        letter.retry_policy = envelope.retry_policy;
        envelope.target_topic = Cow::Borrowed("");
        envelope.partition_override = None;
        envelope.retry_policy = None;
        envelope.dead_letter = Some(letter);
        Self { envelope: Some(envelope), origin: Some(origin), ..self }
    }

    /// Where it was born, if it lies at `own`. Letters from before that was written down name their source, but not the
    /// number of its topic: `number` gives the one that a topic of that name has now.
    #[must_use]
    pub fn born<'b>(&'b self, own: Origin<'b>, number: impl FnOnce(&str) -> Option<TopicId>) -> Origin<'b> {
        if let Some(origin) = &self.origin {
            return origin.clone();
        }
        let letter = self.envelope.as_deref().and_then(|envelope| envelope.dead_letter.as_ref());
        letter.map_or(own, |letter| letter.source(number(&letter.topic).unwrap_or_default()))
    }
}

impl<'a> Message<'a> {
    /// The message that a dead letter was, as it is to be tried again: with its policy, without the letter. `None` if
    /// it is not a dead letter.
    #[must_use]
    pub fn from_dead_letter(self) -> Option<(Self, DeadLetter<'a>)> {
        let mut envelope = self.envelope?;
        let letter = envelope.dead_letter.take()?;
        envelope.retry_policy = letter.retry_policy;
        Some((Self { envelope: Some(envelope), ..self }, letter))
    }
}

impl<'a> Envelope<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let options = u8::from(self.partition_override.is_some())
            | u8::from(self.deadline.is_some()) << 1
            | u8::from(self.retry_policy.is_some()) << 2
            | u8::from(self.dead_letter.is_some()) << 3
            | u8::from(self.dead_letter.as_ref().is_some_and(DeadLetter::has_more)) << 4
            | u8::from(self.retry_policy.is_some_and(RetryPolicy::has_jitter)) << 5
            | u8::from(self.deadline.is_some_and(|deadline| deadline.offset_minutes != 0)) << 6;
        out.put_u8(options);
        for text in [
            &self.run_id,
            &self.step_id,
            &self.parent_step_id,
            &self.tenant_id,
            &self.idempotency_key,
            &self.target_topic,
        ] {
            out.put_text(text);
        }
        put_pairs(out, &self.labels);
        if let Some(partition) = self.partition_override {
            out.put_u32(partition);
        }
        if let Some(deadline) = self.deadline {
            out.put_u64(deadline.seconds.cast_unsigned());
            out.put_u32(deadline.nanos);
            if deadline.offset_minutes != 0 {
                out.put_u32(i32::from(deadline.offset_minutes).cast_unsigned());
            }
        }
        if let Some(policy) = self.retry_policy {
            policy.encode(out);
            policy.encode_jitter(out);
        }
        if let Some(letter) = &self.dead_letter {
            letter.encode(out);
            letter.encode_more(out);
        }
    }

    fn decode(take: &mut Take<'a>) -> Result<Self, Malformed> {
        let options = take.u8()?;
        let mut envelope = Self {
            run_id: take.text()?.into(),
            step_id: take.text()?.into(),
            parent_step_id: take.text()?.into(),
            tenant_id: take.text()?.into(),
            idempotency_key: take.text()?.into(),
            target_topic: take.text()?.into(),
            labels: take_pairs(take)?,
            ..Self::default()
        };
        if options & 1 != 0 {
            envelope.partition_override = Some(take.u32()?);
        }
        if options & 2 != 0 {
            let (seconds, nanos) = (take.u64()?.cast_signed(), take.u32()?);
            let offset = if options & 64 == 0 { 0 } else { take.u32()?.cast_signed() };
            let offset_minutes = i16::try_from(offset).map_err(|_| take.malformed())?;
            envelope.deadline = Some(Deadline { seconds, nanos, offset_minutes });
        }
        if options & 4 != 0 {
            envelope.retry_policy = Some(RetryPolicy::decode(take, options & 32 != 0)?);
        }
        if options & 8 != 0 {
            envelope.dead_letter = Some(DeadLetter::decode(take, options & 16 != 0)?);
        }
        Ok(envelope)
    }
}

pub(crate) fn put_pairs(out: &mut Vec<u8>, pairs: &[(Text<'_>, Text<'_>)]) {
    out.put_u32(u32::try_from(pairs.len()).expect("inputs are capped far below 4 Gi pairs"));
    for (name, value) in pairs {
        out.put_text(name);
        out.put_text(value);
    }
}

pub(crate) fn take_pairs<'a>(take: &mut Take<'a>) -> Result<Vec<(Text<'a>, Text<'a>)>, Malformed> {
    let count = take.count(8)?;
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        pairs.push((take.text()?.into(), take.text()?.into()));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::words::letter::Attempt;
    use crate::words::policy::Jitter;

    fn full() -> Message<'static> {
        Message {
            key: b"user:1"[..].into(),
            value: b"charge 5"[..].into(),
            envelope: Some(Box::new(Envelope {
                run_id: "run".into(),
                step_id: "step".into(),
                parent_step_id: "parent".into(),
                tenant_id: "acme".into(),
                labels: vec![("model".into(), "small".into())],
                idempotency_key: "once".into(),
                target_topic: "elsewhere".into(),
                partition_override: Some(0),
                deadline: Some(Deadline { seconds: 253_402_300_799, nanos: 5_000_000, offset_minutes: -450 }),
                retry_policy: Some(RetryPolicy {
                    max_attempts: 5,
                    backoff_ms: 250,
                    max_backoff_ms: 5000,
                    jitter: Jitter::Full,
                }),
                dead_letter: None,
            })),
            routing: Some(Routing { label: "finance".into(), meta: vec![("score".into(), "0.92".into())] }),
            origin: Some(Origin { topic: "inbox".into(), incarnation: TopicId(3), partition: 1, offset: 9 }),
        }
    }

    #[test]
    fn what_is_stored_comes_back() {
        for message in [full(), Message { value: b"x"[..].into(), ..Message::default() }] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn every_cut_and_every_tail_is_refused() {
        let bytes = full().encode();
        for cut in 0..bytes.len() {
            assert!(Message::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(Message::decode(&longer).is_err());
    }

    #[test]
    fn a_dead_letter_keeps_what_it_is_and_drops_where_it_was_going() {
        let attempt =
            Attempt { number: 3, owner: "w".into(), error: "no".into(), leased: Time(5), ended: Time(9) };
        let letter = DeadLetter {
            topic: "orders".into(),
            offset: 7,
            attempts: 3,
            history: vec![attempt],
            ..DeadLetter::default()
        };
        let dead = full().into_dead_letter(letter, TopicId(7));
        let envelope = dead.envelope.as_ref().unwrap();
        assert_eq!((&*envelope.run_id, &*envelope.tenant_id), ("run", "acme"));
        assert_eq!(envelope.labels.len(), 1);
        assert!(envelope.deadline.is_some());
        assert_eq!(
            (&*envelope.target_topic, envelope.partition_override, envelope.retry_policy),
            ("", None, None)
        );
        let letter = envelope.dead_letter.as_ref().unwrap();
        assert_eq!((&*letter.tenant_id, &*letter.idempotency_key, letter.offset), ("acme", "once", 7));
        assert_eq!((&dead.routing, &dead.origin), (&full().routing, &full().origin));
        assert_eq!(Message::decode(&dead.encode()).as_ref(), Ok(&dead));
        let (alive, letter) = dead.from_dead_letter().unwrap();
        assert_eq!(
            (alive.envelope.unwrap().retry_policy, letter.history.len()),
            (full().envelope.unwrap().retry_policy, 1)
        );
        assert_eq!(full().from_dead_letter(), None);
    }

    #[test]
    fn a_message_is_born_once() {
        let own = Origin { topic: "t".into(), incarnation: TopicId(5), partition: 2, offset: 4 };
        let plain = Message { value: b"x"[..].into(), ..Message::default() };
        assert_eq!(plain.born(own.clone(), |_| None), own);
        let letter = || DeadLetter { topic: "t".into(), partition: 2, offset: 4, ..DeadLetter::default() };
        let dead = plain.into_dead_letter(letter(), TopicId(5));
        let elsewhere = Origin { topic: "dlq.t".into(), offset: 0, ..own.clone() };
        assert_eq!(dead.born(elsewhere.clone(), |_| None), own);
        let (again, _) = dead.from_dead_letter().unwrap();
        assert_eq!(again.born(elsewhere.clone(), |_| None), own, "a copy is not another message");
        let twice = again.into_dead_letter(DeadLetter { offset: 6, ..letter() }, TopicId(8));
        assert_eq!(twice.origin, Some(own.clone()));
        // A letter from before births were written down.
        let old = Message { origin: None, ..twice };
        let source = Origin { incarnation: TopicId(8), offset: 6, ..own };
        assert_eq!(old.born(elsewhere.clone(), |_| Some(TopicId(8))), source);
        let unknown = Origin { incarnation: TopicId(0), ..source };
        assert_eq!(old.born(elsewhere, |_| None), unknown, "its topic is gone");
    }

    #[test]
    fn deadlines_saturate() {
        assert_eq!(Deadline { seconds: -5, nanos: 0, offset_minutes: 0 }.time(), Time(0));
        assert_eq!(Deadline { seconds: i64::MAX, nanos: 0, offset_minutes: 0 }.time(), Time(u64::MAX));
    }
}
