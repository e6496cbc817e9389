//! Messages that wait for an effect.

use crate::turn::timer::Spot;
use crate::words::id::GroupId;
use alloc::collections::BTreeSet;

/// Which messages wait for which effect.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    pub(super) by_effect: BTreeSet<(u64, Spot)>,
}

impl Sleepers {
    pub(super) fn of(&self, number: u64) -> impl Iterator<Item = Spot> {
        const FIRST: Spot =
            Spot { topic: crate::words::id::TopicId(0), group: GroupId(0), partition: 0, sequence: 0 };
        self.by_effect
            .range((number, FIRST)..)
            .take_while(move |(of, _)| *of == number)
            .map(|(_, spot)| *spot)
    }

    pub(crate) fn add(&mut self, number: u64, spot: Spot) {
        self.by_effect.insert((number, spot));
    }

    pub(crate) fn remove(&mut self, number: u64, spot: Spot) {
        self.by_effect.remove(&(number, spot));
    }

    /// A group is gone.
    pub(crate) fn dismiss(&mut self, group: GroupId) {
        self.by_effect.retain(|(_, spot)| spot.group != group);
    }
}
