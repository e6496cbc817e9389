//! Messages handed out once, to an asker that waits for them.

use alloc::string::String;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::delivery::crew::Waiter;
use crate::turn::Turn;
use crate::turn::timer::Due;
use crate::words::action::{Action, Answer, Delivery, Output};
use crate::words::id::{GroupId, Identity, Ticket};
use crate::words::input::{LEASE_MESSAGES_MAX, LEASE_WAIT_MS_MAX, LeaseRequest};
use crate::words::reject::Reject;

/// An asker that does not wait is answered this much later while dispatch is still looking through many messages.
const LOOK_AGAIN_MS: u64 = 1;
/// Answers of one group that can be asked for again.
const ANSWERED_MAX: usize = 1_000;

impl Deliveries {
    pub(crate) fn handle_lease(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        request: LeaseRequest,
        out: &mut Output,
    ) {
        let group = match self.may_lease(turn, &request) {
            Ok(Some(group)) => group,
            Ok(None) => self.create_group(turn, request.topic, &request.group, out),
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        let name = request.request.map(|name| Identity::of_parts(&[&name.0, request.owner.as_bytes()]));
        if let Some(again) = name.and_then(|name| self.answered_before(turn, group, name)) {
            // Perhaps the first answer still waits for the disk.
            return turn.journal.reply(out, ticket, Answer::Leased(again));
        }
        self.supersede(turn, group, name, out);
        let lease_ms = turn.lease_ms(request.topic, request.lease_ms);
        let until = turn.now.after_ms(request.wait_ms);
        let max = request.max as usize;
        let owner: String = request.owner;
        self.attend(turn, request.topic, group);
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.note_poller(&owner, turn.now);
        let (gathered, bytes, supersedes) = (Vec::new(), 0, false);
        crew.waiters.push_back(Waiter {
            ticket,
            owner,
            lease_ms,
            max,
            until,
            request: name,
            gathered,
            bytes,
            supersedes,
        });
        self.waiting.insert(ticket, group);
        self.touch(group);
        self.asking.push((group, ticket, until));
    }

    /// The group, or `None` if it has to be created first.
    fn may_lease(&self, turn: &Turn, request: &LeaseRequest) -> Result<Option<GroupId>, Reject> {
        if request.max == 0 || request.max > LEASE_MESSAGES_MAX {
            return Err(Reject::Invalid("max must be between 1 and 1000"));
        }
        if request.wait_ms > LEASE_WAIT_MS_MAX {
            return Err(Reject::Invalid("wait_ms must be at most 60000"));
        }
        if self.waiting.len() >= turn.settings.consumers_max as usize {
            return Err(Reject::Limit("waiting lease requests: there are as many as are allowed"));
        }
        turn.may_read(request.topic, &request.group, &request.owner, request.lease_ms)
    }

    /// What was answered to a request of this name, as far as it is still on loan.
    fn answered_before(&self, turn: &Turn, group: GroupId, name: Identity) -> Option<Vec<Delivery>> {
        let receipts = self.crews.get(&group)?.answered.get(&name)?;
        let current = receipts.iter().filter_map(|receipt| {
            let spot = turn.spot_of(receipt)?;
            let (token, _) = turn.lease_of(spot)?;
            if token == receipt.token { turn.delivery(spot) } else { None }
        });
        Some(current.collect::<Vec<_>>()).filter(|deliveries| !deliveries.is_empty())
    }

    /// The same request again while the first still waits: the first asker has given up.
    fn supersede(&mut self, turn: &mut Turn, group: GroupId, name: Option<Identity>, out: &mut Output) {
        let Some(crew) = self.crews.get(&group).filter(|_| name.is_some()) else { return };
        let first = crew.waiters.iter().find(|waiter| waiter.request == name).map(|waiter| waiter.ticket);
        // At once, even where dispatch is still looking: what it finds is for the newer one, and for it alone.
        if let Some(first) = first
            && self.forget_waiter(turn, group, first).is_some()
        {
            reply(first, Vec::new(), out);
        }
    }

    /// Askers that did not get anything go on waiting, or have waited long enough.
    pub(crate) fn answer_askers(&mut self, turn: &mut Turn, out: &mut Output) {
        for (group, ticket, until) in core::mem::take(&mut self.asking) {
            if !self.waiting.contains_key(&ticket) {
                continue;
            }
            if until > turn.now {
                turn.timers.set(until, Due::Waited(group, ticket));
            } else {
                self.on_waited(turn, group, ticket, out);
            }
        }
    }

    /// The time of a waiter is up. It is told at the end of the input: perhaps there is something for it by then.
    pub(crate) fn on_patience_end(&mut self, turn: &Turn, group: GroupId, ticket: Ticket) {
        self.asking.push((group, ticket, turn.now));
    }

    /// An asker has waited long enough: the answer is that there is nothing.
    fn on_waited(&mut self, turn: &mut Turn, group: GroupId, ticket: Ticket, out: &mut Output) {
        // It is not known yet whether there is nothing: dispatch is still looking.
        if self.crews.get(&group).is_some_and(|crew| crew.is_unfinished) {
            return turn.timers.set(turn.now.after_ms(LOOK_AGAIN_MS), Due::Waited(group, ticket));
        }
        if self.forget_waiter(turn, group, ticket).is_some() {
            reply(ticket, Vec::new(), out);
        }
    }

    /// The asker no longer waits.
    pub(crate) fn handle_forsake(&mut self, turn: &mut Turn, ticket: Ticket) {
        if let Some(&group) = self.waiting.get(&ticket) {
            self.forget_waiter(turn, group, ticket);
        }
    }

    fn forget_waiter(&mut self, turn: &mut Turn, group: GroupId, ticket: Ticket) -> Option<Waiter> {
        self.waiting.remove(&ticket)?;
        let crew = self.crews.get_mut(&group)?;
        crew.seen = turn.now;
        let place = crew.waiters.iter().position(|waiter| waiter.ticket == ticket)?;
        let waiter = crew.waiters.remove(place)?;
        crew.note_poller(&waiter.owner, turn.now);
        turn.timers.cancel(waiter.until, Due::Waited(group, ticket));
        Some(waiter)
    }

    /// Every waiter that got something is answered; the rest goes on waiting.
    pub(crate) fn answer_waiters(&mut self, turn: &mut Turn, group: GroupId, out: &mut Output) {
        // Deliveries go to the first in line only, so that no waiter behind it has any.
        let got = |shard: &Self| {
            let first = shard.crews.get(&group)?.waiters.front()?;
            (!first.gathered.is_empty()).then_some(())
        };
        if got(self).is_some() {
            self.answer_first_waiter(turn, group, out);
        }
    }

    /// The first in line gets what was gathered for it.
    pub(crate) fn answer_first_waiter(&mut self, turn: &mut Turn, group: GroupId, out: &mut Output) {
        let ticket = self.crews.get(&group).and_then(|crew| crew.waiters.front()).map(|waiter| waiter.ticket);
        let Some(waiter) = ticket.and_then(|ticket| self.forget_waiter(turn, group, ticket)) else { return };
        if let (Some(name), Some(crew)) = (waiter.request, self.crews.get_mut(&group)) {
            let receipts = waiter.gathered.iter().map(|delivery| delivery.receipt).collect();
            if crew.answered.insert(name, receipts).is_none() {
                crew.answered_order.push_back(name);
            }
            if crew.answered_order.len() > ANSWERED_MAX
                && let Some(oldest) = crew.answered_order.pop_front()
            {
                crew.answered.remove(&oldest);
            }
        }
        if waiter.supersedes {
            turn.journal.reply(out, waiter.ticket, Answer::Leased(waiter.gathered));
        } else {
            reply(waiter.ticket, waiter.gathered, out);
        }
    }
}

/// Not held back: what a first delivery rests on is durable, and losing the lease itself only repeats what may be
/// repeated.
fn reply(ticket: Ticket, deliveries: Vec<Delivery>, out: &mut Output) {
    out.actions.push(Action::Reply { ticket, answer: Answer::Leased(deliveries) });
}
