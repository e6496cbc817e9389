//! Messages come from another shard.

use crate::delivery::Deliveries;
use crate::log::fact::Fact;
use crate::log::outbox::OutboxFact;
use crate::state::outbox::record::Arrival;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::id::{ShardId, Ticket};
use crate::words::input::{INPUT_BYTES_MAX, INPUT_ITEMS_MAX};
use crate::words::outbox::Parcel;
use crate::words::receipt::Stored;
use crate::words::reject::Reject;

impl Deliveries {
    /// Stores what another shard has sent, each parcel once. No limit refuses it: the commit that it belongs to is done.
    /// `settled` is what the sender says of the parcels below that number: it will not ask for them again.
    pub(crate) fn handle_receive(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        (from, settled): (ShardId, u64),
        parcels: &[Parcel],
        out: &mut Output,
    ) {
        if let Err(reject) = turn.may_receive(from, parcels) {
            return turn.journal.refuse(out, ticket, reject);
        }
        let stored = parcels.iter().map(|parcel| self.receive(turn, from, parcel, out)).collect();
        // What is asked for right now is not forgotten, whatever else is said of it.
        let settled = parcels.first().map_or(settled, |first| first.number.min(settled));
        if turn.journal.state.outbox.remembers_below(from, settled) {
            let fact = OutboxFact::Settled { from, below: settled };
            turn.journal.emit(Haste::Lazy, out, &Fact::Outbox(fact));
        }
        turn.journal.reply(out, ticket, Answer::Received(stored));
    }

    fn receive(&mut self, turn: &mut Turn, from: ShardId, parcel: &Parcel, out: &mut Output) -> Stored {
        let Parcel { number, message } = parcel;
        let nowhere =
            Stored { topic: Some(message.topic), partition: message.partition, offset: 0, duplicate: false };
        match turn.journal.state.outbox.arrival(from, *number) {
            Arrival::Known(stored) => return stored,
            // Nobody waits for the answer: a request was late, or the sender goes on from an older copy of its log.
            Arrival::Forgotten => return Stored { duplicate: true, ..nowhere },
            Arrival::New => {}
        }
        let stored = if turn.journal.state.lane(message.topic, message.partition).is_none() {
            // It would have gone with its topic a moment later.
            nowhere
        } else if message.reserved {
            self.store_anew(turn, message, out)
        } else {
            self.store_checked(turn, message, out)
        };
        let fact = OutboxFact::Received { from, number: *number, stored };
        turn.journal.emit(Haste::Urgent, out, &Fact::Outbox(fact));
        stored
    }
}

impl Turn {
    fn may_receive(&self, from: ShardId, parcels: &[Parcel]) -> Result<(), Reject> {
        if !self.journal.state.is_other(from) {
            return Err(Reject::Invalid("parcels come from another shard"));
        }
        let bytes: usize = parcels.iter().map(|parcel| parcel.message.payload.bytes.len()).sum();
        // One message alone is as large as a commit could send it: refused for ever, it would hold up all behind it.
        if parcels.len() > INPUT_ITEMS_MAX || (parcels.len() > 1 && bytes > INPUT_BYTES_MAX) {
            return Err(Reject::Invalid("more parcels than one input may bring"));
        }
        if !parcels.is_sorted_by(|a, b| a.number < b.number) {
            return Err(Reject::Invalid("parcels come in the order of their numbers"));
        }
        if parcels.iter().any(|parcel| parcel.message.topic.shard() != self.journal.state.shard) {
            return Err(Reject::Invalid("a parcel is for another shard"));
        }
        let outbox = &self.journal.state.outbox;
        let is_new = |parcel: &Parcel| outbox.arrival(from, parcel.number) == Arrival::New;
        // What is stored already is told even by a full disk: it lets the sender have its space back.
        if !self.roomy && parcels.iter().any(is_new) {
            return Err(Reject::DiskFull);
        }
        Ok(())
    }
}
