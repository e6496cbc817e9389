//! One ordered lane of a topic, and the topic around it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::state::group::{Group, Progress};
use crate::state::slot::Slots;
use crate::words::action::TopicInfo;
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::topic::{Order, TopicSettings};

/// What the name of every dead-letter topic begins with.
pub(crate) const DEAD_LETTER_PREFIX: &str = "dlq.";

/// A place in the order of fresh messages: by priority, then by sequence number.
pub(crate) type Rank = (Reverse<u8>, u64);

/// A topic with everything that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) id: TopicId,
    pub(crate) name: Arc<str>,
    pub(crate) created: Time,
    /// Whether its number is part of the identities of its messages.
    pub(crate) scoped: bool,
    /// The tenant that it belongs to.
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) settings: TopicSettings,
    /// Deliveries have been stopped since then.
    pub(crate) paused: Option<Time>,
    /// Offsets rise over the whole topic.
    pub(crate) next_offset: u64,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    pub(crate) group_names: BTreeMap<Arc<str>, GroupId>,
}

/// The messages of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    pub(crate) slots: Slots,
    /// Messages that wait for some group, or for a first one to come.
    pub(crate) messages: u64,
    /// Their key and value bytes.
    pub(crate) bytes: u64,
    /// Messages that every group was done with once and that are kept all the same. What is history counts as such even
    /// while a late group reads it: a group that begins to read must not stop producers.
    pub(crate) past_messages: u64,
    /// Their key and value bytes.
    pub(crate) past_bytes: u64,
}

impl Topic {
    pub(crate) fn group_named(&self, name: &str) -> Option<&Group> {
        self.groups.get(self.group_names.get(name)?)
    }

    /// Whether dead letters come here: they never die again.
    pub(crate) fn is_dead_letter_topic(&self) -> bool {
        self.name.starts_with(DEAD_LETTER_PREFIX)
    }

    /// The topic as the catalogue outside knows it.
    pub(crate) fn info(&self) -> TopicInfo {
        TopicInfo {
            id: self.id,
            name: Arc::clone(&self.name),
            partitions: u32::try_from(self.partitions.len()).expect("partitions are counted in u32"),
            scoped: self.scoped,
            tenant: self.tenant.clone(),
        }
    }
}

impl Topic {
    /// The place of a message in the order of fresh ones.
    pub(crate) fn rank(&self, partition: u32, sequence: u64) -> Rank {
        let counts = self.settings.order == Order::Priority;
        let slots = self.partitions.get(partition as usize).map(|lane| &lane.slots);
        (Reverse(slots.filter(|_| counts).map_or(0, |slots| slots.priority(sequence))), sequence)
    }

    /// The group's progress in a partition.
    pub(crate) fn progress(&self, group: GroupId, partition: u32) -> Option<&Progress> {
        self.groups.get(&group)?.progress.get(partition as usize)
    }
}

impl Partition {
    /// Counts a group in that begins at the sequence number `from`: it owes every message kept from there on, and is
    /// done with every one that is gone, cancelled or below.
    pub(crate) fn join(&mut self, from: u64) -> Progress {
        let next = self.slots.next();
        let mut progress = Progress { floor: self.slots.base, ..Progress::default() };
        let mut owed = 0_i64;
        // From message to message: what is gone in between is one step, however much it is.
        let mut at = self.slots.base;
        while at < next {
            let owes = self.next_owed(at.max(from)).unwrap_or(next);
            progress.pass_over(at, owes);
            owed += i64::from(self.slots.owe(owes));
            at = owes + 1;
        }
        progress.backlog = owed - next.cast_signed();
        progress
    }

    /// First message at or after `from` that a new group would have to settle.
    fn next_owed(&self, from: u64) -> Option<u64> {
        let mut alive = self.slots.next_alive(from)?;
        while self.slots.is_cancelled(alive) {
            alive = self.slots.next_alive(alive + 1)?;
        }
        Some(alive)
    }

    /// Counts a message in that has come.
    pub(crate) fn count_in(&mut self, size: u32, past: bool) {
        let (messages, bytes) = self.counters(past);
        *messages += 1;
        *bytes += u64::from(size);
    }

    /// Counts a message out that leaves.
    pub(crate) fn count_out(&mut self, size: u32, past: bool) {
        let (messages, bytes) = self.counters(past);
        *messages -= 1;
        *bytes -= u64::from(size);
    }

    const fn counters(&mut self, past: bool) -> (&mut u64, &mut u64) {
        if past {
            (&mut self.past_messages, &mut self.past_bytes)
        } else {
            (&mut self.messages, &mut self.bytes)
        }
    }

    /// Every group is done with a message that is to be kept: it is history from now on.
    pub(crate) fn keep(&mut self, sequence: u64) {
        let Some(size) = self.slots.get(sequence).map(|slot| slot.size) else { return };
        if !self.slots.is_past(sequence) {
            self.slots.mark_past(sequence);
            self.count_out(size, false);
            self.count_in(size, true);
        }
    }

    /// The messages kept that a group has not settled.
    pub(crate) fn owed_by(&self, progress: &Progress) -> Vec<u64> {
        let kept = self.slots.iter().map(|(sequence, _)| sequence);
        kept.filter(|sequence| !progress.is_settled(*sequence)).collect()
    }

    /// First sequence number whose offset is `offset` or higher.
    pub(crate) fn sequence_at(&self, offset: u64) -> u64 {
        self.first_where(|slot_offset, _| slot_offset >= offset)
    }

    /// A sequence number at or before the first whose offset is `offset` or higher, found without a walk.
    pub(crate) fn sequence_near(&self, offset: u64) -> u64 {
        self.slots.near(offset)
    }

    /// First sequence number of a message stored at or after `time`.
    pub(crate) fn sequence_since(&self, time: Time) -> u64 {
        self.first_where(|_, at| at >= time)
    }

    /// Both offsets and times rise with the sequence number. Walks the messages kept: for operators, not for dispatch.
    fn first_where(&self, reached: impl Fn(u64, Time) -> bool) -> u64 {
        let found = self.slots.iter().find(|(_, slot)| reached(slot.offset, slot.at));
        found.map_or_else(|| self.slots.next(), |(sequence, _)| sequence)
    }
}
