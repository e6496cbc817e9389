//! What people and their programs order: settings, pauses, moves, cancellations, removals.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::fact::Fact;
use crate::run::How;
use crate::shard::Shard;
use crate::state::slot::Found;
use crate::turn::journal::{Haste, lifetime};
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Action, Answer, Output, Stored};
use crate::words::draft::NewMessage;
use crate::words::id::{GroupId, RequestHash, Ticket, TopicId};
use crate::words::input::{SeekTo, Spotted};
use crate::words::reject::Reject;
use crate::words::topic::TopicPatch;

impl Shard {
    pub(crate) fn handle_configure(
        &mut self,
        ticket: Ticket,
        id: TopicId,
        patch: &TopicPatch,
        out: &mut Output,
    ) {
        let Some(topic) = self.journal.state.topic(id) else {
            return self.journal.refuse(out, ticket, Reject::TopicUnknown);
        };
        let (before, after) = (topic.settings, topic.settings.patched(patch));
        if let Some(fault) = after.fault() {
            return self.journal.refuse(out, ticket, Reject::Invalid(fault));
        }
        let partitions = topic.info().partitions;
        if after != before {
            self.journal.emit(Haste::Urgent, out, &Fact::Configured { topic: id, settings: after });
            for partition in 0..partitions {
                // The timer that is set knows only the old retention.
                self.retaining.remove(&(id, partition));
                self.schedule_retention(id, partition);
                self.review_history(id, partition);
            }
        }
        self.journal.reply(out, ticket, Answer::Configured { before, after });
        if after.order != before.order {
            self.look_again(id);
        }
        if after != before {
            self.widen(id);
            self.dispatch_topic(id, out);
        }
    }

    /// Partitions whose window was full may have a wider one.
    fn widen(&mut self, topic: TopicId) {
        let groups = self.journal.state.topic(topic).map(|topic| topic.groups.keys());
        for group in groups.into_iter().flatten() {
            if let Some(crew) = self.crews.get_mut(group) {
                crew.heat_full();
            }
        }
    }

    /// Every group looks at everything again that it has not settled.
    fn look_again(&mut self, topic: TopicId) {
        let groups = self.journal.state.topic(topic).map(|topic| topic.groups.keys().copied());
        let groups: Vec<GroupId> = groups.into_iter().flatten().collect();
        for group in groups {
            self.reset_group(topic, group);
        }
    }

    /// A group looks at everything again that it has not settled; what waits for its time goes on waiting.
    fn reset_group(&mut self, topic: TopicId, group: GroupId) {
        // Messages set aside are met again by the cursor or on the list; those that run are pending and are not.
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.aside.clear();
        }
        self.reset_lanes(topic, group);
        let Some(members) = self.journal.state.topic(topic).and_then(|topic| topic.groups.get(&group)) else {
            return;
        };
        let mut waiting = Vec::new();
        for (partition, progress) in (0_u32..).zip(&members.progress) {
            let pending = progress.pending.iter().map(|(&sequence, pending)| (sequence, pending));
            waiting.extend(pending.map(|(sequence, pending)| {
                let spot = Spot { topic, group, partition, sequence };
                let due = self.due_at(pending);
                let is_due = pending.lease.is_none() && due <= self.now;
                (spot, is_due.then_some(due))
            }));
        }
        for (spot, due) in waiting {
            let key = self.slots(spot).map(|slots| slots.key(spot.sequence)).unwrap_or_default();
            let Some(rank) = self.rank_of(spot) else { continue };
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

    pub(crate) fn handle_delete_topic(&mut self, ticket: Ticket, id: TopicId, out: &mut Output) {
        let Some(topic) = self.journal.state.topic(id) else {
            return self.journal.refuse(out, ticket, Reject::TopicUnknown);
        };
        let info = topic.info();
        let groups: Vec<GroupId> = topic.groups.keys().copied().collect();
        let lanes: Vec<_> = self.scheduled.range((id, 0)..=(id, u32::MAX)).map(|(lane, _)| *lane).collect();
        for lane in lanes {
            self.scheduled.remove(&lane);
        }
        let lanes: Vec<_> = self.deadlines.range((id, 0)..=(id, u32::MAX)).map(|(lane, _)| *lane).collect();
        for lane in lanes {
            self.deadlines.remove(&lane);
        }
        self.dead_letters.remove(&id);
        self.journal.emit(Haste::Urgent, out, &Fact::TopicDeleted { topic: id });
        // Behind the fact: who waits is told when it is durable.
        for group in groups {
            self.dismiss(group, Reject::TopicUnknown, out);
        }
        self.journal.after_durable(out, Action::Unpublish(info));
        self.journal.reply(out, ticket, Answer::Deleted);
    }

    pub(crate) fn handle_delete_group(&mut self, ticket: Ticket, id: TopicId, name: &str, out: &mut Output) {
        let group = match self.group_of(id, name) {
            Ok(group) => group,
            Err(reject) => return self.journal.refuse(out, ticket, reject),
        };
        self.journal.emit(Haste::Urgent, out, &Fact::GroupExpired { topic: id, group });
        self.dismiss(group, Reject::GroupUnknown, out);
        self.prune_schedule(id);
        self.journal.reply(out, ticket, Answer::Deleted);
    }

    fn group_of(&self, id: TopicId, name: &str) -> Result<GroupId, Reject> {
        let topic = self.journal.state.topic(id).ok_or(Reject::TopicUnknown)?;
        topic.group_named(name).map(|group| group.id).ok_or(Reject::GroupUnknown)
    }

    /// Sends the readers of a group away, and tells those who wait why: it is about to be forgotten. Timers that still
    /// name it find nothing.
    pub(crate) fn dismiss(&mut self, group: GroupId, reason: Reject, out: &mut Output) {
        let Some(crew) = self.crews.remove(&group) else { return };
        for consumer in crew.consumers {
            self.readers.remove(&consumer.id);
            out.actions.push(Action::Close { consumer: consumer.id });
        }
        for waiter in crew.waiters {
            self.waiting.remove(&waiter.ticket);
            self.timers.cancel(waiter.until, Due::Waited(group, waiter.ticket));
            self.journal.refuse(out, waiter.ticket, reason);
        }
        self.sleepers.dismiss(group);
        self.deactivate(crew.topic, group);
    }

    pub(crate) fn handle_pause(
        &mut self,
        ticket: Ticket,
        id: TopicId,
        group: Option<&str>,
        paused: bool,
        out: &mut Output,
    ) {
        let found = match group {
            None if self.journal.state.topic(id).is_none() => Err(Reject::TopicUnknown),
            None => Ok(None),
            Some(name) => self.group_of(id, name).map(Some),
        };
        let group = match found {
            Ok(group) => group,
            Err(reject) => return self.journal.refuse(out, ticket, reject),
        };
        let topic = self.journal.state.topic(id);
        let before = topic.and_then(|topic| match group {
            None => topic.paused,
            Some(group) => topic.groups.get(&group)?.paused,
        });
        let since = paused.then(|| before.unwrap_or(self.now));
        if since != before {
            self.journal.emit(Haste::Urgent, out, &Fact::Paused { topic: id, group, since });
        }
        self.journal.reply(out, ticket, Answer::Paused(since));
        match group {
            Some(group) => self.dispatch(group, out),
            None => self.dispatch_topic(id, out),
        }
    }

    pub(crate) fn handle_seek(
        &mut self,
        ticket: Ticket,
        id: TopicId,
        name: &str,
        only: Option<u32>,
        to: SeekTo,
        out: &mut Output,
    ) {
        let group = match self.may_seek(id, name, only) {
            Ok(group) => group,
            Err(reject) => return self.journal.refuse(out, ticket, reject),
        };
        let mut targets = Vec::new();
        let mut spots = Vec::new();
        if let Some(topic) = self.journal.state.topic(id) {
            for (partition, lane) in (0_u32..).zip(&topic.partitions) {
                if only.is_some_and(|only| only != partition) {
                    continue;
                }
                let sequence = match to {
                    SeekTo::Earliest => lane.slots.base,
                    SeekTo::Latest => lane.slots.next(),
                    SeekTo::Offset(offset) => lane.sequence_at(offset),
                    SeekTo::Time(time) => lane.sequence_since(time),
                };
                let first = lane.slots.next_alive(sequence).and_then(|s| lane.slots.get(s));
                targets.push((partition, first.map_or(topic.next_offset, |slot| slot.offset)));
                let pending = topic.progress(group, partition).map(|progress| progress.pending.keys());
                spots.extend(pending.into_iter().flatten().map(|&sequence| Spot {
                    topic: id,
                    group,
                    partition,
                    sequence,
                }));
            }
        }
        // Whoever holds something of the old position holds nothing any more.
        for spot in spots {
            self.retire(spot);
        }
        for (partition, from) in targets {
            self.journal.emit(Haste::Urgent, out, &Fact::Sought { topic: id, group, partition, from });
        }
        self.prune_schedule(id);
        self.reset_group(id, group);
        self.watch_topic_deadlines(id);
        let partitions = self.described_partitions(id, group);
        self.journal.reply(out, ticket, Answer::Sought(partitions));
        self.dispatch(group, out);
    }

    fn may_seek(&self, id: TopicId, name: &str, only: Option<u32>) -> Result<GroupId, Reject> {
        let group = self.group_of(id, name)?;
        let partitions = self.journal.state.topic(id).map_or(0, |topic| topic.info().partitions);
        if only.is_some_and(|only| only >= partitions) {
            return Err(Reject::PartitionOutOfRange);
        }
        Ok(group)
    }

    /// Where a message lies, if it is kept.
    pub(crate) fn locate(&self, message: Spotted) -> Result<u64, Reject> {
        let topic = self.journal.state.topic(message.topic).ok_or(Reject::TopicUnknown)?;
        let lane = topic.partitions.get(message.partition as usize).ok_or(Reject::PartitionOutOfRange)?;
        match lane.slots.find(message.offset) {
            Found::Here(sequence) => Ok(sequence),
            Found::Gone | Found::Never => Err(Reject::MessageUnknown),
        }
    }

    /// The message as every group sees it.
    fn spots(&self, message: Spotted, sequence: u64) -> Vec<(Arc<str>, Spot)> {
        let Spotted { topic, partition, .. } = message;
        let groups = self.journal.state.topic(topic).map(|topic| topic.groups.values());
        let groups = groups.into_iter().flatten();
        groups.map(|g| (Arc::clone(&g.name), Spot { topic, group: g.id, partition, sequence })).collect()
    }

    pub(crate) fn handle_cancel(&mut self, ticket: Ticket, message: Spotted, out: &mut Output) {
        let sequence = match self.locate(message) {
            Ok(sequence) => sequence,
            Err(reject) => return self.journal.refuse(out, ticket, reject),
        };
        let mut running = Vec::new();
        for (name, spot) in self.spots(message, sequence) {
            if self.lease_of(spot).is_some() {
                running.push(name);
            } else {
                self.note_ending(spot, How::Cancelled, out);
                self.retire(spot);
            }
        }
        let Spotted { topic, partition, offset } = message;
        self.unschedule_start(topic, partition, sequence);
        let slots = self.journal.state.lane(topic, partition).map(|lane| &lane.slots);
        if slots.is_some_and(|slots| !slots.is_cancelled(sequence)) {
            self.journal.emit(Haste::Urgent, out, &Fact::Cancelled { topic, partition, offset });
        }
        self.journal.reply(out, ticket, Answer::Cancelled { running });
        self.dispatch_topic(topic, out);
    }

    pub(crate) fn handle_remove(&mut self, ticket: Ticket, messages: &[Spotted], out: &mut Output) {
        let mut removed = 0;
        for &message in messages {
            removed += u64::from(self.drop_message(message, out));
        }
        self.journal.reply(out, ticket, Answer::Removed(removed));
    }

    /// Drops a message for every group; false if it is not kept.
    fn drop_message(&mut self, message: Spotted, out: &mut Output) -> bool {
        let Ok(sequence) = self.locate(message) else { return false };
        for (_, spot) in self.spots(message, sequence) {
            self.retire(spot);
        }
        let Spotted { topic, partition, offset } = message;
        self.unschedule_start(topic, partition, sequence);
        self.journal.emit(Haste::Urgent, out, &Fact::Removed { topic, partition, offset });
        self.dispatch_topic(topic, out);
        true
    }

    /// Stores the message of a dead letter again and drops the letter, in one batch. The gates do not count: a
    /// person has decided that it is to be tried again, by the group that gave it up. If that group is gone the letter
    /// stays: the other groups are done with the message.
    pub(crate) fn handle_redrive(
        &mut self,
        ticket: Ticket,
        letter: Spotted,
        mut message: NewMessage,
        group: Option<&str>,
        out: &mut Output,
    ) {
        let (sequence, only) = match self.may_redrive(letter, &message, group) {
            Ok(checked) => checked,
            Err(reject) => return self.journal.refuse(out, ticket, reject),
        };
        let state = &self.journal.state;
        let slots = state.lane(letter.topic, letter.partition).map(|lane| &lane.slots);
        // Letters of a time when it was not written down: whoever read the letter says what is known.
        message.origin = slots.and_then(|slots| slots.origin(sequence)).or(message.origin);
        // A letter does not say what was asked for; the gate does, as long as it knows the message that died.
        let first = message.identity.and_then(|identity| state.stored.get(&identity, self.now));
        if let Some(first) = first.filter(|_| message.request == RequestHash::NONE) {
            let place = Spotted { topic: first.topic, partition: first.partition, offset: first.offset };
            message.request = if message.origin == Some(place) { first.request } else { message.request };
        }
        let until = lifetime(self.now, self.settings.idempotency_ttl_ms);
        let identity = message.identity.map(|identity| (identity, until));
        let offset = self.append(&message, identity, only, out);
        self.drop_message(letter, out);
        let topic = Some(message.topic);
        let stored = Stored { topic, partition: message.partition, offset, duplicate: false };
        self.journal.reply(out, ticket, Answer::Produced(stored));
    }

    /// Where the letter lies, and the group that is to get the message.
    fn may_redrive(
        &self,
        letter: Spotted,
        message: &NewMessage,
        group: Option<&str>,
    ) -> Result<(u64, Option<GroupId>), Reject> {
        let sequence = self.locate(letter)?;
        self.may_append(message)?;
        let only = group.map(|group| self.group_of(message.topic, group)).transpose()?;
        Ok((sequence, only))
    }
}
