//! Ready messages meet readers.
//!
//! The order of claims lives here: [`Lane::candidate`] is the one place that says which message of a partition goes
//! next.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::delivery::lane::{Crew, Lane, Rank, Taker, Windows};
use crate::delivery::lease::LEASE_BYTES_MAX;
use crate::log::fact::{Fact, Place};
use crate::run::How;
use crate::shard::Shard;
use crate::state::group::Progress;
use crate::state::partition::{Partition, Topic};
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Action, Delivery, Output, Receipt};
use crate::words::id::{GroupId, Identity, KeyHash, Position, Time, TopicId};
use crate::words::input::Style;
use crate::words::topic::Order;

/// Nothing more is lent while the batch holds this many bytes of facts: many groups that get many messages each would
/// fill more than a frame of the log. The rest goes on with the next batch.
pub(crate) const DISPATCH_FACTS_BYTES_MAX: usize = 1 << 20;
/// Messages passed over by the cursor that count as one looked at.
const PASSED_PER_STEP: u64 = 16;
/// Messages of one partition that may wait for an earlier one with the same key. Beyond it the group looks no further
/// until some are done, so that one key with a million messages does not cost a million entries.
const PARKED_MAX: usize = 1 << 16;

/// What a partition has for a group right now.
enum Next {
    /// Nothing, or not now; look at the next partition.
    Nothing,
    /// A message that can be delivered, and to whom.
    Deliver(u64, Taker),
    /// A message whose identity the group is done with.
    Skip(u64),
    /// A message whose deadline has passed.
    GiveUp(TopicId, u64),
    /// A message that does not fit any more into what was gathered for the first in line.
    Overfull,
}

/// A partition as one group sees it.
struct View<'a> {
    lane: &'a Partition,
    progress: &'a Progress,
    /// Only what lies below is visible.
    durable: Position,
    order: Order,
    /// Of a hundred deliveries, how many may be retries while fresh messages wait.
    share: u64,
}

impl Shard {
    /// Delivers to the group what can be delivered, one partition after the other, one reader after the other.
    pub(crate) fn dispatch(&mut self, group: GroupId, out: &mut Output) {
        if self.journal.durable < self.opened {
            return;
        }
        let mut overtaken = Vec::new();
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.is_unfinished = false;
        }
        while let Some((partition, next)) = self.next_for(group, out) {
            match next {
                Next::Nothing => {}
                Next::Deliver(sequence, taker) => {
                    self.deliver(group, partition, sequence, taker, &mut overtaken, out);
                }
                Next::Skip(sequence) => self.skip(group, partition, sequence, out),
                Next::GiveUp(topic, sequence) => {
                    self.end_overdue(Spot { topic, group, partition, sequence }, out);
                }
                Next::Overfull => self.answer_first_waiter(group, out),
            }
        }
        self.answer_waiters(group, out);
        // Only now: whoever waited for an effect of the delivery before must not hear of the new one before its holder.
        for effect in overtaken {
            self.on_effect_lapse(effect, out);
        }
    }

    /// Whether enough was looked at for one input.
    pub(crate) const fn is_turn_over(&self, out: &Output) -> bool {
        self.steps == 0 || out.facts.len() >= DISPATCH_FACTS_BYTES_MAX
    }

    /// Dispatch goes on where it stopped.
    pub(crate) fn go_on(&mut self, group: GroupId, out: &mut Output) {
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.goes_on = false;
        }
        self.dispatch(group, out);
    }

    /// The next partition in turn and what it has; `None` when nothing more can be delivered.
    fn next_for(&mut self, group: GroupId, out: &Output) -> Option<(u32, Next)> {
        let is_turn_over = self.is_turn_over(out);
        let crew = self.crews.get_mut(&group)?;
        if !crew.can_take(self.settings.stream_unwritten_max) {
            return None;
        }
        let partition = crew.next_hot()?;
        if is_turn_over {
            crew.is_unfinished = true;
            if !core::mem::replace(&mut crew.goes_on, true) {
                self.turns += 1;
                self.timers.set(self.now, Due::GoOn(self.turns, group));
            }
            return None;
        }
        self.steps -= 1;
        let topic = self.journal.state.topic(crew.topic)?;
        let members = topic.groups.get(&group)?;
        if topic.paused.is_some() || members.paused.is_some() {
            return None;
        }
        let progress = members.progress.get(partition as usize)?;
        let lane = topic.partitions.get(partition as usize)?;
        let Some(taker) = crew.next_taker(progress, self.settings.windows(topic)) else {
            crew.hot.remove(&partition);
            crew.full.insert(partition);
            return Some((partition, Next::Nothing));
        };
        let view = View {
            lane,
            progress,
            durable: self.journal.durable,
            order: topic.settings.order,
            share: u64::from(topic.settings.retry_share.unwrap_or(self.settings.retry_share)),
        };
        let Some(sequence) = crew.lanes[partition as usize].candidate(&view, &mut self.steps) else {
            if self.steps > 0 {
                crew.hot.remove(&partition);
            }
            return Some((partition, Next::Nothing));
        };
        let length = lane.slots.get(sequence).map_or(0, |slot| slot.length);
        if taker == Taker::Waiter && crew.waiters.front().is_some_and(|waiter| waiter.is_full_for(length)) {
            return Some((partition, Next::Overfull));
        }
        // Before anything that may hold it back: those behind it with the same key wait for it all the same.
        crew.lanes[partition as usize].keys.set_head(view.key(sequence), sequence);
        let deadline = lane.slots.deadline(sequence);
        let overdue = deadline > Time(0) && deadline <= self.now && !topic.is_dead_letter_topic();
        if let Some(identity) = lane.slots.identity(sequence) {
            if members.done.get(&identity, self.now).is_some() {
                return Some((partition, Next::Skip(sequence)));
            }
            if crew.running.get(&identity).is_some_and(|runs| *runs != (partition, sequence)) {
                crew.set_aside(identity, partition, view.rank(sequence));
                return Some((partition, Next::Nothing));
            }
            if !overdue {
                crew.running.insert(identity, (partition, sequence));
            }
        }
        if overdue {
            let rank = view.rank(sequence);
            crew.lanes[partition as usize].take(rank);
            return Some((partition, Next::GiveUp(topic.id, sequence)));
        }
        Some((partition, Next::Deliver(sequence, taker)))
    }

    /// Lends a message. The effects that its delivery before has begun come into `overtaken`.
    fn deliver(
        &mut self,
        group: GroupId,
        partition: u32,
        sequence: u64,
        taker: Taker,
        overtaken: &mut Vec<u64>,
        out: &mut Output,
    ) {
        let token = self.next_token();
        let Some(crew) = self.crews.get_mut(&group) else { return };
        let Some(topic) = self.journal.state.topic(crew.topic) else { return };
        let spot = Spot { topic: topic.id, group, partition, sequence };
        crew.lanes[partition as usize].take(topic.rank(partition, sequence));
        crew.next_partition = partition + 1;
        let given_back = crew.given_back.remove(&(partition, sequence));
        crew.stream_had_it = matches!(taker, Taker::Stream(_));
        let (owner, lease_ms, style) = match taker {
            Taker::Waiter => {
                let Some(waiter) = crew.waiters.front() else { return };
                (&*waiter.owner, waiter.lease_ms, Style::Borrowed)
            }
            Taker::Stream(index) => {
                crew.turn = (index + 1) % crew.consumers.len();
                let consumer = &mut crew.consumers[index];
                consumer.credit -= 1;
                if consumer.style == Style::Borrowed {
                    consumer.unwritten += 1;
                    crew.loans.insert((partition, sequence), consumer.id);
                }
                let consumer = &crew.consumers[index];
                (&*consumer.owner, consumer.lease_ms, consumer.style)
            }
        };
        let before = topic.progress(group, partition).and_then(|progress| progress.pending.get(&sequence));
        // A first delivery is not synced before it is handed out: a crash that loses it hands the message out again,
        // which is allowed. One that supersedes a holder is, or the same crash would bring that holder back.
        let supersedes = before.is_some() || given_back;
        let attempt = before.map_or(0, |pending| pending.attempts) + 1;
        let expires = self.now.after_ms(lease_ms);
        let Some(slot) = topic.partitions[partition as usize].slots.get(sequence) else { return };
        let place = Place { topic: spot.topic, group, partition, offset: slot.offset };
        let fact = Fact::Leased { place, token, attempt, at: self.now, expires, owner, style };
        self.journal.emit(if supersedes { Haste::Urgent } else { Haste::Lazy }, out, &fact);
        self.timers.set(expires, Due::Lapse(spot));
        overtaken.extend(self.journal.state.effects.tied_to(place.topic, place.offset, group));
        let Some(delivery) = self.delivery(spot) else { return };
        self.hand_over(group, taker, delivery, supersedes, out);
    }

    fn hand_over(
        &mut self,
        group: GroupId,
        taker: Taker,
        delivery: Delivery,
        supersedes: bool,
        out: &mut Output,
    ) {
        let Some(crew) = self.crews.get_mut(&group) else { return };
        match taker {
            Taker::Stream(index) => {
                let action = Action::Deliver { consumer: crew.consumers[index].id, delivery };
                if supersedes {
                    self.journal.after_durable(out, action);
                } else {
                    out.actions.push(action);
                }
            }
            Taker::Waiter => {
                let Some(waiter) = crew.waiters.front_mut() else { return };
                waiter.supersedes |= supersedes;
                waiter.bytes += u64::from(delivery.length);
                waiter.gathered.push(delivery);
                if waiter.gathered.len() >= waiter.max || waiter.bytes >= LEASE_BYTES_MAX {
                    self.answer_first_waiter(group, out);
                }
            }
        }
    }

    /// The delivery under way of a message, as its holder gets it.
    pub(crate) fn delivery(&self, spot: Spot) -> Option<Delivery> {
        let slots = self.slots(spot)?;
        let (slot, pending) = (slots.get(spot.sequence)?, self.pending(spot)?);
        let receipt = Receipt {
            topic: spot.topic,
            group: spot.group,
            partition: spot.partition,
            offset: slot.offset,
            token: pending.token,
        };
        Some(Delivery {
            receipt,
            attempt: pending.attempts,
            last_error: Arc::clone(&pending.last_error),
            expires: pending.lease?,
            at: slot.at,
            priority: slots.priority(spot.sequence),
            due: Some(slots.due(spot.sequence)).filter(|due| (Time(1)..Time::NEVER).contains(due)),
            position: slot.position,
            length: slot.length,
            check: slot.check,
        })
    }

    fn skip(&mut self, group: GroupId, partition: u32, sequence: u64, out: &mut Output) {
        let Some(topic) = self.crews.get(&group).map(|crew| crew.topic) else { return };
        let spot = Spot { topic, group, partition, sequence };
        self.note_ending(spot, How::Skipped, out);
        let (Some(rank), Some(offset)) = (self.rank_of(spot), self.offset_of(spot)) else { return };
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.lanes[partition as usize].take(rank);
        }
        self.retire(spot);
        let place = Place { topic, group, partition, offset };
        // Urgent: an ack that comes now is told that all is settled, and that must not be taken back by a crash.
        self.journal.emit(Haste::Urgent, out, &Fact::Retired { place, dead: false });
    }
}

impl View<'_> {
    /// The message is kept and the group's to settle.
    fn is_owed(&self, sequence: u64) -> bool {
        self.lane.slots.get(sequence).is_some() && !self.progress.is_settled(sequence)
    }

    fn is_visible(&self, sequence: u64) -> bool {
        self.lane.slots.get(sequence).is_some_and(|slot| slot.position < self.durable)
    }

    /// The cursor passes it over: it comes by way of [`Lane::fresh`].
    fn is_special(&self, sequence: u64) -> bool {
        let slots = &self.lane.slots;
        slots.due(sequence) > Time(0) || (self.order == Order::Priority && slots.priority(sequence) > 0)
    }

    fn rank(&self, sequence: u64) -> Rank {
        let counts = self.order == Order::Priority;
        (Reverse(if counts { self.lane.slots.priority(sequence) } else { 0 }), sequence)
    }

    fn key(&self, sequence: u64) -> KeyHash {
        if self.order == Order::Key { self.lane.slots.key(sequence) } else { KeyHash::NONE }
    }
}

impl Lane {
    /// The message to deliver next. While both retries and fresh messages stand ready, retries get their share and
    /// no more; when only one kind does, it gets everything.
    fn candidate(&mut self, view: &View<'_>, steps: &mut usize) -> Option<u64> {
        let retry = self.next_retry(view, steps);
        let fresh = self.next_fresh(view, steps);
        let (Some(retry), Some(fresh)) = (retry, fresh) else { return retry.or(fresh) };
        let before = (self.contests * view.share).div_ceil(100);
        self.contests += 1;
        let after = (self.contests * view.share).div_ceil(100);
        // The first contest goes to the retry: however small its share, it is never nothing.
        Some(if after > before { retry } else { fresh })
    }

    fn next_retry(&mut self, view: &View<'_>, steps: &mut usize) -> Option<u64> {
        while let Some(sequence) = self.retries.first() {
            if !view.is_owed(sequence) {
                self.retries.remove(sequence);
                self.drop_head(sequence);
            } else if self.keys.is_busy(view.key(sequence), sequence) {
                self.retries.remove(sequence);
                self.keys.park(view.key(sequence), sequence);
            } else {
                // It may have been moved and its new copy not be durable yet: it is looked at again when it is.
                return view.is_visible(sequence).then_some(sequence);
            }
            *steps = steps.checked_sub(1)?;
        }
        None
    }

    /// The first fresh message by priority and offset whose key is free.
    fn next_fresh(&mut self, view: &View<'_>, steps: &mut usize) -> Option<u64> {
        loop {
            let listed = self.next_listed(view, steps);
            let mut plain = self.next_plain(view, steps).map(|sequence| (Reverse(0), sequence));
            if self.keys.parked() >= PARKED_MAX {
                plain = plain.filter(|(_, sequence)| !self.keys.is_busy(view.key(*sequence), *sequence));
            }
            let rank = match (listed, plain) {
                (Some(listed), Some(plain)) => listed.min(plain),
                (listed, plain) => listed.or(plain)?,
            };
            let (_, sequence) = rank;
            let key = view.key(sequence);
            if !self.keys.is_busy(key, sequence) {
                // It may be new, or moved, and not durable yet: what comes after it waits with it.
                return view.is_visible(sequence).then_some(sequence);
            }
            self.take(rank);
            self.keys.park(key, sequence);
            *steps = steps.checked_sub(1)?;
        }
    }

    /// The first message of [`Lane::fresh`] that can go.
    fn next_listed(&mut self, view: &View<'_>, steps: &mut usize) -> Option<Rank> {
        loop {
            let &(rank, sequence) = self.fresh.iter().find(|(_, sequence)| {
                // A new one that is not durable yet does not hold up those with a lower priority. Where offsets or
                // keys keep their order, nothing is passed over.
                !view.is_owed(*sequence) || view.is_visible(*sequence) || view.order != Order::Priority
            })?;
            if view.is_owed(sequence) {
                return Some((rank, sequence));
            }
            self.fresh.remove(&(rank, sequence));
            self.drop_head(sequence);
            *steps = steps.checked_sub(1)?;
        }
    }

    /// The first message at the cursor that is nobody's yet.
    fn next_plain(&mut self, view: &View<'_>, steps: &mut usize) -> Option<u64> {
        loop {
            let from = view.progress.settled.next_gap(self.cursor.max(view.progress.floor));
            let Some(sequence) = view.lane.slots.next_alive(from) else {
                self.cursor = view.lane.slots.next();
                return None;
            };
            self.cursor = sequence;
            let passed = view.progress.pending.contains_key(&sequence) || view.progress.is_settled(sequence);
            if passed || view.is_special(sequence) {
                self.cursor += 1;
                // Passing over is cheap: many make one step.
                if self.cursor.is_multiple_of(PASSED_PER_STEP) {
                    *steps = steps.checked_sub(1)?;
                }
                continue;
            }
            return Some(sequence);
        }
    }

    /// A message at the head of its key is gone without being settled here: the next one takes its place.
    fn drop_head(&mut self, sequence: u64) {
        if let Some(next) = self.keys.finish(sequence) {
            self.fresh.insert((Reverse(0), next));
        }
    }

    /// The message is no longer to be looked at.
    pub(crate) fn take(&mut self, rank: Rank) {
        let (_, sequence) = rank;
        self.retries.remove(sequence);
        self.fresh.remove(&rank);
        if self.cursor == sequence {
            self.cursor += 1;
        }
    }
}

impl Crew {
    fn set_aside(&mut self, identity: Identity, partition: u32, rank: Rank) {
        self.lanes[partition as usize].take(rank);
        self.aside.entry(identity).or_default().push((partition, rank));
    }
}

impl Topic {
    /// The place of a message in the order of fresh ones.
    pub(crate) fn rank(&self, partition: u32, sequence: u64) -> Rank {
        let counts = self.settings.order == Order::Priority;
        let slots = self.partitions.get(partition as usize).map(|lane| &lane.slots);
        (Reverse(slots.filter(|_| counts).map_or(0, |slots| slots.priority(sequence))), sequence)
    }

    /// The group's progress in a partition.
    pub(crate) fn progress(&self, group: GroupId, partition: u32) -> Option<&Progress> {
        self.groups.get(&group)?.progress.get(partition as usize)
    }
}

impl crate::words::settings::Settings {
    /// How many deliveries of one partition of a topic may be on loan.
    pub(crate) fn windows(&self, topic: &Topic) -> Windows {
        Windows {
            pushed: topic.settings.in_flight_max.unwrap_or(self.in_flight_max),
            borrowed: topic.settings.in_flight_max.unwrap_or(self.lease_in_flight_max),
            unwritten: self.stream_unwritten_max,
            is_shared: topic.settings.in_flight_max.is_some(),
        }
    }
}
