//! Turns messages that are given up into dead letters, off the decide thread.

use std::sync::mpsc::Receiver;

use driftq_core::{DeadLetter, Input, Message, PAYLOAD_DAMAGED, Payload, Undertaking};

use crate::depot::{Lost, Place, check_of};
use crate::shared::Shared;

/// Undertakings that may wait; beyond it the shard is told to ask again later.
pub(crate) const UNDERTAKINGS_MAX: usize = 1_024;

/// The undertaker's thread: one letter after the other, until nobody is left to ask for one.
pub(crate) fn bury_all(shared: &Shared, undertakings: &Receiver<Undertaking>) {
    while let Ok(undertaking) = undertakings.recv() {
        let receipt = undertaking.receipt;
        let input = match letter(shared, &undertaking) {
            Ok(payload) => {
                shared.meters.buried.one();
                Input::Bury { receipt, payload }
            }
            Err(lost) => {
                let (topic, partition, offset) = (&*undertaking.topic, receipt.partition, receipt.offset);
                tracing::warn!(topic, partition, offset, %lost, "a dead letter could not be written; it is tried again");
                Input::FetchFailed { receipt }
            }
        };
        shared.inbox.input(input);
    }
}

/// The dead letter, or why the message cannot be read now. One that is damaged is no longer a message: its letter has no
/// value and says where its bytes lie, so that nobody waits for it and nobody mistakes it for what was stored.
fn letter(shared: &Shared, undertaking: &Undertaking) -> Result<Payload, Lost> {
    let (place, receipt) = (Place::from(undertaking), &undertaking.receipt);
    let read = shared.depot.read(place);
    let message = match &read {
        Ok(bytes) => Message::decode(bytes).ok(),
        Err(Lost::Damaged) => None,
        Err(lost) => return Err(*lost),
    };
    let damage = place.damage();
    let (message, letter) = match message {
        Some(message) => (message, undertaking.letter()),
        None => {
            let last_error = damage.as_str().into();
            let reason = PAYLOAD_DAMAGED.into();
            (Message::default(), DeadLetter { last_error, reason, ..undertaking.letter() })
        }
    };
    let dead = message.into_dead_letter(letter, receipt.topic);
    let bytes = dead.encode();
    let size = u32::try_from(dead.size()).unwrap_or(u32::MAX);
    Ok(Payload { check: check_of(&bytes), size, bytes })
}
