//! Questions about the state, answered without changing it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::action::{Action, Answer};
use crate::group::Group;
use crate::id::{Time, TopicId};
use crate::partition::Topic;
use crate::reject::Reject;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// One topic.
    Topic(TopicId),
    /// All groups of a topic.
    Groups(TopicId),
    /// One group of a topic.
    Group(TopicId, String),
    /// Everything that metrics need.
    Tally,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// To [`Query::Topic`].
    Topic(TopicDescription),
    /// To [`Query::Groups`] and [`Query::Group`]; empty if there is none of that name.
    Groups(Vec<GroupDescription>),
    /// To [`Query::Tally`].
    Tally(Tally),
}

/// A topic, described.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TopicDescription {
    /// Its name.
    pub name: Arc<str>,
    /// When it was created.
    pub created: Time,
    /// The offset that the next message gets.
    pub next_offset: u64,
    /// Messages ever dead-lettered out of it, since this start.
    pub dead_letters: u64,
    /// Per partition: messages kept, their bytes, the oldest one's offset and time.
    pub partitions: Vec<PartitionDescription>,
    /// Names of its groups.
    pub groups: Vec<Arc<str>>,
}

/// A partition, described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PartitionDescription {
    /// Messages kept.
    pub messages: u64,
    /// Their key and value bytes.
    pub bytes: u64,
    /// Offset of the oldest message kept.
    pub oldest_offset: Option<u64>,
    /// Time of the oldest message kept.
    pub oldest_at: Option<Time>,
}

/// A group, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Open subscriptions.
    pub consumers: u32,
    /// Last sign of life.
    pub seen: Time,
    /// Per partition.
    pub partitions: Vec<GroupPartition>,
}

/// A group in one partition, described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GroupPartition {
    /// Messages kept and not yet acked.
    pub lag: u64,
    /// Deliveries on loan.
    pub in_flight: u32,
    /// Failed deliveries that wait for their next attempt.
    pub retrying: u32,
    /// All kept messages below this offset are acked; `None` if nothing is.
    pub acked_below: Option<u64>,
}

/// Numbers for metrics.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// All topics.
    pub topics: Vec<TopicDescription>,
    /// All groups.
    pub groups: Vec<GroupDescription>,
    /// Idempotency records remembered.
    pub idempotency_records: u64,
    /// The run of the shard.
    pub epoch: u64,
}

impl crate::shard::Shard {
    pub(crate) fn handle_describe(
        &self,
        ticket: crate::id::Ticket,
        query: &Query,
        out: &mut crate::action::Output,
    ) {
        let answer = match self.describe(query) {
            Some(description) => Answer::Described(description),
            None => Answer::Rejected(Reject::TopicUnknown),
        };
        out.actions.push(Action::Reply { ticket, answer });
    }

    fn describe(&self, query: &Query) -> Option<Description> {
        let state = &self.journal.state;
        Some(match query {
            Query::Topic(topic) => Description::Topic(self.describe_topic(state.topic(*topic)?)),
            Query::Groups(topic) => {
                let topic = state.topic(*topic)?;
                Description::Groups(topic.groups.values().map(|g| self.describe_group(topic, g)).collect())
            }
            Query::Group(topic, name) => {
                let topic = state.topic(*topic)?;
                let group = topic.group_named(name).map(|group| self.describe_group(topic, group));
                Description::Groups(group.into_iter().collect())
            }
            Query::Tally => Description::Tally(self.tally()),
        })
    }

    fn tally(&self) -> Tally {
        let state = &self.journal.state;
        let groups = state
            .topics
            .iter()
            .flat_map(|topic| topic.groups.values().map(move |group| self.describe_group(topic, group)));
        Tally {
            topics: state.topics.iter().map(|topic| self.describe_topic(topic)).collect(),
            groups: groups.collect(),
            idempotency_records: state.stored.len() as u64 + state.done_records,
            epoch: state.epoch,
        }
    }

    fn describe_topic(&self, topic: &Topic) -> TopicDescription {
        let partitions = topic.partitions.iter().map(|lane| {
            let oldest = lane.slots.iter().next().map(|(_, slot)| slot);
            PartitionDescription {
                messages: lane.messages,
                bytes: lane.bytes,
                oldest_offset: oldest.map(|slot| slot.offset),
                oldest_at: oldest.map(|slot| slot.at),
            }
        });
        TopicDescription {
            name: Arc::clone(&topic.name),
            created: topic.created,
            next_offset: topic.next_offset,
            dead_letters: self.dead_letters.get(&topic.id).copied().unwrap_or(0),
            partitions: partitions.collect(),
            groups: topic.group_names.keys().cloned().collect(),
        }
    }

    fn describe_group(&self, topic: &Topic, group: &Group) -> GroupDescription {
        let crew = self.crews.get(&group.id);
        let partitions = group.progress.iter().zip(&topic.partitions).map(|(progress, lane)| {
            let pending = u32::try_from(progress.pending.len()).unwrap_or(u32::MAX);
            GroupPartition {
                lag: progress.lag(lane.slots.next()),
                in_flight: progress.leased,
                retrying: pending - progress.leased,
                acked_below: lane.slots.next_alive(progress.floor).map_or_else(
                    || (topic.next_offset > 0).then_some(topic.next_offset),
                    |sequence| lane.slots.get(sequence).map(|slot| slot.offset),
                ),
            }
        });
        GroupDescription {
            topic: Arc::clone(&topic.name),
            name: Arc::clone(&group.name),
            consumers: crew.map_or(0, |crew| u32::try_from(crew.consumers.len()).unwrap_or(u32::MAX)),
            seen: crew.map_or(group.created, |crew| crew.seen),
            partitions: partitions.collect(),
        }
    }
}
