//! One core, one log: inputs in, facts and actions out.

pub(crate) mod bounds;
pub(crate) mod upkeep;

use alloc::vec::Vec;

use crate::commit::Committing;
use crate::delivery::Deliveries;
use crate::effect::desk::EffectDesk;
use crate::log::fact::Fact;
use crate::log::outbox::OutboxFact;
use crate::outbox::desk::OutboxDesk;
use crate::state::State;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::view::report::handle_describe;
use crate::words::action::{Action, Output};
use crate::words::id::{Position, Ticket, Time};
use crate::words::input::Input;
use crate::words::settings::Settings;

/// The deciding part of a broker. See the crate's documentation for the rules it keeps.
#[derive(Debug)]
pub struct Shard {
    turn: Turn,
    deliveries: Deliveries,
    effects: EffectDesk,
    outbox: OutboxDesk,
}

impl Shard {
    /// A shard over a recovered state. It serves nothing before [`Shard::open`].
    #[must_use]
    pub fn new(settings: Settings, state: State) -> Self {
        Self {
            turn: Turn::new(settings, state),
            deliveries: Deliveries::default(),
            effects: EffectDesk::default(),
            outbox: OutboxDesk::default(),
        }
    }

    /// Begins a run: a new epoch, durable before anything is served. `base` is where the first batch will lie; `secret`
    /// becomes the shard's if it has none yet, and should be no other shard's. A log that has begun must be that of the shard
    /// that the settings name ([`State::shard`]).
    pub fn open(&mut self, now: Time, base: Position, secret: [u8; 32], out: &mut Output) {
        self.turn.now = now;
        self.turn.journal.start(base);
        let shard = self.turn.settings.shard;
        let State { epoch, shard: known, .. } = self.turn.journal.state;
        assert!(epoch == 0 || shard == known, "the shell opens a log as the shard that it is of");
        let opened = Fact::Opened { epoch: epoch + 1, at: now, keeps_leases: true };
        self.turn.journal.emit(Haste::Urgent, out, &opened);
        if shard != known {
            self.turn.journal.emit(Haste::Urgent, out, &Fact::Outbox(OutboxFact::Housed { shard }));
        }
        if self.turn.journal.state.secret == [0; 32] {
            self.turn.journal.emit(Haste::Urgent, out, &Fact::Keyed { secret });
        }
        self.deliveries.open(&mut self.turn, base.plus(out.facts.len()), out);
        self.outbox.open(&mut self.turn, out);
        self.schedule_upkeep();
    }

    /// Tells where the next batch will lie; the shell has taken the facts of the one before.
    pub const fn begin_batch(&mut self, base: Position) {
        assert!(base.0 >= self.turn.journal.base.0, "the shell writes one batch behind the other");
        self.turn.journal.base = base;
    }

    /// When [`Input::Tick`] is wanted.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.turn.timers.next()
    }

    /// What the facts have made so far.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.turn.journal.state
    }

    /// What is decided and waits for the disk before it may be told, in order.
    pub fn held(&self) -> impl Iterator<Item = &Action> {
        self.turn.journal.held()
    }

    /// Gives the shard up and lists the tickets that still wait for an answer.
    #[must_use]
    pub fn abandon(self) -> Vec<Ticket> {
        let mut waiting = self.turn.journal.into_waiting();
        waiting.extend(self.outbox.into_waiting());
        waiting
    }

    /// Parcels below this number have arrived and will never be sent again: to be told to their receivers
    /// ([`crate::OutboxInput::Receive`]), which then forget where their messages lie.
    #[must_use]
    pub const fn outbox_settled(&self) -> u64 {
        self.outbox.settled()
    }

    fn begin_turn(&mut self, now: Time) {
        assert!(now >= self.turn.now, "the shell's clock never goes back");
        self.turn.now = now;
        self.deliveries.begin_turn(self.turn.settings.turn_steps_max as usize);
    }

    /// Handles one input. Total: every input has an answer, none panics.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Output) {
        self.begin_turn(now);
        let Self { turn, deliveries, effects, outbox } = self;
        match input {
            Input::Order(order) => deliveries.handle_order(turn, outbox, order, out),
            Input::Produce { ticket, message } => deliveries.handle_produce(turn, ticket, &message, out),
            Input::ProduceMany { ticket, messages } => {
                deliveries.handle_produce_many(turn, ticket, &messages, out)
            }
            Input::Reserve { ticket, identity, request } => {
                deliveries.handle_reserve(turn, ticket, identity, request, out)
            }
            Input::Unreserve { identity } => deliveries.unreserve(turn, identity),
            Input::Lease { ticket, request } => deliveries.handle_lease(turn, ticket, request, out),
            Input::Forsake { ticket } => {
                deliveries.handle_forsake(turn, ticket);
                effects.forsake_effect(turn, ticket);
            }
            Input::Settle { ticket, items } => deliveries.handle_settle(turn, ticket, &items, out),
            Input::Subscribe { ticket, subscription } => {
                deliveries.handle_subscribe(turn, ticket, subscription, out)
            }
            Input::Unsubscribe { consumer } => deliveries.handle_unsubscribe(turn, consumer),
            Input::Credit { consumer, count } => deliveries.handle_credit(consumer, count),
            Input::Written { consumer, count } => deliveries.handle_written(turn, consumer, count),
            Input::Ack { ticket, address, owner } => {
                deliveries.handle_ack(turn, ticket, &address, &owner, out)
            }
            Input::Nack { ticket, address, owner, reason } => {
                deliveries.handle_nack(turn, ticket, &address, &owner, &reason, out);
            }
            Input::Release { receipts } => deliveries.handle_release(turn, &receipts, out),
            Input::Bury { receipt, payload } => deliveries.handle_bury(turn, receipt, &payload, out),
            Input::FetchFailed { receipt } => deliveries.handle_fetch_failed(turn, receipt),
            Input::Relocate { topic, partition, offset, from, payload } => {
                turn.handle_relocate((topic, partition, offset), from, &payload, out);
            }
            Input::Effect(input) => effects.handle(turn, deliveries, input, out),
            Input::Commit(input) => Committing { turn, deliveries, effects, outbox }.handle(input, out),
            Input::Output(input) => turn.handle_output(input, out),
            Input::Outbox(input) => outbox.handle(turn, deliveries, input, out),
            Input::Durable { upto } => {
                deliveries.handle_durable(turn, upto, out);
                outbox.note_durable(turn.journal.durable);
            }
            Input::Space { roomy } => turn.roomy = roomy,
            Input::Tick => self.handle_tick(out),
            Input::Describe { ticket, query } => {
                handle_describe(turn, deliveries, effects, (ticket, &query), out)
            }
        }
        self.end_turn(out);
    }

    /// What an input leaves to its end.
    fn end_turn(&mut self, out: &mut Output) {
        let Self { turn, deliveries, effects, .. } = self;
        deliveries.end_turn(turn, out);
        for effect in deliveries.take_overtaken() {
            effects.on_effect_lapse(turn, deliveries, effect, out);
        }
    }
}
