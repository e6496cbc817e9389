//! Turns messages that are given up into dead letters, off the decide thread.

use std::sync::mpsc::Receiver;

use driftq_core::{Burial, DeadLetter, Input, Message, Payload, Reason};

use crate::payload_store::{Extent, Lost, check_of};
use crate::shared::Shared;

/// Burials that may wait; beyond it the shard is told to ask again later.
pub(crate) const BURIALS_MAX: usize = 1_024;

/// The thread of the dead-letter writer: one letter after the other, until no sender of burials is left.
pub(crate) fn bury_all(shared: &Shared, burials: &Receiver<Burial>) {
    while let Ok(burial) = burials.recv() {
        let receipt = burial.receipt;
        let input = match letter(shared, &burial) {
            Ok(payload) => {
                shared.meters.buried.one();
                Input::Bury { receipt, payload }
            }
            Err(lost) => {
                let (topic, partition, offset) = (&*burial.topic, receipt.partition, receipt.offset);
                tracing::warn!(topic, partition, offset, %lost, "a dead letter could not be written; it is tried again");
                Input::FetchFailed { receipt }
            }
        };
        shared.inbox.input(input);
    }
}

/// The dead letter, or why the message cannot be read now. One that is damaged is no longer a message: its letter has
/// no value and says where its bytes lie, so that no group waits for it and no reader mistakes it for what was stored.
fn letter(shared: &Shared, burial: &Burial) -> Result<Payload, Lost> {
    let (extent, receipt) = (Extent::from(burial), &burial.receipt);
    let read = shared.payload_store.read(extent);
    let message = match &read {
        Ok(bytes) => Message::decode(bytes).ok(),
        Err(Lost::Damaged) => None,
        Err(lost) => return Err(*lost),
    };
    let damage = extent.damage();
    let (message, letter) = match message {
        Some(message) => (message, burial.letter()),
        None => {
            let last_error = damage.as_str().into();
            let reason = Reason::PayloadDamaged.name().into();
            (Message::default(), DeadLetter { last_error, reason, ..burial.letter() })
        }
    };
    let dead = message.into_dead_letter(letter, receipt.topic);
    let bytes = dead.encode();
    let size = u32::try_from(dead.size()).unwrap_or(u32::MAX);
    Ok(Payload { check: check_of(&bytes), size, bytes })
}
