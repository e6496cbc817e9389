//! A message is no longer wanted.

use crate::delivery::Deliveries;
use crate::log::fact::Fact;
use crate::log::order::OrderFact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::id::{Spotted, Ticket};
use crate::words::run::How;
use alloc::vec::Vec;

impl Deliveries {
    pub(crate) fn handle_cancel(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        message: Spotted,
        out: &mut Output,
    ) {
        let sequence = match turn.locate(message) {
            Ok(sequence) => sequence,
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        let mut running = Vec::new();
        for (name, spot) in turn.spots(message, sequence) {
            if turn.lease_of(spot).is_some() {
                running.push(name);
            } else {
                turn.note_ending(spot, How::Cancelled, out);
                self.retire(turn, spot);
            }
        }
        let Spotted { topic, partition, offset } = message;
        self.unschedule_start(turn, topic, partition, sequence);
        let slots = turn.journal.state.lane(topic, partition).map(|lane| &lane.slots);
        if slots.is_some_and(|slots| !slots.is_cancelled(sequence)) {
            let fact = Fact::Order(OrderFact::Cancelled { topic, partition, offset });
            turn.journal.emit(Haste::Urgent, out, &fact);
        }
        turn.journal.reply(out, ticket, Answer::Cancelled { running });
        self.touch_topic(turn, topic);
    }

    pub(crate) fn handle_remove(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        messages: &[Spotted],
        out: &mut Output,
    ) {
        let mut removed = 0;
        for &message in messages {
            removed += u64::from(self.drop_message(turn, message, out));
        }
        turn.journal.reply(out, ticket, Answer::Removed(removed));
    }

    /// Drops a message for every group; false if it is not kept.
    pub(crate) fn drop_message(&mut self, turn: &mut Turn, message: Spotted, out: &mut Output) -> bool {
        let Ok(sequence) = turn.locate(message) else { return false };
        for (_, spot) in turn.spots(message, sequence) {
            self.retire(turn, spot);
        }
        let Spotted { topic, partition, offset } = message;
        self.unschedule_start(turn, topic, partition, sequence);
        turn.journal.emit(Haste::Urgent, out, &Fact::Order(OrderFact::Removed { topic, partition, offset }));
        self.touch_topic(turn, topic);
        true
    }
}
