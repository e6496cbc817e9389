//! What the state can be asked from outside without a ticket: for recovery, housekeeping and offline tools.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::state::State;
use crate::state::partition::Topic;
use crate::words::action::TopicInfo;
use crate::words::blob::Blob;
use crate::words::effect::EffectPart;
use crate::words::id::{Position, TopicId};

/// A message whose payload lies in a segment that is to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
    /// Where the payload lies.
    pub position: Position,
    /// Its length.
    pub length: u32,
    /// Its checksum.
    pub check: u32,
    /// Key and value bytes.
    pub size: u32,
}

/// Bytes of an effect that lie in a segment that is to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedEffect {
    /// Which effect.
    pub number: u64,
    /// Which bytes of it.
    pub part: EffectPart,
    /// The bytes.
    pub blob: Blob,
}

impl State {
    /// At most `max` pieces of effects that lie in `segment`. Walks every record: not for the deciding thread.
    #[must_use]
    pub fn effects_pinned_in(&self, segment: u32, max: usize) -> Vec<PinnedEffect> {
        let pieces = self.effects.after(0).flat_map(|(number, effect)| {
            [EffectPart::About, EffectPart::Ending]
                .into_iter()
                .filter_map(move |part| Some(PinnedEffect { number, part, blob: effect.blob(part)? }))
        });
        pieces.filter(|piece| piece.blob.position.segment() == segment).take(max).collect()
    }

    /// Payload bytes still needed, by segment; a segment that is not listed holds none.
    #[must_use]
    pub const fn live_bytes(&self) -> &BTreeMap<u32, u64> {
        &self.live
    }

    /// How far into each segment payloads reach that are still needed. Walks everything: for a start and for tools.
    #[must_use]
    pub fn payload_ends(&self) -> BTreeMap<u32, u32> {
        let slots = self.each_topic().flat_map(|topic| &topic.partitions).flat_map(|lane| lane.slots.iter());
        let messages = slots.map(|(_, slot)| (slot.position, slot.length));
        let effects = self.effects.after(0).flat_map(|(_, effect)| {
            let parts = [EffectPart::About, EffectPart::Ending].into_iter();
            parts.filter_map(move |part| effect.blob(part)).map(|blob| (blob.position, blob.length))
        });
        let mut ends = BTreeMap::new();
        for (position, length) in messages.chain(effects).filter(|(_, length)| *length > 0) {
            let end: &mut u32 = ends.entry(position.segment()).or_default();
            *end = (*end).max(position.offset().saturating_add(length));
        }
        ends
    }

    /// All topics, in the order of their creation.
    pub fn topics(&self) -> impl Iterator<Item = TopicInfo> {
        self.each_topic().map(Topic::info)
    }

    /// Messages kept in the whole shard.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.each_topic()
            .flat_map(|topic| &topic.partitions)
            .map(|partition| partition.messages + partition.past_messages)
            .sum()
    }

    /// Groups in the whole shard.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.each_topic().map(|topic| topic.groups.len()).sum()
    }

    /// At most `max` messages whose payload lies in `segment`. Walks every message: not for the deciding thread.
    #[must_use]
    pub fn pinned_in(&self, segment: u32, max: usize) -> Vec<Pinned> {
        let slots = self.each_topic().flat_map(|topic| {
            topic.partitions.iter().enumerate().flat_map(move |(partition, lane)| {
                lane.slots.iter().map(move |(_, slot)| (topic.id, partition, slot))
            })
        });
        let pinned = slots.filter(|(_, _, slot)| slot.position.segment() == segment).map(
            |(topic, partition, slot)| Pinned {
                topic,
                partition: u32::try_from(partition).expect("partitions are counted in u32"),
                offset: slot.offset,
                position: slot.position,
                length: slot.length,
                check: slot.check,
                size: slot.size,
            },
        );
        pinned.take(max).collect()
    }
}
