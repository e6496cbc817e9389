//! Short ways to what the state says about one message of one group.

use crate::state::group::{Group, Pending};
use crate::state::partition::Rank;
use crate::state::slot::{Lookup, Slots};
use crate::turn::Turn;
use crate::turn::timer::Spot;
use crate::words::id::{GroupId, Spotted, Time, Token, TopicId};
use crate::words::policy::RetryPolicy;
use crate::words::reject::Reject;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Turn {
    pub(crate) fn members(&self, spot: Spot) -> Option<&Group> {
        self.journal.state.topic(spot.topic)?.groups.get(&spot.group)
    }

    pub(crate) fn slots(&self, spot: Spot) -> Option<&Slots> {
        self.journal.state.topic(spot.topic)?.partitions.get(spot.partition as usize).map(|lane| &lane.slots)
    }

    pub(crate) fn pending(&self, spot: Spot) -> Option<&Pending> {
        self.members(spot)?.progress.get(spot.partition as usize)?.pending.get(&spot.sequence)
    }

    pub(crate) fn pending_attempts(&self, spot: Spot) -> u32 {
        self.pending(spot).map_or(0, |pending| pending.attempts)
    }

    pub(crate) fn lease_of(&self, spot: Spot) -> Option<(Token, Time)> {
        let pending = self.pending(spot)?;
        Some((pending.token, pending.lease?))
    }

    pub(crate) fn rank_of(&self, spot: Spot) -> Option<Rank> {
        Some(self.journal.state.topic(spot.topic)?.rank(spot.partition, spot.sequence))
    }

    pub(crate) fn offset_of(&self, spot: Spot) -> Option<u64> {
        self.slots(spot)?.get(spot.sequence).map(|slot| slot.offset)
    }

    pub(crate) fn policy_of(&self, spot: Spot) -> Option<RetryPolicy> {
        self.journal.state.policies.get(self.slots(spot)?.get(spot.sequence)?.policy)
    }

    /// Whether the message has used up its attempts. A dead letter never dies again.
    pub(crate) fn is_exhausted(&self, spot: Spot) -> bool {
        let most = self.policy_of(spot).map_or(0, |policy| policy.max_attempts);
        let mortal = self.journal.state.topic(spot.topic).is_some_and(|topic| !topic.is_dead_letter_topic());
        most > 0 && mortal && self.pending_attempts(spot) >= most
    }
}

impl Turn {
    pub(crate) fn group_of(&self, id: TopicId, name: &str) -> Result<GroupId, Reject> {
        let topic = self.journal.state.topic(id).ok_or(Reject::TopicUnknown)?;
        topic.group_named(name).map(|group| group.id).ok_or(Reject::GroupUnknown)
    }

    /// Where a message lies, if it is kept.
    pub(crate) fn locate(&self, message: Spotted) -> Result<u64, Reject> {
        let topic = self.journal.state.topic(message.topic).ok_or(Reject::TopicUnknown)?;
        let lane = topic.partitions.get(message.partition as usize).ok_or(Reject::PartitionOutOfRange)?;
        match lane.slots.find(message.offset) {
            Lookup::Here(sequence) => Ok(sequence),
            Lookup::Gone | Lookup::Never => Err(Reject::MessageUnknown),
        }
    }

    /// The message as every group sees it.
    pub(crate) fn spots(&self, message: Spotted, sequence: u64) -> Vec<(Arc<str>, Spot)> {
        let Spotted { topic, partition, .. } = message;
        let groups = self.journal.state.topic(topic).map(|topic| topic.groups.values());
        let groups = groups.into_iter().flatten();
        groups.map(|g| (Arc::clone(&g.name), Spot { topic, group: g.id, partition, sequence })).collect()
    }
}
