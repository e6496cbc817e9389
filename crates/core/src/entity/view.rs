//! Entities as operators see them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::state::entity::record::Entity;
use crate::turn::Turn;
use crate::words::entity::{EntityList, EntityView};
use crate::words::scoped::Named;

impl Turn {
    /// One entity. One that was never raised has version 0.
    pub(crate) fn describe_entity(&self, entity: &Named) -> EntityView {
        let Named { tenant, name } = entity;
        let known = self.journal.state.entities.get(tenant, name);
        known.map_or_else(
            || EntityView { entity: name.as_str().into(), version: 0, raised: None },
            |entity| view(&name.as_str().into(), entity),
        )
    }

    /// Some entities of a tenant by name, and whether there are more.
    pub(crate) fn list_entities(&self, list: &EntityList) -> (Vec<EntityView>, bool) {
        let limit = list.limit as usize;
        let known = self.journal.state.entities.after(&list.tenant, list.after.as_deref());
        let mut found: Vec<_> = known.take(limit + 1).map(|(name, entity)| view(name, entity)).collect();
        let more = found.len() > limit;
        found.truncate(limit);
        (found, more)
    }
}

fn view(name: &Arc<str>, entity: &Entity) -> EntityView {
    EntityView { entity: Arc::clone(name), version: entity.version, raised: Some(entity.at) }
}
