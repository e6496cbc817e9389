//! Exact deadlines, in order.

use alloc::collections::BTreeSet;

use crate::words::id::{GroupId, Identity, Ticket, Time, TopicId};

/// Identities are swept this much after their time, so that one sweep takes many. No caller sees the difference: a
/// record whose time has passed is not found any more.
pub(crate) const FORGET_SLACK_MS: u64 = 10_000;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A lease lapses.
    Lapse(Spot),
    /// A failed message may be tried again.
    Retry(Spot),
    /// A dead letter that could not be written is tried again.
    Bury(Spot),
    /// Identities may be forgotten: of the produce gate, or of a group's consume gate.
    Forget(Option<(TopicId, GroupId)>),
    /// A group may have been away for too long.
    Idle(TopicId, GroupId),
    /// Messages of a partition may be too old.
    Retain(TopicId, u32),
    /// History of a partition may be too old, or too much.
    Trim(TopicId, u32),
    /// Messages of a partition may have passed their deadline.
    Deadline(TopicId, u32),
    /// Scheduled messages of a partition may go out.
    Begin(TopicId, u32),
    /// An asker for messages has waited long enough.
    Waited(GroupId, Ticket),
    /// Dispatch stopped in the middle so that others get their turn. Numbered: the group that stopped first goes on
    /// first.
    GoOn(u64, GroupId),
    /// A reserved identity was not used in time.
    Unreserve(Identity),
    /// The lease of an effect lapses.
    EffectLapse(u64),
    /// An asker that waits for an effect has waited long enough.
    EffectWaited(Ticket),
    /// Records of effects may have stopped counting.
    Sweep,
    /// Commits may be forgotten.
    ForgetCommits,
    /// A run may have been quiet for long enough.
    RunOld(u64),
    /// Entries of the audit may be too old.
    DropAudit,
}

/// A message as one group sees it, by sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) topic: TopicId,
    pub(crate) group: GroupId,
    pub(crate) partition: u32,
    pub(crate) sequence: u64,
}

/// Everything that is due at some time.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Time, Due)>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Time, due: Due) {
        if at < Time::NEVER {
            self.queue.insert((at, due));
        }
    }

    pub(crate) fn cancel(&mut self, at: Time, due: Due) {
        self.queue.remove(&(at, due));
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes the earliest that is due at `now`, and says since when it is.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, Due)> {
        if self.next()? > now {
            return None;
        }
        self.queue.pop_first()
    }
}
