//! The state together with how far it is written and how far it is durable.

use alloc::collections::VecDeque;

use crate::log::fact::Fact;
use crate::state::State;
use crate::turn::hold::Held;
use crate::words::action::{Action, Answer, Output};
use crate::words::id::{Position, Ticket, Time, TopicId};
use crate::words::reject::Reject;

/// Whether an answer or a delivery waits for a fact to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// An answer or a delivery rests on it.
    Urgent,
    /// It may ride with a later sync; losing it in a crash only repeats work that may be repeated.
    Lazy,
}

/// Remembers facts and keeps what rests on them until they are durable.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) state: State,
    /// Where the first byte of the batch being filled will lie.
    pub(crate) base: Position,
    /// Everything below is on disk.
    pub(crate) durable: Position,
    /// End of the newest urgent fact: an answer or a delivery waits for it.
    urgent_end: Position,
    held: Held,
    /// Partitions with messages that are not durable yet, in the order of their ends.
    unseen: VecDeque<(Position, TopicId, u32)>,
}

impl Journal {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            base: Position(0),
            durable: Position(0),
            urgent_end: Position(0),
            held: Held::default(),
            unseen: VecDeque::new(),
        }
    }

    /// Begins at `base`; everything before it is durable.
    pub(crate) fn start(&mut self, base: Position) {
        self.base = base;
        self.durable = base;
        self.urgent_end = base;
    }

    /// Writes a fact down and changes the state by it. The only place where a shard does either.
    pub(crate) fn emit(&mut self, haste: Haste, out: &mut Output, fact: &Fact<'_>) {
        fact.encode(&mut out.facts);
        let end = self.base.plus(out.facts.len());
        self.state.apply(end, fact).expect("a shard decides only what its state allows");
        if haste == Haste::Urgent {
            self.urgent_end = end;
            out.urgent = true;
        }
        if let Fact::Appended(message) = fact {
            self.watch(end, message.topic, message.partition);
        }
        if let Fact::Moved { topic, partition, .. } = *fact {
            self.watch(end, topic, partition);
        }
    }

    /// Notes that a partition has something that becomes visible once `end` is durable. Neighbours share an
    /// entry within a batch only: an entry that newer batches kept raising would never become visible.
    fn watch(&mut self, end: Position, topic: TopicId, partition: u32) {
        match self.unseen.back_mut() {
            Some(last) if (last.1, last.2) == (topic, partition) && last.0 > self.base => last.0 = end,
            _ => self.unseen.push_back((end, topic, partition)),
        }
    }

    /// Raises the durable mark, lets go of what rested on it, and lists partitions with newly visible messages.
    pub(crate) fn advance(&mut self, upto: Position, out: &mut Output, mut seen: impl FnMut(TopicId, u32)) {
        self.durable = self.durable.max(upto);
        self.held.release(self.durable, &mut out.actions);
        while let Some((_, topic, partition)) = self.unseen.pop_front_if(|(end, ..)| *end <= self.durable) {
            seen(topic, partition);
        }
    }

    /// Whether every urgent fact is durable.
    pub(crate) fn is_all_durable(&self) -> bool {
        self.urgent_end <= self.durable
    }

    /// Tells the outside something that rests on the facts so far.
    pub(crate) fn after_durable(&mut self, out: &mut Output, action: Action) {
        if self.is_all_durable() {
            out.actions.push(action);
        } else {
            self.held.push(self.urgent_end, action);
        }
    }

    /// Answers once the facts so far are durable.
    pub(crate) fn reply(&mut self, out: &mut Output, ticket: Ticket, answer: Answer) {
        self.after_durable(out, Action::Reply { ticket, answer });
    }

    /// Refuses. A refusal that tells of facts waits for them like any other answer: what it says must not be taken back
    /// by a crash.
    pub(crate) fn refuse(&mut self, out: &mut Output, ticket: Ticket, reject: Reject) {
        let action = Action::Reply { ticket, answer: Answer::Rejected(reject) };
        if reject.tells_of_facts() { self.after_durable(out, action) } else { out.actions.push(action) }
    }

    /// What waits for the disk, in order.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Action> {
        self.held.actions()
    }

    pub(crate) fn into_waiting(self) -> alloc::vec::Vec<Ticket> {
        self.held.tickets()
    }
}

/// The end of a lifetime that begins now; zero means "not at all".
pub(crate) const fn lifetime(now: Time, ttl_ms: u64) -> Time {
    now.after_ms(ttl_ms)
}
