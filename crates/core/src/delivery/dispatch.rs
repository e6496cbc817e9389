//! Ready messages meet readers.
//!
//! The order of claims lives with the lanes: [`Lane::candidate`] is the one place that says which message of a
//! partition goes next.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::delivery::Deliveries;
use crate::delivery::crew::Taker;
use crate::delivery::lane::View;
use crate::log::delivery::{DeliveryFact, Place};
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Action, Delivery, Output};
use crate::words::id::{GroupId, Time, TopicId};
use crate::words::input::{LEASE_BYTES_MAX, Style};
use crate::words::receipt::Receipt;
use crate::words::run::How;

/// Nothing more is lent while the batch holds this many bytes of facts: many groups that get many messages each would
/// fill more than a frame of the log. The rest goes on with the next batch.
pub(crate) const DISPATCH_FACTS_BYTES_MAX: usize = 1 << 20;

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

impl Deliveries {
    /// Delivers to the group what can be delivered, one partition after the other, one reader after the other.
    pub(super) fn dispatch(&mut self, turn: &mut Turn, group: GroupId, out: &mut Output) {
        if turn.journal.durable < self.opened {
            return;
        }
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.is_unfinished = false;
        }
        while let Some((partition, next)) = self.next_for(turn, group, out) {
            match next {
                Next::Nothing => {}
                Next::Deliver(sequence, taker) => {
                    self.deliver(turn, group, partition, sequence, taker, out);
                }
                Next::Skip(sequence) => self.skip(turn, group, partition, sequence, out),
                Next::GiveUp(topic, sequence) => {
                    self.end_overdue(turn, Spot { topic, group, partition, sequence }, out);
                }
                Next::Overfull => self.answer_first_waiter(turn, group, out),
            }
        }
        self.answer_waiters(turn, group, out);
    }

    /// Whether enough was looked at for one input.
    pub(crate) const fn is_turn_over(&self, out: &Output) -> bool {
        self.steps == 0 || out.facts.len() >= DISPATCH_FACTS_BYTES_MAX
    }

    /// Dispatch goes on where it stopped.
    pub(crate) fn go_on(&mut self, turn: &mut Turn, group: GroupId, out: &mut Output) {
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.goes_on = false;
        }
        self.dispatch(turn, group, out);
    }

    /// The next partition in turn and what it has; `None` when nothing more can be delivered.
    fn next_for(&mut self, turn: &mut Turn, group: GroupId, out: &Output) -> Option<(u32, Next)> {
        let is_turn_over = self.is_turn_over(out);
        let crew = self.crews.get_mut(&group)?;
        if !crew.can_take(turn.settings.stream_unwritten_max) {
            return None;
        }
        let partition = crew.next_hot()?;
        if is_turn_over {
            crew.is_unfinished = true;
            if !core::mem::replace(&mut crew.goes_on, true) {
                self.turns += 1;
                turn.timers.set(turn.now, Due::GoOn(self.turns, group));
            }
            return None;
        }
        self.steps -= 1;
        let topic = turn.journal.state.topic(crew.topic)?;
        let members = topic.groups.get(&group)?;
        if topic.paused.is_some() || members.paused.is_some() {
            return None;
        }
        let progress = members.progress.get(partition as usize)?;
        let lane = topic.partitions.get(partition as usize)?;
        let Some(taker) = crew.next_taker(progress, turn.settings.windows(topic)) else {
            crew.set_full(partition, turn.now);
            return Some((partition, Next::Nothing));
        };
        let view = View {
            lane,
            progress,
            durable: turn.journal.durable,
            order: topic.settings.order,
            share: u64::from(topic.settings.retry_share.unwrap_or(turn.settings.retry_share)),
        };
        let Some(sequence) = crew.lanes[partition as usize].candidate(&view, &mut self.steps) else {
            if self.steps > 0 {
                crew.hot.remove(&partition);
                crew.lanes[partition as usize].full_since = Time(0);
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
        let overdue = deadline > Time(0) && deadline <= turn.now && !topic.is_dead_letter_topic();
        if let Some(identity) = lane.slots.identity(sequence) {
            if members.done.get(&identity, turn.now).is_some() {
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

    /// Lends a message. The effects that its delivery before has begun are overtaken.
    fn deliver(
        &mut self,
        turn: &mut Turn,
        group: GroupId,
        partition: u32,
        sequence: u64,
        taker: Taker,
        out: &mut Output,
    ) {
        let token = self.next_token(turn);
        let Some(crew) = self.crews.get_mut(&group) else { return };
        let Some(topic) = turn.journal.state.topic(crew.topic) else { return };
        let spot = Spot { topic: topic.id, group, partition, sequence };
        crew.lanes[partition as usize].take(topic.rank(partition, sequence));
        crew.next_partition = partition + 1;
        let given_back = crew.given_back.remove(&(partition, sequence));
        let freed = crew.freed.remove(&(partition, sequence));
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
        let supersedes = before.is_some() || given_back.is_some();
        let attempt = before.map_or(0, |pending| pending.attempts) + 1;
        let expires = turn.now.after_ms(lease_ms);
        let told = || Box::new(crew.waited(turn.now, topic, spot, (before, given_back, freed)));
        let waited = turn.settings.tells_waits.then(told);
        let Some(slot) = topic.partitions[partition as usize].slots.get(sequence) else { return };
        let place = Place { topic: spot.topic, group, partition, offset: slot.offset };
        let leased = DeliveryFact::Leased { token, attempt, at: turn.now, expires, owner, style };
        let fact = Fact::Delivery(place, leased);
        turn.journal.emit(if supersedes { Haste::Urgent } else { Haste::Lazy }, out, &fact);
        turn.timers.set(expires, Due::Lapse(spot));
        self.overtaken.extend(turn.journal.state.effects.tied_to(place.topic, place.offset, group));
        let Some(delivery) = turn.delivery(spot) else { return };
        self.hand_over(turn, group, taker, Delivery { waited, ..delivery }, supersedes, out);
    }

    fn hand_over(
        &mut self,
        turn: &mut Turn,
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
                    turn.journal.after_durable(out, action);
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
                    self.answer_first_waiter(turn, group, out);
                }
            }
        }
    }

    fn skip(&mut self, turn: &mut Turn, group: GroupId, partition: u32, sequence: u64, out: &mut Output) {
        let Some(topic) = self.crews.get(&group).map(|crew| crew.topic) else { return };
        let spot = Spot { topic, group, partition, sequence };
        turn.note_ending(spot, How::Skipped, out);
        let (Some(rank), Some(offset)) = (turn.rank_of(spot), turn.offset_of(spot)) else { return };
        if let Some(crew) = self.crews.get_mut(&group) {
            crew.lanes[partition as usize].take(rank);
        }
        self.retire(turn, spot);
        let place = Place { topic, group, partition, offset };
        // Urgent: an ack that comes now is told that all is settled, and that must not be taken back by a crash.
        turn.journal.emit(Haste::Urgent, out, &Fact::Delivery(place, DeliveryFact::Retired { dead: false }));
    }
}

impl Turn {
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
            waited: None,
            position: slot.position,
            length: slot.length,
            check: slot.check,
        })
    }
}
