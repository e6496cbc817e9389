//! A message goes to another shard.

use alloc::vec::Vec;

use crate::log::fact::Fact;
use crate::state::outbox::record::parcel_bytes;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Action, Output};
use crate::words::draft::NewMessage;
use crate::words::outbox::Parcel;
use crate::words::reject::{Overload, Reject};

/// Parcels that are to be sent together: how many, and what they cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mail {
    parcels: u64,
    bytes: u64,
}

impl Turn {
    /// Whether a message is for a topic of another shard.
    pub(crate) fn is_elsewhere(&self, message: &NewMessage) -> bool {
        self.journal.state.is_other(message.topic.shard())
    }

    /// Whether there is room for one more parcel beside those of `mail`. Its topic is known to its own shard only: whoever
    /// asks has looked there.
    pub(crate) fn may_send(&self, message: &NewMessage, mail: &mut Mail) -> Result<(), Reject> {
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        let outbox = &self.journal.state.outbox;
        let has_number = outbox.number(self.journal.state.epoch, mail.parcels).is_some();
        mail.parcels += 1;
        mail.bytes = mail.bytes.saturating_add(parcel_bytes(message));
        if !has_number || outbox.bytes().saturating_add(mail.bytes) > self.settings.outbox_bytes_max {
            return Err(Reject::Overloaded(Overload::Outbox));
        }
        Ok(())
    }

    /// Writes a parcel down and sends it when that is durable; [`Turn::may_send`] was asked. Returns its number.
    pub(crate) fn send(&mut self, message: NewMessage, out: &mut Output) -> u64 {
        let state = &self.journal.state;
        let number = state.outbox.number(state.epoch, 0).expect("whoever sends has asked whether it may");
        let parcel = Parcel { number, message };
        self.journal.emit(Haste::Urgent, out, &Fact::Outbox(parcel.fact(self.now)));
        self.post(number, out);
        number
    }

    /// Sends every parcel that has not arrived, in the order of their numbers.
    pub(crate) fn post_all(&mut self, out: &mut Output) {
        let waiting: Vec<u64> = self.journal.state.outbox.waiting().map(|parcel| parcel.number).collect();
        for number in waiting {
            self.post(number, out);
        }
    }

    /// The parcel goes out as the state has it: with a delay that was made a time.
    fn post(&mut self, number: u64, out: &mut Output) {
        if let Some(parcel) = self.journal.state.outbox.get(number).cloned() {
            self.journal.after_durable(out, Action::Post { to: parcel.message.topic.shard(), parcel });
        }
    }
}
