//! What tenants may have, and what they have.

use alloc::collections::BTreeMap;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::tenant::TenantFact;
use crate::state::State;
use crate::state::partition::Topic;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::tenant::{LIMITED_TENANTS_MAX, Quota, TenantLimits, TenantView, short_hash};

/// What is known of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Tenant {
    pub(crate) limits: TenantLimits,
    /// Topics that belong to it. These three are counted, not written down: a snapshot tells them by its topics.
    pub(crate) topics: u64,
    /// Messages in them.
    pub(crate) messages: u64,
    /// Key and value bytes of those.
    pub(crate) bytes: u64,
}

/// The tenants that have topics, or limits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Tenants {
    pub(super) tenants: BTreeMap<Arc<str>, Tenant>,
    /// Those of them that have limits.
    pub(super) limited: usize,
}

impl Tenant {
    /// Whether nothing is to be known of it any more.
    fn is_over(&self) -> bool {
        !self.limits.any() && self.topics == 0
    }

    /// What there would be too much of with so many more messages of so many bytes.
    pub(crate) fn used_up(&self, messages: u64, bytes: u64) -> Option<Quota> {
        let is_beyond = |limit: u64, held: u64, more: u64| limit > 0 && held.saturating_add(more) > limit;
        if is_beyond(self.limits.messages, self.messages, messages) {
            Some(Quota::Messages)
        } else if is_beyond(self.limits.bytes, self.bytes, bytes) {
            Some(Quota::Bytes)
        } else {
            None
        }
    }
}

impl Tenants {
    pub(crate) fn get(&self, tenant: &str) -> Option<&Tenant> {
        self.tenants.get(tenant)
    }

    /// Whether no tenant has a limit.
    pub(crate) const fn are_free(&self) -> bool {
        self.limited == 0
    }

    pub(crate) const fn has_room(&self) -> bool {
        self.limited < LIMITED_TENANTS_MAX
    }

    pub(super) fn limit(&mut self, name: &str, limits: TenantLimits) {
        let tenant = self.tenants.entry(name.into()).or_default();
        let before = core::mem::replace(&mut tenant.limits, limits);
        self.limited = self.limited + usize::from(limits.any()) - usize::from(before.any());
        if tenant.is_over() {
            self.tenants.remove(name);
        }
    }

    pub(crate) fn add_topic(&mut self, name: &Arc<str>) {
        self.tenants.entry(Arc::clone(name)).or_default().topics += 1;
    }

    /// A topic has gone with all that was in it.
    pub(crate) fn remove_topic(&mut self, topic: &Topic) {
        let Some(name) = topic.tenant.as_deref() else { return };
        let Some(tenant) = self.tenants.get_mut(name) else { return };
        let (messages, bytes) = held_in(topic);
        tenant.topics -= 1;
        tenant.messages -= messages;
        tenant.bytes -= bytes;
        if tenant.is_over() {
            self.tenants.remove(name);
        }
    }

    pub(crate) fn add_message(&mut self, name: &str, size: u32) {
        if let Some(tenant) = self.tenants.get_mut(name) {
            tenant.messages += 1;
            tenant.bytes += u64::from(size);
        }
    }

    pub(crate) fn remove_message(&mut self, name: &str, size: u32) {
        if let Some(tenant) = self.tenants.get_mut(name) {
            tenant.messages -= 1;
            tenant.bytes -= u64::from(size);
        }
    }
}

/// Messages in a topic and their bytes, those included that every group is done with.
fn held_in(topic: &Topic) -> (u64, u64) {
    topic.partitions.iter().fold((0, 0), |(messages, bytes), lane| {
        (messages + lane.messages + lane.past_messages, bytes + lane.bytes + lane.past_bytes)
    })
}

impl State {
    pub(crate) fn on_tenant(&mut self, fact: &TenantFact<'_>) -> Result<(), Malformed> {
        let TenantFact::Limited { tenant, limits, .. } = fact;
        let is_new = limits.any() && self.tenants.get(tenant).is_none_or(|known| !known.limits.any());
        if is_new && !self.tenants.has_room() {
            return Err(CONTRADICTION);
        }
        self.tenants.limit(tenant, *limits);
        Ok(())
    }

    /// Counts what belongs to tenants, after a snapshot was read.
    pub(crate) fn count_tenants(&mut self) {
        let Self { topics, tenants, .. } = self;
        for topic in topics.iter().flatten() {
            let Some(name) = &topic.tenant else { continue };
            let tenant = tenants.tenants.entry(Arc::clone(name)).or_default();
            let (messages, bytes) = held_in(topic);
            tenant.topics += 1;
            tenant.messages += messages;
            tenant.bytes += bytes;
        }
    }

    /// What tenants may have and have, by name: those that have topics or limits.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantView> {
        self.tenants.tenants.keys().map(|name| self.view_tenant(name)).collect()
    }

    pub(crate) fn view_tenant(&self, name: &str) -> TenantView {
        let Tenant { limits, topics, messages, bytes } = self.tenants.get(name).cloned().unwrap_or_default();
        let effects = self.effects.count_of_tenant(short_hash(name));
        TenantView { tenant: name.to_string(), limits, topics, messages, bytes, effects }
    }
}
