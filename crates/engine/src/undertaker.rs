//! Turns messages that are given up into dead letters, off the decide thread.

use std::sync::mpsc::Receiver;

use driftq_core::{Input, Message, Payload, Undertaking};

use crate::depot::{Place, check_of};
use crate::shared::Shared;

/// Undertakings that may wait; beyond it the shard is told to ask again later.
pub(crate) const UNDERTAKINGS_MAX: usize = 1_024;

/// The undertaker's thread: one letter after the other, until nobody is left to ask for one.
pub(crate) fn bury_all(shared: &Shared, undertakings: &Receiver<Undertaking>) {
    while let Ok(undertaking) = undertakings.recv() {
        let receipt = undertaking.receipt;
        let input = match letter(shared, &undertaking) {
            Some(payload) => {
                shared.meters.buried.one();
                Input::Bury { receipt, payload }
            }
            None => Input::FetchFailed { receipt },
        };
        shared.inbox.input(input);
    }
}

/// The dead letter, or `None` if the message cannot be read now.
fn letter(shared: &Shared, undertaking: &Undertaking) -> Option<Payload> {
    let receipt = &undertaking.receipt;
    let fault = |why: &dyn std::fmt::Display| {
        let (topic, partition, offset) = (&*undertaking.topic, receipt.partition, receipt.offset);
        tracing::warn!(topic, partition, offset, %why, "a dead letter could not be written; it is tried again");
    };
    let bytes = shared.depot.read(Place::from(undertaking)).map_err(|lost| fault(&lost)).ok()?;
    let message = Message::decode(&bytes).map_err(|malformed| fault(&malformed.0)).ok()?;
    let dead = message.into_dead_letter(undertaking.letter());
    let bytes = dead.encode();
    let size = u32::try_from(dead.size()).unwrap_or(u32::MAX);
    Some(Payload { check: check_of(&bytes), size, bytes })
}
