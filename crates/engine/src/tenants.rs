//! Tenants: how much each may have, and how much it has.

use std::collections::BTreeMap;

use driftq_core::{Answer, Description, OrderInput, Query, TenantLimits, TenantView};

use crate::broker::{Broker, STOPPING, unexpected};
use crate::failure::Failure;

impl Broker {
    /// The tenants that have topics or limits, by name.
    pub async fn tenants(&self) -> Result<Vec<TenantView>, Failure> {
        let mut all: BTreeMap<String, TenantView> = BTreeMap::new();
        for shard in self.shards() {
            let tenants = match shard.describe(Query::Tenants).await? {
                Description::Tenants(tenants) => tenants,
                other => return Err(unexpected(&other)),
            };
            for tenant in tenants {
                match all.remove(&tenant.tenant) {
                    None => all.insert(tenant.tenant.clone(), tenant),
                    Some(known) => all.insert(known.tenant.clone(), together(known, &tenant)),
                };
            }
        }
        Ok(all.into_values().collect())
    }

    /// One tenant, whatever it has.
    pub async fn tenant(&self, name: &str) -> Result<TenantView, Failure> {
        let mut whole = None;
        for shard in self.shards() {
            let tenant = match shard.describe(Query::Tenant(name.to_owned())).await? {
                Description::Tenant(tenant) => tenant,
                other => return Err(unexpected(&other)),
            };
            whole = Some(match whole {
                None => tenant,
                Some(known) => together(known, &tenant),
            });
        }
        whole.ok_or_else(|| Failure::Unavailable(STOPPING.into()))
    }

    /// Says how much a tenant may have, in the place of what was said before. Its keys keep to it from the answer on.
    pub async fn limit_tenant(&self, tenant: String, limits: TenantLimits) -> Result<TenantView, Failure> {
        let (shard, name) = (self.house().place_tenant(&tenant), tenant.clone());
        let order = move |ticket| OrderInput::LimitTenant { ticket, tenant, limits };
        match self.change_ring(shard, order).await? {
            Answer::Tenant(view) if self.shard_count() == 1 => Ok(view),
            Answer::Tenant(_) => self.tenant(&name).await,
            other => Err(unexpected(&other)),
        }
    }
}

/// What a tenant has in two shards. Its limits are in one of them.
fn together(one: TenantView, other: &TenantView) -> TenantView {
    TenantView {
        limits: if one.limits.any() { one.limits } else { other.limits },
        topics: one.topics + other.topics,
        messages: one.messages + other.messages,
        bytes: one.bytes + other.bytes,
        effects: one.effects + other.effects,
        ..one
    }
}
