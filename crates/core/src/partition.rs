//! One ordered lane of a topic, and the topic around it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::action::TopicInfo;
use crate::group::{Group, Progress};
use crate::id::{GroupId, Time, TopicId};
use crate::slot::Slots;

/// What the name of every dead-letter topic begins with.
pub(crate) const DEAD_LETTER_PREFIX: &str = "dlq.";

/// A topic with everything that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) id: TopicId,
    pub(crate) name: Arc<str>,
    pub(crate) created: Time,
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
    /// Messages kept.
    pub(crate) messages: u64,
    /// Their key and value bytes.
    pub(crate) bytes: u64,
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
        }
    }
}

impl Partition {
    /// Counts a new group in: it owes every message kept, and is done with every one that is gone.
    pub(crate) fn join(&mut self) -> Progress {
        let next = self.slots.next();
        let mut progress = Progress {
            floor: self.slots.base,
            backlog: self.messages.cast_signed() - next.cast_signed(),
            ..Progress::default()
        };
        // From message to message: what is gone in between is one step, however much it is.
        let mut at = self.slots.base;
        while at < next {
            let alive = self.slots.next_alive(at).unwrap_or(next);
            progress.pass_over(at, alive);
            if let Some(slot) = self.slots.get_mut(alive) {
                slot.waiting += 1;
            }
            at = alive + 1;
        }
        progress
    }
}
