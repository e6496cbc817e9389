//! Where messages were born, and which kept messages descend from a place.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::log::codec::{Malformed, Put, Take};
use crate::log::message::Text;
use crate::state::State;
use crate::state::slot::Found;
use crate::words::id::TopicId;
use crate::words::input::Spotted;

/// Where a message was born. It keeps this however often it dies and is tried again, and wherever it goes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Origin<'a> {
    /// The topic's name.
    pub topic: Text<'a>,
    /// The topic's number: tells it from others that had its name before or after.
    pub incarnation: TopicId,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
}

impl<'a> Origin<'a> {
    /// The place, for the shard: it knows topics by number.
    #[must_use]
    pub const fn place(&self) -> Spotted {
        Spotted { topic: self.incarnation, partition: self.partition, offset: self.offset }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_text(&self.topic);
        put_place(out, self.place());
    }

    pub(crate) fn decode(take: &mut Take<'a>) -> Result<Self, Malformed> {
        let topic = take.text()?.into();
        let Spotted { topic: incarnation, partition, offset } = take_place(take)?;
        Ok(Self { topic, incarnation, partition, offset })
    }
}

pub(crate) fn put_place(out: &mut Vec<u8>, place: Spotted) {
    out.put_u32(place.topic.0);
    out.put_u32(place.partition);
    out.put_u64(place.offset);
}

pub(crate) fn take_place(take: &mut Take<'_>) -> Result<Spotted, Malformed> {
    Ok(Spotted { topic: TopicId(take.u32()?), partition: take.u32()?, offset: take.u64()? })
}

/// How many kept messages descend from each place: dead letters and messages that were tried again. It has no more
/// entries than messages are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descent {
    kept: BTreeMap<Spotted, u32>,
}

impl Descent {
    pub(crate) fn add(&mut self, origin: Option<Spotted>) {
        if let Some(origin) = origin {
            *self.kept.entry(origin).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, origin: Option<Spotted>) {
        let Some(origin) = origin else { return };
        if let Some(count) = self.kept.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.kept.remove(&origin);
            }
        }
    }
}

impl State {
    /// Where the message that lies at a place was born.
    pub(crate) fn origin_of(&self, place: Spotted) -> Spotted {
        let slots = self.lane(place.topic, place.partition).map(|lane| &lane.slots);
        let origin = slots.and_then(|slots| match slots.find(place.offset) {
            Found::Here(sequence) => slots.origin(sequence),
            Found::Gone | Found::Never => None,
        });
        origin.unwrap_or(place)
    }

    /// Whether the message that was born at a place may be worked on again: it, its dead letter, or a copy that was
    /// made of the letter is kept.
    pub(crate) fn may_come_again(&self, origin: Spotted) -> bool {
        let lane = self.lane(origin.topic, origin.partition);
        lane.is_some_and(|lane| matches!(lane.slots.find(origin.offset), Found::Here(_)))
            || self.descent.kept.contains_key(&origin)
    }
}
