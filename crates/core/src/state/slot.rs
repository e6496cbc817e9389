//! The messages of one partition, without their payloads.
//!
//! Slots lie in chunks of fixed size, so that appending never copies what is there, and a chunk whose messages
//! are all gone gives its memory back even while an older message is still waiting. Neighbours that are all gone are
//! one gap, however many they are: what is kept grows with the messages that wait, not with those that came after
//! them.

mod history;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::words::id::{Identity, KeyHash, NO_TOPIC, Position, Spotted, Time};

/// Slots of one chunk.
pub(crate) const CHUNK_SLOTS: usize = 512;
/// Marks a slot in [`Slot::waiting`] as gone.
const GONE: u16 = u16::MAX;
/// Stands for "no identity" beside a slot; no digest is all zeros.
const NO_IDENTITY: Identity = Identity([0; 16]);
/// Stands for "born here" beside a slot; no topic has that number.
const BORN_HERE: Spotted = Spotted { topic: NO_TOPIC, partition: 0, offset: 0 };

/// What is kept in memory of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) offset: u64,
    /// Where the payload lies in the log.
    pub(crate) position: Position,
    pub(crate) at: Time,
    /// Length of the payload in the log.
    pub(crate) length: u32,
    /// Key and value bytes.
    pub(crate) size: u32,
    /// Checksum of the payload.
    pub(crate) check: u32,
    /// Number of its retry policy; see [`crate::state::policies::Policies`].
    pub(crate) policy: u16,
    /// Groups that are not done with it yet, or [`GONE`].
    pub(crate) waiting: u16,
}

impl Slot {
    pub(crate) const fn is_gone(&self) -> bool {
        self.waiting == GONE
    }

    pub(crate) const fn mark_gone(&mut self) {
        self.waiting = GONE;
    }
}

/// What only some messages have; kept beside the slots of a chunk if one of them has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) identity: Identity,
    pub(crate) key: KeyHash,
    /// When it is to go out; 0 if it is not scheduled, [`Time::NEVER`] once it is cancelled.
    pub(crate) due: Time,
    pub(crate) priority: u8,
    /// Where it was born, if it was stored before.
    pub(crate) origin: Option<Spotted>,
    /// No reader is to begin work on it from then on; 0 if it has no such time.
    pub(crate) deadline: Time,
    /// Every group was done with it once, and it stayed: it is history.
    pub(crate) past: bool,
}

impl Default for Beside {
    fn default() -> Self {
        Self {
            identity: NO_IDENTITY,
            key: KeyHash::NONE,
            due: Time(0),
            priority: 0,
            deadline: Time(0),
            past: false,
            origin: None,
        }
    }
}

/// One kind of value beside the slots: either none of the chunk's slots has one, or the list is as long as the slots.
#[derive(Clone, Debug)]
pub(crate) struct Column<T> {
    list: Vec<T>,
}

impl<T: Copy + PartialEq> Column<T> {
    const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Sets the value of the slot at `index`; all before it that were never set have `none`.
    fn set(&mut self, index: usize, value: T, none: T) {
        if value == none && index >= self.list.len() {
            return;
        }
        if index >= self.list.len() {
            self.list.resize(index + 1, none);
        }
        self.list[index] = value;
    }

    fn get(&self, index: usize, none: T) -> T {
        self.list.get(index).copied().unwrap_or(none)
    }
}

/// Where an offset leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A message is here, under this sequence number.
    Here(u64),
    /// A message was here, or may have been: it is gone.
    Gone,
    /// No message of this partition ever had this offset.
    Never,
}

/// Neighbouring slots, or a gap where they were.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// Sequence number of its first slot; a multiple of [`CHUNK_SLOTS`].
    pub(crate) start: u64,
    /// Slots that were here and are all gone: whole chunks of them. Zero for a chunk that has slots.
    pub(crate) gap: u64,
    pub(crate) first_offset: u64,
    pub(crate) last_offset: u64,
    /// Empty in a gap.
    pub(crate) slots: Vec<Slot>,
    identities: Column<Identity>,
    keys: Column<KeyHash>,
    dues: Column<Time>,
    priorities: Column<u8>,
    origins: Column<Spotted>,
    deadlines: Column<Time>,
    past: Column<bool>,
    /// Slots that are not gone.
    pub(crate) alive: usize,
    /// Of those, the ones that no group has to settle and that are kept all the same.
    kept: usize,
    /// Whether no slot will be added any more.
    pub(crate) full: bool,
}

impl Chunk {
    pub(crate) fn new(start: u64, first_offset: u64, last_offset: u64, full: bool) -> Self {
        Self {
            start,
            gap: 0,
            first_offset,
            last_offset,
            slots: Vec::new(),
            identities: Column::new(),
            keys: Column::new(),
            dues: Column::new(),
            priorities: Column::new(),
            origins: Column::new(),
            deadlines: Column::new(),
            past: Column::new(),
            alive: 0,
            kept: 0,
            full,
        }
    }

    /// Adds a slot that is not gone, or the memory of one that is.
    pub(crate) fn add(&mut self, slot: Slot, beside: Beside) {
        let index = self.slots.len();
        self.identities.set(index, beside.identity, NO_IDENTITY);
        self.keys.set(index, beside.key, KeyHash::NONE);
        self.dues.set(index, beside.due, Time(0));
        self.priorities.set(index, beside.priority, 0);
        self.origins.set(index, beside.origin.unwrap_or(BORN_HERE), BORN_HERE);
        self.deadlines.set(index, beside.deadline, Time(0));
        self.past.set(index, beside.past, false);
        self.alive += usize::from(!slot.is_gone());
        self.slots.push(slot);
        self.kept += usize::from(self.is_kept(index));
    }

    pub(crate) fn beside(&self, index: usize) -> Beside {
        Beside {
            identity: self.identities.get(index, NO_IDENTITY),
            key: self.keys.get(index, KeyHash::NONE),
            due: self.dues.get(index, Time(0)),
            priority: self.priorities.get(index, 0),
            origin: self.origin(index),
            deadline: self.deadlines.get(index, Time(0)),
            past: self.past.get(index, false),
        }
    }

    fn origin(&self, index: usize) -> Option<Spotted> {
        Some(self.origins.get(index, BORN_HERE)).filter(|origin| *origin != BORN_HERE)
    }

    /// Where slots were that are all gone.
    pub(crate) fn gap(start: u64, gap: u64, first_offset: u64, last_offset: u64) -> Self {
        Self { gap, ..Self::new(start, first_offset, last_offset, true) }
    }

    /// Sequence number of the first slot behind it.
    fn end(&self) -> u64 {
        let here = if self.full { CHUNK_SLOTS } else { self.slots.len() };
        self.start + if self.gap > 0 { self.gap } else { here as u64 }
    }

    const fn is_gap(&self) -> bool {
        self.gap > 0
    }

    /// Over how many offsets a chunk goes that has all its slots, if they go on as these do.
    fn width(&self) -> u64 {
        let range = self.last_offset.saturating_sub(self.first_offset);
        let steps = (self.slots.len() as u64).saturating_sub(1);
        let step = range.checked_div(steps).unwrap_or(1);
        step.saturating_mul(CHUNK_SLOTS as u64).max(1)
    }

    /// Index of the slot with this offset, which lies in its range.
    fn place_of(&self, offset: u64) -> Option<usize> {
        // Offsets that rise evenly, as in a topic with one partition, tell the place.
        let steps = self.slots.len().saturating_sub(1) as u64;
        let (ahead, range) = (offset - self.first_offset, self.last_offset - self.first_offset);
        let guess = ahead.saturating_mul(steps).checked_div(range).unwrap_or(0) as usize;
        match self.slots.get(guess) {
            Some(slot) if slot.offset == offset => Some(guess),
            _ => self.slots.binary_search_by_key(&offset, |slot| slot.offset).ok(),
        }
    }
}

/// All slots of a partition, by sequence number: a count of messages ever stored in the partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// Sequence number of the first slot of the first chunk; a multiple of [`CHUNK_SLOTS`].
    pub(crate) base: u64,
    /// Every offset below this belonged to a chunk that is dropped, or to another partition.
    pub(crate) dropped_below: u64,
    pub(crate) chunks: VecDeque<Chunk>,
}

impl Slots {
    /// Sequence number of the next slot.
    pub(crate) fn next(&self) -> u64 {
        self.chunks.back().map_or(self.base, Chunk::end)
    }

    pub(crate) fn push(&mut self, slot: Slot, beside: Beside) -> u64 {
        let sequence = self.next();
        if self.chunks.back().is_none_or(|chunk| chunk.full) {
            self.chunks.push_back(Chunk::new(sequence, slot.offset, slot.offset, false));
        }
        let chunk = self.chunks.back_mut().expect("a chunk was just made sure of");
        chunk.last_offset = slot.offset;
        chunk.add(slot, beside);
        chunk.full = chunk.slots.len() == CHUNK_SLOTS;
        sequence
    }

    /// Chunk and index within it; the chunk may be a gap.
    fn split(&self, sequence: u64) -> Option<(usize, usize)> {
        let holds = |chunk: &Chunk| (chunk.start..chunk.end()).contains(&sequence);
        // Where no gap lies before it, or none behind it, which is nearly always, its place is a matter of arithmetic.
        let ahead = sequence.checked_sub(self.base)? / CHUNK_SLOTS as u64;
        let last = self.chunks.back()?.start / CHUNK_SLOTS as u64;
        let behind = last.saturating_sub(sequence / CHUNK_SLOTS as u64);
        let index = self.place_by(ahead, behind, holds);
        let index = index.unwrap_or_else(|| self.chunks.partition_point(|chunk| chunk.end() <= sequence));
        let chunk = self.chunks.get(index)?;
        Some((index, usize::try_from(sequence - chunk.start).ok()?))
    }

    /// The place of a chunk, if it is the one that many behind the first one, or before the last one.
    fn place_by(&self, ahead: u64, behind: u64, holds: impl Fn(&Chunk) -> bool) -> Option<usize> {
        let last = self.chunks.len().checked_sub(1)?;
        let from_back = usize::try_from(behind).ok().and_then(|behind| last.checked_sub(behind));
        let places = [usize::try_from(ahead).ok(), from_back].into_iter().flatten();
        let mut places = places.filter(|index| self.chunks.get(*index).is_some_and(&holds));
        places.next()
    }

    /// The slot, unless it is gone.
    pub(crate) fn get(&self, sequence: u64) -> Option<&Slot> {
        let (chunk, index) = self.split(sequence)?;
        self.chunks.get(chunk)?.slots.get(index).filter(|slot| !slot.is_gone())
    }

    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut Slot> {
        let (chunk, index) = self.split(sequence)?;
        self.chunks.get_mut(chunk)?.slots.get_mut(index).filter(|slot| !slot.is_gone())
    }

    fn chunk_of(&self, sequence: u64) -> Option<(&Chunk, usize)> {
        let (chunk, index) = self.split(sequence)?;
        self.chunks.get(chunk).map(|chunk| (chunk, index))
    }

    pub(crate) fn identity(&self, sequence: u64) -> Option<Identity> {
        let (chunk, index) = self.chunk_of(sequence)?;
        Some(chunk.identities.get(index, NO_IDENTITY)).filter(|identity| *identity != NO_IDENTITY)
    }

    pub(crate) fn key(&self, sequence: u64) -> KeyHash {
        self.chunk_of(sequence).map_or(KeyHash::NONE, |(chunk, index)| chunk.keys.get(index, KeyHash::NONE))
    }

    /// When it is to go out; 0 if it is not scheduled, [`Time::NEVER`] once it is cancelled.
    pub(crate) fn due(&self, sequence: u64) -> Time {
        self.chunk_of(sequence).map_or(Time(0), |(chunk, index)| chunk.dues.get(index, Time(0)))
    }

    pub(crate) fn priority(&self, sequence: u64) -> u8 {
        self.chunk_of(sequence).map_or(0, |(chunk, index)| chunk.priorities.get(index, 0))
    }

    /// Where it was born, if it was stored before.
    pub(crate) fn origin(&self, sequence: u64) -> Option<Spotted> {
        let (chunk, index) = self.chunk_of(sequence)?;
        chunk.origin(index)
    }

    /// No further attempt of it will be made.
    pub(crate) fn is_cancelled(&self, sequence: u64) -> bool {
        self.due(sequence) == Time::NEVER
    }

    pub(crate) fn cancel(&mut self, sequence: u64) {
        let Some((chunk, index)) = self.split(sequence) else { return };
        if let Some(chunk) = self.chunks.get_mut(chunk)
            && index < chunk.slots.len()
        {
            chunk.dues.set(index, Time::NEVER, Time(0));
        }
    }

    /// Messages that are scheduled or have a priority, with both. Chunks without any cost one look.
    pub(crate) fn special(&self) -> impl Iterator<Item = (u64, Time, u8)> {
        self.chunks.iter().flat_map(|chunk| {
            let plain = chunk.dues.list.is_empty() && chunk.priorities.list.is_empty();
            let slots = if plain { &[][..] } else { &chunk.slots[..] };
            slots.iter().enumerate().filter(|(_, slot)| !slot.is_gone()).filter_map(move |(index, _)| {
                let (due, priority) = (chunk.dues.get(index, Time(0)), chunk.priorities.get(index, 0));
                (due > Time(0) || priority > 0).then_some((chunk.start + index as u64, due, priority))
            })
        })
    }

    /// Takes a slot out, and gives memory back where a chunk has become empty.
    pub(crate) fn remove(&mut self, sequence: u64) {
        let emptied = self.edit(sequence, |chunk, within| {
            chunk.slots[within].mark_gone();
            chunk.alive -= 1;
            chunk.alive == 0 && chunk.full
        });
        if let Some((index, _)) = self.split(sequence).filter(|_| emptied == Some(true)) {
            let chunk = &mut self.chunks[index];
            *chunk = Chunk::gap(chunk.start, CHUNK_SLOTS as u64, chunk.first_offset, chunk.last_offset);
            self.join_gaps(index);
            self.drop_gaps();
        }
    }

    /// Makes one gap of the gap at `index` and those beside it.
    fn join_gaps(&mut self, index: usize) {
        for left in [Some(index), index.checked_sub(1)].into_iter().flatten() {
            if let (Some(first), Some(second)) = (self.chunks.get(left), self.chunks.get(left + 1))
                && first.is_gap()
                && second.is_gap()
            {
                let (gap, last_offset) = (first.gap + second.gap, second.last_offset);
                self.chunks[left] = Chunk::gap(first.start, gap, first.first_offset, last_offset);
                self.chunks.remove(left + 1);
            }
        }
    }

    /// Forgets what lies before the oldest message kept.
    fn drop_gaps(&mut self) {
        while let Some(chunk) = self.chunks.pop_front_if(|chunk| chunk.is_gap()) {
            self.base = chunk.end();
            self.dropped_below = chunk.last_offset + 1;
        }
    }

    /// Adds a chunk that was read back; gaps that lie side by side become one.
    pub(crate) fn restore(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
        if let Some(before) = self.chunks.len().checked_sub(2) {
            self.join_gaps(before);
        }
    }

    /// First sequence number at or after `from` whose slot is not gone.
    pub(crate) fn next_alive(&self, from: u64) -> Option<u64> {
        let (mut index, mut within) = self.split(from.max(self.base))?;
        while let Some(chunk) = self.chunks.get(index) {
            if chunk.alive > 0 {
                let ahead = chunk.slots.iter().skip(within).position(|slot| !slot.is_gone());
                if let Some(ahead) = ahead {
                    return Some(chunk.start + (within + ahead) as u64);
                }
            }
            (index, within) = (index + 1, 0);
        }
        None
    }

    /// Slots that are not gone, oldest first, with their sequence numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Slot)> {
        self.chunks.iter().flat_map(|chunk| {
            let numbered = (chunk.start..).zip(&chunk.slots);
            numbered.filter(|(_, slot)| !slot.is_gone())
        })
    }

    /// First sequence number of the chunk in which `offset` would lie.
    pub(crate) fn near(&self, offset: u64) -> u64 {
        let index = self.chunks.partition_point(|chunk| chunk.last_offset < offset);
        self.chunks.get(index).map_or_else(|| self.next(), |chunk| chunk.start)
    }

    /// Where `offset` leads. Offsets rise with sequence numbers but leave gaps: they count over the whole topic.
    pub(crate) fn find(&self, offset: u64) -> Lookup {
        if offset < self.dropped_below {
            return Lookup::Gone;
        }
        let Some(chunk) = self.chunk_at(offset) else { return Lookup::Never };
        if chunk.is_gap() {
            return Lookup::Gone;
        }
        match chunk.place_of(offset) {
            None => Lookup::Never,
            Some(within) if chunk.slots[within].is_gone() => Lookup::Gone,
            Some(within) => Lookup::Here(chunk.start + within as u64),
        }
    }

    /// The chunk in whose range of offsets this one lies.
    fn chunk_at(&self, offset: u64) -> Option<&Chunk> {
        let holds = |chunk: &Chunk| (chunk.first_offset..=chunk.last_offset).contains(&offset);
        // Where the messages of a topic go round its partitions, every chunk is as wide as the others.
        let (first, last) = (self.chunks.front()?, self.chunks.back()?);
        let ahead = offset.saturating_sub(first.first_offset) / first.width();
        let behind = last.first_offset.saturating_sub(offset).div_ceil(last.width());
        let index = self.place_by(ahead, behind, holds);
        let index = index.unwrap_or_else(|| self.chunks.partition_point(|chunk| chunk.last_offset < offset));
        self.chunks.get(index).filter(|chunk| holds(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(offset: u64) -> Slot {
        Slot {
            offset,
            position: Position(offset * 100),
            at: Time(offset),
            length: 10,
            size: 5,
            check: 0,
            policy: 0,
            waiting: 0,
        }
    }

    fn filled(count: u64) -> Slots {
        let mut slots = Slots::default();
        for n in 0..count {
            let identity = (n % 7 == 3).then_some(Identity([n as u8 | 1; 16]));
            let beside = Beside { identity: identity.unwrap_or(NO_IDENTITY), ..Beside::default() };
            assert_eq!(slots.push(slot(n * 2), beside), n);
        }
        slots
    }

    #[test]
    fn a_slot_is_small() {
        assert!(size_of::<Slot>() <= 40, "a million messages must fit into tens of megabytes");
    }

    #[test]
    fn offsets_are_found_however_unevenly_they_rise() {
        for (name, step) in [
            ("one by one", (|_| 1) as fn(u64) -> u64),
            ("in threes", |_| 3),
            ("by turns", |n| 1 + n % 5),
            ("in bursts", |n| if n % 700 == 0 { 10_000 } else { 1 }),
            ("ever slower", |n| 1 + n / 100),
            ("ever faster", |n| 40 - n.min(3900) / 100),
        ] {
            let (mut slots, mut offsets, mut next) = (Slots::default(), Vec::new(), 17);
            for n in 0..4000 {
                next += step(n);
                assert_eq!(slots.push(slot(next), Beside::default()), n);
                offsets.push(next);
            }
            for n in (512..1536).chain(3000..3010) {
                slots.remove(n);
            }
            for (n, offset) in offsets.iter().enumerate() {
                let gone = (512..1536).contains(&n) || (3000..3010).contains(&n);
                let expected = if gone { Lookup::Gone } else { Lookup::Here(n as u64) };
                assert_eq!(slots.find(*offset), expected, "{name}: {n}");
                let between = n > 0 && offsets[n - 1] + 1 < *offset;
                // Of a gap only the ends are remembered.
                if between && !(513..1536).contains(&n) {
                    assert_eq!(slots.find(offset - 1), Lookup::Never, "{name}: before {n}");
                }
            }
            assert_eq!(slots.find(next + 1), Lookup::Never, "{name}");
        }
    }

    #[test]
    fn offsets_are_found_here_gone_or_never() {
        let mut slots = filled(1500);
        assert_eq!(slots.find(2 * 1400), Lookup::Here(1400));
        assert_eq!((slots.find(3), slots.find(5000)), (Lookup::Never, Lookup::Never));
        slots.remove(1400);
        assert_eq!((slots.find(2800), slots.get(1400)), (Lookup::Gone, None));
        for n in 512..1024 {
            slots.remove(n);
        }
        assert!(slots.chunks[1].is_gap(), "a chunk in the middle gives its memory back");
        assert_eq!((slots.base, slots.find(2 * 600), slots.next_alive(520)), (0, Lookup::Gone, Some(1024)));
        for n in 0..512 {
            slots.remove(n);
        }
        assert_eq!((slots.base, slots.chunks.len(), slots.next()), (1024, 1, 1500));
        assert_eq!((slots.find(0), slots.find(2 * 1024)), (Lookup::Gone, Lookup::Here(1024)));
        assert_eq!(slots.iter().count(), 475);
        for n in 1500..1536 {
            slots.push(slot(n * 2), Beside::default());
        }
        for n in 1024..1536 {
            slots.remove(n);
        }
        assert_eq!(
            (slots.chunks.len(), slots.find(3000), slots.find(4000)),
            (0, Lookup::Gone, Lookup::Never)
        );
    }

    /// One message that no group acks must not make the partition grow with everything that comes and goes behind it.
    #[test]
    fn what_is_gone_behind_an_old_message_is_one_gap() {
        let mut slots = Slots::default();
        slots.push(slot(0), Beside::default());
        for n in 1..200_000_u64 {
            slots.push(slot(n * 2), Beside::default());
            // A hundred are always on their way; they end in an order of their own.
            if n > 101 {
                slots.remove((n - 100) ^ 1);
            }
        }
        assert!(slots.chunks.len() <= 4, "{} chunks for a hundred messages", slots.chunks.len());
        assert_eq!((slots.base, slots.next(), slots.get(0).is_some()), (0, 200_000, true));
        assert_eq!((slots.find(2 * 5_000), slots.get(5_000), slots.next_alive(3)), {
            (Lookup::Gone, None, slots.iter().nth(2).map(|(sequence, _)| sequence))
        });
        assert_eq!(slots.find(2 * 199_999), Lookup::Here(199_999));
        assert_eq!(slots.near(2 * 150_000), 512, "a gap begins where its first slot was");
        slots.remove(0);
        slots.push(slot(400_000), Beside::default());
        for n in slots.iter().map(|(sequence, _)| sequence).collect::<Vec<_>>() {
            slots.remove(n);
        }
        assert!(slots.base > 199_000 && slots.chunks.len() <= 1, "{}", slots.base);
    }

    #[test]
    fn what_is_special_is_found_and_the_rest_costs_nothing() {
        let mut slots = filled(1100);
        assert!(slots.chunks[0].dues.list.is_empty() && slots.special().next().is_none());
        let beside = Beside { due: Time(9), priority: 3, key: KeyHash(5), ..Beside::default() };
        let special = slots.push(slot(9_000), beside);
        slots.cancel(2);
        assert_eq!(slots.special().collect::<Vec<_>>(), [(2, Time::NEVER, 0), (special, Time(9), 3)]);
        assert_eq!((slots.key(special), slots.key(2), slots.due(3)), (KeyHash(5), KeyHash::NONE, Time(0)));
        assert!(slots.is_cancelled(2) && !slots.is_cancelled(special));
        slots.cancel(99_999);
        slots.remove(special);
        assert_eq!(slots.special().count(), 1);
    }

    #[test]
    fn identities_stay_beside_their_slots() {
        let slots = filled(600);
        for n in 0..600 {
            assert_eq!(slots.identity(n), (n % 7 == 3).then_some(Identity([n as u8 | 1; 16])), "{n}");
        }
    }
}
