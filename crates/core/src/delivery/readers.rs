//! Who reads: streams and askers come and go, and what becomes visible is theirs.

use crate::delivery::Deliveries;
use crate::delivery::crew::Consumer;
use crate::log::fact::Fact;
use crate::state::GROUPS_PER_TOPIC_MAX;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::Due;
use crate::words::action::{Answer, Output};
use crate::words::id::{ConsumerId, GroupId, Position, Ticket, TopicId};
use crate::words::input::Subscription;
use crate::words::reject::Reject;
use crate::words::route::validate_name;
use alloc::collections::BTreeSet;

/// A group without readers is told for this long what becomes visible.
const REST_AFTER_MS: u64 = 1_000;

impl Deliveries {
    pub(crate) fn handle_subscribe(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        subscription: Subscription,
        out: &mut Output,
    ) {
        let group = match self.may_subscribe(turn, &subscription) {
            Ok(Some(group)) => group,
            Ok(None) => self.create_group(turn, subscription.topic, &subscription.group, out),
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        let Subscription { consumer, topic, owner, lease_ms, credit, style, .. } = subscription;
        self.attend(turn, topic, group);
        let lease_ms = turn.lease_ms(topic, lease_ms);
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.consumers.push(Consumer { id: consumer, owner, lease_ms, credit, unwritten: 0, style });
        self.readers.insert(consumer, group);
        turn.journal.reply(out, ticket, Answer::Subscribed);
        self.touch(group);
    }

    fn may_subscribe(&self, turn: &Turn, subscription: &Subscription) -> Result<Option<GroupId>, Reject> {
        if self.readers.len() >= turn.settings.consumers_max as usize {
            return Err(Reject::Limit("consumers: there are as many as are allowed"));
        }
        let Subscription { topic, group, owner, lease_ms, .. } = subscription;
        turn.may_read(*topic, group, owner, *lease_ms)
    }

    pub(crate) fn create_group(
        &mut self,
        turn: &mut Turn,
        topic: TopicId,
        name: &str,
        out: &mut Output,
    ) -> GroupId {
        let group = GroupId(turn.journal.state.next_group);
        turn.journal.emit(Haste::Urgent, out, &Fact::GroupCreated { topic, group, at: turn.now, name });
        self.add_crew(turn, topic, group, out);
        self.watch_topic_deadlines(turn, topic);
        group
    }

    /// A group has a reader: from now on it is told what becomes visible.
    pub(crate) fn attend(&mut self, turn: &mut Turn, topic: TopicId, group: GroupId) {
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.seen = turn.now;
        if self.active.entry(topic).or_default().insert(group) {
            crew.heat_all();
        } else {
            crew.heat_full();
        }
    }

    /// The group is no longer told what becomes visible.
    pub(crate) fn deactivate(&mut self, topic: TopicId, group: GroupId) {
        if let Some(groups) = self.active.get_mut(&topic) {
            groups.remove(&group);
            if groups.is_empty() {
                self.active.remove(&topic);
            }
        }
    }

    /// Groups that have had no reader for a while are no longer told what becomes visible. Not at once: between two
    /// requests of a worker that asks again and again, the group has no reader either.
    fn leave_to_rest(&mut self, turn: &mut Turn, topic: TopicId) {
        let Some(groups) = self.active.get_mut(&topic) else { return };
        let (crews, now) = (&self.crews, turn.now);
        groups.retain(|group| {
            let crew = crews.get(group);
            crew.is_some_and(|crew| crew.is_attended() || now.since_ms(crew.seen) < REST_AFTER_MS)
        });
        if groups.is_empty() {
            self.active.remove(&topic);
        }
    }

    pub(crate) fn handle_unsubscribe(&mut self, turn: &mut Turn, consumer: ConsumerId) {
        let Some(group) = self.readers.remove(&consumer) else { return };
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.consumers.retain(|candidate| candidate.id != consumer);
        crew.turn = 0;
        crew.seen = turn.now;
        crew.loans.retain(|_, taker| *taker != consumer);
        if crew.is_attended() {
            return;
        }
        let topic = crew.topic;
        if !core::mem::replace(&mut crew.watched, true) {
            turn.timers.set(turn.now.after_ms(turn.settings.group_expiry_ms), Due::Idle(topic, group));
        }
        // A stream that ends does not come back in a moment, as a worker that asks again and again does.
        self.deactivate(topic, group);
    }

    pub(crate) fn handle_credit(&mut self, consumer: ConsumerId, count: u32) {
        let Some(&group) = self.readers.get(&consumer) else { return };
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.add_credit(consumer, count);
        self.touch(group);
    }

    pub(crate) fn handle_written(&mut self, turn: &Turn, consumer: ConsumerId, count: u32) {
        let Some(&group) = self.readers.get(&consumer) else { return };
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.on_written(consumer, count, turn.settings.stream_unwritten_max);
        self.touch(group);
    }

    pub(crate) fn handle_durable(&mut self, turn: &mut Turn, upto: Position, out: &mut Output) {
        let was_open = turn.journal.durable >= self.opened;
        let mut touched = BTreeSet::new();
        let mut topics = BTreeSet::new();
        let (active, crews) = (&self.active, &mut self.crews);
        turn.journal.advance(upto, out, |topic, partition| {
            topics.insert(topic);
            for group in active.get(&topic).into_iter().flatten() {
                if let Some(crew) = crews.get_mut(group) {
                    crew.hot.insert(partition);
                    touched.insert(*group);
                }
            }
        });
        self.list_durable(turn);
        if !was_open {
            touched.extend(self.readers.values());
            touched.extend(self.waiting.values());
        }
        for topic in topics {
            self.leave_to_rest(turn, topic);
        }
        for group in touched {
            self.touch(group);
        }
    }
}

impl Turn {
    /// The group, or `None` if it has to be created first.
    pub(crate) fn may_read(
        &self,
        topic: TopicId,
        group: &str,
        owner: &str,
        lease_ms: Option<u64>,
    ) -> Result<Option<GroupId>, Reject> {
        let topic = self.journal.state.topic(topic).ok_or(Reject::TopicUnknown)?;
        validate_name(group, "group names have 1 to 255 bytes")?;
        validate_name(owner, "owner names have 1 to 255 bytes")?;
        if lease_ms.is_some_and(|ms| ms == 0 || ms > self.settings.lease_ms_max) {
            return Err(Reject::Invalid("lease_ms must be positive and at most the server's lease_ms_max"));
        }
        if let Some(group) = topic.group_named(group) {
            return Ok(Some(group.id));
        }
        if topic.groups.len() >= (self.settings.groups_max as usize).min(GROUPS_PER_TOPIC_MAX) {
            return Err(Reject::Limit("groups: the topic has as many as are allowed"));
        }
        Ok(None)
    }
}
