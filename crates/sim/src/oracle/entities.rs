//! Versions of entities go up by one for each client that was let through, and never back.

use std::collections::BTreeSet;

use driftq_core::Time;

use super::CheckResult;
use super::view::ensure;
use crate::entities::{Attempt, ENTITIES};

/// Attempts that may be repeated.
const RECENT: usize = 8;

/// What is known of entities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entities {
    /// The highest version that any client was told.
    told: [u64; ENTITIES],
    /// How often any client was let through, told or not, kept or lost: no version is higher.
    decided: [u64; ENTITIES],
    /// Which entities were found at which versions, as far as clients know.
    won: BTreeSet<(usize, u64)>,
    recent: Vec<Attempt>,
}

impl Entities {
    pub(crate) const fn told(&self, entity: usize) -> u64 {
        self.told[entity]
    }

    /// One of the last attempts.
    pub(crate) fn recent(&self, back: u64) -> Option<Attempt> {
        let back = usize::try_from(back).ok()?;
        self.recent.iter().rev().nth(back).copied()
    }

    /// A client was let through; whether it is kept is not known yet.
    pub(crate) const fn decided(&mut self, entity: usize) {
        self.decided[entity] += 1;
    }

    fn remember(&mut self, attempt: &Attempt, through: Option<Time>) {
        self.recent.retain(|known| known.number != attempt.number);
        let through = through.or(attempt.through);
        self.recent.push(Attempt { through, ..*attempt });
        let excess = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..excess);
    }

    /// A client was told a version.
    pub(crate) fn seen(&mut self, entity: usize, version: u64) -> CheckResult {
        let (told, decided) = (self.told[entity], self.decided[entity]);
        ensure(version >= told, || format!("entities: e{entity} is at {version}, and was at {told}"))?;
        ensure(version <= decided, || {
            format!("entities: e{entity} is at {version}, and only {decided} were let through")
        })?;
        self.told[entity] = version;
        Ok(())
    }

    /// A client was let through, and knows it.
    pub(crate) fn let_through(&mut self, attempt: &Attempt) -> CheckResult {
        let Attempt { entity, version, .. } = *attempt;
        ensure(self.won.insert((entity, version)), || {
            format!("entities: two were let through at version {version} of e{entity}: {attempt:?}")
        })?;
        self.remember(attempt, Some(attempt.at));
        self.seen(entity, version + 1)
    }

    /// A client was turned away, and told the version that is there.
    pub(crate) fn turned_away(
        &mut self,
        attempt: &Attempt,
        version: u64,
        now: Time,
        commit_ttl_ms: u64,
    ) -> CheckResult {
        ensure(version != attempt.version, || {
            format!("entities: {attempt:?} was turned away from the version that it expects")
        })?;
        let known = self.recent.iter().find(|known| known.number == attempt.number);
        let remembered = known.is_some_and(|known| known.is_remembered(now, commit_ttl_ms));
        ensure(!remembered, || {
            format!("entities: {attempt:?} was let through before, and is compared again")
        })?;
        self.remember(attempt, None);
        self.seen(attempt.entity, version)
    }
}
