//! Messages on loan, as a sink sees them.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftq_client::Moment;
use serde::Deserialize;

use super::pick::Text;

/// The topic in which messages were born: what progress is kept by. Offsets are counted through all of its partitions, so
/// that those of one partition alone would be nothing but gaps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) incarnation: u32,
}

/// What is kept of a message on loan once it has become a row.
#[derive(Debug)]
pub(super) struct Message {
    /// Where it was born. A letter that was sent back has kept that, so that it is never written twice.
    pub(super) place: Arc<Place>,
    pub(super) offset: i64,
    /// The authority to settle it.
    pub(super) token: Arc<str>,
    /// The call that lent it.
    pub(super) lot: u64,
    /// Whether the server says that no holder had it before.
    pub(super) is_first_delivery: bool,
    /// Whether it is still on loan to this sink, as far as the sink knows.
    pub(super) is_held: bool,
}

/// The calls that lent the messages of a batch.
pub(super) fn lots_of(messages: &[Message]) -> impl Iterator<Item = u64> {
    let by_lot = messages.chunk_by(|left, right| left.lot == right.lot);
    by_lot.filter_map(|messages| messages.first().map(|message| message.lot))
}

/// What one call has lent. Only what a row can be made of is read.
#[derive(Deserialize)]
pub(super) struct Lent<'a> {
    #[serde(borrow)]
    pub(super) messages: Vec<LentMessage<'a>>,
}

/// A message, borrowed from the answer that lent it.
#[derive(Deserialize)]
pub(super) struct LentMessage<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    partition: u32,
    offset: u64,
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    key_b64: Option<Text<'a>>,
    #[serde(borrow, default)]
    value: Option<Text<'a>>,
    #[serde(borrow, default)]
    value_b64: Option<Text<'a>>,
    #[serde(borrow)]
    produced_at: Cow<'a, str>,
    #[serde(borrow, default)]
    envelope: Option<LentEnvelope<'a>>,
    #[serde(borrow, default)]
    origin: Option<Origin<'a>>,
    #[serde(borrow)]
    lease: Lease<'a>,
}

#[derive(Deserialize)]
struct LentEnvelope<'a> {
    #[serde(borrow, default)]
    idempotency_key: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Origin<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    incarnation: u32,
    partition: u32,
    offset: u64,
}

#[derive(Deserialize)]
struct Lease<'a> {
    #[serde(borrow)]
    token: Cow<'a, str>,
    attempt: u32,
}

impl LentMessage<'_> {
    /// What is kept of it. Messages of one topic share their place.
    pub(super) fn kept(&self, lot: u64, before: Option<&Message>) -> Message {
        let (topic, incarnation) =
            self.origin.as_ref().map_or((&self.topic, 0), |origin| (&origin.topic, origin.incarnation));
        let is_same = |place: &Place| place.incarnation == incarnation && place.topic == *topic;
        let place = match before.map(|message| &message.place).filter(|place| is_same(place)) {
            Some(place) => Arc::clone(place),
            None => Arc::new(Place { topic: topic.to_string(), incarnation }),
        };
        let token = Arc::from(&*self.lease.token);
        let is_first_delivery = self.lease.attempt == 1;
        Message { place, offset: self.offset(), token, lot, is_first_delivery, is_held: true }
    }

    /// The offset at which it was born.
    pub(super) fn offset(&self) -> i64 {
        let offset = self.origin.as_ref().map_or(self.offset, |origin| origin.offset);
        // The server's own bound on offsets is below this one.
        i64::try_from(offset).unwrap_or(i64::MAX - 1)
    }

    /// The partition in which it was born.
    pub(super) fn partition(&self) -> u32 {
        self.origin.as_ref().map_or(self.partition, |origin| origin.partition)
    }

    /// About how much of a batch it takes.
    pub(super) fn bytes(&self) -> usize {
        let length = |text: &Option<Text<'_>>| text.as_ref().map_or(0, |Text(text)| text.len());
        length(&self.value) + length(&self.value_b64)
    }

    /// The payload, if it is text.
    pub(super) fn text(&self) -> Option<&str> {
        match (&self.value, &self.value_b64) {
            (Some(Text(text)), _) => Some(text),
            (None, None) => Some(""),
            (None, Some(_)) => None,
        }
    }

    /// The payload.
    pub(super) fn payload(&self) -> Result<Cow<'_, [u8]>, String> {
        bytes(self.value.as_ref().map_or("", |Text(text)| text), self.value_b64.as_ref())
    }

    /// The key.
    pub(super) fn key(&self) -> Result<Cow<'_, [u8]>, String> {
        bytes(&self.key, self.key_b64.as_ref())
    }

    pub(super) fn idempotency_key(&self) -> &str {
        self.envelope.as_ref().map_or("", |envelope| &envelope.idempotency_key)
    }

    /// When it was stored.
    pub(super) fn produced_at(&self) -> Result<Moment, String> {
        Moment::parse(&self.produced_at).ok_or_else(|| "the server sent what is no moment".to_owned())
    }
}

fn bytes<'a>(text: &'a str, encoded: Option<&'a Text<'_>>) -> Result<Cow<'a, [u8]>, String> {
    let Some(Text(encoded)) = encoded else { return Ok(Cow::Borrowed(text.as_bytes())) };
    let decoded = STANDARD.decode(&**encoded).map_err(|_| "the server sent what is not base64".to_owned())?;
    Ok(Cow::Owned(decoded))
}
