//! What operators order about entities.

use crate::log::entity::EntityFact;
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::id::Ticket;
use crate::words::reject::Reject;
use crate::words::scoped::Named;

impl Turn {
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
