//! What the receiver does with each delivery: chosen by the seed alone, before anything runs.

use std::collections::VecDeque;

use serde::Serialize;

use super::super::plan::Chance;

/// What the receiver does with one arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Deed {
    /// Takes it, and says so.
    Takes,
    /// Answers 500, and does not take it.
    Refuses,
    /// Takes it, and hangs up without a word.
    BreaksOff,
    /// Takes it, and has the server killed before it can say so.
    Kills,
}

/// Of so many deliveries, this happens to one each: few enough that the connector does not take the receiver for gone,
/// and leaves it alone for a while.
const STRETCH: usize = 10;
const TROUBLES: [Deed; 3] = [Deed::Refuses, Deed::BreaksOff, Deed::Refuses];

/// For every delivery, what is done with its arrivals in their order. All that come later are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) deeds: Vec<VecDeque<Deed>>,
}

impl Plan {
    /// With so many kills, each of another delivery.
    pub(super) fn new(seed: u64, deliveries: u32, kills: u32) -> Self {
        let mut chance = Chance::new(seed);
        let mut deeds = vec![VecDeque::new(); deliveries as usize];
        for stretch in deeds.chunks_mut(STRETCH) {
            let mut free: Vec<usize> = (0..stretch.len()).collect();
            for deed in TROUBLES.into_iter().take(stretch.len()) {
                stretch[free.swap_remove(chance.below(free.len()))].push_back(deed);
            }
        }
        let mut free: Vec<usize> = (0..deeds.len()).collect();
        for _ in 0..kills.min(deliveries) {
            let place = chance.below(free.len());
            deeds[free.swap_remove(place)].push_back(Deed::Kills);
        }
        Self { deeds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_choice_with_as_many_kills_as_asked() {
        assert_eq!(Plan::new(7, 30, 5), Plan::new(7, 30, 5));
        assert_ne!(Plan::new(7, 30, 5), Plan::new(8, 30, 5));
        for (deliveries, kills) in [(30, 5), (5, 5), (3, 0)] {
            let plan = Plan::new(1, deliveries, kills);
            let found = plan.deeds.iter().flatten().filter(|deed| **deed == Deed::Kills).count();
            assert_eq!((plan.deeds.len(), found), (deliveries as usize, kills as usize));
        }
        let plan = Plan::new(1, 100, 20);
        for deed in [Deed::Refuses, Deed::BreaksOff] {
            assert!(plan.deeds.iter().flatten().any(|found| *found == deed), "{deed:?}");
        }
    }
}
