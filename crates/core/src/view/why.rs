//! Messages one by one: where they are, and why they wait.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::state::group::Group;
use crate::state::partition::Topic;
use crate::turn::Turn;
use crate::turn::timer::Spot;
use crate::words::blob::Blob;
use crate::words::description::{Browse, Found, GroupStanding, MessageDescription, Stage, Stretch, Wait};
use crate::words::id::{KeyHash, Spotted, Time};
use crate::words::run::{RunEntry, RunGroup, RunPage, RunState};
use crate::words::topic::Order;

/// Messages that one question looks at; the answer says where to go on. No other input is served meanwhile.
const SCANNED_MAX: u64 = 2_000;
/// Messages before one that are looked through for the same key.
const EARLIER_MAX: u64 = 10_000;
/// Messages of a run of which one question is told why they wait: each may be looked for behind that many others.
const EXPLAINED_MAX: usize = 100;

impl Deliveries {
    pub(crate) fn describe_message(&self, turn: &Turn, message: Spotted) -> Option<MessageDescription> {
        let sequence = turn.locate(message).ok()?;
        let topic = turn.journal.state.topic(message.topic)?;
        let found = turn.found(topic, message.partition, sequence)?;
        let groups =
            topic.groups.values().map(|group| self.standing_of(turn, topic, group, message, sequence));
        Some(MessageDescription { found, groups: groups.collect() })
    }

    fn standing_of(
        &self,
        turn: &Turn,
        topic: &Topic,
        group: &Group,
        message: Spotted,
        sequence: u64,
    ) -> GroupStanding {
        let partition = message.partition;
        let spot = Spot { topic: topic.id, group: group.id, partition, sequence };
        let pending = turn.pending(spot);
        let (wait, since, until) = self.wait_of(turn, topic, group, spot);
        let lease = pending.filter(|pending| pending.lease.is_some());
        GroupStanding {
            group: Arc::clone(&group.name),
            wait,
            since,
            until,
            owner: lease.map(|pending| Arc::clone(&pending.owner)),
            attempts: pending.map_or(0, |pending| pending.attempts),
            last_error: pending.map_or_else(Arc::default, |pending| Arc::clone(&pending.last_error)),
            history: pending.map_or_else(Vec::new, |pending| pending.history.clone()),
        }
    }

    /// Says of what a run still waits for why that is so.
    pub(crate) fn explain_run(&self, turn: &Turn, page: &mut RunPage) {
        let state = &turn.journal.state;
        let mut explained = 0;
        for entry in &mut page.entries {
            let RunEntry::Message(message) = entry else { continue };
            let Some(topic) = state.names.get(&*message.topic).and_then(|id| state.topic(*id)) else {
                continue;
            };
            let spotted = Spotted { topic: topic.id, partition: message.partition, offset: message.offset };
            let Ok(sequence) = turn.locate(spotted) else { continue };
            let open = |group: &&mut RunGroup| !matches!(group.state, RunState::Ended(_) | RunState::Removed);
            for shown in message.groups.iter_mut().filter(open) {
                let Some(group) = topic.group_named(&shown.group) else { continue };
                if explained == EXPLAINED_MAX {
                    return;
                }
                explained += 1;
                let spot = Spot { topic: topic.id, group: group.id, partition: message.partition, sequence };
                shown.wait = Some(self.wait_of(turn, topic, group, spot));
            }
        }
    }

    /// Why a group does not get a message right now, since when, and until when if that is known. The first reason
    /// that holds, in the order in which dispatch meets them.
    fn wait_of(&self, turn: &Turn, topic: &Topic, group: &Group, spot: Spot) -> (Wait, Time, Option<Time>) {
        let lane = &topic.partitions[spot.partition as usize];
        let progress = &group.progress[spot.partition as usize];
        let stored = lane.slots.get(spot.sequence).map_or(Time(0), |slot| slot.at);
        if progress.is_settled(spot.sequence) {
            return (Wait::Done, stored, None);
        }
        let pending = progress.pending.get(&spot.sequence);
        if let Some((pending, expires)) = pending.and_then(|pending| Some((pending, pending.lease?))) {
            return (Wait::InFlight, pending.leased_at, Some(expires));
        }
        let idle = pending.map_or(stored, |pending| pending.ended_at.max(stored));
        let crew = self.crew(spot.group);
        if crew.is_some_and(|crew| crew.is_dying(spot)) {
            return (Wait::Dying, idle, None);
        }
        let due = lane.slots.due(spot.sequence);
        if due > turn.now {
            return (Wait::Scheduled, stored, Some(due));
        }
        if let Some(pending) = pending.filter(|pending| turn.due_at(pending) > turn.now) {
            let wait = if pending.waits_for > 0 { Wait::Effect } else { Wait::Backoff };
            return (wait, idle, Some(pending.retry_at));
        }
        let begun = idle.max(due);
        if let Some(since) = topic.paused.into_iter().chain(group.paused).min() {
            return (Wait::Paused, since.max(begun), None);
        }
        if let Some(head) = turn.earlier_of_key(topic, group, spot) {
            let until = progress.pending.get(&head).and_then(|pending| pending.lease);
            return (Wait::KeyBusy, begun, until);
        }
        let running =
            lane.slots.identity(spot.sequence).and_then(|identity| crew?.running.get(&identity).copied());
        if let Some((partition, sequence)) = running.filter(|runs| *runs != (spot.partition, spot.sequence)) {
            let until = turn.lease_of(Spot { partition, sequence, ..spot }).map(|(_, expires)| expires);
            return (Wait::SameIdentityRunning, begun, until);
        }
        let windows = turn.settings.windows(topic);
        if progress.leased >= windows.pushed.max(windows.borrowed) {
            return (Wait::WindowFull, begun, None);
        }
        (Wait::Ready, begun, None)
    }
}

impl Turn {
    /// Where the payload of a message lies.
    pub(crate) fn payload_of(&self, message: Spotted) -> Option<Blob> {
        let sequence = self.locate(message).ok()?;
        let slot = self.journal.state.lane(message.topic, message.partition)?.slots.get(sequence)?;
        Some(Blob { position: slot.position, length: slot.length, check: slot.check })
    }

    /// A stretch of messages in the order of partition and offset.
    pub(crate) fn browse(&self, browse: &Browse) -> Option<Stretch> {
        let topic = self.journal.state.topic(browse.topic)?;
        let mut stretch = Stretch::default();
        let count = if browse.alone { 1 } else { usize::MAX };
        let lanes = (0_u32..).zip(&topic.partitions).skip(browse.partition as usize).take(count);
        for (partition, lane) in lanes {
            let from =
                if partition == browse.partition { lane.sequence_near(browse.from) } else { lane.slots.base };
            let mut next = lane.slots.next_alive(from);
            while let Some(sequence) = next {
                let Some(slot) = lane.slots.get(sequence) else { break };
                let fresh_page = stretch.found.len() < browse.limit as usize && stretch.scanned < SCANNED_MAX;
                if !fresh_page {
                    stretch.next = Some((partition, slot.offset));
                    return Some(stretch);
                }
                let begins = partition != browse.partition || slot.offset >= browse.from;
                let keyed = browse.key == KeyHash::NONE || lane.slots.key(sequence) == browse.key;
                stretch.scanned += u64::from(begins);
                if begins && keyed {
                    stretch.found.extend(self.found(topic, partition, sequence));
                }
                next = lane.slots.next_alive(sequence + 1);
            }
        }
        Some(stretch)
    }

    fn found(&self, topic: &Topic, partition: u32, sequence: u64) -> Option<Found> {
        let slots = &topic.partitions.get(partition as usize)?.slots;
        let (slot, due) = (slots.get(sequence)?, slots.due(sequence));
        let pending = topic.groups.values().filter_map(|group| {
            let pending = group.progress.get(partition as usize)?.pending.get(&sequence)?;
            Some(if pending.lease.is_some() {
                Stage::InFlight
            } else if self.due_at(pending) > self.now {
                Stage::Backoff
            } else {
                Stage::Ready
            })
        });
        let waits = match () {
            () if slots.is_kept(sequence) => Stage::Done,
            () if due > self.now => Stage::Scheduled,
            () => Stage::Ready,
        };
        Some(Found {
            partition,
            offset: slot.offset,
            at: slot.at,
            priority: slots.priority(sequence),
            due: Some(due).filter(|due| (Time(1)..Time::NEVER).contains(due)),
            cancelled: slots.is_cancelled(sequence),
            retry: self.journal.state.policies.get(slot.policy),
            stage: pending.max().unwrap_or(waits),
            position: slot.position,
            length: slot.length,
            check: slot.check,
        })
    }

    /// The earlier message of the same key that a group has to settle first, where keys keep their order.
    fn earlier_of_key(&self, topic: &Topic, group: &Group, spot: Spot) -> Option<u64> {
        let lane = topic.partitions.get(spot.partition as usize)?;
        let key = lane.slots.key(spot.sequence);
        if topic.settings.order != Order::Key || key == KeyHash::NONE {
            return None;
        }
        let progress = group.progress.get(spot.partition as usize)?;
        let from = progress.floor.max(lane.slots.base);
        let mut next = lane.slots.next_alive(from);
        let mut looked_at = 0;
        while let Some(sequence) =
            next.filter(|sequence| *sequence < spot.sequence && looked_at < EARLIER_MAX)
        {
            let waits = !progress.is_settled(sequence) && lane.slots.due(sequence) <= self.now;
            if waits && lane.slots.key(sequence) == key {
                return Some(sequence);
            }
            looked_at += 1;
            next = lane.slots.next_alive(sequence + 1);
        }
        None
    }
}
