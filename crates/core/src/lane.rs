//! The readers of a group, and which of its partitions have something for them. None of it is remembered: a new
//! run of the shard builds it from the state.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{ConsumerId, Identity, Time, Token, TopicId};

/// One open subscription.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) id: ConsumerId,
    pub(crate) owner: String,
    pub(crate) lease_ms: u64,
    /// Deliveries it can still take.
    pub(crate) credit: u32,
}

/// A group's side of one partition.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Every message below this sequence number was looked at once.
    pub(crate) cursor: u64,
    /// Messages that may be delivered now and that the cursor skips: retries that are due, and what came back.
    pub(crate) ready: BTreeSet<u64>,
}

/// A group at work.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) topic: TopicId,
    pub(crate) consumers: Vec<Consumer>,
    /// Whose turn it is.
    pub(crate) turn: usize,
    pub(crate) lanes: Vec<Lane>,
    /// Partitions that may have something to deliver.
    pub(crate) hot: BTreeSet<u32>,
    /// The partition after the one that delivered last.
    pub(crate) next_partition: u32,
    /// Identities that are being worked on, and by which message.
    pub(crate) running: BTreeMap<Identity, (u32, u64)>,
    /// Messages that wait because another one with the same identity is being worked on.
    pub(crate) aside: BTreeMap<Identity, Vec<(u32, u64)>>,
    /// Messages that are being turned into dead letters, each with the token of its undertaking.
    pub(crate) dying: BTreeMap<(u32, u64), Token>,
    /// Last sign of life.
    pub(crate) seen: Time,
    /// Whether a timer will ask if the group has been away for too long: one, however often readers come and go.
    pub(crate) watched: bool,
}

impl Crew {
    /// A group without readers; lanes start at the given floors.
    pub(crate) fn new(topic: TopicId, floors: impl Iterator<Item = u64>, now: Time) -> Self {
        Self {
            topic,
            consumers: Vec::new(),
            turn: 0,
            lanes: floors.map(|cursor| Lane { cursor, ready: BTreeSet::new() }).collect(),
            hot: BTreeSet::new(),
            next_partition: 0,
            running: BTreeMap::new(),
            aside: BTreeMap::new(),
            dying: BTreeMap::new(),
            seen: now,
            watched: false,
        }
    }

    /// The reader whose turn it is among those that can take a delivery.
    pub(crate) fn next_consumer(&mut self) -> Option<&mut Consumer> {
        let count = self.consumers.len();
        let index =
            (0..count).map(|step| (self.turn + step) % count).find(|&i| self.consumers[i].credit > 0)?;
        self.turn = (index + 1) % count;
        Some(&mut self.consumers[index])
    }

    pub(crate) fn can_take(&self) -> bool {
        self.consumers.iter().any(|consumer| consumer.credit > 0)
    }

    /// The next partition in turn that may have something.
    pub(crate) fn next_hot(&self) -> Option<u32> {
        self.hot.range(self.next_partition..).next().or_else(|| self.hot.first()).copied()
    }

    /// Makes a message deliverable that the cursor will not meet: it has passed it, or the message is pending.
    pub(crate) fn make_ready(&mut self, partition: u32, sequence: u64) {
        if let Some(lane) = self.lanes.get_mut(partition as usize) {
            lane.ready.insert(sequence);
            self.hot.insert(partition);
        }
    }

    /// Every partition may have something: a reader came.
    pub(crate) fn heat_all(&mut self) {
        self.hot = (0..u32::try_from(self.lanes.len()).expect("partitions are counted in u32")).collect();
    }

    /// Nobody works on `identity` any more: what waited for it may be looked at again.
    pub(crate) fn finish_identity(&mut self, identity: Identity, partition: u32, sequence: u64) {
        if self.running.get(&identity) == Some(&(partition, sequence)) {
            self.running.remove(&identity);
            for (partition, sequence) in self.aside.remove(&identity).unwrap_or_default() {
                self.make_ready(partition, sequence);
            }
        }
    }
}
