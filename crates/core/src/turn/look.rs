//! Short ways to what the state says about one message of one group.

use crate::delivery::lane::Rank;
use crate::shard::Shard;
use crate::state::group::{Group, Pending};
use crate::state::slot::Slots;
use crate::turn::timer::Spot;
use crate::words::id::{Time, Token};
use crate::words::policy::RetryPolicy;

impl Shard {
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
