//! A dead letter is tried again.

use crate::delivery::Deliveries;
use crate::outbox::desk::OutboxDesk;
use crate::outbox::send::Mail;
use crate::turn::Turn;
use crate::turn::journal::lifetime;
use crate::words::action::{Answer, Output};
use crate::words::draft::NewMessage;
use crate::words::id::{GroupId, RequestHash, Spotted, Ticket};
use crate::words::receipt::Stored;
use crate::words::reject::Reject;

impl Deliveries {
    /// Stores the message of a dead letter again and drops the letter, in one batch. The gates do not count: an
    /// operator has decided that it is to be tried again, by the group that gave it up. If that group is gone the
    /// letter stays: the other groups are done with the message.
    pub(crate) fn handle_redrive(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        letter: Spotted,
        mut message: NewMessage,
        group: Option<&str>,
        out: &mut Output,
    ) {
        let (sequence, only) = match turn.may_redrive(letter, &message, group) {
            Ok(checked) => checked,
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        turn.complete(&mut message, letter, sequence);
        let until = lifetime(turn.now, turn.settings.idempotency_ttl_ms);
        let identity = message.identity.map(|identity| (identity, until));
        let offset = self.append(turn, &message, identity, only, out);
        self.drop_message(turn, letter, out);
        let topic = Some(message.topic);
        let stored = Stored { topic, partition: message.partition, offset, duplicate: false };
        turn.journal.reply(out, ticket, Answer::Produced(stored));
    }
}

impl Deliveries {
    /// The same if the message goes to a topic of another shard: the letter is dropped in the batch in which the message
    /// is sent. Which group had given it up does not matter there.
    pub(crate) fn handle_redrive_elsewhere(
        &mut self,
        turn: &mut Turn,
        outbox: &mut OutboxDesk,
        ticket: Ticket,
        (letter, mut message): (Spotted, NewMessage),
        out: &mut Output,
    ) {
        let sequence = turn.locate(letter);
        let checked = sequence.and_then(|sequence| {
            turn.may_send(&message, &mut Mail::default())?;
            Ok(sequence)
        });
        let sequence = match checked {
            Ok(sequence) => sequence,
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        turn.complete(&mut message, letter, sequence);
        // The gate does not count there, either.
        message.reserved = true;
        let topic = Some(message.topic);
        let stored = Stored { topic, partition: message.partition, offset: 0, duplicate: false };
        let number = turn.send(message, out);
        self.drop_message(turn, letter, out);
        outbox.wait(ticket, Answer::Produced(stored), &[(number, (0, 0))]);
    }
}

impl Turn {
    /// What the shard knows of the message of a letter and the letter does not say.
    fn complete(&self, message: &mut NewMessage, letter: Spotted, sequence: u64) {
        let state = &self.journal.state;
        let slots = state.lane(letter.topic, letter.partition).map(|lane| &lane.slots);
        // Letters from before it was written down: the reader of the letter says what is known.
        message.origin = slots.and_then(|slots| slots.origin(sequence)).or(message.origin);
        // A letter does not say what was asked for; the gate does, as long as it knows the message that died.
        let first = message.identity.and_then(|identity| state.stored.get(&identity, self.now));
        if let Some(first) = first.filter(|_| message.request == RequestHash::NONE) {
            let place = Spotted { topic: first.topic, partition: first.partition, offset: first.offset };
            message.request = if message.origin == Some(place) { first.request } else { message.request };
        }
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
