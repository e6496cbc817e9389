//! Nothing leaves before it is durable: actions that tell the outside about facts wait here for the log.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::words::action::Action;
use crate::words::id::{Position, Ticket};

/// Actions in the order of the facts under them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    queue: VecDeque<(Position, Action)>,
}

impl Held {
    /// Holds `action` until everything below `end` is durable.
    pub(crate) fn push(&mut self, end: Position, action: Action) {
        debug_assert!(self.queue.back().is_none_or(|(last, _)| *last <= end), "positions only rise");
        self.queue.push_back((end, action));
    }

    /// Lets go of everything that rests on facts below `upto`.
    pub(crate) fn release(&mut self, upto: Position, out: &mut Vec<Action>) {
        while let Some((_, action)) = self.queue.pop_front_if(|(end, _)| *end <= upto) {
            out.push(action);
        }
    }

    /// What waits, in order.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.queue.iter().map(|(_, action)| action)
    }

    /// The tickets that still wait.
    pub(crate) fn tickets(self) -> Vec<Ticket> {
        let tickets = self.queue.into_iter().filter_map(|(_, action)| match action {
            Action::Reply { ticket, .. } => Some(ticket),
            Action::Deliver { .. }
            | Action::Fetch(_)
            | Action::Post { .. }
            | Action::Publish(_)
            | Action::Unpublish(_)
            | Action::Close { .. } => None,
        });
        tickets.collect()
    }
}
