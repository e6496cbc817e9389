//! Turns messages that are given up into dead letters, off the decide thread.

use std::sync::mpsc::Receiver;

use driftq_core::{Input, Message, Payload, Undertaking};

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
            Err(Lost::Damaged) => Input::FetchDamaged { receipt },
            Err(Lost::Gone | Lost::Unreadable) => Input::FetchFailed { receipt },
        };
        shared.inbox.input(input);
    }
}

/// The dead letter, or why the message cannot be read.
fn letter(shared: &Shared, undertaking: &Undertaking) -> Result<Payload, Lost> {
    let receipt = &undertaking.receipt;
    let fault = |lost: Lost, why: &dyn std::fmt::Display| {
        let (topic, partition, offset) = (&*undertaking.topic, receipt.partition, receipt.offset);
        if lost == Lost::Damaged {
            let hint = "it stays where it is until it is cancelled or its topic's retention takes it";
            tracing::error!(topic, partition, offset, %why, hint, "a message that is given up is damaged");
        } else {
            tracing::warn!(topic, partition, offset, %why, "a dead letter could not be written; it is tried again");
        }
        lost
    };
    let bytes = shared.depot.read(Place::from(undertaking)).map_err(|lost| fault(lost, &lost))?;
    let message = Message::decode(&bytes).map_err(|malformed| fault(Lost::Damaged, &malformed.0))?;
    let dead = message.into_dead_letter(undertaking.letter(), receipt.topic);
    let bytes = dead.encode();
    let size = u32::try_from(dead.size()).unwrap_or(u32::MAX);
    Ok(Payload { check: check_of(&bytes), size, bytes })
}
