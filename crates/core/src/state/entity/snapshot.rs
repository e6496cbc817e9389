//! Entities as bytes, and back.

use alloc::vec::Vec;

use crate::state::entity::record::{Entities, Entity};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::Time;

/// The least bytes that an entity takes.
const ENTITY_BYTES_LEAST: usize = 24;

impl Entities {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_length(self.len());
        for (tenant, name, entity) in self.each() {
            out.put_text(tenant);
            out.put_text(name);
            out.put_u64(entity.version);
            out.put_u64(entity.at.0);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mut entities = Self::default();
        for _ in 0..take.count(ENTITY_BYTES_LEAST)? {
            let (tenant, name) = (take.text()?, take.text()?);
            let entity = Entity { version: take.u64()?, at: Time(take.u64()?) };
            if entity.version == 0 || entities.get(tenant, name).is_some() {
                return Err(take.malformed());
            }
            entities.enter(tenant, name, || entity);
        }
        Ok(entities)
    }
}
