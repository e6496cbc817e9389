//! One group of one topic, as its workers see it.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{ConsumerId, Delivery, Jitter, Receipt, RetryPolicy, Time, Token, TopicId};

use super::CheckResult;

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
    /// The life of the server in which it was handed out, or the newest one over which it was kept.
    pub(crate) life: u64,
    /// Whether it is in the log for certain: it superseded a holder, or was extended, and either is told when it is
    /// durable.
    pub(crate) sure: bool,
    /// Whether it was handed out, and not only decided.
    pub(crate) seen: bool,
    /// Extensions without an answer.
    pub(crate) extending: u32,
    /// A crash came, and no client can know whether it is on loan: it may be lost, or superseded by one that was never
    /// seen.
    pub(crate) crashed: bool,
    /// That it failed was said and answered: its holder has no other say.
    pub(crate) nacked: bool,
    /// When the worker said that it failed.
    pub(crate) failed_at: Option<Time>,
    /// The worker said so when its time was up: it counts only if that had not been noticed.
    pub(crate) failed_late: bool,
    /// Names it.
    pub(crate) token: Token,
    /// It went back unused.
    pub(crate) released: Released,
    pub(crate) partition: u32,
    /// Its idempotency key.
    pub(crate) key: Option<u64>,
    /// The key by which it is ordered.
    pub(crate) order_key: Option<u64>,
    /// It was pushed into a stream.
    pub(crate) pushed: bool,
    /// The borrowed stream whose credit it takes.
    pub(crate) stream: Option<ConsumerId>,
    /// It was extended when its time was up already: others may have begun meanwhile.
    pub(crate) revived: bool,
    /// What its worker said last may or may not have counted.
    pub(crate) unsure: bool,
    /// Until when its worker put it off when it went back unused.
    pub(crate) not_before: Time,
    /// The wait that its worker asked for when it failed.
    pub(crate) delay_ms: Option<u64>,
    /// An operator wants its next attempt now.
    pub(crate) hurried: bool,
}

/// One group of one topic.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Whether it exists for certain.
    pub(crate) present: bool,
    /// It was moved or deleted at least once: what no worker holds may stand in any way.
    pub(crate) shaken: bool,
    /// Messages with a lower number are not owed for certain.
    pub(crate) owed_from: u64,
    /// When it was last created or moved, as events are counted.
    pub(crate) since: u64,
    /// How often each offset was handed out.
    pub(crate) handouts: BTreeMap<u64, u64>,
    pub(crate) holds: BTreeMap<u64, Hold>,
    /// Acks that were decided in this life; a crash makes those without an answer uncertain.
    pub(crate) acked: BTreeMap<u64, Acked>,
    /// No client can know whether these are acked.
    pub(crate) uncertain: BTreeSet<u64>,
    /// Used up, dead or about to be.
    pub(crate) dying: BTreeSet<u64>,
    /// Settled for certain, by an ack that raced with the burial or by the burial.
    pub(crate) closed: BTreeSet<u64>,
    /// Dead letters seen, by source offset: where they lie.
    pub(crate) letters: BTreeMap<u64, (TopicId, u64)>,
    /// Plain offsets first delivered in this life, by partition and in the order of tokens: what a request is
    /// answered with may be decided before what a stream gets and be seen after it.
    pub(crate) first_seen: BTreeMap<(u32, Token), u64>,
    /// Moves and deletions whose answer has not come: a crash may undo them.
    pub(crate) moving: u32,
    /// A crash came before the answer to one of them: holders from before may have a say again.
    pub(crate) undone: bool,
    /// What it may have been done with before it was deleted: a crash that undoes the deletion brings that back.
    pub(crate) settled: BTreeSet<u64>,
    /// When an ack of a key was decided, and for which offset.
    pub(crate) done: BTreeMap<u64, (Time, u64, bool)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) answered: bool,
}

pub(crate) fn ensure(holds: bool, broken: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(broken()) }
}

/// What an ack or nack can expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerStanding {
    /// Acked before.
    Done,
    /// The worker that asks had it last.
    Holder,
    /// Another owner had it last.
    Other,
    /// No worker has had it in this life of the server.
    NeverHeld,
    /// A crash has hidden it.
    Unknown,
}

impl Group {
    /// A group of which no client knows anything any more: it was deleted, and may be created again.
    pub(crate) fn forgotten(self, event: u64) -> Self {
        let mut settled = self.settled;
        settled.extend(self.acked.keys().chain(self.letters.keys()));
        settled.extend(self.closed.iter().chain(&self.uncertain).chain(&self.dying));
        let moving = self.moving + 1;
        Self { shaken: true, moving, settled, owed_from: u64::MAX, since: event, ..Self::default() }
    }

    /// The group was moved: what it held it no longer holds, and what it was done with may come `again`.
    pub(crate) fn moved(&mut self, only: Option<u32>, event: u64, again: &[u64]) {
        self.shaken = true;
        self.moving += 1;
        self.since = event;
        self.first_seen.clear();
        self.done.clear();
        self.holds.retain(|_, hold| only.is_some_and(|only| only != hold.partition));
        for offset in again {
            let settled = self.acked.remove(offset).is_some()
                | self.letters.remove(offset).is_some()
                | self.closed.remove(offset)
                | self.dying.remove(offset);
            if settled {
                self.uncertain.insert(*offset);
            }
        }
    }

    /// A message goes out.
    pub(crate) fn hand_out(&mut self, offset: u64, hold: Hold) {
        *self.handouts.entry(offset).or_default() += 1;
        self.holds.insert(offset, hold);
        self.uncertain.remove(&offset);
        // A crash may have forgotten the attempt that looked like the last one.
        self.dying.remove(&offset);
    }

    /// A worker said something about a message, and no client can know yet whether it counted.
    pub(crate) fn doubt(&mut self, offset: u64) {
        if !self.acked.contains_key(&offset) {
            self.uncertain.insert(offset);
        }
        if let Some(hold) = self.holds.get_mut(&offset) {
            hold.unsure = true;
        }
    }

    /// What is on loan for certain.
    pub(crate) fn live(&self, life: u64, now: Time) -> impl Iterator<Item = (&u64, &Hold)> {
        let live = self.holds.iter().filter(move |(_, hold)| hold.is_live(life, now) && !hold.unsure);
        live.filter(|(offset, _)| !self.is_finished(**offset))
    }

    /// Whether the group owes nothing more for an offset, or no client can know.
    pub(crate) fn is_finished(&self, offset: u64) -> bool {
        self.acked.contains_key(&offset)
            || self.letters.contains_key(&offset)
            || self.closed.contains(&offset)
            || self.uncertain.contains(&offset)
    }

    pub(crate) fn standing(&self, offset: u64, owner: &str, life: u64) -> OwnerStanding {
        if self.acked.contains_key(&offset) {
            return OwnerStanding::Done;
        }
        if self.uncertain.contains(&offset) || self.holds.get(&offset).is_some_and(|hold| hold.crashed) {
            return OwnerStanding::Unknown;
        }
        match self.holds.get(&offset).filter(|hold| hold.life == life && hold.released != Released::Yes) {
            Some(hold) if hold.released == Released::Perhaps || hold.unsure => OwnerStanding::Unknown,
            Some(hold) if hold.owner == owner => OwnerStanding::Holder,
            Some(_) => OwnerStanding::Other,
            None if self.shaken => OwnerStanding::Unknown,
            None => OwnerStanding::NeverHeld,
        }
    }

    /// First deliveries of plain messages come in the order of offsets.
    pub(crate) fn check_order(&mut self, receipt: &Receipt, attempt: u32, life: u64) -> CheckResult {
        let Receipt { partition, offset, token, .. } = *receipt;
        let seen_now = self.holds.get(&offset).is_some_and(|hold| hold.life == life);
        if attempt > 1 || seen_now || self.undone {
            return Ok(());
        }
        let seen = &mut self.first_seen;
        let before = seen.range((partition, Token::default())..(partition, token)).next_back();
        let before = before.map(|(_, offset)| *offset);
        let end = (partition, Token { epoch: u64::MAX, n: u64::MAX });
        let after = seen.range((partition, token)..end).next().map(|(_, offset)| *offset);
        seen.insert((partition, token), offset);
        ensure(
            before.is_none_or(|before| before < offset) && after.is_none_or(|after| after > offset),
            || format!("order: {offset} of partition {partition} came between {before:?} and {after:?}"),
        )
    }

    /// One identity, one piece of work at a time, and none after it is done.
    pub(crate) fn check_key(
        &self,
        key: Option<u64>,
        offset: u64,
        life: u64,
        now: Time,
        ttl: u64,
    ) -> CheckResult {
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
                && !hold.revived
                && !hold.unsure
                && !self.acked.contains_key(other)
        });
        ensure(busy.is_none(), || format!("consume gate: key {key} runs as {busy:?} and as {offset}"))
    }
}

impl Hold {
    /// Whether its worker may still believe that it is the only one.
    pub(crate) fn is_live(&self, life: u64, now: Time) -> bool {
        self.life == life
            && !self.crashed
            && self.released == Released::No
            && self.failed_at.is_none()
            && self.expires > now
    }

    /// A crash came: what was on loan for certain, and in the log for certain, stays on loan.
    pub(crate) fn outlive(&mut self, life: u64, now: Time) {
        let told = self.seen && self.sure && self.extending == 0;
        let kept = self.is_live(self.life, now) && told && !self.unsure;
        self.crashed |= !kept;
        self.unsure |= !kept;
        self.extending = 0;
        self.life = life;
    }

    /// Whether it waits for its next attempt while another message with its identity may have been done.
    pub(crate) fn may_be_skipped(&self, now: Time) -> bool {
        self.key.is_some() && (self.expires <= now || self.failed_at.is_some())
    }

    /// Whether `delivery` may follow this one.
    pub(crate) fn check_next(
        &self,
        delivery: &Delivery,
        policy: Option<RetryPolicy>,
        life: u64,
        now: Time,
    ) -> CheckResult {
        if self.unsure {
            return Ok(());
        }
        ensure(!self.is_live(life, now), || format!("one holder: {self:?} is still on loan"))?;
        let next = match self.released {
            Released::No => delivery.attempt == self.attempt + 1,
            Released::Yes => delivery.attempt == self.attempt,
            Released::Perhaps => delivery.attempt == self.attempt || delivery.attempt == self.attempt + 1,
        };
        ensure(next, || format!("attempts: {} after {self:?}", delivery.attempt))?;
        ensure(self.released != Released::Yes || self.not_before <= now || self.hurried, || {
            format!("snooze: handed out at {now:?} after {self:?}")
        })?;
        let failed = self.failed_at.unwrap_or(self.expires);
        let wait = self.delay_ms.unwrap_or_else(|| policy.map_or(0, shortest_wait));
        let early = self.released == Released::No && !self.hurried && failed.after_ms(wait) > now;
        ensure(!early, || format!("backoff: the next attempt came at {now:?} after {self:?}"))
    }
}

/// The least that a policy makes a failed message wait.
fn shortest_wait(policy: RetryPolicy) -> u64 {
    match policy.jitter {
        Jitter::Half => policy.backoff_ms / 2,
        Jitter::Full => 0,
        Jitter::None => policy.backoff_ms,
    }
}
