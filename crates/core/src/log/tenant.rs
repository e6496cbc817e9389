//! Facts about tenants, and their bytes.

use alloc::vec::Vec;

use crate::log::key::{put_limits, take_limits};
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::Time;
use crate::words::tenant::TenantLimits;

/// The one kind of fact about tenants.
pub(crate) const LIMITED: u8 = 100;

/// Something that happened to a tenant and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantFact<'a> {
    /// It may have so much from now on.
    Limited {
        /// Its name.
        tenant: &'a str,
        /// When.
        at: Time,
        /// How much, in the place of what was said before; without any limit, nothing is said of it any more.
        limits: TenantLimits,
    },
}

impl<'a> TenantFact<'a> {
    pub(crate) const fn told_at(&self) -> Option<Time> {
        let Self::Limited { at, .. } = self;
        Some(*at)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self::Limited { tenant, at, limits } = self;
        out.put_u8(LIMITED);
        out.put_u64(at.0);
        out.put_text(tenant);
        put_tenant_limits(out, *limits);
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        if kind != LIMITED {
            return Err(UNKNOWN_KIND);
        }
        let (at, tenant) = (Time(take.u64()?), take.text()?);
        if tenant.is_empty() {
            return Err(take.malformed());
        }
        Ok(Self::Limited { tenant, at, limits: take_tenant_limits(take)? })
    }
}

pub(crate) fn put_tenant_limits(out: &mut Vec<u8>, limits: TenantLimits) {
    let TenantLimits { pace, topics, messages, bytes, effects } = limits;
    put_limits(out, pace);
    out.put_u32(topics);
    for limit in [messages, bytes, effects] {
        out.put_u64(limit);
    }
}

pub(crate) fn take_tenant_limits(take: &mut Take<'_>) -> Result<TenantLimits, Malformed> {
    let (pace, topics) = (take_limits(take)?, take.u32()?);
    Ok(TenantLimits { pace, topics, messages: take.u64()?, bytes: take.u64()?, effects: take.u64()? })
}
