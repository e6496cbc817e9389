//! Definitions: made, changed, removed, each on the condition that it is what the caller has seen.

use crate::log::definition::DefinitionFact;
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::definition::{DEFINITION_BYTES_MAX, DefinitionKind};
use crate::words::id::Ticket;
use crate::words::reject::Reject;
use crate::words::route::NAME_BYTES_MAX;

impl Turn {
    /// Makes a definition say this, if it is still at the version that was expected; zero stands for none at all.
    pub(crate) fn handle_define(
        &mut self,
        ticket: Ticket,
        (kind, name): (DefinitionKind, &str),
        expected: Option<u64>,
        text: &str,
        out: &mut Output,
    ) {
        let definitions = &self.journal.state.definitions;
        let is_same = definitions.get(kind, name).is_some_and(|known| *known.text == *text);
        let answer = match self.check_defined((kind, name), expected, text) {
            Ok(()) => {
                // What says the same as before is no change: its readers are not woken.
                if !is_same {
                    let fact = DefinitionFact::Defined { kind, name, at: self.now, text };
                    self.journal.emit(Haste::Urgent, out, &Fact::Definition(fact));
                }
                let view = self.journal.state.definitions.view(kind, name);
                Answer::Definition(view.expect("it was just written, or stood there before"))
            }
            Err(reject) => Answer::Rejected(reject),
        };
        self.journal.reply(out, ticket, answer);
    }

    /// Removes a definition.
    pub(crate) fn handle_undefine(
        &mut self,
        ticket: Ticket,
        (kind, name): (DefinitionKind, &str),
        expected: Option<u64>,
        out: &mut Output,
    ) {
        let Some(view) = self.journal.state.definitions.view(kind, name) else {
            return self.journal.refuse(out, ticket, Reject::DefinitionUnknown);
        };
        if let Err(reject) = check_version(view.version, expected) {
            return self.journal.refuse(out, ticket, reject);
        }
        let fact = DefinitionFact::Undefined { kind, name, at: self.now };
        self.journal.emit(Haste::Urgent, out, &Fact::Definition(fact));
        self.journal.reply(out, ticket, Answer::Definition(view));
    }

    fn check_defined(
        &self,
        (kind, name): (DefinitionKind, &str),
        expected: Option<u64>,
        text: &str,
    ) -> Result<(), Reject> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Reject::Invalid("names of definitions have 1 to 255 bytes"));
        }
        if text.len() > DEFINITION_BYTES_MAX {
            return Err(Reject::Invalid("a definition has at most 32 KiB"));
        }
        let definitions = &self.journal.state.definitions;
        check_version(definitions.get(kind, name).map_or(0, |known| known.version), expected)?;
        if !definitions.has_room(kind, name, text.len()) {
            return Err(Reject::Limit("definitions: there are as many as may be"));
        }
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        Ok(())
    }
}

/// Whether a definition is what the caller has seen.
fn check_version(version: u64, expected: Option<u64>) -> Result<(), Reject> {
    if expected.is_none_or(|expected| expected == version) {
        Ok(())
    } else {
        Err(Reject::DefinitionDiffers { version })
    }
}
