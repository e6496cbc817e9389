//! What people order about entities.

use crate::action::{Answer, Output};
use crate::entity::fact::EntityFact;
use crate::fact::Fact;
use crate::id::Ticket;
use crate::journal::Haste;
use crate::reject::Reject;
use crate::scoped::Named;
use crate::shard::Shard;

impl Shard {
    /// Forgets an entity: its version is 0 again.
    pub(crate) fn handle_forget_entity(&mut self, ticket: Ticket, entity: &Named, out: &mut Output) {
        let Named { tenant, name: entity } = entity;
        let version = self.journal.state.entities.version(tenant, entity);
        if version == 0 {
            return self.journal.refuse(out, ticket, Reject::EntityUnknown);
        }
        self.journal.emit(Haste::Urgent, out, &Fact::Entity(EntityFact::Forgotten { tenant, entity }));
        self.journal.reply(out, ticket, Answer::EntityForgotten { version });
    }
}
