//! What a group has done with a topic: a floor, the gaps above it, and the deliveries that are not settled.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::state::gate::Gate;
use crate::state::ranges::Ranges;
use crate::words::id::{GroupId, Time, Token};
use crate::words::input::Style;
use crate::words::letter::AttemptDescription;
use crate::words::policy::BACKOFF_MS_MAX;

/// Attempts of one message that are remembered, the last ones.
pub(crate) const HISTORY_MAX: usize = 16;

/// A group of one topic.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) name: Arc<str>,
    pub(crate) created: Time,
    /// Deliveries have been stopped since then.
    pub(crate) paused: Option<Time>,
    /// One per partition.
    pub(crate) progress: Vec<Progress>,
    /// Identities that this group is done with.
    pub(crate) done: Gate<()>,
}

/// A group in one partition. All numbers are sequence numbers of the partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Everything below is settled.
    pub(crate) floor: u64,
    /// Settled above the floor: acking 5 before 4 never loses 4.
    pub(crate) settled: Ranges,
    /// Delivered at least once and not yet settled.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// How many of `pending` are on loan. Kept in step by [`Progress::lease`] and [`Progress::end_lease`] alone.
    pub(crate) leased: u32,
    /// How many of those were pushed into a stream. Kept in step by the same two.
    pub(crate) pushed: u32,
    /// Messages that were the group's to settle when it began, less the sequence number at that time: with the
    /// two counters below the lag is a subtraction.
    pub(crate) backlog: i64,
    /// How many messages it has settled since.
    pub(crate) settled_count: u64,
    /// Who got a message last. Those of a batch have one owner, whose name they share.
    pub(crate) last_owner: Arc<str>,
}

/// A delivery that is not settled.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Pending {
    /// Deliveries so far, without those that were given back.
    pub(crate) attempts: u32,
    /// Why the last attempt failed; empty if none did.
    pub(crate) last_error: Arc<str>,
    /// Who held it last; empty if no owner may settle it by name.
    pub(crate) owner: Arc<str>,
    /// Token of the last delivery: its authority ends when a newer one begins. Zero if no holder has one.
    pub(crate) token: Token,
    /// When the last delivery began.
    pub(crate) leased_at: Time,
    /// How long it was lent for.
    pub(crate) lent_ms: u64,
    /// End of the lease, while it is on loan.
    pub(crate) lease: Option<Time>,
    /// Whether the last delivery was pushed into a stream; otherwise its holder has a token.
    pub(crate) is_pushed: bool,
    /// When the last attempt ended, while it is not on loan.
    pub(crate) ended_at: Time,
    /// When the next attempt is due, while it is not on loan.
    pub(crate) retry_at: Time,
    /// The effect that the next attempt waits for, by the number of its record; zero for none.
    pub(crate) waits_for: u64,
    /// No further attempt will be made.
    pub(crate) cancelled: bool,
    /// The last holder said that its attempt failed: its token is spent, but for saying so again.
    pub(crate) nacked: bool,
    /// The last holder said that there is no use in trying again: it is to become a dead letter.
    pub(crate) dead: bool,
    /// Attempts that failed, the last [`HISTORY_MAX`].
    pub(crate) history: Vec<AttemptDescription>,
}

/// A delivery begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loan<'a> {
    pub(crate) token: Token,
    pub(crate) attempt: u32,
    pub(crate) at: Time,
    pub(crate) expires: Time,
    pub(crate) owner: &'a str,
    pub(crate) style: Style,
}

/// An attempt ends without an ack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure<'a> {
    pub(crate) at: Time,
    pub(crate) retry_at: Time,
    pub(crate) nacked: bool,
    pub(crate) dead: bool,
    pub(crate) error: &'a str,
}

impl Pending {
    /// How long it was to wait for its next attempt when the last one ended.
    fn wait_ms(&self) -> u64 {
        // What failed before endings had a time waits no longer than a policy can say.
        if self.ended_at == Time(0) { BACKOFF_MS_MAX } else { self.retry_at.since_ms(self.ended_at) }
    }
}

impl Progress {
    /// Messages kept or to come below `next` that the group has not settled.
    pub(crate) fn lag(&self, next: u64) -> u64 {
        u64::try_from(self.backlog + next.cast_signed()).unwrap_or(0).saturating_sub(self.settled_count)
    }

    pub(crate) fn is_settled(&self, sequence: u64) -> bool {
        sequence < self.floor || self.settled.contains(sequence)
    }

    /// Settles a message; false if it was settled before.
    pub(crate) fn settle(&mut self, sequence: u64) -> bool {
        if self.is_settled(sequence) {
            return false;
        }
        self.end_lease(sequence);
        self.pending.remove(&sequence);
        self.settled_count += 1;
        self.pass(sequence);
        true
    }

    /// Moves the floor over a message, or remembers it above the floor.
    pub(crate) fn pass(&mut self, sequence: u64) {
        if sequence == self.floor {
            let next = sequence + 1;
            self.floor = self.settled.take_from(next).unwrap_or(next);
        } else {
            self.settled.insert(sequence);
        }
    }

    /// Counts everything from `start` up to `end` as settled; nothing above `start` is yet.
    pub(crate) fn pass_over(&mut self, start: u64, end: u64) {
        if start == self.floor {
            self.floor = end;
        } else if start < end {
            self.settled.push_back(start, end);
        }
    }

    /// Hands a message out.
    pub(crate) fn lease(&mut self, sequence: u64, loan: Loan<'_>) {
        self.end_lease(sequence);
        let pending = self.pending.entry(sequence).or_default();
        pending.attempts = loan.attempt;
        if *pending.owner != *loan.owner {
            if *self.last_owner != *loan.owner {
                self.last_owner = loan.owner.into();
            }
            pending.owner = Arc::clone(&self.last_owner);
        }
        pending.token = loan.token;
        pending.leased_at = loan.at;
        pending.lent_ms = loan.expires.since_ms(loan.at);
        pending.lease = Some(loan.expires);
        pending.nacked = false;
        pending.is_pushed = loan.style == Style::Pushed;
        pending.waits_for = 0;
        self.leased += 1;
        self.pushed += u32::from(pending.is_pushed);
    }

    /// Makes a lease end at another time; one that has lapsed begins again. False if the message was never delivered.
    pub(crate) fn extend(&mut self, sequence: u64, expires: Time) -> bool {
        let Some(pending) = self.pending.get_mut(&sequence) else { return false };
        if pending.lease.replace(expires).is_none() {
            self.leased += 1;
            self.pushed += u32::from(pending.is_pushed);
        }
        true
    }

    /// Ends an attempt that failed. False if there was none.
    pub(crate) fn fail(&mut self, sequence: u64, failure: Failure<'_>) -> bool {
        let Failure { at, retry_at, nacked, dead, error } = failure;
        self.end_lease(sequence);
        let Some(pending) = self.pending.get_mut(&sequence) else { return false };
        pending.retry_at = retry_at;
        pending.ended_at = at;
        pending.nacked = nacked;
        pending.dead |= dead;
        pending.waits_for = 0;
        if *pending.last_error != *error {
            pending.last_error = error.into();
        }
        let (number, leased) = (pending.attempts, pending.leased_at);
        // An attempt that lapsed and was then given up by its holder is still one attempt.
        if pending.history.last().is_some_and(|last| last.number == number) {
            pending.history.pop();
        }
        if pending.history.len() >= HISTORY_MAX {
            pending.history.remove(0);
        }
        let (owner, error) = (Arc::clone(&pending.owner), Arc::clone(&pending.last_error));
        pending.history.push(AttemptDescription { number, owner, error, leased, ended: at });
        true
    }

    /// Takes the lease off a message, if there is one.
    pub(crate) fn end_lease(&mut self, sequence: u64) {
        let Some(pending) = self.pending.get_mut(&sequence) else { return };
        if pending.lease.take().is_some() {
            self.leased -= 1;
            self.pushed -= u32::from(pending.is_pushed);
        }
    }

    /// Gives a delivery back as if it had not happened.
    pub(crate) fn release(&mut self, sequence: u64) {
        if self.uncount(sequence).is_some_and(|pending| pending.attempts == 0) {
            self.pending.remove(&sequence);
        }
    }

    /// Gives a delivery back to wait, for an effect if `effect` is not zero. False if there was none.
    pub(crate) fn snooze(&mut self, sequence: u64, at: Time, until: Time, effect: u64) -> bool {
        let Some(pending) = self.uncount(sequence) else { return false };
        pending.ended_at = at;
        pending.retry_at = until;
        pending.waits_for = effect;
        true
    }

    /// Makes the next attempt due. False if it does not wait for one.
    pub(crate) fn hurry(&mut self, sequence: u64, at: Time) -> bool {
        let Some(pending) = self.pending.get_mut(&sequence).filter(|pending| pending.lease.is_none()) else {
            return false;
        };
        pending.retry_at = pending.retry_at.min(at);
        true
    }

    /// Ends a delivery that does not count, and with it the authority of its holder.
    fn uncount(&mut self, sequence: u64) -> Option<&mut Pending> {
        self.end_lease(sequence);
        let pending = self.pending.get_mut(&sequence)?;
        pending.attempts = pending.attempts.saturating_sub(1);
        pending.owner = Arc::default();
        pending.token = Token::default();
        pending.waits_for = 0;
        Some(pending)
    }

    /// Ends every lease, and with it the right of its holder to settle by name: the run before cannot vouch for them.
    /// What waits goes on waiting, but no longer than it was to wait in all: the machine's clock may have been set back
    /// between the runs, by years.
    pub(crate) fn void_leases(&mut self, now: Time) {
        for pending in self.pending.values_mut() {
            if pending.lease.take().is_some() {
                pending.retry_at = now;
                pending.ended_at = now;
            }
            pending.retry_at = pending.retry_at.min(now.after_ms(pending.wait_ms()));
            pending.owner = Arc::default();
            pending.token = Token::default();
            pending.lent_ms = 0;
            pending.nacked = false;
        }
        self.leased = 0;
        self.pushed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loan(attempt: u32, owner: &str, style: Style) -> Loan<'_> {
        Loan { token: Token::default(), attempt, at: Time(1), expires: Time(9), owner, style }
    }

    #[test]
    fn the_floor_waits_for_the_lowest() {
        let mut progress = Progress::default();
        for (sequence, floor) in [(1, 0), (2, 0), (0, 3), (5, 3), (3, 4), (4, 6)] {
            assert!(progress.settle(sequence));
            assert!(!progress.settle(sequence), "settling twice changes nothing");
            assert_eq!(progress.floor, floor, "after {sequence}");
        }
        assert_eq!(progress.lag(10), 4);
    }

    #[test]
    fn leases_are_counted_by_what_is_on_loan() {
        let mut progress = Progress::default();
        let count = |progress: &Progress| (progress.leased, progress.pushed);
        progress.lease(0, loan(1, "a", Style::Pushed));
        progress.lease(0, loan(2, "b", Style::Borrowed));
        progress.lease(1, loan(1, "a", Style::Pushed));
        assert_eq!(count(&progress), (2, 1));
        progress.release(1);
        assert_eq!((count(&progress), progress.pending.contains_key(&1)), ((1, 0), false));
        progress.release(0);
        assert_eq!((count(&progress), progress.pending[&0].attempts), ((0, 0), 1));
        progress.lease(0, loan(2, "b", Style::Pushed));
        progress.void_leases(Time(5));
        assert_eq!((count(&progress), &*progress.pending[&0].owner), ((0, 0), ""));
        assert!(progress.extend(0, Time(20)) && progress.extend(0, Time(30)));
        assert_eq!(count(&progress), (1, 1), "it is on loan again as it was");
        progress.settle(0);
        assert_eq!((count(&progress), progress.pending.len()), ((0, 0), 0));
        assert!(!progress.extend(0, Time(9)));
    }

    #[test]
    fn messages_of_one_owner_share_its_name() {
        let mut progress = Progress::default();
        for (sequence, owner) in [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "a"), (2, "a")] {
            progress.lease(sequence, loan(1, owner, Style::Borrowed));
        }
        let owners: Vec<&Arc<str>> = progress.pending.values().map(|pending| &pending.owner).collect();
        assert_eq!(owners.iter().map(|owner| &***owner).collect::<Vec<_>>(), ["a", "a", "a", "b", "a"]);
        assert!(Arc::ptr_eq(owners[0], owners[1]) && Arc::ptr_eq(owners[2], owners[4]));
    }

    #[test]
    fn only_what_waits_can_be_hurried_and_it_never_waits_longer() {
        let mut progress = Progress::default();
        let failure = Failure { at: Time(5), retry_at: Time(70), nacked: true, dead: false, error: "no" };
        assert!(!progress.hurry(0, Time(6)));
        progress.lease(0, loan(1, "a", Style::Borrowed));
        assert!(!progress.hurry(0, Time(6)));
        assert!(progress.fail(0, failure));
        for (at, due) in [(Time(90), Time(70)), (Time(6), Time(6)), (Time(8), Time(6))] {
            assert!(progress.hurry(0, at));
            assert_eq!(progress.pending[&0].retry_at, due);
        }
    }

    #[test]
    fn the_last_attempts_are_remembered() {
        let mut progress = Progress::default();
        let failure = Failure { at: Time(5), retry_at: Time(7), nacked: false, dead: false, error: "no" };
        for attempt in 1..=20 {
            progress.lease(0, loan(attempt, "a", Style::Borrowed));
            assert!(progress.fail(0, failure));
        }
        let numbers: Vec<u32> = progress.pending[&0].history.iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, (5..=20).collect::<Vec<_>>());
        assert!(!progress.fail(1, failure));
    }
}
