//! Facts about what operators and their programs order, and their bytes.

use alloc::vec::Vec;

use crate::log::header::{Header, put_header};
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::topic::TopicSettings;

/// Kinds of facts about orders: the first, and the last.
pub(crate) const FIRST_KIND: u8 = CANCELLED;
pub(crate) const LAST_KIND: u8 = PAUSED;

const CANCELLED: u8 = 19;
const REMOVED: u8 = 20;
const SOUGHT: u8 = 21;
const CONFIGURED: u8 = 22;
const TOPIC_DELETED: u8 = 23;
const PAUSED: u8 = 24;

/// Something that was ordered and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderFact {
    /// Settings of a topic were changed.
    Configured {
        /// Which.
        topic: TopicId,
        /// All its settings.
        settings: TopicSettings,
    },
    /// A topic is gone, with everything in it.
    TopicDeleted {
        /// Which.
        topic: TopicId,
    },
    /// Deliveries were stopped or started again.
    Paused {
        /// The topic.
        topic: TopicId,
        /// One group only.
        group: Option<GroupId>,
        /// Since when they have been stopped; `None` if they are not.
        since: Option<Time>,
    },
    /// No further attempt of a message will be made. Groups that have it on loan may still ack it.
    Cancelled {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: u64,
    },
    /// A message was dropped for every group.
    Removed {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: u64,
    },
    /// A group was moved: everything below an offset is settled, everything kept from there on is not.
    Sought {
        /// The topic.
        topic: TopicId,
        /// The group.
        group: GroupId,
        /// The partition.
        partition: u32,
        /// The first offset that it owes.
        from: u64,
    },
}

impl OrderFact {
    /// The time that the shard's clock told when it happened, if the fact says so.
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::Paused { since, .. } => *since,
            Self::Configured { .. }
            | Self::TopicDeleted { .. }
            | Self::Cancelled { .. }
            | Self::Removed { .. }
            | Self::Sought { .. } => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Configured { topic, settings } => {
                put_header(out, CONFIGURED, *topic, 0, 0);
                settings.encode(out);
            }
            Self::TopicDeleted { topic } => put_header(out, TOPIC_DELETED, *topic, 0, 0),
            Self::Paused { topic, group, since } => {
                put_header(out, PAUSED, *topic, group.map_or(u32::MAX, |group| group.0), 0);
                out.put_u8(u8::from(since.is_some()));
                out.put_u64(since.unwrap_or_default().0);
            }
            Self::Cancelled { topic, partition, offset } => {
                put_header(out, CANCELLED, *topic, *partition, *offset);
            }
            Self::Removed { topic, partition, offset } => {
                put_header(out, REMOVED, *topic, *partition, *offset);
            }
            Self::Sought { topic, group, partition, from } => {
                put_header(out, SOUGHT, *topic, *partition, *from);
                out.put_u32(group.0);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'_>) -> Result<Self, Malformed> {
        let Header { topic, number, last } = Header::decode(take)?;
        Ok(match kind {
            CANCELLED => Self::Cancelled { topic, partition: number, offset: last },
            REMOVED => Self::Removed { topic, partition: number, offset: last },
            SOUGHT => Self::Sought { topic, group: GroupId(take.u32()?), partition: number, from: last },
            CONFIGURED => Self::Configured { topic, settings: TopicSettings::decode(take)? },
            TOPIC_DELETED => Self::TopicDeleted { topic },
            PAUSED => {
                let paused = take.u8()? != 0;
                let since = Time(take.u64()?);
                let group = (number != u32::MAX).then_some(GroupId(number));
                Self::Paused { topic, group, since: paused.then_some(since) }
            }
            _ => return Err(UNKNOWN_KIND),
        })
    }
}
