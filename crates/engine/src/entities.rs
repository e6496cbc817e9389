//! Entities and their versions.

use driftq_core::{Answer, Description, EntityList, EntityView, Input, Named, OrderInput, Query};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;

impl Broker {
    /// One entity of a tenant. One that was never raised has version 0.
    pub async fn entity(&self, entity: Named) -> Result<EntityView, Failure> {
        match self.home().describe(Query::Entity(entity)).await? {
            Description::Entity(entity) => Ok(entity),
            other => Err(unexpected(&other)),
        }
    }

    /// Some entities of a tenant by name, and whether there are more.
    pub async fn entities(&self, list: EntityList) -> Result<(Vec<EntityView>, bool), Failure> {
        match self.home().describe(Query::Entities(list)).await? {
            Description::Entities(entities, more) => Ok((entities, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// Forgets an entity; says which version it had.
    pub async fn forget_entity(&self, entity: Named) -> Result<u64, Failure> {
        match self
            .home()
            .ask(0, true, |ticket| Input::Order(OrderInput::ForgetEntity { ticket, entity }))
            .await?
        {
            Answer::EntityForgotten { version } => Ok(version),
            other => Err(unexpected(&other)),
        }
    }
}
