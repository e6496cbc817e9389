//! What holders of tokens say about their deliveries.
//!
//! A token is authority for one delivery until a newer one of the same message begins, even across restarts of the
//! broker. A lapse alone takes nothing away: a holder that was slow, but not too slow, may still say how it went.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::delivery::retry::Ending;
use crate::delivery::settle::{Failing, place_of};
use crate::log::delivery::DeliveryFact;
use crate::log::fact::Fact;
use crate::state::slot::Lookup;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::{Answer, Outcome, Output};
use crate::words::description::LeaseView;
use crate::words::id::{GroupId, Spotted, Ticket, Token, TopicId};
use crate::words::input::{Settlement, Verdict};
use crate::words::receipt::Receipt;
use crate::words::reject::Reject;

/// Where a token leads.
pub(crate) enum Authority {
    /// It is the newest: its holder decides.
    Current(Spot),
    /// It acked the message.
    Acked,
    /// Its delivery was the last one before the message became a dead letter.
    Buried,
    /// A newer attempt has begun, or the message is settled without it.
    Stale(Option<u32>),
    /// It was never handed out, or what it was for is gone.
    Unknown,
}

impl Deliveries {
    pub(crate) fn handle_settle(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        items: &[Settlement],
        out: &mut Output,
    ) {
        let mut touched = BTreeSet::new();
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            outcomes.push(self.settle_one(turn, item, &mut touched, out));
        }
        turn.journal.reply(out, ticket, Answer::Settlements(outcomes));
        for group in touched {
            self.touch(group);
        }
    }

    fn settle_one(
        &mut self,
        turn: &mut Turn,
        Settlement { receipt, verdict }: &Settlement,
        touched: &mut BTreeSet<GroupId>,
        out: &mut Output,
    ) -> Outcome {
        let spot = match (turn.authority(receipt), verdict) {
            // A holder that said that it failed may say so again, and nothing else: a heartbeat that was overtaken by
            // it on the wire must not bring the lease back.
            (
                Authority::Current(spot),
                Verdict::Ack | Verdict::Extend { .. } | Verdict::Release { .. } | Verdict::Await { .. },
            ) if turn.is_nacked(spot) => {
                return Outcome::Stale { attempt: turn.pending(spot).map(|pending| pending.attempts) };
            }
            (Authority::Current(spot), _) => spot,
            (Authority::Acked, Verdict::Ack) => return Outcome::Ok,
            (Authority::Buried, Verdict::Nack { .. }) => return Outcome::Buried,
            (Authority::Acked | Authority::Buried, _) => return Outcome::Stale { attempt: None },
            (Authority::Stale(attempt), _) => return Outcome::Stale { attempt },
            (Authority::Unknown, _) => return Outcome::Unknown,
        };
        touched.insert(receipt.group);
        match verdict {
            Verdict::Ack => {
                self.ack(turn, spot, receipt.offset, receipt.token, out);
                Outcome::Ok
            }
            Verdict::Nack { delay_ms, dead, error } => {
                let failing = Failing { ending: Ending::Nacked, delay_ms: *delay_ms, dead: *dead };
                self.nack(turn, spot, failing, error, out);
                let is_dying = self.crews.get(&spot.group).is_some_and(|crew| crew.is_dying(spot));
                if is_dying { Outcome::Buried } else { Outcome::Ok }
            }
            Verdict::Extend { lease_ms, begun } => self.extend(turn, spot, receipt, (*lease_ms, *begun), out),
            // Its last attempt has failed: that it was not begun after all does not bring it back.
            Verdict::Release { .. } | Verdict::Await { .. }
                if self.crews.get(&spot.group).is_some_and(|crew| crew.is_dying(spot)) =>
            {
                Outcome::Stale { attempt: turn.pending(spot).map(|pending| pending.attempts) }
            }
            Verdict::Release { delay_ms: 0 } => {
                self.give_back(turn, spot, receipt, out);
                Outcome::Ok
            }
            Verdict::Release { delay_ms } => {
                self.snooze(turn, spot, receipt, (*delay_ms, 0), out);
                Outcome::Ok
            }
            Verdict::Await { effect, delay_ms } => {
                self.snooze_for(turn, spot, receipt, effect, *delay_ms, out);
                Outcome::Ok
            }
        }
    }

    fn extend(
        &mut self,
        turn: &mut Turn,
        spot: Spot,
        receipt: &Receipt,
        (lease_ms, begun): (Option<u64>, bool),
        out: &mut Output,
    ) -> Outcome {
        let dying = self.crews.get(&spot.group).is_some_and(|crew| crew.is_dying(spot));
        let Some(pending) = turn.pending(spot).filter(|_| !dying) else {
            return Outcome::Stale { attempt: turn.pending(spot).map(|pending| pending.attempts) };
        };
        let (lease, retry_at, cancelled) = (pending.lease, pending.retry_at, pending.cancelled);
        let expires = turn.now.after_ms(turn.lease_ms(spot.topic, lease_ms.or(Some(pending.lent_ms))));
        match lease {
            Some(before) => turn.timers.cancel(before, Due::Lapse(spot)),
            // It had lapsed and no other holder has it yet: it goes on, and the next attempt is off.
            None => {
                turn.timers.cancel(retry_at, Due::Retry(spot));
                self.take_back(turn, spot);
            }
        }
        let fact = Fact::Delivery(place_of(receipt), DeliveryFact::Extended { expires });
        // Urgent: leases outlive the broker, so that what was promised to the holder must outlive it, too.
        turn.journal.emit(Haste::Urgent, out, &fact);
        turn.timers.set(expires, Due::Lapse(spot));
        self.note_begun(spot, receipt.token, begun);
        if let Some(crew) = self.crews.get_mut(&spot.group) {
            crew.seen = turn.now;
        }
        Outcome::Extended { expires, cancelled }
    }

    /// A message that waited for its next attempt is on loan again.
    fn take_back(&mut self, turn: &mut Turn, spot: Spot) {
        let identity = turn.slots(spot).and_then(|slots| slots.identity(spot.sequence));
        let Some(rank) = turn.rank_of(spot) else { return };
        let Some(crew) = self.crews.get_mut(&spot.group) else { return };
        if let Some(lane) = crew.lanes.get_mut(spot.partition as usize) {
            lane.take(rank);
        }
        if let Some(identity) = identity {
            crew.running.entry(identity).or_insert((spot.partition, spot.sequence));
        }
    }
}

impl Turn {
    /// Whether the last holder has said that it failed: its token is spent, but for saying so again.
    pub(crate) fn is_nacked(&self, spot: Spot) -> bool {
        self.pending(spot).is_some_and(|pending| pending.nacked)
    }

    /// What a token may do now.
    pub(crate) fn authority(&self, receipt: &Receipt) -> Authority {
        let state = &self.journal.state;
        if state.acked.contains(receipt.token) {
            return Authority::Acked;
        }
        if state.buried.contains(receipt.token) {
            return Authority::Buried;
        }
        let Some(topic) = state.topic(receipt.topic) else { return Authority::Unknown };
        let Some(progress) = topic.progress(receipt.group, receipt.partition) else {
            return Authority::Unknown;
        };
        let lane = &topic.partitions[receipt.partition as usize];
        let sequence = match lane.slots.find(receipt.offset) {
            Lookup::Never => return Authority::Unknown,
            Lookup::Gone => return Authority::Stale(None),
            Lookup::Here(sequence) => sequence,
        };
        match progress.pending.get(&sequence) {
            // Zero is no holder's token: a delivery that was given back or voided has it.
            Some(pending) if pending.token == receipt.token && receipt.token != Token::default() => {
                let Receipt { topic, group, partition, .. } = *receipt;
                Authority::Current(Spot { topic, group, partition, sequence })
            }
            pending => Authority::Stale(pending.map(|pending| pending.attempts)),
        }
    }

    /// A delivery whose holder may still act on it: its token is the newest, and its lease live.
    pub(crate) fn view_lease(&self, receipt: &Receipt) -> Result<LeaseView, Reject> {
        let spot = match self.authority(receipt) {
            Authority::Current(spot) => spot,
            Authority::Acked | Authority::Buried => return Err(Reject::LeaseStale(None)),
            Authority::Stale(attempt) => return Err(Reject::LeaseStale(attempt)),
            Authority::Unknown => return Err(Reject::LeaseUnknown),
        };
        let Receipt { topic, partition, offset, .. } = *receipt;
        let message = Spotted { topic, partition, offset };
        let attempt = self.pending_attempts(spot);
        let group = self.journal.state.topic(topic).and_then(|topic| topic.groups.get(&receipt.group));
        match (self.lease_of(spot), group) {
            (Some((_, expires)), Some(group)) if expires > self.now => {
                Ok(LeaseView { message, group: Arc::clone(&group.name), attempt, expires })
            }
            _ => Err(Reject::LeaseStale(Some(attempt))),
        }
    }

    /// How long a lease lasts: as asked for, else as the topic says, else as the shard says.
    pub(crate) fn lease_ms(&self, topic: TopicId, asked: Option<u64>) -> u64 {
        let topic = self.journal.state.topic(topic).and_then(|topic| topic.settings.lease_ms);
        asked.or(topic).unwrap_or(self.settings.lease_ms_default).clamp(1, self.settings.lease_ms_max.max(1))
    }
}
