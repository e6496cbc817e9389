//! Entities and their versions.

use driftq_core::{Answer, Description, EntityList, EntityView, Input, Query};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;

impl Broker {
    /// One entity of a tenant. Whichever was never raised has version 0.
    pub async fn entity(&self, tenant: &str, entity: &str) -> Result<EntityView, Failure> {
        match self.describe(Query::Entity(tenant.to_owned(), entity.to_owned())).await? {
            Description::Entity(entity) => Ok(entity),
            other => Err(unexpected(&other)),
        }
    }

    /// Some entities of a tenant by name, and whether there are more.
    pub async fn entities(&self, list: EntityList) -> Result<(Vec<EntityView>, bool), Failure> {
        match self.describe(Query::Entities(list)).await? {
            Description::Entities(entities, more) => Ok((entities, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// Forgets an entity; says which version it had.
    pub async fn forget_entity(&self, tenant: &str, entity: &str) -> Result<u64, Failure> {
        let (tenant, entity) = (tenant.to_owned(), entity.to_owned());
        match self.ask(0, true, |ticket| Input::ForgetEntity { ticket, tenant, entity }).await? {
            Answer::EntityForgotten { version } => Ok(version),
            other => Err(unexpected(&other)),
        }
    }
}
