//! Where messages were born.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Spotted, TopicId};
use crate::words::message::Text;

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
