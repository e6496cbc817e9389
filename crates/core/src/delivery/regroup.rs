//! A group starts over: its lists are rebuilt from what it has not settled, or it goes.

use crate::delivery::Deliveries;
use crate::turn::Turn;
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Action, Output};
use crate::words::id::{GroupId, TopicId};
use crate::words::reject::Reject;
use alloc::vec::Vec;

impl Deliveries {
    /// Partitions whose window was full may have a wider one.
    pub(crate) fn widen(&mut self, turn: &mut Turn, topic: TopicId) {
        let groups = turn.journal.state.topic(topic).map(|topic| topic.groups.keys());
        for group in groups.into_iter().flatten() {
            if let Some(crew) = self.crews.get_mut(group) {
                crew.heat_full();
            }
        }
    }

    /// Every group looks at everything again that it has not settled.
    pub(crate) fn look_again(&mut self, turn: &mut Turn, topic: TopicId) {
        let groups = turn.journal.state.topic(topic).map(|topic| topic.groups.keys().copied());
        let groups: Vec<GroupId> = groups.into_iter().flatten().collect();
        for group in groups {
            self.reset_group(turn, topic, group);
        }
    }

    /// A group looks at everything again that it has not settled; what waits for its time goes on waiting.
    pub(crate) fn reset_group(&mut self, turn: &mut Turn, topic: TopicId, group: GroupId) {
        // Messages set aside are met again by the cursor or on the list; those that run are pending and are not.
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.aside.clear();
        }
        self.reset_lanes(turn, topic, group);
        let Some(members) = turn.journal.state.topic(topic).and_then(|topic| topic.groups.get(&group)) else {
            return;
        };
        let mut waiting = Vec::new();
        for (partition, progress) in (0_u32..).zip(&members.progress) {
            let pending = progress.pending.iter().map(|(&sequence, pending)| (sequence, pending));
            waiting.extend(pending.map(|(sequence, pending)| {
                let spot = Spot { topic, group, partition, sequence };
                let due = turn.due_at(pending);
                let is_due = pending.lease.is_none() && due <= turn.now;
                (spot, is_due.then_some(due))
            }));
        }
        for (spot, due) in waiting {
            let key = turn.slots(spot).map(|slots| slots.key(spot.sequence)).unwrap_or_default();
            let Some(rank) = turn.rank_of(spot) else { continue };
            let Some(crew) = self.crews.get_mut(&group) else { return };
            let keys = &mut crew.lanes[spot.partition as usize].keys;
            if !keys.is_busy(key, spot.sequence) {
                keys.set_head(key, spot.sequence);
            }
            if let Some(due) = due.filter(|_| !crew.is_dying(spot)) {
                crew.make_ready(spot.partition, rank, due);
            }
        }
    }

    /// Sends the readers of a group away, and tells its waiters why: it is about to be forgotten. Timers that still
    /// name it find nothing.
    pub(crate) fn dismiss(&mut self, turn: &mut Turn, group: GroupId, reason: Reject, out: &mut Output) {
        let Some(crew) = self.crews.remove(&group) else { return };
        for consumer in crew.consumers {
            self.readers.remove(&consumer.id);
            out.actions.push(Action::Close { consumer: consumer.id });
        }
        for waiter in crew.waiters {
            self.waiting.remove(&waiter.ticket);
            turn.timers.cancel(waiter.until, Due::Waited(group, waiter.ticket));
            turn.journal.refuse(out, waiter.ticket, reason);
        }
        self.sleepers.dismiss(group);
        self.deactivate(crew.topic, group);
    }
}
