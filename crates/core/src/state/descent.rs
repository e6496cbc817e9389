//! Which kept messages descend from a place.

use crate::state::State;
use crate::state::slot::Lookup;
use crate::words::id::Spotted;
use alloc::collections::BTreeMap;

/// How many kept messages descend from each place: dead letters and messages that were tried again. It has no more
/// entries than messages are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descent {
    kept: BTreeMap<Spotted, u32>,
}

impl Descent {
    pub(crate) fn add(&mut self, origin: Option<Spotted>) {
        if let Some(origin) = origin {
            *self.kept.entry(origin).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, origin: Option<Spotted>) {
        let Some(origin) = origin else { return };
        if let Some(count) = self.kept.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.kept.remove(&origin);
            }
        }
    }
}

impl State {
    /// Where the message that lies at a place was born.
    pub(crate) fn origin_of(&self, place: Spotted) -> Spotted {
        let slots = self.lane(place.topic, place.partition).map(|lane| &lane.slots);
        let origin = slots.and_then(|slots| match slots.find(place.offset) {
            Lookup::Here(sequence) => slots.origin(sequence),
            Lookup::Gone | Lookup::Never => None,
        });
        origin.unwrap_or(place)
    }

    /// Whether the message that was born at a place may be worked on again: it, its dead letter, or a copy that was
    /// made of the letter is kept.
    pub(crate) fn may_come_again(&self, origin: Spotted) -> bool {
        let lane = self.lane(origin.topic, origin.partition);
        lane.is_some_and(|lane| matches!(lane.slots.find(origin.offset), Lookup::Here(_)))
            || self.descent.kept.contains_key(&origin)
    }
}
