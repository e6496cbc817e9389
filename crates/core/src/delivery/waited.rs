//! What a message has waited for when it is lent. All of it follows from what is at hand anyway.

use crate::delivery::Deliveries;
use crate::delivery::crew::Crew;
use crate::state::group::Pending;
use crate::state::partition::Topic;
use crate::turn::Turn;
use crate::turn::timer::Spot;
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::waited::Waited;

/// What became of a message before: its last attempt, when a delivery of it was given back, and when it was no longer
/// set aside.
pub(crate) type Before<'a> = (Option<&'a Pending>, Option<Time>, Option<Time>);

impl Crew {
    /// What a message has waited for that is lent now.
    pub(crate) fn waited(&self, now: Time, topic: &Topic, spot: Spot, before: Before<'_>) -> Waited {
        let (pending, given_back, freed) = before;
        let slots = &topic.partitions[spot.partition as usize].slots;
        let lane = &self.lanes[spot.partition as usize];
        let stored = slots.get(spot.sequence).map_or(now, |slot| slot.at);
        let ended = pending.map_or(Time(0), |pending| pending.ended_at).max(given_back.unwrap_or_default());
        Waited {
            since: stored.max(ended),
            until: now,
            due: slots.due(spot.sequence),
            retry_at: pending.map_or(Time(0), |pending| pending.retry_at),
            for_effect: pending.is_some_and(|pending| pending.waits_for > 0),
            key_free: lane.keys.head_since(spot.sequence),
            identity_free: freed.unwrap_or_default(),
            paused: self.paused,
            full: lane.full_since,
        }
    }
}

impl Deliveries {
    /// Deliveries of a topic or a group go on that had been stopped.
    pub(crate) fn note_pause(&mut self, turn: &Turn, whose: (TopicId, Option<GroupId>), since: Time) {
        let (topic, group) = whose;
        let Some(topic) = turn.journal.state.topic(topic) else { return };
        for id in topic.groups.keys().filter(|id| group.is_none_or(|group| group == **id)) {
            if let Some(crew) = self.crews.get_mut(id) {
                crew.paused = (since, turn.now);
            }
        }
    }
}
