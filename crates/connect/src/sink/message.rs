//! A message on loan, as a sink sees it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftq_client::wire::{Item, ItemOrigin};

/// The topic in which messages were born: what progress is kept by. Offsets are counted through all of its partitions, so
/// that those of one partition alone would be nothing but gaps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) incarnation: u32,
}

/// A message on loan.
#[derive(Debug)]
pub(super) struct Message {
    /// Where it was born. A letter that was sent back has kept that, so that it is never written twice.
    pub(super) place: Place,
    pub(super) partition: u32,
    pub(super) offset: i64,
    pub(super) item: Item<'static>,
    /// Whether it is still on loan to this sink, as far as the sink knows.
    pub(super) is_held: bool,
}

impl Message {
    pub(super) fn new(mut item: Item<'static>) -> Self {
        let origin = item.origin.take().unwrap_or_else(|| ItemOrigin {
            topic: item.topic.clone(),
            incarnation: 0,
            partition: item.partition,
            offset: item.offset,
        });
        let ItemOrigin { topic, incarnation, partition, offset } = origin;
        let place = Place { topic: topic.into_owned(), incarnation };
        // The server's own bound on offsets is below this one.
        let offset = i64::try_from(offset).unwrap_or(i64::MAX - 1);
        Self { place, partition, offset, item, is_held: true }
    }

    /// The authority to settle it.
    pub(super) fn token(&self) -> &str {
        self.item.lease.as_ref().map_or("", |lease| &lease.token)
    }

    /// Whether the server says that no holder had it before.
    pub(super) fn is_first_delivery(&self) -> bool {
        self.item.lease.as_ref().is_some_and(|lease| lease.attempt == 1)
    }

    /// About how much of a batch it takes.
    pub(super) fn bytes(&self) -> usize {
        let length = |text: &Option<Cow<'_, str>>| text.as_ref().map_or(0, |text| text.len());
        length(&self.item.value) + length(&self.item.value_b64)
    }

    /// The payload, if it is text.
    pub(super) fn text(&self) -> Option<&str> {
        match (&self.item.value, &self.item.value_b64) {
            (Some(text), _) => Some(text),
            (None, None) => Some(""),
            (None, Some(_)) => None,
        }
    }

    /// The payload.
    pub(super) fn payload(&self) -> Result<Cow<'_, [u8]>, String> {
        bytes(self.item.value.as_deref().unwrap_or_default(), self.item.value_b64.as_deref())
    }

    /// The key.
    pub(super) fn key(&self) -> Result<Cow<'_, [u8]>, String> {
        bytes(&self.item.key, self.item.key_b64.as_deref())
    }

    pub(super) fn idempotency_key(&self) -> &str {
        self.item.envelope.as_ref().map_or("", |envelope| &envelope.idempotency_key)
    }
}

fn bytes<'a>(text: &'a str, encoded: Option<&'a str>) -> Result<Cow<'a, [u8]>, String> {
    let Some(encoded) = encoded else { return Ok(Cow::Borrowed(text.as_bytes())) };
    let decoded = STANDARD.decode(encoded).map_err(|_| "the server sent what is not base64".to_owned())?;
    Ok(Cow::Owned(decoded))
}
