//! Messages that every group is done with and that are kept all the same, and those with a deadline.

use super::{Chunk, Slots};
use crate::words::id::Time;

impl Chunk {
    /// Whether no group has to settle the slot and it is kept all the same.
    pub(super) fn is_kept(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| slot.waiting == 0) && self.past.get(index, false)
    }
}

impl Slots {
    /// Changes a slot that is not gone, and keeps the count of kept ones true. `None` if it is gone.
    pub(super) fn edit<R>(&mut self, sequence: u64, edit: impl FnOnce(&mut Chunk, usize) -> R) -> Option<R> {
        let (chunk, index) = self.split(sequence)?;
        let chunk = self.chunks.get_mut(chunk)?;
        chunk.slots.get(index).filter(|slot| !slot.is_gone())?;
        chunk.kept -= usize::from(chunk.is_kept(index));
        let result = edit(chunk, index);
        chunk.kept += usize::from(chunk.is_kept(index));
        Some(result)
    }

    /// One group more has to settle a message. False if it is gone.
    pub(crate) fn owe(&mut self, sequence: u64) -> bool {
        self.edit(sequence, |chunk, index| chunk.slots[index].waiting += 1).is_some()
    }

    /// One group less has to. Whether none has to any more; `None` if it is gone.
    pub(crate) fn let_go(&mut self, sequence: u64) -> Option<bool> {
        self.edit(sequence, |chunk, index| {
            let waiting = &mut chunk.slots[index].waiting;
            *waiting = waiting.saturating_sub(1);
            *waiting == 0
        })
    }

    /// The message is history from now on.
    pub(crate) fn mark_past(&mut self, sequence: u64) {
        self.edit(sequence, |chunk, index| chunk.past.set(index, true, false));
    }

    /// Every group was done with it once.
    pub(crate) fn is_past(&self, sequence: u64) -> bool {
        self.chunk_of(sequence).is_some_and(|(chunk, index)| chunk.past.get(index, false))
    }

    /// No group has to settle it, and it is kept all the same.
    pub(crate) fn is_kept(&self, sequence: u64) -> bool {
        self.chunk_of(sequence).is_some_and(|(chunk, index)| chunk.is_kept(index))
    }

    /// First message at or after `from` that is kept although no group has to settle it. Chunks without any cost one
    /// look.
    pub(crate) fn next_kept(&self, from: u64) -> Option<u64> {
        self.next_where(from, |chunk| chunk.kept > 0, Chunk::is_kept)
    }

    /// First message at or after `from` that is more than history.
    pub(crate) fn next_wanted(&self, from: u64) -> Option<u64> {
        let wanted = |chunk: &Chunk, index: usize| !chunk.slots[index].is_gone() && !chunk.is_kept(index);
        self.next_where(from, |chunk| chunk.alive > chunk.kept, wanted)
    }

    /// First sequence number at or after `from` of a slot that fits, in a chunk that may have one.
    fn next_where(
        &self,
        from: u64,
        may_have: impl Fn(&Chunk) -> bool,
        fits: impl Fn(&Chunk, usize) -> bool,
    ) -> Option<u64> {
        let (mut number, mut within) = self.split(from.max(self.base))?;
        while let Some(chunk) = self.chunks.get(number) {
            if may_have(chunk)
                && let Some(index) = (within..chunk.slots.len()).find(|index| fits(chunk, *index))
            {
                return Some(chunk.start + index as u64);
            }
            (number, within) = (number + 1, 0);
        }
        None
    }

    /// From when on no reader is to begin work on it; 0 if it has no such time.
    pub(crate) fn deadline(&self, sequence: u64) -> Time {
        self.chunk_of(sequence).map_or(Time(0), |(chunk, index)| chunk.deadlines.get(index, Time(0)))
    }

    /// Messages with a deadline. Chunks without any cost one look.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = (u64, Time)> {
        self.chunks.iter().flat_map(|chunk| {
            let start = chunk.start;
            let slots = chunk.slots.iter().zip(&chunk.deadlines.list).enumerate();
            slots
                .filter(|(_, (slot, deadline))| !slot.is_gone() && **deadline > Time(0))
                .map(move |(index, (_, deadline))| (start + index as u64, *deadline))
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::state::slot::{Beside, Slot};
    use crate::words::id::Position;

    fn filled(count: u64) -> Slots {
        let mut slots = Slots::default();
        for n in 0..count {
            let slot = Slot {
                offset: n,
                position: Position(n),
                at: Time(n),
                length: 1,
                size: 1,
                check: 0,
                policy: 0,
                waiting: 1,
            };
            let deadline = if n % 600 == 599 { Time(n) } else { Time(0) };
            slots.push(slot, Beside { deadline, ..Beside::default() });
        }
        slots
    }

    #[test]
    fn what_is_kept_is_found_without_a_walk_over_the_rest() {
        let mut slots = filled(2000);
        assert_eq!((slots.next_kept(0), slots.next_wanted(0)), (None, Some(0)));
        for n in [0, 1, 1700] {
            assert_eq!(slots.let_go(n), Some(true));
            assert!(!slots.is_kept(n), "none waits for it, and it is nothing but that");
            slots.mark_past(n);
            assert!(slots.is_kept(n) && slots.is_past(n));
        }
        assert_eq!(
            (slots.next_kept(0), slots.next_kept(2), slots.next_kept(1701)),
            (Some(0), Some(1700), None)
        );
        assert_eq!((slots.next_wanted(0), slots.next_wanted(1700)), (Some(2), Some(1701)));
        assert!(slots.owe(1700), "a late group wants it");
        assert_eq!((slots.next_kept(2), slots.is_past(1700), slots.is_kept(1700)), (None, true, false));
        slots.remove(0);
        assert_eq!((slots.next_kept(0), slots.let_go(0), slots.owe(0)), (Some(1), None, false));
        for n in 1..512 {
            slots.remove(n);
        }
        assert_eq!((slots.base, slots.next_kept(0), slots.next_wanted(0)), (512, None, Some(512)));
    }

    #[test]
    fn deadlines_are_found_and_the_rest_costs_nothing() {
        let mut slots = filled(2000);
        assert!(slots.chunks[0].deadlines.list.is_empty());
        slots.remove(1199);
        let found: Vec<_> = slots.deadlines().collect();
        assert_eq!(found, [(599, Time(599)), (1799, Time(1799))]);
        assert_eq!((slots.deadline(599), slots.deadline(598)), (Time(599), Time(0)));
    }
}
