//! Who waits for an answer, and for what.

use driftq_core::{Action, Answer, ConsumerId, Input, Reject, Spotted, Ticket, Time, TopicId};

use crate::effects::{Ask, Lease};
use crate::entities::AboutEntity;
use crate::oracle::{Committing, Finishing, OutputOrder, Reading, Resolving, Said};
use crate::producers::Offer;
use crate::server::Server;
use crate::workers::LeaseCall;
use crate::world::World;

/// Who waits for an answer, and for what.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// Whatever the answer is.
    Nothing,
    Reader {
        consumer: ConsumerId,
        joined: u64,
        since: u64,
    },
    Produce {
        offers: Vec<Offer>,
        decided: Time,
    },
    Reserve {
        id: u64,
        decided: Time,
    },
    Ack {
        topic: TopicId,
        group: String,
        offset: u64,
        since: u64,
    },
    Settle {
        said: Vec<Said>,
        joined: u64,
    },
    Lease(LeaseCall),
    Pause {
        topic: TopicId,
        group: Option<String>,
        order: u64,
    },
    Cancel {
        topic: TopicId,
        offset: u64,
    },
    /// A group is moved, or deleted.
    Move {
        topic: TopicId,
        group: String,
    },
    Configure {
        topic: TopicId,
    },
    Delete {
        topic: TopicId,
    },
    Redrive {
        number: usize,
        place: Spotted,
    },
    Remove {
        place: Spotted,
    },
    Begin {
        ask: Ask,
        at: Time,
    },
    Finish(Finishing, Lease),
    Renew {
        lease: Lease,
        until: Time,
        fenced: bool,
    },
    Resolve(Resolving),
    Commit(Committing),
    Entity(AboutEntity),
    /// About outputs.
    Order(OutputOrder),
    Outputs(Reading),
    /// A reader looks at an effect.
    Effect {
        key: u64,
        at: Time,
        /// How often it looks again.
        looks: u32,
    },
}

impl World {
    pub(crate) fn ticket(&mut self, asked: Asked) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, asked);
        ticket
    }

    /// Notes what a ticket stands for.
    pub(crate) fn expect(&mut self, ticket: Ticket, asked: Asked) {
        self.asked.insert(ticket, asked);
    }

    /// Whether something about an effect is under way.
    pub(crate) fn is_asked_about(&self, key: u64) -> bool {
        self.asked.values().any(|asked| match asked {
            Asked::Begin { ask, .. } => ask.key == key,
            Asked::Finish(finishing, _) => finishing.key == key,
            Asked::Renew { lease, .. } => lease.key == key,
            Asked::Resolve(resolving) => resolving.key == key,
            Asked::Commit(committing) => committing.finishing.iter().any(|finishing| finishing.key == key),
            _ => false,
        })
    }

    /// Whether everything that was decided is known to the client that asked.
    pub(crate) fn is_quiet(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_quiet)
    }

    /// Askers that want to run an effect and wait, and until when.
    pub(crate) fn waiting_begins(&self) -> Vec<(Ticket, Time)> {
        let waiting = self.asked.iter().filter_map(|(ticket, asked)| match asked {
            Asked::Begin { ask, at } if ask.wait_ms > 0 => Some((*ticket, at.after_ms(ask.wait_ms))),
            _ => None,
        });
        waiting.collect()
    }

    /// Hands an input to the server; returns what it wants done, and how many bytes of facts it wrote.
    pub(crate) fn hand_over(&mut self, input: Input) -> (Vec<Action>, usize) {
        let Some(server) = &mut self.server else { return (Vec::new(), 0) };
        self.trace.note("input", &(self.now.0, &input));
        let before = server.filled();
        let actions = server.handle(self.now, input);
        (actions, server.filled() - before)
    }

    /// The same, and whether the ticket was refused at once.
    pub(crate) fn try_hand(
        &mut self,
        ticket: Ticket,
        input: Input,
    ) -> (Vec<Action>, Option<(Reject, usize)>) {
        let (actions, written) = self.hand_over(input);
        let refused = self.refusal(&actions, ticket);
        if refused.is_some() {
            self.trace.note("refused", &(ticket, refused));
            self.foresee(&actions, ticket);
        }
        (actions, refused.map(|reject| (reject, written)))
    }

    /// Askers for messages that wait.
    pub(crate) fn waiting_leases(&self) -> Vec<Ticket> {
        let leases = self.asked.iter().filter(|(_, asked)| matches!(asked, Asked::Lease(_)));
        leases.map(|(ticket, _)| *ticket).collect()
    }

    /// Whether a ticket was refused: at once, or as soon as what the refusal tells of is durable. What is decided stays
    /// decided, so that the oracle may know it before the client does.
    pub(crate) fn refusal(&self, actions: &[Action], ticket: Ticket) -> Option<Reject> {
        self.decided(actions, ticket).find_map(|answer| match answer {
            Answer::Rejected(reject) => Some(*reject),
            _ => None,
        })
    }

    /// The answer that was decided for a ticket, told or not.
    pub(crate) fn decided<'a>(
        &'a self,
        actions: &'a [Action],
        ticket: Ticket,
    ) -> impl Iterator<Item = &'a Answer> {
        let held = self.server.iter().flat_map(Server::held);
        actions.iter().chain(held).filter_map(move |action| match action {
            Action::Reply { ticket: to, answer } if *to == ticket => Some(answer),
            _ => None,
        })
    }

    /// A ticket is done with; its answer may still have to wait for the disk.
    pub(crate) fn foresee(&mut self, actions: &[Action], ticket: Ticket) {
        self.forget_ticket(ticket);
        let told = |action: &Action| matches!(action, Action::Reply { ticket: to, .. } if *to == ticket);
        if !actions.iter().any(told) {
            self.foreseen.insert(ticket);
        }
    }

    pub(crate) fn forget_ticket(&mut self, ticket: Ticket) {
        self.asked.remove(&ticket);
    }
}
