//! What waits for parcels to arrive and is not remembered.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::log::fact::Fact;
use crate::log::outbox::OutboxFact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::id::{Position, Ticket};
use crate::words::receipt::Stored;

/// Answers that may wait for parcels. Those that sent them are bounded by what may be on its way; this is for callers
/// that ask for the same commit again and again.
const ANSWERS_MAX: usize = 100_000;

/// A message of an answer: the number of its commit, and its own within that.
pub(crate) type Seat = (usize, usize);

/// Who waits for parcels to arrive, and which need not be known any more where they went. A new run of the shard begins
/// without waiters.
#[derive(Debug, Default)]
pub(crate) struct OutboxDesk {
    /// Answers in which a place is still missing, in the order in which they began to wait.
    answers: BTreeMap<u64, Unfinished>,
    /// Which answers miss the place of a parcel's message, and where.
    missing: BTreeMap<u64, Vec<(u64, Seat)>>,
    /// How many answers have waited.
    asked: u64,
    /// No parcel below this number is kept any more, and that is durable.
    settled: u64,
    /// What `settled` becomes once everything below the position is durable.
    settling: VecDeque<(Position, u64)>,
}

#[derive(Debug)]
struct Unfinished {
    ticket: Ticket,
    answer: Answer,
    missing: usize,
}

impl OutboxDesk {
    /// Begins a run: every parcel that has not arrived is sent again, because nobody knows how far it came.
    pub(crate) fn open(&mut self, turn: &mut Turn, out: &mut Output) {
        self.settled = turn.journal.state.outbox.first_kept();
        turn.post_all(out);
    }

    /// No parcel below this number will ever be sent again. What is not durable does not count: a crash brings it back.
    pub(crate) const fn settled(&self) -> u64 {
        self.settled
    }

    /// Whether no further answer may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.answers.len() >= ANSWERS_MAX
    }

    /// Answers when the parcels in `away` have arrived: they are not sent before the facts under the answer are durable.
    pub(crate) fn wait(&mut self, ticket: Ticket, answer: Answer, away: &[(u64, Seat)]) {
        self.asked += 1;
        for (number, seat) in away {
            self.missing.entry(*number).or_default().push((self.asked, *seat));
        }
        self.answers.insert(self.asked, Unfinished { ticket, answer, missing: away.len() });
    }

    /// Parcels have arrived. Of those that are not kept any more it was told before.
    pub(crate) fn handle_posted(&mut self, turn: &mut Turn, posted: &[(u64, Stored)], out: &mut Output) {
        let written = out.facts.len();
        for (number, stored) in posted {
            if turn.journal.state.outbox.get(*number).is_none() {
                continue;
            }
            let fact = OutboxFact::Posted { number: *number, stored: *stored };
            // A crash takes it back: then the parcel is sent again, and its receiver knows it.
            turn.journal.emit(Haste::Lazy, out, &Fact::Outbox(fact));
            for (asked, seat) in self.missing.remove(number).unwrap_or_default() {
                self.fill(turn, asked, (seat, *stored), out);
            }
        }
        if out.facts.len() > written {
            self.settle_later(turn, out);
        }
    }

    /// What has arrived is told to its receivers when it is durable that it is not kept here any more.
    fn settle_later(&mut self, turn: &Turn, out: &Output) {
        let end = turn.journal.base.plus(out.facts.len());
        let settled = turn.journal.state.outbox.first_kept();
        match self.settling.back_mut() {
            // Within one batch the newest counts.
            Some(last) if last.0 > turn.journal.base => *last = (end, settled),
            _ => self.settling.push_back((end, settled)),
        }
    }

    /// Puts a place into an answer, and lets go of the answer if it was the last one missing.
    fn fill(&mut self, turn: &mut Turn, asked: u64, (seat, stored): (Seat, Stored), out: &mut Output) {
        let Some(unfinished) = self.answers.get_mut(&asked) else { return };
        if let Some(place) = place_in(&mut unfinished.answer, seat) {
            *place = stored;
        }
        unfinished.missing -= 1;
        if unfinished.missing == 0
            && let Some(Unfinished { ticket, answer, .. }) = self.answers.remove(&asked)
        {
            turn.journal.reply(out, ticket, answer);
        }
    }

    /// Everything below `durable` is on disk.
    pub(crate) fn note_durable(&mut self, durable: Position) {
        while let Some((_, settled)) = self.settling.pop_front_if(|(end, _)| *end <= durable) {
            self.settled = settled;
        }
    }

    /// The tickets that still wait, first come first.
    pub(crate) fn into_waiting(self) -> impl Iterator<Item = Ticket> {
        self.answers.into_values().map(|unfinished| unfinished.ticket)
    }
}

/// Where an answer says where a message lies.
fn place_in(answer: &mut Answer, (commit, message): Seat) -> Option<&mut Stored> {
    match answer {
        Answer::Produced(stored) => Some(stored),
        Answer::Committed(done) => done.stored.get_mut(message),
        Answer::CommittedMany(results) => results.get_mut(commit)?.as_mut().ok()?.stored.get_mut(message),
        _ => None,
    }
}
