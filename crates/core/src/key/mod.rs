//! Keys: made, replaced, ended.
//!
//! A key never allows more than the key that it hangs on, and opens nothing from the moment on at which that one ends:
//! its end is looked up along the line, so that ending one key is one fact, however many hang on it. A key that is
//! replaced hands on what hangs on it.

mod limit;

use alloc::vec::Vec;

use crate::log::fact::Fact;
use crate::log::key::{KeyFact, put_scope};
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::id::{Ticket, Time};
use crate::words::key::{KEY_DEPTH_MAX, KEY_NOTE_BYTES_MAX, KEY_TENANTS_MAX, KEY_TOPICS_MAX, KeyId, NewKey};
use crate::words::reject::Reject;
use crate::words::route::NAME_BYTES_MAX;

impl Turn {
    /// Makes a key.
    pub(crate) fn handle_create_key(&mut self, ticket: Ticket, new: &NewKey, out: &mut Output) {
        let answer = match self.check_new_key(new) {
            Ok(()) => {
                self.emit_created(new, None, out);
                self.key_answer(new.id)
            }
            Err(reject) => Answer::Rejected(reject),
        };
        self.journal.reply(out, ticket, answer);
    }

    /// Puts a new key in the place of an old one, which goes on for so long.
    pub(crate) fn handle_replace_key(
        &mut self,
        ticket: Ticket,
        old: KeyId,
        (new, digest): (KeyId, [u8; 32]),
        overlap_ms: u64,
        out: &mut Output,
    ) {
        let answer = match self.check_replaced(old, new, digest) {
            Ok(new) => {
                self.emit_created(&new, Some(old), out);
                self.emit_ended(old, self.now.after_ms(overlap_ms), out);
                self.key_answer(new.id)
            }
            Err(reject) => Answer::Rejected(reject),
        };
        self.journal.reply(out, ticket, answer);
    }

    /// Ends a key and what hangs on it. Ending it once more changes nothing.
    pub(crate) fn handle_end_key(&mut self, ticket: Ticket, key: KeyId, out: &mut Output) {
        let Some(until) = self.journal.state.keys.until(key) else {
            return self.journal.refuse(out, ticket, Reject::KeyUnknown);
        };
        if until > self.now {
            self.emit_ended(key, self.now, out);
        }
        let answer = self.key_answer(key);
        self.journal.reply(out, ticket, answer);
    }

    fn check_new_key(&self, new: &NewKey) -> Result<(), Reject> {
        let keys = &self.journal.state.keys;
        if new.note.len() > KEY_NOTE_BYTES_MAX {
            return Err(Reject::Invalid("notes have at most 255 bytes"));
        }
        if let Some(topics) = &new.scope.topics {
            if topics.len() > KEY_TOPICS_MAX {
                return Err(Reject::Invalid("a key names at most 100 topics"));
            }
            if topics.iter().any(|topic| topic.is_empty() || topic.len() > NAME_BYTES_MAX) {
                return Err(Reject::Invalid("topics of a key have 1 to 255 bytes"));
            }
        }
        if let Some(tenants) = &new.scope.tenants {
            if tenants.is_empty() || tenants.len() > KEY_TENANTS_MAX {
                return Err(Reject::Invalid("a key names 1 to 100 tenants, or is for all of them"));
            }
            // What belongs to nobody is for keys that are bound to nobody.
            if tenants.iter().any(|tenant| tenant.is_empty() || tenant.len() > NAME_BYTES_MAX) {
                return Err(Reject::Invalid("tenants of a key have 1 to 255 bytes"));
            }
        }
        if new.until <= self.now {
            return Err(Reject::Invalid("the key would have ended before it begins"));
        }
        if keys.get(new.id).is_some() {
            return Err(Reject::Invalid("there is a key with that id"));
        }
        if let Some(parent) = new.parent {
            let above = keys.get(parent).ok_or(Reject::KeyUnknown)?;
            let until = keys.until(parent).unwrap_or(Time(0));
            if until <= self.now {
                return Err(Reject::KeyUnknown);
            }
            if !above.scope.covers(&new.scope) {
                return Err(Reject::KeyTooWide);
            }
            if new.until > until {
                return Err(Reject::KeyTooLong);
            }
            if keys.depth(parent) > KEY_DEPTH_MAX {
                return Err(Reject::Limit("keys: at most 8 hang on each other"));
            }
        }
        self.check_room_for_key()
    }

    fn check_replaced(&self, old: KeyId, new: KeyId, digest: [u8; 32]) -> Result<NewKey, Reject> {
        let keys = &self.journal.state.keys;
        let key = keys.get(old).ok_or(Reject::KeyUnknown)?;
        if keys.until(old).is_none_or(|until| until <= self.now) {
            return Err(Reject::KeyUnknown);
        }
        if keys.get(new).is_some() {
            return Err(Reject::Invalid("there is a key with that id"));
        }
        self.check_room_for_key()?;
        let (scope, note) = (key.scope.clone(), key.note.clone());
        Ok(NewKey { id: new, digest, scope, until: key.until, parent: key.parent, note })
    }

    fn check_room_for_key(&self) -> Result<(), Reject> {
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        if !self.journal.state.keys.has_room(self.now) {
            return Err(Reject::Limit("keys: there are as many as are allowed"));
        }
        Ok(())
    }

    fn emit_created(&mut self, new: &NewKey, replaces: Option<KeyId>, out: &mut Output) {
        let mut scope = Vec::new();
        put_scope(&mut scope, &new.scope);
        let fact = KeyFact::Created {
            key: new.id,
            at: self.now,
            digest: new.digest,
            scope: &scope,
            until: new.until,
            parent: new.parent,
            replaces,
            note: &new.note,
        };
        self.journal.emit(Haste::Urgent, out, &Fact::Key(fact));
    }

    fn emit_ended(&mut self, key: KeyId, until: Time, out: &mut Output) {
        let fact = KeyFact::Ended { key, at: self.now, until };
        self.journal.emit(Haste::Urgent, out, &Fact::Key(fact));
    }

    fn key_answer(&self, id: KeyId) -> Answer {
        let keys = &self.journal.state.keys;
        keys.get(id).map_or(Answer::Rejected(Reject::KeyUnknown), |key| Answer::Key(keys.view(id, key)))
    }
}
