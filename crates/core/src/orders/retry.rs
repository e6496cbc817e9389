//! A message need not wait for its next attempt.

use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::log::delivery::{DeliveryFact, Place};
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::Due;
use crate::words::action::{Answer, Output};
use crate::words::id::{Spotted, Ticket};

impl Deliveries {
    /// What waits for an effect goes on waiting: an attempt would find the effect as it is.
    pub(crate) fn handle_retry(
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
        let Spotted { topic, partition, offset } = message;
        let mut groups = Vec::new();
        for (name, spot) in turn.spots(message, sequence) {
            let waiting = turn.pending(spot).filter(|pending| {
                pending.lease.is_none() && pending.waits_for == 0 && pending.retry_at > turn.now
            });
            let Some(retry_at) = waiting.map(|pending| pending.retry_at) else { continue };
            if self.crew(spot.group).is_some_and(|crew| crew.is_dying(spot)) {
                continue;
            }
            let place = Place { topic, group: spot.group, partition, offset };
            let fact = Fact::Delivery(place, DeliveryFact::Hurried { at: turn.now });
            turn.journal.emit(Haste::Urgent, out, &fact);
            turn.timers.cancel(retry_at, Due::Retry(spot));
            self.on_retry(turn, spot);
            groups.push(name);
        }
        turn.journal.reply(out, ticket, Answer::Hurried { groups });
    }
}
