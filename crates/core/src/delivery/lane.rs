//! A group's side of one partition: what is ready, and the order in which it goes.
//!
//! The order of claims lives here: [`Lane::candidate`] is the one place that says which message of a partition goes
//! next. None of it is remembered: a new run of the shard builds it from the state.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use crate::state::group::Progress;
use crate::state::partition::{Partition, Rank};
use crate::words::id::{KeyHash, Position, Time};
use crate::words::topic::Order;

/// Messages passed over by the cursor that count as one looked at.
const PASSED_PER_STEP: u64 = 16;
/// Messages of one partition that may wait for an earlier one with the same key. Beyond it the group looks no further
/// until some are done, so that one key with a million messages does not cost a million entries.
const PARKED_MAX: usize = 1 << 16;

/// A group's side of one partition.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Every plain message below this sequence number was looked at once.
    pub(crate) cursor: u64,
    /// Messages that may be delivered now and that the cursor skips: those with a priority, those that were
    /// scheduled and are due, and what came back without an attempt.
    pub(crate) fresh: BTreeSet<Rank>,
    /// Retries that are due.
    pub(crate) retries: Retries,
    /// Deliveries for which both a retry and a fresh message stood ready: says whose turn it is.
    pub(crate) contests: u64,
    pub(crate) keys: Keys,
    /// Since when it has been running into the window, while there was something to deliver; zero if it is not.
    pub(crate) full_since: Time,
}

/// Retries that are due: by priority, then by the time at which they became due, then by sequence number.
///
/// By due time and not by sequence number, or a message whose holders hang would come back for ever before those
/// behind it: among equals, a retry waits for those that were due before it and for nothing else.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    order: BTreeSet<(Reverse<u8>, Time, u64)>,
    /// The place of each, so that it is found by its sequence number.
    places: BTreeMap<u64, (Reverse<u8>, Time)>,
}

impl Retries {
    /// The one that goes next.
    pub(crate) fn first(&self) -> Option<u64> {
        self.order.first().map(|(.., sequence)| *sequence)
    }

    pub(crate) fn insert(&mut self, priority: Reverse<u8>, due: Time, sequence: u64) {
        self.remove(sequence);
        self.order.insert((priority, due, sequence));
        self.places.insert(sequence, (priority, due));
    }

    pub(crate) fn remove(&mut self, sequence: u64) {
        if let Some((priority, due)) = self.places.remove(&sequence) {
            self.order.remove(&(priority, due, sequence));
        }
    }
}

/// Which keys are busy, in topics that keep the order of keys. Follows from what the group has not settled.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The message of each key that goes first, and since when it has if it waited for another one.
    heads: BTreeMap<KeyHash, (u64, Time)>,
    /// The same, the other way round.
    keys: BTreeMap<u64, KeyHash>,
    /// Messages that were looked at and wait for the head of their key.
    parked: BTreeMap<KeyHash, BTreeSet<u64>>,
    parked_count: usize,
}

impl Keys {
    /// Whether another message of the key goes first.
    pub(crate) fn is_busy(&self, key: KeyHash, sequence: u64) -> bool {
        self.heads.get(&key).is_some_and(|(head, _)| *head != sequence)
    }

    /// The message goes first among those of its key.
    pub(crate) fn set_head(&mut self, key: KeyHash, sequence: u64) {
        // One that is the head already stays it, and does not forget since when.
        if key != KeyHash::NONE && self.heads.get(&key).is_none_or(|(head, _)| *head != sequence) {
            self.put_head(key, sequence, Time(0));
        }
    }

    fn put_head(&mut self, key: KeyHash, sequence: u64, since: Time) {
        self.heads.insert(key, (sequence, since));
        self.keys.insert(sequence, key);
    }

    /// Since when the message has gone first among those of its key; zero if it never waited for another one.
    pub(crate) fn head_since(&self, sequence: u64) -> Time {
        let head = self.keys.get(&sequence).and_then(|key| self.heads.get(key));
        head.map_or(Time(0), |(_, since)| *since)
    }

    /// The message waits for the head of its key.
    pub(crate) fn park(&mut self, key: KeyHash, sequence: u64) {
        self.parked_count += usize::from(self.parked.entry(key).or_default().insert(sequence));
    }

    pub(crate) const fn parked(&self) -> usize {
        self.parked_count
    }

    /// The message is settled: the next one of its key, if one waits, is the head from now on.
    pub(crate) fn finish(&mut self, sequence: u64, now: Time) -> Option<u64> {
        let key = self.keys.remove(&sequence)?;
        self.heads.remove(&key);
        let waiting = self.parked.get_mut(&key)?;
        let next = waiting.pop_first();
        if waiting.is_empty() {
            self.parked.remove(&key);
        }
        let next = next?;
        self.parked_count -= 1;
        self.put_head(key, next, now);
        Some(next)
    }
}

/// No more may be looked at for this input.
struct UsedUp;

/// Something was looked at.
fn use_up(steps: &mut usize) -> Result<(), UsedUp> {
    *steps = steps.checked_sub(1).ok_or(UsedUp)?;
    Ok(())
}

/// A partition as one group sees it.
pub(crate) struct View<'a> {
    pub(crate) lane: &'a Partition,
    pub(crate) progress: &'a Progress,
    /// Only what lies below is visible.
    pub(crate) durable: Position,
    pub(crate) order: Order,
    /// Of a hundred deliveries, how many may be retries while fresh messages wait.
    pub(crate) share: u64,
}

impl View<'_> {
    /// The message is kept and the group's to settle.
    fn is_owed(&self, sequence: u64) -> bool {
        self.lane.slots.get(sequence).is_some() && !self.progress.is_settled(sequence)
    }

    fn is_visible(&self, sequence: u64) -> bool {
        self.lane.slots.get(sequence).is_some_and(|slot| slot.position < self.durable)
    }

    /// The cursor passes it over: it comes by way of [`Lane::fresh`].
    fn is_special(&self, sequence: u64) -> bool {
        let slots = &self.lane.slots;
        slots.due(sequence) > Time(0) || (self.order == Order::Priority && slots.priority(sequence) > 0)
    }

    pub(crate) fn rank(&self, sequence: u64) -> Rank {
        let counts = self.order == Order::Priority;
        (Reverse(if counts { self.lane.slots.priority(sequence) } else { 0 }), sequence)
    }

    pub(crate) fn key(&self, sequence: u64) -> KeyHash {
        if self.order == Order::Key { self.lane.slots.key(sequence) } else { KeyHash::NONE }
    }
}

impl Lane {
    /// The message to deliver next. While both retries and fresh messages stand ready, retries get their share and
    /// no more; when only one kind does, it gets everything.
    ///
    /// None also if the steps are used up: what was not looked at may come before what was.
    pub(crate) fn candidate(&mut self, view: &View<'_>, steps: &mut usize) -> Option<u64> {
        let retry = self.next_retry(view, steps).ok()?;
        let fresh = self.next_fresh(view, steps).ok()?;
        let (Some(retry), Some(fresh)) = (retry, fresh) else { return retry.or(fresh) };
        let before = (self.contests * view.share).div_ceil(100);
        self.contests += 1;
        let after = (self.contests * view.share).div_ceil(100);
        // The first contest goes to the retry: however small its share, it is never nothing.
        Some(if after > before { retry } else { fresh })
    }

    fn next_retry(&mut self, view: &View<'_>, steps: &mut usize) -> Result<Option<u64>, UsedUp> {
        while let Some(sequence) = self.retries.first() {
            if !view.is_owed(sequence) {
                self.retries.remove(sequence);
                self.drop_head(sequence);
            } else if self.keys.is_busy(view.key(sequence), sequence) {
                self.retries.remove(sequence);
                self.keys.park(view.key(sequence), sequence);
            } else {
                // It may have been moved and its new copy not be durable yet: it is looked at again when it is.
                return Ok(view.is_visible(sequence).then_some(sequence));
            }
            use_up(steps)?;
        }
        Ok(None)
    }

    /// The first fresh message by priority and offset whose key is free.
    fn next_fresh(&mut self, view: &View<'_>, steps: &mut usize) -> Result<Option<u64>, UsedUp> {
        loop {
            let listed = self.next_listed(view, steps)?;
            let mut plain = self.next_plain(view, steps)?.map(|sequence| (Reverse(0), sequence));
            if self.keys.parked() >= PARKED_MAX {
                plain = plain.filter(|(_, sequence)| !self.keys.is_busy(view.key(*sequence), *sequence));
            }
            let Some(rank) = listed.into_iter().chain(plain).min() else { return Ok(None) };
            let (_, sequence) = rank;
            let key = view.key(sequence);
            if !self.keys.is_busy(key, sequence) {
                // It may be new, or moved, and not durable yet: what comes after it waits with it.
                return Ok(view.is_visible(sequence).then_some(sequence));
            }
            self.take(rank);
            self.keys.park(key, sequence);
            use_up(steps)?;
        }
    }

    /// The first message of [`Lane::fresh`] that can go.
    fn next_listed(&mut self, view: &View<'_>, steps: &mut usize) -> Result<Option<Rank>, UsedUp> {
        loop {
            let first = self.fresh.iter().find(|(_, sequence)| {
                // A new one that is not durable yet does not hold up those with a lower priority. Where offsets or
                // keys keep their order, nothing is passed over.
                !view.is_owed(*sequence) || view.is_visible(*sequence) || view.order != Order::Priority
            });
            let Some(&(rank, sequence)) = first else { return Ok(None) };
            if view.is_owed(sequence) {
                return Ok(Some((rank, sequence)));
            }
            self.fresh.remove(&(rank, sequence));
            self.drop_head(sequence);
            use_up(steps)?;
        }
    }

    /// The first plain message at the cursor that the group has neither been given nor settled.
    fn next_plain(&mut self, view: &View<'_>, steps: &mut usize) -> Result<Option<u64>, UsedUp> {
        loop {
            let from = view.progress.settled.next_gap(self.cursor.max(view.progress.floor));
            let Some(sequence) = view.lane.slots.next_alive(from) else {
                self.cursor = view.lane.slots.next();
                return Ok(None);
            };
            self.cursor = sequence;
            let passed = view.progress.pending.contains_key(&sequence) || view.progress.is_settled(sequence);
            if passed || view.is_special(sequence) {
                self.cursor += 1;
                // Passing over is cheap: many make one step.
                if self.cursor.is_multiple_of(PASSED_PER_STEP) {
                    use_up(steps)?;
                }
                continue;
            }
            return Ok(Some(sequence));
        }
    }

    /// A message at the head of its key is gone without being settled here: the next one takes its place.
    fn drop_head(&mut self, sequence: u64) {
        if let Some(next) = self.keys.finish(sequence, Time(0)) {
            self.fresh.insert((Reverse(0), next));
        }
    }

    /// The message is no longer to be looked at.
    pub(crate) fn take(&mut self, rank: Rank) {
        let (_, sequence) = rank;
        self.retries.remove(sequence);
        self.fresh.remove(&rank);
        if self.cursor == sequence {
            self.cursor += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn retries_go_by_priority_then_by_due_time_then_by_sequence() {
        let mut retries = Retries::default();
        for (priority, due, sequence) in [(0, 9, 1), (0, 5, 7), (0, 5, 6), (3, 20, 9), (0, 8, 1)] {
            retries.insert(Reverse(priority), Time(due), sequence);
        }
        retries.remove(7);
        retries.remove(4);
        let order = core::iter::from_fn(|| retries.first().inspect(|first| retries.remove(*first)));
        assert_eq!(order.collect::<Vec<_>>(), [9, 6, 1]);
        assert!(retries.order.is_empty() && retries.places.is_empty());
    }

    #[test]
    fn one_message_of_a_key_at_a_time_in_order() {
        let mut keys = Keys::default();
        let (one, two) = (KeyHash(1), KeyHash(2));
        keys.set_head(one, 5);
        assert!(keys.is_busy(one, 6) && !keys.is_busy(one, 5) && !keys.is_busy(two, 6));
        for sequence in [9, 7, 9] {
            keys.park(one, sequence);
        }
        assert_eq!((keys.parked(), keys.finish(5, Time(3)), keys.parked()), (2, Some(7), 1));
        keys.set_head(one, 7);
        assert_eq!((keys.head_since(7), keys.head_since(9)), (Time(3), Time(0)));
        assert!(keys.is_busy(one, 9));
        assert_eq!(
            (keys.finish(9, Time(4)), keys.finish(7, Time(4)), keys.finish(9, Time(4))),
            (None, Some(9), None)
        );
        assert!(!keys.is_busy(one, 10) && keys.parked() == 0 && keys.parked.is_empty());
        keys.set_head(KeyHash::NONE, 3);
        assert!(!keys.is_busy(KeyHash::NONE, 4));
    }
}
