//! Deliveries on which their holder has not begun work: what a worker borrowed ahead of time and dies with loses no
//! attempt.
//!
//! A worker says so with its heartbeats. It may have begun since the last one, so that a message that takes its workers
//! down would come again and again without ever being counted: a message is spared a few times only. None of this is
//! remembered over a restart; what the next heartbeat does not say again counts as begun.

use crate::delivery::Deliveries;
use crate::turn::Turn;
use crate::turn::timer::Spot;
use crate::words::action::Output;
use crate::words::id::Token;
use crate::words::receipt::Receipt;

/// How often the lapse of a message that was not begun does not count, per group.
const SPARED_MAX: u8 = 3;
/// Messages of one group for which that is counted. Beyond it all counts start over.
const SPARED_MESSAGES_MAX: usize = 1 << 16;

impl Deliveries {
    /// The holder of a delivery has said whether it has begun work on it.
    pub(crate) fn note_begun(&mut self, spot: Spot, token: Token, begun: bool) {
        let Some(crew) = self.crews.get_mut(&spot.group) else { return };
        let place = (spot.partition, spot.sequence);
        if begun {
            crew.unbegun.remove(&place);
        } else {
            crew.unbegun.insert(place, token);
        }
    }

    /// Gives back a lapsed delivery on which its holder had not begun work. False if it had, or if the message was
    /// spared too often.
    pub(crate) fn spare(&mut self, turn: &mut Turn, spot: Spot, out: &mut Output) -> bool {
        let Some((token, _)) = turn.lease_of(spot) else { return false };
        let Some(offset) = turn.offset_of(spot) else { return false };
        let Some(crew) = self.crews.get_mut(&spot.group) else { return false };
        let place = (spot.partition, spot.sequence);
        if crew.unbegun.remove(&place) != Some(token) {
            return false;
        }
        if crew.spared.len() >= SPARED_MESSAGES_MAX {
            crew.spared.clear();
        }
        let spared = crew.spared.entry(place).or_default();
        if *spared >= SPARED_MAX {
            return false;
        }
        *spared += 1;
        crew.seen = turn.now;
        let Spot { topic, group, partition, .. } = spot;
        self.give_back(turn, spot, &Receipt { topic, group, partition, offset, token }, out);
        true
    }
}
