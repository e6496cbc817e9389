//! The fields that most facts about topics begin with.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::TopicId;

/// A topic and two numbers; each kind of fact says what they are, and writes zero where it needs none.
pub(crate) struct Header {
    pub(crate) topic: TopicId,
    pub(crate) number: u32,
    pub(crate) last: u64,
}

pub(crate) fn put_header(out: &mut Vec<u8>, kind: u8, topic: TopicId, number: u32, last: u64) {
    out.put_u8(kind);
    out.put_u32(topic.0);
    out.put_u32(number);
    out.put_u64(last);
}

impl Header {
    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(Self { topic: TopicId(take.u32()?), number: take.u32()?, last: take.u64()? })
    }
}
