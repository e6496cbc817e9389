//! What is under way with effects and not remembered.

use crate::words::effect::BeginEffect;
use crate::words::id::{Ticket, Time};
use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;

/// Who waits for effects, and when the ledger is swept. A new run of the shard begins without waiters.
#[derive(Debug, Default)]
pub(crate) struct EffectDesk {
    /// Askers that wait for an effect that another holder runs.
    pub(super) waiting: Waiting,
    /// When the ledger is swept next.
    pub(super) sweep_at: Option<Time>,
    pub(super) sweep: Sweep,
}

/// How far the sweep has come that drops records. It goes in rounds over everything whose time is over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    /// The last record that was looked at in this round.
    pub(super) past: (Time, u64),
    /// Records that this round left where they are.
    pub(super) left: u64,
    /// The next round does not begin before this.
    pub(super) rest_until: Time,
}

/// Which asker waits for which effect.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_effect: BTreeMap<u64, VecDeque<Waiter>>,
    by_ticket: BTreeMap<Ticket, (u64, Time)>,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) ask: BeginEffect,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(super) fn count(&self, number: u64) -> usize {
        self.by_effect.get(&number).map_or(0, VecDeque::len)
    }

    pub(super) fn push(&mut self, number: u64, until: Time, waiter: Waiter) {
        self.by_ticket.insert(waiter.ticket, (number, until));
        self.by_effect.entry(number).or_default().push_back(waiter);
    }

    pub(super) fn first(&self, number: u64) -> Option<&Waiter> {
        self.by_effect.get(&number)?.front()
    }

    /// Takes a waiter out; returns it, what it waits for, and until when it would have waited.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<(u64, Time, Waiter)> {
        let (number, until) = self.by_ticket.remove(&ticket)?;
        let waiters = self.by_effect.get_mut(&number)?;
        // Nearly always the first one.
        let place = waiters.iter().position(|waiter| waiter.ticket == ticket)?;
        let waiter = waiters.remove(place)?;
        if waiters.is_empty() {
            self.by_effect.remove(&number);
        }
        Some((number, until, waiter))
    }
}
