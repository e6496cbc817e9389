//! What is remembered of entities.

use crate::log::entity::{EntityFact, each_raised};
use crate::state::State;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::id::Time;
use crate::words::scoped::Scoped;

/// What is known of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Entity {
    /// How often it was raised.
    pub(crate) version: u64,
    /// When it was raised last.
    pub(crate) at: Time,
}

/// Entities by tenant and name. An entity that is not listed has version 0.
pub(crate) type Entities = Scoped<Entity>;

impl Entities {
    pub(crate) fn version(&self, tenant: &str, entity: &str) -> u64 {
        self.get(tenant, entity).map_or(0, |entity| entity.version)
    }

    fn raise(&mut self, tenant: &str, name: &str, version: u64, at: Time) -> Result<(), Malformed> {
        let entity = self.enter(tenant, name, Entity::default);
        if entity.version.checked_add(1) != Some(version) {
            return Err(CONTRADICTION);
        }
        *entity = Entity { version, at };
        Ok(())
    }
}

impl State {
    /// The version of an entity.
    #[must_use]
    pub fn entity_version(&self, tenant: &str, entity: &str) -> u64 {
        self.entities.version(tenant, entity)
    }

    pub(crate) fn on_entity(&mut self, fact: &EntityFact<'_>) -> Result<(), Malformed> {
        match *fact {
            EntityFact::Raised { tenant, at, effect, raised } => {
                if effect > 0 {
                    self.effects.change(effect, |effect| effect.raised = true).ok_or(CONTRADICTION)?;
                }
                each_raised(raised, |entity, version| self.entities.raise(tenant, entity, version, at))
            }
            EntityFact::Forgotten { tenant, entity } => {
                self.entities.remove(tenant, entity).map(drop).ok_or(CONTRADICTION)
            }
        }
    }
}
