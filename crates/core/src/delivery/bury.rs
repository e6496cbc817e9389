//! Dead letters: a message that has used up its attempts moves to `dlq.<topic>`.
//!
//! The payload is not in the state, so the shard asks for it first ([`Action::Fetch`]) and decides when it comes
//! back: the letter is stored and the message retired in the same batch, or neither.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::delivery::settle::place_of;
use crate::log::delivery::DeliveryFact;
use crate::log::fact::Fact;
use crate::state::partition::{DEAD_LETTER_PREFIX, Topic};
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Action, Burial, Output};
use crate::words::draft::{NewMessage, Payload, Start};
use crate::words::id::{KeyHash, RequestHash, Spotted, TopicId};
use crate::words::letter::Reason;
use crate::words::receipt::Receipt;
use crate::words::run::How;
use crate::words::topic::TopicSettings;

/// A payload that could not be read is asked for again after this.
const FETCH_AGAIN_MS: u64 = 1000;

/// What a dead letter says if no holder has told why the last attempt failed.
const fn unsaid(reason: Reason) -> &'static str {
    match reason {
        Reason::NackedDead => "given up by its worker, which gave no reason",
        Reason::AttemptsReached | Reason::DeadlinePassed | Reason::PayloadDamaged => {
            "the last attempt ended without a word from its worker"
        }
    }
}

impl Deliveries {
    /// Asks for the payload of a message whose attempts are used up, or whose time is over.
    pub(crate) fn start_burial(&mut self, turn: &mut Turn, spot: Spot, out: &mut Output) {
        let late = turn.is_overdue(spot) && !turn.is_exhausted(spot);
        self.bury(turn, spot, if late { Reason::DeadlinePassed } else { Reason::AttemptsReached }, out);
    }

    /// Asks for the payload of a message that is to die.
    pub(crate) fn bury(&mut self, turn: &mut Turn, spot: Spot, reason: Reason, out: &mut Output) {
        let token = self.next_token(turn);
        let Some(slot) = turn.slots(spot).and_then(|slots| slots.get(spot.sequence)).copied() else { return };
        let Some(members) = turn.members(spot) else { return };
        // One that was never delivered has none: its time was over before a reader came.
        let pending = turn.pending(spot);
        let Some(topic) = turn.journal.state.topic(spot.topic) else { return };
        let receipt = Receipt {
            topic: spot.topic,
            group: spot.group,
            partition: spot.partition,
            offset: slot.offset,
            token,
        };
        let burial = Burial {
            receipt,
            topic: Arc::clone(&topic.name),
            group: Arc::clone(&members.name),
            attempts: pending.map_or(0, |pending| pending.attempts),
            last_error: pending
                .map(|pending| &pending.last_error)
                .filter(|error| !error.is_empty())
                .map_or_else(|| unsaid(reason).into(), Arc::clone),
            reason,
            at: turn.now,
            history: pending.map_or_else(Vec::new, |pending| pending.history.clone()),
            position: slot.position,
            length: slot.length,
            check: slot.check,
        };
        if let Some(crew) = self.crews.get_mut(&spot.group) {
            crew.dying.insert((spot.partition, spot.sequence), token);
            out.actions.push(Action::Fetch(burial));
        }
    }

    /// The burial that a receipt names, if it is still wanted.
    fn dying(&self, turn: &Turn, receipt: &Receipt) -> Option<Spot> {
        let spot = turn.spot_of(receipt)?;
        let token = self.crews.get(&spot.group)?.dying.get(&(spot.partition, spot.sequence))?;
        (*token == receipt.token).then_some(spot)
    }

    pub(crate) fn handle_fetch_failed(&mut self, turn: &mut Turn, receipt: Receipt) {
        if let Some(spot) = self.dying(turn, &receipt) {
            turn.timers.set(turn.now.after_ms(FETCH_AGAIN_MS), Due::Bury(spot));
        }
    }

    pub(crate) fn on_bury_again(&mut self, turn: &mut Turn, spot: Spot, out: &mut Output) {
        if self.crews.get(&spot.group).is_some_and(|crew| crew.is_dying(spot)) {
            self.start_burial(turn, spot, out);
        }
    }

    /// Stores the dead letter and retires the message, unless an ack came first.
    pub(crate) fn handle_bury(
        &mut self,
        turn: &mut Turn,
        receipt: Receipt,
        payload: &Payload,
        out: &mut Output,
    ) {
        let Some(spot) = self.dying(turn, &receipt) else { return };
        if !turn.roomy {
            // The disk is full: the message stays where it is, and the letter is written when space returns.
            return self.handle_fetch_failed(turn, receipt);
        }
        let Some((dlq, partition)) = turn.grave_of(spot, out) else {
            // No topic can ever be made again: the message stays, until an operator moves or removes it.
            return self.handle_fetch_failed(turn, receipt);
        };
        turn.note_ending(spot, How::Dead, out);
        self.retire(turn, spot);
        let letter = turn.letter_of(&receipt, spot, (dlq, partition), payload);
        self.append(turn, &letter, None, None, out);
        let fact = Fact::Delivery(place_of(&receipt), DeliveryFact::Retired { dead: true });
        turn.journal.emit(Haste::Urgent, out, &fact);
        self.overtaken.extend(turn.journal.state.effects.tied_to(
            receipt.topic,
            receipt.offset,
            receipt.group,
        ));
        *self.dead_letters.entry(spot.topic).or_default() += 1;
        self.drop_oldest_letter(turn, dlq, partition, out);
        self.enforce_bytes(turn, dlq, partition, out);
        self.touch(spot.group);
    }

    /// A full dead-letter topic never holds a poison message in its source: the oldest letter goes instead.
    fn drop_oldest_letter(&mut self, turn: &mut Turn, dlq: TopicId, partition: u32, out: &mut Output) {
        let Some(lane) = turn.journal.state.lane(dlq, partition) else { return };
        if lane.messages <= turn.settings.dead_letters_max {
            return;
        }
        // History goes along: it is older, and done.
        let mut wanted = lane.slots.iter().filter(|(sequence, _)| !lane.slots.is_past(*sequence));
        let second = wanted.nth(1).map(|(_, slot)| slot.offset);
        drop(wanted);
        if let Some(below) = second {
            self.expire(turn, dlq, partition, below, out);
        }
    }
}

impl Turn {
    /// The dead letter as it is stored: what the message is stays, what sent it out goes. Every field is named, so that
    /// a new one cannot be forgotten.
    fn letter_of(
        &self,
        receipt: &Receipt,
        spot: Spot,
        (topic, partition): (TopicId, u32),
        payload: &Payload,
    ) -> NewMessage {
        let slots = self.slots(spot);
        let place = Spotted { topic: spot.topic, partition: spot.partition, offset: receipt.offset };
        NewMessage {
            topic,
            partition,
            deadline: None,
            retry: None,
            native: false,
            identity: None,
            reserved: false,
            request: RequestHash::NONE,
            key: slots.map_or(KeyHash::NONE, |slots| slots.key(spot.sequence)),
            priority: slots.map_or(0, |slots| slots.priority(spot.sequence)),
            start: Start::Now,
            // Its run shows that it died; the letter is not another step of it.
            lineage: None,
            origin: Some(self.journal.state.origin_of(place)),
            payload: payload.clone(),
        }
    }

    /// The partition that takes the dead letters of a message's partition; the topic is made if it is missing. `None` if
    /// it cannot be made.
    fn grave_of(&mut self, spot: Spot, out: &mut Output) -> Option<(TopicId, u32)> {
        let source = self.journal.state.topic(spot.topic);
        let (name, partitions, tenant) = source.map_or_else(
            || (DEAD_LETTER_PREFIX.into(), 1, None),
            |source| {
                let name = format!("{DEAD_LETTER_PREFIX}{}", source.name);
                (name, source.info().partitions, source.tenant.clone())
            },
        );
        // If it is there, it belongs to the same tenant: neither of the two is made beside one of another tenant.
        let known = self.journal.state.topic_named(&name).map(Topic::info);
        let settings = TopicSettings::default();
        let dlq =
            known.or_else(|| self.create_topic(&name, partitions, &settings, tenant.as_deref(), out))?;
        Some((dlq.id, spot.partition % dlq.partitions))
    }
}
