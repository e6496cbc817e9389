//! One group of one topic, as its workers see it.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{Delivery, RetryPolicy, Time, Token, TopicId};

use crate::oracle::Verdict;

/// Whether a delivery went back unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    No,
    Yes,
    /// It came back after its time was up: the broker may have counted it as lapsed before.
    Perhaps,
}

/// The latest delivery of a message to a group, as its worker knows it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    pub(crate) expires: Time,
    /// The life of the server in which it was handed out.
    pub(crate) life: u64,
    /// When the worker said that it failed.
    pub(crate) failed_at: Option<Time>,
    /// Names it.
    pub(crate) token: Token,
    /// It went back unused.
    pub(crate) released: Released,
    pub(crate) partition: u32,
    pub(crate) key: Option<u64>,
}

/// One group of one topic.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) holds: BTreeMap<u64, Hold>,
    /// Acks that were decided in this life; a crash makes those without an answer uncertain.
    pub(crate) acked: BTreeMap<u64, Acked>,
    /// Nobody outside can know whether these are acked.
    pub(crate) uncertain: BTreeSet<u64>,
    /// Used up, dead or about to be.
    pub(crate) dying: BTreeSet<u64>,
    /// Settled for certain, by an ack that raced with the burial or by the burial.
    pub(crate) closed: BTreeSet<u64>,
    /// Dead letters seen, by source offset: where they lie.
    pub(crate) letters: BTreeMap<u64, (TopicId, u64)>,
    /// Highest offset first delivered in this life, per partition.
    pub(crate) first_seen: BTreeMap<u32, u64>,
    /// When an ack of a key was decided, and for which offset.
    pub(crate) done: BTreeMap<u64, (Time, u64, bool)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) answered: bool,
}

pub(crate) fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(broken()) }
}

/// What an ack or nack can expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Acked before.
    Done,
    /// The one who asks had it last.
    Holder,
    /// Somebody else had it last.
    Other,
    /// Nobody has had it in this life of the server.
    Nobody,
    /// A crash has hidden it.
    Unknown,
}

impl Group {
    /// Whether the group owes nothing more for an offset, or nobody outside can know.
    pub(crate) fn is_finished(&self, offset: u64) -> bool {
        self.acked.contains_key(&offset)
            || self.letters.contains_key(&offset)
            || self.closed.contains(&offset)
            || self.uncertain.contains(&offset)
    }

    pub(crate) fn standing(&self, offset: u64, owner: &str, life: u64) -> Standing {
        if self.acked.contains_key(&offset) {
            return Standing::Done;
        }
        match self.holds.get(&offset).filter(|hold| hold.life == life && hold.released != Released::Yes) {
            Some(hold) if hold.released == Released::Perhaps => Standing::Unknown,
            Some(hold) if hold.owner == owner => Standing::Holder,
            Some(_) => Standing::Other,
            None if self.uncertain.contains(&offset) => Standing::Unknown,
            None => Standing::Nobody,
        }
    }

    /// First deliveries come in the order of offsets. Keyed messages may have waited for one another.
    pub(crate) fn check_order(
        &mut self,
        partition: u32,
        offset: u64,
        attempt: u32,
        key: Option<u64>,
        life: u64,
    ) -> Verdict {
        let seen_now = self.holds.get(&offset).is_some_and(|hold| hold.life == life);
        if attempt > 1 || seen_now || key.is_some() {
            return Ok(());
        }
        let last = self.first_seen.insert(partition, offset);
        ensure(last.is_none_or(|last| last < offset), || {
            format!("order: {offset} of partition {partition} came after {last:?}")
        })
    }

    /// One identity, one piece of work at a time, and none after it is done.
    pub(crate) fn check_key(&self, key: Option<u64>, offset: u64, life: u64, now: Time, ttl: u64) -> Verdict {
        let Some(key) = key else { return Ok(()) };
        if let Some(&(at, first, _)) = self.done.get(&key) {
            let over = at.after_ms(ttl) <= now || first == offset;
            ensure(over, || {
                format!("consume gate: key {key} was done at {at:?} as {first}, now comes {offset}")
            })?;
        }
        let busy = self.holds.iter().find(|(other, hold)| {
            **other != offset
                && hold.key == Some(key)
                && hold.is_live(life, now)
                && !self.acked.contains_key(other)
        });
        ensure(busy.is_none(), || format!("consume gate: key {key} runs as {busy:?} and as {offset}"))
    }
}

impl Hold {
    /// Whether its worker may still believe that it is the only one.
    pub(crate) fn is_live(&self, life: u64, now: Time) -> bool {
        self.life == life && self.released == Released::No && self.failed_at.is_none() && self.expires > now
    }

    /// Whether `delivery` may follow this one.
    pub(crate) fn check_next(
        &self,
        delivery: &Delivery,
        policy: Option<RetryPolicy>,
        life: u64,
        now: Time,
    ) -> Verdict {
        ensure(!self.is_live(life, now), || format!("one holder: {self:?} is still on loan"))?;
        let next = match self.released {
            Released::No => delivery.attempt == self.attempt + 1,
            Released::Yes => delivery.attempt == self.attempt,
            Released::Perhaps => delivery.attempt == self.attempt || delivery.attempt == self.attempt + 1,
        };
        if self.life == life {
            ensure(next, || format!("attempts: {} after {self:?}", delivery.attempt))?;
        } else {
            ensure(delivery.attempt <= self.attempt + 1, || {
                format!("attempts: {} after {self:?}", delivery.attempt)
            })?;
        }
        let backoff = policy.map_or(0, |policy| policy.backoff_ms / 2);
        let failed = self.failed_at.unwrap_or(self.expires);
        let early = self.life == life && self.released == Released::No && failed.after_ms(backoff) > now;
        ensure(!early, || format!("backoff: the next attempt came at {now:?} after {self:?}"))
    }
}
