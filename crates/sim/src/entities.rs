//! Clients that do something only if an entity is still at a version.

use driftq_core::ledger::OnLapse;
use driftq_core::{
    Answer, BeginEffect, Commit, CommitInput, Description, EffectAnswer, EffectInput, Expected, Identity,
    Input, Named, Query, Reject, RequestHash, Time,
};

use crate::asked::Asked;
use crate::oracle::CheckResult;
use crate::world::World;

/// How many entities there are: two names for each of the tenants.
pub(crate) const ENTITIES: usize = 2 * TENANTS.len();
const TENANTS: [&str; 2] = ["t", "u"];
const LEASE_MS: u64 = 60;
const TTL_MS: u64 = 2_000;

/// A client wants to be the one that finds an entity at a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) entity: usize,
    pub(crate) version: u64,
    /// Tells it from others; the same one again has the same.
    pub(crate) number: u64,
    /// By a begin, or by a commit.
    pub(crate) begins: bool,
    /// When it was handed over last.
    pub(crate) at: Time,
    /// When it was let through, if its client heard so.
    pub(crate) through: Option<Time>,
}

/// Something about entities that waits for its answer.
#[derive(Clone, Debug)]
pub(crate) enum AboutEntity {
    Attempt(Attempt),
    Look(usize),
}

impl Attempt {
    fn expect(&self) -> Vec<Expected> {
        let expected = Expected { entity: named(self.entity).name, version: self.version };
        // An entity of the attempt's own is raised along with it, and is never in the way.
        let beside = Expected { entity: format!("beside {}", self.number), version: 0 };
        vec![expected, beside]
    }

    fn identity(&self) -> Identity {
        Identity::of("t", if self.begins { "entities" } else { "entity commit" }, &self.number.to_string())
    }

    /// Until when the same attempt again must be answered as one that was let through.
    pub(crate) fn is_remembered(&self, now: Time, commit_ttl_ms: u64) -> bool {
        let lasts_ms = if self.begins { LEASE_MS + TTL_MS } else { commit_ttl_ms };
        self.through.is_some_and(|through| now < through.after_ms(lasts_ms))
    }
}

impl World {
    /// Something happens to entities.
    pub(crate) fn run_entities(&mut self) -> CheckResult {
        let entity = usize::try_from(self.rng.below(ENTITIES as u64)).expect("small");
        match self.rng.below(8) {
            0..5 => {
                self.calls += 1;
                let told = self.oracle.entities.told(entity);
                // Mostly what was told last, now and then what is over, or not there yet.
                let version = match self.rng.below(6) {
                    0 => told.saturating_sub(1),
                    1 => told + 1,
                    _ => told,
                };
                let (number, begins) = (self.calls, self.rng.chance(1, 2));
                self.attempt(Attempt { entity, version, number, begins, at: self.now, through: None })
            }
            5 | 6 => match self.oracle.entities.recent(self.rng.below(4)) {
                Some(attempt) => self.attempt(attempt),
                None => Ok(()),
            },
            _ => {
                let ticket = self.ticket(Asked::Entity(AboutEntity::Look(entity)));
                let query = Query::Entity(named(entity));
                self.hand(Input::Describe { ticket, query })
            }
        }
    }

    fn attempt(&mut self, attempt: Attempt) -> CheckResult {
        let attempt = Attempt { at: self.now, ..attempt };
        let ticket = self.ticket(Asked::Entity(AboutEntity::Attempt(attempt)));
        let expect = attempt.expect();
        let input = if attempt.begins {
            let ask = BeginEffect {
                identity: attempt.identity(),
                lease_ms: Some(LEASE_MS),
                ttl_ms: Some(TTL_MS),
                on_lapse: OnLapse::Retry,
                whose: named(attempt.entity).tenant,
                expect,
                ..BeginEffect::default()
            };
            Input::Effect(EffectInput::Begin { ticket, ask: Box::new(ask) })
        } else {
            let request = RequestHash(attempt.number);
            let (name, tenant) = (Some(attempt.identity()), named(attempt.entity).tenant);
            let commit = Commit { name, request, tenant, expect, ..Commit::default() };
            Input::Commit(CommitInput::One { ticket, commit: Box::new(commit) })
        };
        let (actions, _) = self.hand_over(input);
        let raises = self.decided(&actions, ticket).any(is_let_through);
        if raises {
            self.oracle.entities.decided(attempt.entity);
        }
        self.execute(actions)
    }

    pub(crate) fn entity_answered(&mut self, about: &AboutEntity, answer: &Answer) -> CheckResult {
        let now = self.now;
        match (about, answer) {
            (AboutEntity::Look(entity), Answer::Described(Description::Entity(view))) => {
                self.oracle.entities.seen(*entity, view.version)
            }
            (AboutEntity::Attempt(attempt), answer) if is_let_through(answer) => {
                self.oracle.entities.let_through(attempt)
            }
            (
                AboutEntity::Attempt(attempt),
                Answer::Rejected(Reject::EntityDiffers { place: 0, version })
                | Answer::CommitRefused(_, Reject::EntityDiffers { place: 0, version }),
            ) => {
                let commit_ttl_ms = self.settings.commit_ttl_ms;
                self.oracle.entities.turned_away(attempt, *version, now, commit_ttl_ms)
            }
            // It is done or under way already, or there is no room.
            (
                AboutEntity::Attempt(_),
                Answer::Committed(_)
                | Answer::Effect(_)
                | Answer::Rejected(Reject::DiskFull)
                | Answer::CommitRefused(_, Reject::DiskFull),
            ) => Ok(()),
            _ => Err(format!("answers: {about:?} was answered with {answer:?}")),
        }
    }
}

/// An entity by its number: two tenants use the same names.
fn named(entity: usize) -> Named {
    Named::of(TENANTS[entity % TENANTS.len()], format!("e{}", entity / TENANTS.len()))
}

/// Whether a client was the first that found an entity at a version: a begin that takes a record over, and a commit
/// that was done before, go on with what was let through.
fn is_let_through(answer: &Answer) -> bool {
    match answer {
        Answer::Committed(done) => !done.already,
        Answer::Effect(EffectAnswer::Execute(lease)) => lease.receipt.epoch == 1,
        _ => false,
    }
}
