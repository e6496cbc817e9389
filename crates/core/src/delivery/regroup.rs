//! A group is built from the state: after recovery, when it is created, and when it starts over. One way for all of
//! them, so that a group that was moved stands as it would after a restart.

use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::delivery::crew::Crew;
use crate::delivery::schedule::list;
use crate::turn::Turn;
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Action, Output};
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::letter::Reason;
use crate::words::reject::Reject;
use crate::words::topic::Order;

impl Deliveries {
    /// Brings every group back to work after recovery.
    pub(crate) fn rebuild_all(&mut self, turn: &mut Turn, out: &mut Output) {
        let topics: Vec<TopicId> = turn.journal.state.each_topic().map(|topic| topic.id).collect();
        for topic in topics {
            for group in groups_of(turn, topic) {
                self.add_crew(turn, topic, group, out);
            }
        }
    }

    /// Every group of a topic starts over.
    pub(crate) fn rebuild_topic(&mut self, turn: &mut Turn, topic: TopicId, out: &mut Output) {
        for group in groups_of(turn, topic) {
            self.rebuild_group(turn, topic, group, out);
        }
    }

    /// Sets up the volatile side of a group.
    pub(crate) fn add_crew(&mut self, turn: &mut Turn, topic: TopicId, group: GroupId, out: &mut Output) {
        let mut crew = Crew::new(topic, core::iter::empty(), turn.now);
        crew.watched = true;
        self.crews.insert(group, crew);
        self.rebuild_group(turn, topic, group, out);
        turn.timers.set(turn.now.after_ms(turn.settings.group_expiry_ms), Due::Idle(topic, group));
    }

    /// Makes a group's lists from what it has not settled. What is on loan stays on loan until its lease ends, what
    /// waits for its next attempt goes on waiting, what is not to be tried again dies; everything else is looked at as
    /// if it had never been. Timers and lists that say so already are left as they are.
    pub(crate) fn rebuild_group(
        &mut self,
        turn: &mut Turn,
        topic: TopicId,
        group: GroupId,
        out: &mut Output,
    ) {
        self.reset_lanes(turn, topic, group);
        self.relist_pending(turn, topic, group, out);
    }

    /// The lanes of a group that has looked at nothing yet.
    fn reset_lanes(&mut self, turn: &Turn, topic: TopicId, group: GroupId) {
        let Some(source) = turn.journal.state.topic(topic) else { return };
        let (Some(members), Some(crew)) = (source.groups.get(&group), self.crews.get_mut(&group)) else {
            return;
        };
        // Messages set aside are met again by the cursor or on the list; those that run are pending and are not.
        crew.aside.clear();
        crew.freed.clear();
        let floors = members.progress.iter().map(|progress| progress.floor);
        crew.lanes = Crew::new(topic, floors, turn.now).lanes;
        crew.heat_all();
        for (partition, lane) in (0_u32..).zip(&source.partitions) {
            for (sequence, due, _) in lane.slots.special() {
                if due <= turn.now {
                    list(source, Some(&mut *crew), group, partition, sequence);
                }
            }
        }
    }

    /// Lists what a group has delivered and not settled: for its next attempt, or for its end.
    fn relist_pending(&mut self, turn: &mut Turn, topic: TopicId, group: GroupId, out: &mut Output) {
        let Some(source) = turn.journal.state.topic(topic) else { return };
        let (Some(members), Some(crew)) = (source.groups.get(&group), self.crews.get_mut(&group)) else {
            return;
        };
        let mut waiting = Vec::new();
        for ((partition, progress), lane) in (0_u32..).zip(&members.progress).zip(&source.partitions) {
            for (&sequence, pending) in &progress.pending {
                let spot = Spot { topic, group, partition, sequence };
                if source.settings.order == Order::Key {
                    let (key, keys) = (lane.slots.key(sequence), &mut crew.lanes[partition as usize].keys);
                    if !keys.is_busy(key, sequence) {
                        keys.set_head(key, sequence);
                    }
                }
                // Its letter is being written.
                if !crew.is_dying(spot) {
                    let due = turn.due_at(pending);
                    waiting.push((spot, pending.lease, due, pending.dead, pending.waits_for));
                }
            }
        }
        for (spot, lease, retry_at, dead, waits_for) in waiting {
            if let Some(expires) = lease {
                self.resume_loan(turn, spot, expires);
            } else if dead {
                self.bury(turn, spot, Reason::NackedDead, out);
            } else if turn.is_exhausted(spot) {
                self.start_burial(turn, spot, out);
            } else if retry_at > turn.now {
                self.put_to_wait(turn, spot, retry_at, waits_for);
            } else if let Some(rank) = turn.rank_of(spot)
                && let Some(crew) = self.crews.get_mut(&group)
            {
                // Not by way of a timer: a reader that comes before the next tick gets the old before the new.
                crew.make_ready(spot.partition, rank, retry_at);
            }
        }
    }

    /// A delivery goes on: it lapses when it was to, and its identity is being worked on.
    fn resume_loan(&mut self, turn: &mut Turn, spot: Spot, expires: Time) {
        turn.timers.set(expires, Due::Lapse(spot));
        let identity = turn.slots(spot).and_then(|slots| slots.identity(spot.sequence));
        if let (Some(identity), Some(crew)) = (identity, self.crews.get_mut(&spot.group)) {
            crew.running.insert(identity, (spot.partition, spot.sequence));
        }
    }

    /// Partitions whose window was full may have a wider one.
    pub(crate) fn widen(&mut self, turn: &mut Turn, topic: TopicId) {
        let groups = turn.journal.state.topic(topic).map(|topic| topic.groups.keys());
        for group in groups.into_iter().flatten() {
            if let Some(crew) = self.crews.get_mut(group) {
                crew.heat_full();
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

fn groups_of(turn: &Turn, topic: TopicId) -> Vec<GroupId> {
    let groups = turn.journal.state.topic(topic).map(|topic| topic.groups.keys().copied());
    groups.into_iter().flatten().collect()
}
