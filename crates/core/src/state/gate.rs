//! What is remembered of an identity for a while: the produce gate, the consume gate of each group, and commits.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::state::table::{SeededHash, Table};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Identity, Time};

/// Entries whose time comes within the same stretch of this length wait in one queue.
const STRETCH_MS: u64 = 1000;

/// Identities with what is known of them, forgotten in the order in which their time comes, to the second.
///
/// Times come in order as long as the lifetime and the clock stay what they are. After a start with a shorter
/// lifetime, or with the clock set back, they do not: in one queue a late record would then keep all those behind it.
///
/// A queue may hold entries that a later renewal made stale; they are skipped when their turn comes. Listing the records
/// walks the queues.
#[derive(Clone, Debug)]
pub(crate) struct Gate<V> {
    records: Table<Identity, Record<V>>,
    /// By stretch; none is empty.
    queues: BTreeMap<u64, VecDeque<(Time, Identity)>>,
    /// Entries of all queues.
    queued: usize,
}

#[derive(Clone, Copy, Debug)]
struct Record<V> {
    until: Time,
    value: V,
}

impl<V: Copy> Gate<V> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { records: Table::new(SeededHash(seed)), queues: BTreeMap::new(), queued: 0 }
    }

    /// A gate that knows nothing yet, with the same seed.
    pub(crate) fn emptied(&self) -> Self {
        Self { records: Table::new(self.records.hash()), queues: BTreeMap::new(), queued: 0 }
    }

    /// What is known of `identity`, unless its time has passed.
    pub(crate) fn get(&self, identity: &Identity, now: Time) -> Option<V> {
        self.records.get(identity).filter(|record| record.until > now).map(|record| record.value)
    }

    /// Remembers `identity` until then, instead of whatever was known.
    pub(crate) fn insert(&mut self, identity: Identity, until: Time, value: V) {
        self.restore(until, identity, Some(value));
    }

    /// Forgets `identity` at once; false if it was not known. Its place in the queue stays until its turn comes.
    pub(crate) fn remove(&mut self, identity: &Identity) -> bool {
        self.records.remove(identity).is_some()
    }

    /// What is known of `identity`, also if its time has passed.
    pub(crate) fn known(&self, identity: &Identity) -> Option<V> {
        self.records.get(identity).map(|record| record.value)
    }

    /// What is known of `identity` is something else from now on, for as long as before.
    pub(crate) fn change(&mut self, identity: &Identity, value: V) {
        if let Some(record) = self.records.get_mut(identity) {
            record.value = value;
        }
    }

    /// Forgets `identity` at once, and its place in the queue, too: that is searched for.
    pub(crate) fn remove_whole(&mut self, identity: &Identity) -> Option<V> {
        let Record { until, value } = self.records.remove(identity)?;
        let stretch = until.0 / STRETCH_MS;
        if let Some(queue) = self.queues.get_mut(&stretch)
            && let Some(place) = queue.iter().position(|entry| *entry == (until, *identity))
        {
            queue.remove(place);
            self.queued -= 1;
            if queue.is_empty() {
                self.queues.remove(&stretch);
            }
        }
        Some(value)
    }

    /// Forgets at most `most` of the oldest entries whose time is `upto` or earlier.
    pub(crate) fn forget(&mut self, upto: Time, most: u32) {
        self.forget_each(upto, most, |_, _| {});
    }

    /// The same, and tells what was known of each.
    pub(crate) fn forget_each(&mut self, upto: Time, most: u32, mut gone: impl FnMut(Identity, V)) {
        for _ in 0..most {
            let Some(mut first) = self.queues.first_entry() else { break };
            let Some((until, identity)) = first.get_mut().pop_front_if(|(until, _)| *until <= upto) else {
                break;
            };
            if first.get().is_empty() {
                first.remove();
            }
            self.queued -= 1;
            if self.records.get(&identity).is_some_and(|record| record.until <= until)
                && let Some(record) = self.records.remove(&identity)
            {
                gone(identity, record.value);
            }
        }
    }

    /// When the first entry's time comes.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.queues.first_key_value()?.1.front().map(|&(until, _)| until)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many [`Gate::entries`] there are.
    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }

    /// Queue entries with their value, first to go first; `None` for one that was renewed since.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Time, Identity, Option<V>)> {
        self.queues.values().flatten().map(|&(until, identity)| {
            let current = self.records.get(&identity).filter(|record| record.until == until);
            (until, identity, current.map(|record| record.value))
        })
    }

    /// Puts back an entry as [`Gate::entries`] listed it.
    pub(crate) fn restore(&mut self, until: Time, identity: Identity, value: Option<V>) {
        if let Some(value) = value {
            self.records.insert(identity, Record { until, value });
        }
        self.queue(until, identity);
    }

    /// Remembers `identity`, of which nothing may be known; false if something is.
    pub(crate) fn add(&mut self, until: Time, identity: Identity, value: V) -> bool {
        if self.records.insert(identity, Record { until, value }).is_some() {
            return false;
        }
        self.queue(until, identity);
        true
    }

    fn queue(&mut self, until: Time, identity: Identity) {
        self.queues.entry(until.0 / STRETCH_MS).or_default().push_back((until, identity));
        self.queued += 1;
    }
}

/// All entries, first to go first.
pub(crate) fn put_gate<V: Copy>(out: &mut Vec<u8>, gate: &Gate<V>, put: impl Fn(&mut Vec<u8>, V)) {
    out.put_length(gate.queued());
    for (until, identity, value) in gate.entries() {
        out.put_u64(until.0);
        out.extend_from_slice(&identity.0);
        out.put_u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(out, value);
        }
    }
}

/// Reads entries back, each with its value.
pub(crate) fn take_gate<V: Copy>(
    take: &mut Take<'_>,
    gate: &mut Gate<V>,
    value: impl Fn(&mut Take<'_>) -> Result<V, Malformed>,
) -> Result<(), Malformed> {
    for _ in 0..take.count(25)? {
        let (until, identity) = (Time(take.u64()?), take.identity()?);
        let value = if take.u8()? == 0 { None } else { Some(value(take)?) };
        gate.restore(until, identity, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> Identity {
        Identity([n; 16])
    }

    #[test]
    fn an_identity_is_known_until_its_time_and_not_a_moment_longer() {
        let mut gate = Gate::new(7);
        gate.insert(id(1), Time(10), 'a');
        assert_eq!((gate.get(&id(1), Time(9)), gate.get(&id(1), Time(10))), (Some('a'), None));
        assert_eq!(gate.get(&id(2), Time(0)), None);
    }

    #[test]
    fn forgetting_is_bounded_and_spares_the_renewed() {
        let mut gate = Gate::new(7);
        gate.insert(id(1), Time(10), 'a');
        gate.insert(id(2), Time(11), 'b');
        gate.insert(id(1), Time(30), 'c');
        gate.forget(Time(20), 1);
        assert_eq!((gate.len(), gate.next_expiry()), (2, Some(Time(11))));
        gate.forget(Time(20), 9);
        assert_eq!((gate.len(), gate.get(&id(1), Time(20))), (1, Some('c')));
        gate.forget(Time(30), 9);
        assert_eq!((gate.len(), gate.next_expiry()), (0, None));
    }

    #[test]
    fn a_late_record_does_not_keep_those_behind_it() {
        let mut gate = Gate::new(7);
        gate.insert(id(1), Time(90_000), 'a');
        gate.insert(id(2), Time(10_000), 'b');
        gate.insert(id(3), Time(11_000), 'c');
        assert_eq!((gate.next_expiry(), gate.queued()), (Some(Time(10_000)), 3));
        gate.forget(Time(20_000), 9);
        assert_eq!((gate.len(), gate.queued(), gate.next_expiry()), (1, 1, Some(Time(90_000))));
        gate.forget(Time(90_000), 9);
        assert_eq!((gate.len(), gate.queued(), gate.next_expiry()), (0, 0, None));
    }
}
