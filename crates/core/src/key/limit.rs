//! Limits of tenants: set by operators, and looked up before something is added to what a tenant has.
//!
//! What a tenant has is what lies in its topics, whoever put it there, and the effects that were begun in its name. What
//! is there stays when a limit is lowered, and dead letters are kept whatever the limit: nothing is lost to a quota.

use crate::log::fact::Fact;
use crate::log::tenant::TenantFact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::id::Ticket;
use crate::words::reject::Reject;
use crate::words::route::NAME_BYTES_MAX;
use crate::words::tenant::{Quota, TenantLimits};

impl Turn {
    /// Says how much a tenant may have, in the place of what was said before.
    pub(crate) fn handle_limit_tenant(
        &mut self,
        ticket: Ticket,
        tenant: &str,
        limits: TenantLimits,
        out: &mut Output,
    ) {
        let answer = match self.check_limited(tenant, limits) {
            Ok(is_change) => {
                if is_change {
                    let fact = TenantFact::Limited { tenant, at: self.now, limits };
                    self.journal.emit(Haste::Urgent, out, &Fact::Tenant(fact));
                }
                Answer::Tenant(self.journal.state.view_tenant(tenant))
            }
            Err(reject) => Answer::Rejected(reject),
        };
        self.journal.reply(out, ticket, answer);
    }

    /// Whether that changes anything, if it can be done.
    fn check_limited(&self, tenant: &str, limits: TenantLimits) -> Result<bool, Reject> {
        if tenant.is_empty() || tenant.len() > NAME_BYTES_MAX {
            return Err(Reject::Invalid("tenants have 1 to 255 bytes"));
        }
        let tenants = &self.journal.state.tenants;
        let before = tenants.get(tenant).map(|known| known.limits).unwrap_or_default();
        if before == limits {
            return Ok(false);
        }
        if !before.any() && !tenants.has_room() {
            return Err(Reject::Limit("tenants: as many have limits as may"));
        }
        // To lift a limit makes room and is never refused.
        if limits.any() && !self.roomy {
            return Err(Reject::DiskFull);
        }
        Ok(true)
    }

    /// Whether a tenant may have one more topic.
    pub(crate) fn may_own_topic(&self, tenant: Option<&str>) -> Result<(), Reject> {
        let known = tenant.and_then(|tenant| self.journal.state.tenants.get(tenant));
        let is_full = known
            .is_some_and(|known| known.limits.topics > 0 && known.topics >= u64::from(known.limits.topics));
        if is_full { Err(Reject::QuotaExceeded(Quota::Topics)) } else { Ok(()) }
    }

    /// Whether a tenant may have so many more messages of so many bytes in its topics.
    pub(crate) fn may_hold(&self, tenant: Option<&str>, (messages, bytes): (u64, u64)) -> Result<(), Reject> {
        let tenants = &self.journal.state.tenants;
        if tenants.are_free() {
            return Ok(());
        }
        let known = tenant.and_then(|tenant| tenants.get(tenant));
        let used_up = known.and_then(|known| known.used_up(messages, bytes));
        used_up.map_or(Ok(()), |quota| Err(Reject::QuotaExceeded(quota)))
    }

    /// Whether one more effect may be begun in the name of a tenant, which records know by its short hash.
    pub(crate) fn may_remember_effect(&self, tenant: &str, short_hash: u32) -> Result<(), Reject> {
        let limit = self.journal.state.tenants.get(tenant).map_or(0, |known| known.limits.effects);
        let is_full = limit > 0 && self.journal.state.effects.count_of_tenant(short_hash) >= limit;
        if is_full { Err(Reject::QuotaExceeded(Quota::Effects)) } else { Ok(()) }
    }
}
