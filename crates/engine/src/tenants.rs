//! Tenants: how much each may have, and how much it has.

use driftq_core::{Answer, Description, OrderInput, Query, TenantLimits, TenantView};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;

impl Broker {
    /// The tenants that have topics or limits, by name.
    pub async fn tenants(&self) -> Result<Vec<TenantView>, Failure> {
        match self.describe(Query::Tenants).await? {
            Description::Tenants(tenants) => Ok(tenants),
            other => Err(unexpected(&other)),
        }
    }

    /// One tenant, whatever it has.
    pub async fn tenant(&self, name: &str) -> Result<TenantView, Failure> {
        match self.describe(Query::Tenant(name.to_owned())).await? {
            Description::Tenant(tenant) => Ok(tenant),
            other => Err(unexpected(&other)),
        }
    }

    /// Says how much a tenant may have, in the place of what was said before. Its keys keep to it from the answer on.
    pub async fn limit_tenant(&self, tenant: String, limits: TenantLimits) -> Result<TenantView, Failure> {
        let answer = self.change_ring(move |ticket| OrderInput::LimitTenant { ticket, tenant, limits });
        match answer.await? {
            Answer::Tenant(tenant) => Ok(tenant),
            other => Err(unexpected(&other)),
        }
    }
}
