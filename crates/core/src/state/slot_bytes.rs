//! The messages of a partition as bytes, and back.

use alloc::vec::Vec;

use crate::state::partition::Partition;
use crate::state::slot::{Beside, CHUNK_SLOTS, Chunk, Slot, Slots};
use crate::state::snapshot::SEQUENCE_MAX;
use crate::state::{GROUPS_PER_TOPIC_MAX, State};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Position, Time};
use crate::words::policy::RetryPolicy;

/// Stands in the place of a chunk's "full" for a gap: how many slots were there follows.
const GAP: u8 = 2;

impl State {
    pub(super) fn put_slots(&self, out: &mut Vec<u8>, slots: &Slots) {
        out.put_u64(slots.base);
        out.put_u64(slots.dropped_below);
        out.put_length(slots.chunks.len());
        for chunk in &slots.chunks {
            out.put_u64(chunk.first_offset);
            out.put_u64(chunk.last_offset);
            out.put_u8(if chunk.gap > 0 { GAP } else { u8::from(chunk.full) });
            if chunk.gap > 0 {
                out.put_u64(chunk.gap);
                continue;
            }
            out.put_length(chunk.slots.len());
            for (index, slot) in chunk.slots.iter().enumerate() {
                out.put_u64(slot.offset);
                out.put_u8(u8::from(slot.is_gone()));
                if slot.is_gone() {
                    continue;
                }
                out.put_u64(slot.position.0);
                out.put_u64(slot.at.0);
                out.put_u32(slot.length);
                out.put_u32(slot.size);
                out.put_u32(slot.check);
                out.put_u16(slot.waiting);
                let policy = self.policies.get(slot.policy);
                let has_jitter = policy.is_some_and(RetryPolicy::has_jitter);
                out.put_u8(u8::from(policy.is_some()) | u8::from(has_jitter) << 1);
                if let Some(policy) = policy {
                    policy.encode(out);
                    policy.encode_jitter(out);
                }
                chunk.beside(index).encode(out);
            }
        }
    }

    pub(super) fn take_partition(
        &mut self,
        take: &mut Take<'_>,
        next_offset: u64,
        version: u32,
    ) -> Result<Partition, Malformed> {
        let mut partition = Partition::default();
        partition.slots.base = take.u64()?;
        partition.slots.dropped_below = take.u64()?;
        let aligned = partition.slots.base.is_multiple_of(CHUNK_SLOTS as u64);
        if !aligned || partition.slots.base > SEQUENCE_MAX {
            return Err(take.malformed());
        }
        let mut above = partition.slots.dropped_below;
        let chunks = take.count(21)?;
        for index in 0..chunks {
            let chunk = self.take_chunk(take, &mut partition, version)?;
            let (full, last_offset) = (chunk.full, chunk.last_offset);
            // Offsets rise from chunk to chunk and stay below the topic's next one.
            let rises = above <= chunk.first_offset && chunk.first_offset <= last_offset;
            if !rises || last_offset >= next_offset || (!full && index + 1 != chunks) {
                return Err(take.malformed());
            }
            above = last_offset + 1;
            partition.slots.restore(chunk);
            if partition.slots.next() > SEQUENCE_MAX {
                return Err(take.malformed());
            }
        }
        if above > next_offset {
            return Err(take.malformed());
        }
        Ok(partition)
    }

    fn take_chunk(
        &mut self,
        take: &mut Take<'_>,
        partition: &mut Partition,
        version: u32,
    ) -> Result<Chunk, Malformed> {
        let first_offset = take.u64()?;
        let last_offset = take.u64()?;
        let (kind, start) = (take.u8()?, partition.slots.next());
        if version > 3 && kind == GAP {
            let gap = take.u64()?;
            if gap == 0 || !gap.is_multiple_of(CHUNK_SLOTS as u64) || gap > SEQUENCE_MAX {
                return Err(take.malformed());
            }
            return Ok(Chunk::gap(start, gap, first_offset, last_offset));
        }
        let full = kind != 0;
        let identified = version == 1 && take.u8()? != 0;
        let count = take.count(9)?;
        // A full chunk has all its slots, or once had none if all were gone; a chunk that still grows has at least one.
        let fits = if full { count == CHUNK_SLOTS || count == 0 } else { count < CHUNK_SLOTS && count > 0 };
        if !fits {
            return Err(take.malformed());
        }
        if count == 0 {
            return Ok(Chunk::gap(start, CHUNK_SLOTS as u64, first_offset, last_offset));
        }
        let mut chunk = Chunk::new(start, first_offset, last_offset, full);
        chunk.slots.reserve_exact(count);
        for _ in 0..count {
            let offset = take.u64()?;
            let slot = if take.u8()? == 0 { self.take_slot(take, offset)? } else { gone_slot(offset) };
            let least = chunk.slots.last().map_or(first_offset, |last: &Slot| last.offset.saturating_add(1));
            if offset < least || offset > last_offset {
                return Err(take.malformed());
            }
            let mut beside = Beside::default();
            if !slot.is_gone() {
                beside = Beside::decode(take, version, identified)?;
                self.descent.add(beside.origin);
                partition.count_in(slot.size, beside.past);
                *self.live.entry(slot.position.segment()).or_default() += u64::from(slot.length);
            }
            chunk.add(slot, beside);
        }
        Ok(chunk)
    }

    fn take_slot(&mut self, take: &mut Take<'_>, offset: u64) -> Result<Slot, Malformed> {
        let mut slot = Slot {
            offset,
            position: Position(take.u64()?),
            at: Time(take.u64()?),
            length: take.u32()?,
            size: take.u32()?,
            check: take.u32()?,
            policy: 0,
            waiting: take.u16()?,
        };
        if usize::from(slot.waiting) > GROUPS_PER_TOPIC_MAX {
            return Err(take.malformed());
        }
        let given = take.u8()?;
        let policy = if given & 1 == 0 { None } else { Some(RetryPolicy::decode(take, given & 2 != 0)?) };
        slot.policy = self.policies.acquire(policy).ok_or_else(|| take.malformed())?;
        Ok(slot)
    }
}

/// A slot of which only the offset is known.
const fn gone_slot(offset: u64) -> Slot {
    let mut slot = Slot {
        offset,
        position: Position(0),
        at: Time(0),
        length: 0,
        size: 0,
        check: 0,
        policy: 0,
        waiting: 0,
    };
    slot.mark_gone();
    slot
}
