//! What goes from one shard to another, and what comes from there.
//!
//! A commit is one batch of one log. Messages of it for topics of other shards are written into that batch as parcels
//! and sent when it is durable; whoever asked is answered when all of them have arrived.

pub(crate) mod desk;
pub(crate) mod receive;
pub(crate) mod send;

use crate::delivery::Deliveries;
use crate::outbox::desk::OutboxDesk;
use crate::turn::Turn;
use crate::words::action::Output;
use crate::words::outbox::OutboxInput;

impl OutboxDesk {
    pub(crate) fn handle(
        &mut self,
        turn: &mut Turn,
        deliveries: &mut Deliveries,
        input: OutboxInput,
        out: &mut Output,
    ) {
        match input {
            OutboxInput::Receive { ticket, from, settled, parcels } => {
                deliveries.handle_receive(turn, ticket, (from, settled), &parcels, out);
            }
            OutboxInput::Posted { stored } => self.handle_posted(turn, &stored, out),
        }
    }
}
