//! A delivery ends: by ack, by nack, by lapse, or unused.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use crate::delivery::Deliveries;
use crate::delivery::retry::{DELAY_MS_MAX, Ending, scramble, wait_ms};
use crate::log::delivery::{DeliveryFact, Place};
use crate::log::fact::Fact;
use crate::state::slot::Lookup;
use crate::turn::Turn;
use crate::turn::journal::{Haste, lifetime};
use crate::turn::timer::{Due, FORGET_SLACK_MS, Spot};
use crate::words::action::{Answer, Output};
use crate::words::id::{Ticket, Time, Token};
use crate::words::input::Address;
use crate::words::letter::Reason;
use crate::words::receipt::Receipt;
use crate::words::reject::Reject;
use crate::words::run::How;

/// Longest failure text kept, in bytes; the rest is cut off.
pub(crate) const ERROR_BYTES_MAX: usize = 4096;
/// As much of it is kept while the disk is full: what is left there is for acks.
pub(crate) const FULL_DISK_ERROR_BYTES_MAX: usize = 64;
/// What a lapse is called when the attempt left no word of its own.
const LAPSED: &str = "ack_timeout";

/// How an attempt fails.
#[derive(Clone, Copy)]
pub(crate) struct Failing {
    pub(crate) ending: Ending,
    /// Instead of what the policy says.
    pub(crate) delay_ms: Option<u64>,
    /// Not to be tried again, whatever the policy says.
    pub(crate) dead: bool,
}

impl Failing {
    const fn by(ending: Ending) -> Self {
        Self { ending, delay_ms: None, dead: false }
    }
}

/// Where an ack or nack by owner leads.
enum OwnerClaim {
    /// The owner may settle it.
    OnLoan(Spot),
    /// The group is done with it.
    Done,
}

impl Deliveries {
    pub(crate) fn handle_ack(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        address: &Address,
        owner: &str,
        out: &mut Output,
    ) {
        match turn.owner_claim(address, owner) {
            Err(reject) => turn.journal.refuse(out, ticket, reject),
            Ok(OwnerClaim::Done) => turn.journal.reply(out, ticket, Answer::Settled),
            Ok(OwnerClaim::OnLoan(spot)) => {
                self.ack(turn, spot, address.offset, Token::default(), out);
                turn.journal.reply(out, ticket, Answer::Settled);
                self.touch(spot.group);
            }
        }
    }

    pub(crate) fn handle_nack(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        address: &Address,
        owner: &str,
        reason: &str,
        out: &mut Output,
    ) {
        match turn.owner_claim(address, owner) {
            Err(reject) => turn.journal.refuse(out, ticket, reject),
            // Acked work cannot fail afterwards.
            Ok(OwnerClaim::Done) => turn.journal.refuse(out, ticket, Reject::NotInFlight),
            Ok(OwnerClaim::OnLoan(spot)) => {
                self.nack(turn, spot, Failing::by(Ending::Nacked), reason, out);
                turn.journal.reply(out, ticket, Answer::Settled);
                self.touch(spot.group);
            }
        }
    }

    /// Gives deliveries back that never reached their reader.
    pub(crate) fn handle_release(&mut self, turn: &mut Turn, receipts: &[Receipt], out: &mut Output) {
        let mut groups = BTreeSet::new();
        for receipt in receipts {
            let Some(spot) = turn.spot_of(receipt) else { continue };
            // A receipt whose token is not the current one is out of date.
            if turn.lease_of(spot).is_none_or(|(token, _)| token != receipt.token) {
                continue;
            }
            self.give_back(turn, spot, receipt, out);
            groups.insert(spot.group);
        }
        // Only now, so that what was given back together goes out again in the order of offsets.
        for group in groups {
            self.touch(group);
        }
    }

    /// A delivery did not happen: the message goes back to its place.
    pub(crate) fn give_back(&mut self, turn: &mut Turn, spot: Spot, receipt: &Receipt, out: &mut Output) {
        if self.retire_cancelled(turn, spot, out) {
            return;
        }
        self.unschedule(turn, spot);
        // Urgent: from now on its holder is told that it has no say, and that must not be taken back by a crash.
        turn.journal.emit(Haste::Urgent, out, &Fact::Delivery(place_of(receipt), DeliveryFact::Released));
        let Some(rank) = turn.rank_of(spot) else { return };
        if let Some(crew) = self.crews.get_mut(&spot.group) {
            crew.given_back.insert((spot.partition, spot.sequence), turn.now);
            crew.make_fresh(spot.partition, rank);
        }
        self.end_overdue(turn, spot, out);
    }

    /// A delivery is to happen later instead: the message waits as after a failure, and has not failed. `effect`: the
    /// number of the effect that it waits for, zero if it waits for its time alone. False if it was cancelled.
    pub(crate) fn snooze(
        &mut self,
        turn: &mut Turn,
        spot: Spot,
        receipt: &Receipt,
        (delay_ms, effect): (u64, u64),
        out: &mut Output,
    ) -> bool {
        if self.retire_cancelled(turn, spot, out) {
            return false;
        }
        self.unschedule(turn, spot);
        let (place, at) = (place_of(receipt), turn.now);
        let until = at.after_ms(delay_ms.min(DELAY_MS_MAX));
        let fact = match effect {
            0 => Fact::Delivery(place, DeliveryFact::Snoozed { at, until }),
            effect => Fact::Delivery(place, DeliveryFact::SnoozedFor { at, until, effect }),
        };
        turn.journal.emit(Haste::Urgent, out, &fact);
        turn.timers.set(until, Due::Retry(spot));
        if let Some(crew) = self.crews.get_mut(&spot.group) {
            crew.seen = turn.now;
        }
        self.end_overdue(turn, spot, out);
        true
    }

    /// The holder says that its attempt failed.
    pub(crate) fn nack(
        &mut self,
        turn: &mut Turn,
        spot: Spot,
        failing: Failing,
        error: &str,
        out: &mut Output,
    ) {
        let dying = self.crews.get(&spot.group).is_some_and(|crew| crew.is_dying(spot));
        // After a lapse the next attempt is scheduled already; only that there must be none still changes something.
        if turn.lease_of(spot).is_some() || (failing.dead && !dying) {
            self.fail(turn, spot, failing, error, out);
        }
    }

    /// Ends for good a message that was cancelled while a holder worked on it. False if it was not.
    fn retire_cancelled(&mut self, turn: &mut Turn, spot: Spot, out: &mut Output) -> bool {
        let cancelled = turn.pending(spot).is_some_and(|pending| pending.cancelled);
        let Some(offset) = turn.offset_of(spot).filter(|_| cancelled) else { return false };
        turn.note_ending(spot, How::Cancelled, out);
        self.retire(turn, spot);
        let place = Place { topic: spot.topic, group: spot.group, partition: spot.partition, offset };
        turn.journal.emit(Haste::Urgent, out, &Fact::Delivery(place, DeliveryFact::Retired { dead: false }));
        true
    }

    /// The time of a lease is up.
    pub(crate) fn on_lapse(&mut self, turn: &mut Turn, spot: Spot, out: &mut Output) {
        if turn.lease_of(spot).is_none_or(|(_, expires)| expires > turn.now) {
            return;
        }
        if self.spare(turn, spot, out) {
            return self.touch(spot.group);
        }
        let before = turn.pending_error(spot);
        let error = if before.is_empty() { LAPSED } else { &before };
        self.fail(turn, spot, Failing::by(Ending::Lapsed), error, out);
        self.touch(spot.group);
    }

    /// The wait of a failed message is over.
    pub(crate) fn on_retry(&mut self, turn: &mut Turn, spot: Spot) {
        let Some(pending) = turn.pending(spot).filter(|pending| pending.lease.is_none()) else { return };
        let (due, waits_for) = (turn.due_at(pending), pending.waits_for);
        // The timer was set for an earlier ending, or the effect was begun again since it woke the message.
        if due > turn.now {
            return self.put_to_wait(turn, spot, due, waits_for);
        }
        let Some(rank) = turn.rank_of(spot) else { return };
        self.sleepers.remove(waits_for, spot);
        if let Some(crew) = self.crews.get_mut(&spot.group)
            && !crew.is_dying(spot)
        {
            crew.make_ready(spot.partition, rank, due);
            self.touch(spot.group);
        }
    }

    /// Ends an attempt: another one later, or none.
    fn fail(&mut self, turn: &mut Turn, spot: Spot, failing: Failing, error: &str, out: &mut Output) {
        if self.retire_cancelled(turn, spot, out) {
            return;
        }
        let Some(offset) = turn.offset_of(spot) else { return };
        self.unschedule(turn, spot);
        let attempts = turn.pending_attempts(spot);
        let policy = turn.policy_of(spot).unwrap_or_default();
        let dice = scramble(turn.settings.seed ^ self.tokens) ^ offset ^ u64::from(attempts) << 48;
        let mortal = turn.journal.state.topic(spot.topic).is_some_and(|topic| !topic.is_dead_letter_topic());
        let why = match () {
            () if failing.dead && mortal => Some(Reason::NackedDead),
            () if turn.is_exhausted(spot) => Some(Reason::AttemptsReached),
            () => turn.is_overdue(spot).then_some(Reason::DeadlinePassed),
        };
        let wait = failing
            .delay_ms
            .map_or_else(|| wait_ms(policy, attempts, failing.ending, dice), |delay| delay.min(DELAY_MS_MAX));
        let retry_at = turn.now.after_ms(if why.is_some() { 0 } else { wait });
        let place = Place { topic: spot.topic, group: spot.group, partition: spot.partition, offset };
        let nacked = failing.ending == Ending::Nacked;
        let haste = if nacked { Haste::Urgent } else { Haste::Lazy };
        let dead = failing.dead && mortal;
        let error_bytes_max = if turn.roomy { ERROR_BYTES_MAX } else { FULL_DISK_ERROR_BYTES_MAX };
        let error = cut(error, error_bytes_max);
        let failed = DeliveryFact::Failed { at: turn.now, retry_at, nacked, dead, error };
        let fact = Fact::Delivery(place, failed);
        turn.journal.emit(haste, out, &fact);
        if let Some(crew) = self.crews.get_mut(&spot.group) {
            // Its place in the window is free.
            crew.hot.insert(spot.partition);
            crew.seen = turn.now;
        }
        match why {
            Some(why) => self.bury(turn, spot, why, out),
            None => turn.timers.set(retry_at, Due::Retry(spot)),
        }
    }

    pub(crate) fn ack(&mut self, turn: &mut Turn, spot: Spot, offset: u64, token: Token, out: &mut Output) {
        turn.note_ending(spot, How::Done, out);
        self.retire(turn, spot);
        let place = Place { topic: spot.topic, group: spot.group, partition: spot.partition, offset };
        let identified = turn.settings.idempotency_ttl_ms > 0
            && turn.slots(spot).is_some_and(|slots| slots.identity(spot.sequence).is_some());
        let remembered =
            if identified { lifetime(turn.now, turn.settings.idempotency_ttl_ms) } else { Time(0) };
        let next = turn.members(spot).and_then(|group| group.done.next_expiry());
        let first_to_go = identified && next.is_none_or(|next| remembered < next);
        let fact = Fact::Delivery(place, DeliveryFact::Acked { remembered, token });
        turn.journal.emit(Haste::Urgent, out, &fact);
        if first_to_go {
            let due = Due::Forget(Some((spot.topic, spot.group)));
            turn.timers.set(remembered.after_ms(FORGET_SLACK_MS), due);
        }
        if let Some(crew) = self.crews.get_mut(&spot.group) {
            crew.hot.insert(spot.partition);
            crew.seen = turn.now;
        }
    }

    /// Like [`Deliveries::unschedule`], for a message that the group will be done with: the next one of its key may go.
    pub(crate) fn retire(&mut self, turn: &mut Turn, spot: Spot) {
        self.unschedule(turn, spot);
        if let Some(crew) = self.crews.get_mut(&spot.group) {
            crew.finish_key(spot.partition, spot.sequence, turn.now);
            crew.spared.remove(&(spot.partition, spot.sequence));
        }
    }

    /// Takes a delivery off every list that would bring it back; the fact that ends it follows.
    pub(crate) fn unschedule(&mut self, turn: &mut Turn, spot: Spot) {
        let identity = turn.slots(spot).and_then(|slots| slots.identity(spot.sequence));
        let topic = turn.journal.state.topic(spot.topic);
        let pending = topic
            .and_then(|topic| topic.progress(spot.group, spot.partition))
            .and_then(|progress| progress.pending.get(&spot.sequence));
        if let Some(waits_for) = pending.map(|pending| pending.waits_for).filter(|effect| *effect > 0) {
            self.sleepers.remove(waits_for, spot);
        }
        match pending.map(|pending| (pending.lease, pending.retry_at)) {
            Some((Some(expires), _)) => turn.timers.cancel(expires, Due::Lapse(spot)),
            Some((None, retry_at)) => turn.timers.cancel(retry_at, Due::Retry(spot)),
            None => {}
        }
        let rank = turn.rank_of(spot);
        let Some(crew) = self.crews.get_mut(&spot.group) else { return };
        // Its place in the window is free, no matter which holder had it.
        crew.hot.insert(spot.partition);
        crew.dying.remove(&(spot.partition, spot.sequence));
        crew.end_loan(spot.partition, spot.sequence);
        crew.given_back.remove(&(spot.partition, spot.sequence));
        crew.unbegun.remove(&(spot.partition, spot.sequence));
        crew.freed.remove(&(spot.partition, spot.sequence));
        if let (Some(lane), Some(rank)) = (crew.lanes.get_mut(spot.partition as usize), rank) {
            lane.retries.remove(spot.sequence);
            lane.fresh.remove(&rank);
        }
        if let Some(identity) = identity {
            crew.finish_identity(identity, spot.partition, spot.sequence, turn.now);
        }
    }
}

impl Turn {
    /// Whether `owner` may settle the message, is too late, or has no say.
    fn owner_claim(&self, address: &Address, owner: &str) -> Result<OwnerClaim, Reject> {
        let topic = self.journal.state.topic(address.topic).ok_or(Reject::TopicUnknown)?;
        let lane = topic.partitions.get(address.partition as usize).ok_or(Reject::PartitionOutOfRange)?;
        let group = topic.group_named(&address.group).ok_or(Reject::NotInFlight)?;
        let progress = group.progress.get(address.partition as usize).ok_or(Reject::PartitionOutOfRange)?;
        let sequence = match lane.slots.find(address.offset) {
            Lookup::Never => return Err(Reject::NotInFlight),
            Lookup::Gone => return Ok(OwnerClaim::Done),
            Lookup::Here(sequence) if progress.is_settled(sequence) => return Ok(OwnerClaim::Done),
            Lookup::Here(sequence) => sequence,
        };
        let pending = progress.pending.get(&sequence).ok_or(Reject::NotInFlight)?;
        if pending.owner.is_empty() {
            return Err(Reject::NotInFlight);
        }
        if *pending.owner != *owner {
            return Err(Reject::NotOwner);
        }
        let partition = address.partition;
        Ok(OwnerClaim::OnLoan(Spot { topic: address.topic, group: group.id, partition, sequence }))
    }

    /// The message that a receipt names, if it is still the group's to settle.
    pub(crate) fn spot_of(&self, receipt: &Receipt) -> Option<Spot> {
        let topic = self.journal.state.topic(receipt.topic)?;
        let progress = topic.progress(receipt.group, receipt.partition)?;
        let lane = topic.partitions.get(receipt.partition as usize)?;
        let Lookup::Here(sequence) = lane.slots.find(receipt.offset) else { return None };
        let spot =
            Spot { topic: receipt.topic, group: receipt.group, partition: receipt.partition, sequence };
        (!progress.is_settled(sequence)).then_some(spot)
    }

    fn pending_error(&self, spot: Spot) -> Arc<str> {
        self.pending(spot).map_or_else(Arc::default, |pending| Arc::clone(&pending.last_error))
    }
}

pub(crate) const fn place_of(receipt: &Receipt) -> Place {
    Place { topic: receipt.topic, group: receipt.group, partition: receipt.partition, offset: receipt.offset }
}

/// At most `bytes_max` bytes of a text, cut between two characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_errors_are_cut_between_characters() {
        let text = "é".repeat(ERROR_BYTES_MAX);
        assert_eq!(cut(&text, ERROR_BYTES_MAX).len(), ERROR_BYTES_MAX);
        let odd = alloc::format!("x{text}");
        assert_eq!(cut(&odd, ERROR_BYTES_MAX).len(), ERROR_BYTES_MAX - 1);
        assert_eq!(cut("short", ERROR_BYTES_MAX), "short");
    }
}
