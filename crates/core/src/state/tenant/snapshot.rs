//! Limits of tenants as bytes, and back.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::tenant::{put_tenant_limits, take_tenant_limits};
use crate::state::tenant::record::{Tenant, Tenants};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::tenant::LIMITED_TENANTS_MAX;

/// The least bytes that a tenant takes.
const TENANT_BYTES_LEAST: usize = 40;

impl Tenants {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_length(self.limited);
        for (name, tenant) in self.tenants.iter().filter(|(_, tenant)| tenant.limits.any()) {
            out.put_text(name);
            put_tenant_limits(out, tenant.limits);
        }
    }

    /// The limits; what tenants have is counted by whoever knows their topics.
    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let limited = take.count(TENANT_BYTES_LEAST)?;
        let mut tenants = Self { limited, ..Self::default() };
        if limited > LIMITED_TENANTS_MAX {
            return Err(take.malformed());
        }
        for _ in 0..limited {
            let name: Arc<str> = take.shared()?;
            let limits = take_tenant_limits(take)?;
            let tenant = Tenant { limits, ..Tenant::default() };
            let is_sound = !name.is_empty() && limits.any();
            if !is_sound || tenants.tenants.insert(name, tenant).is_some() {
                return Err(take.malformed());
            }
        }
        Ok(tenants)
    }
}
