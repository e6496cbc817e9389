//! As whom a caller acts.
//!
//! A key can be bound to tenants. What belongs to others does not exist for it: a topic of another tenant is answered for
//! like one that is not there. A shared topic holds messages of many; the key sees its own, and nothing that tells of the
//! whole.

use std::borrow::Cow;

use driftq_api::v2::{NeededTenants, Needs};
use driftq_api::{Code, Fault};
use driftq_engine::core::Reject;
use driftq_engine::{Broker, Failure};

use super::failure::{Call, fault};
use super::guard::Caller;

/// How a topic that exists for a caller is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// It is the caller's to see as a whole.
    Own,
    /// It belongs to nobody in particular, and the caller is bound to tenants.
    Shared,
}

/// Said of what shows or changes more of a shared topic than is the caller's.
const SHARED: &str = "the topic is shared by all tenants and the key is bound to some: give the topic a `tenant` when it is \
                      created, or use a key that is for all tenants";

impl Caller {
    /// The tenants that the caller is bound to; `None` if it acts as any.
    pub(crate) fn tenants(&self) -> Option<&[String]> {
        self.scope().and_then(|scope| scope.tenants.as_deref())
    }

    /// Whether what belongs to a tenant exists for the caller.
    pub(crate) fn acts_as(&self, tenant: &str) -> bool {
        self.scope().is_none_or(|scope| scope.has_tenant(tenant))
    }

    /// The tenant as which a call is made: the one that it names, or the only one of the key.
    pub(crate) fn tenant<'a>(&self, named: Cow<'a, str>) -> Result<Cow<'a, str>, Fault> {
        match self.tenants() {
            None => Ok(named),
            Some([only]) if named.is_empty() => Ok(Cow::Owned(only.clone())),
            Some(_) if named.is_empty() => Err(Fault::new(
                Code::Forbidden,
                "the key is bound to several tenants: name one of them in tenant_id",
            )),
            Some(_) if self.acts_as(&named) => Ok(named),
            Some(_) => Err(Fault::new(Code::Forbidden, format!("the key is not for the tenant `{named}`"))),
        }
    }

    /// The same for a call that is about all tenants if it names none and the caller is bound to none.
    pub(crate) fn tenant_or_all<'a>(
        &self,
        named: Option<Cow<'a, str>>,
    ) -> Result<Option<Cow<'a, str>>, Fault> {
        if self.tenants().is_none() {
            return Ok(named);
        }
        self.tenant(named.unwrap_or_default()).map(Some)
    }

    /// How a topic is held that belongs to this tenant; `None` if it does not exist for the caller.
    pub(crate) fn holding(&self, tenant: Option<&str>) -> Option<Holding> {
        match tenant {
            _ if self.tenants().is_none() => Some(Holding::Own),
            None => Some(Holding::Shared),
            Some(tenant) => self.acts_as(tenant).then_some(Holding::Own),
        }
    }

    /// How the caller holds a topic. To one that is bound to tenants a topic of another tenant is unknown, in the same
    /// words and at the same time as one that is not there.
    pub(crate) fn may_reach(&self, broker: &Broker, topic: &str, call: Call) -> Result<Holding, Fault> {
        if self.tenants().is_none() {
            return Ok(Holding::Own);
        }
        let tenant = broker.tenant_of_topic(topic);
        let holding = tenant.and_then(|tenant| self.holding(tenant.as_deref()));
        holding.ok_or_else(|| fault(&Failure::Reject(Reject::TopicUnknown), call))
    }

    /// Whether the whole of a topic is the caller's.
    pub(crate) fn must_own(&self, broker: &Broker, topic: &str) -> Result<(), Fault> {
        match self.may_reach(broker, topic, Call::Other)? {
            Holding::Own => Ok(()),
            Holding::Shared => Err(Fault::new(Code::Forbidden, SHARED)),
        }
    }

    /// Names of the topics that the caller may see as a whole, sorted. A shared one tells of others by its counts.
    pub(crate) fn own_topics(&self, broker: &Broker) -> Vec<String> {
        let mut names = broker.topics_of(|tenant| self.holding(tenant) == Some(Holding::Own));
        names.retain(|name| self.sees(name));
        names
    }

    /// Whether a call may be made by a caller that is bound to tenants; `topic` is the first name in its path, decoded.
    pub(super) fn check_tenants(&self, needs: Needs, topic: &str, broker: &Broker) -> Result<(), Fault> {
        if self.tenants().is_none() {
            return Ok(());
        }
        match needs.tenants {
            NeededTenants::OwnTopic => self.must_own(broker, topic),
            NeededTenants::OwnMessages => self.may_reach(broker, topic, needs.call()).map(|_| ()),
            NeededTenants::All => Err(Fault::new(
                Code::Forbidden,
                "the key is bound to tenants, and this call is about the whole server",
            )),
            NeededTenants::Asked | NeededTenants::Filtered | NeededTenants::None => Ok(()),
        }
    }
}

/// In which words a call hears of a topic that is not there.
trait Told {
    fn call(&self) -> Call;
}

impl Told for Needs {
    fn call(&self) -> Call {
        if self.action == Some(driftq_api::v2::KeyAction::Produce) { Call::Produce } else { Call::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftq_engine::core::{KeyId, KeyScope, Time};
    use std::sync::Arc;

    fn bound(tenants: &[&str]) -> Caller {
        let tenants = Some(tenants.iter().map(|tenant| (*tenant).to_owned()).collect());
        let scope = KeyScope { tenants, ..KeyScope::EVERYTHING };
        let (id, meters) = (KeyId(1), Arc::new([]));
        Caller::Key { id, scope: Arc::new(scope), until: Time::NEVER, head: id, meters }
    }

    #[test]
    fn the_only_tenant_is_filled_in_and_a_foreign_one_is_refused() {
        let named = |caller: &Caller, tenant: &'static str| {
            caller.tenant(tenant.into()).map(Cow::into_owned).map_err(|fault| fault.code)
        };
        let (one, two) = (bound(&["acme"]), bound(&["acme", "globex"]));
        for (caller, tenant, expected) in [
            (&one, "", Ok("acme")),
            (&one, "acme", Ok("acme")),
            (&one, "globex", Err(Code::Forbidden)),
            (&two, "", Err(Code::Forbidden)),
            (&two, "globex", Ok("globex")),
            (&two, "initech", Err(Code::Forbidden)),
            (&Caller::Root, "", Ok("")),
            (&Caller::Anybody, "acme", Ok("acme")),
        ] {
            assert_eq!(named(caller, tenant), expected.map(str::to_owned), "{caller:?} {tenant}");
        }
        assert_eq!(one.tenant_or_all(None).unwrap().as_deref(), Some("acme"));
        assert_eq!(Caller::Root.tenant_or_all(None).unwrap(), None);
    }

    #[test]
    fn topics_are_own_shared_or_not_there() {
        let caller = bound(&["acme"]);
        assert_eq!(caller.holding(Some("acme")), Some(Holding::Own));
        assert_eq!(caller.holding(None), Some(Holding::Shared));
        assert_eq!(caller.holding(Some("globex")), None);
        assert_eq!(Caller::Root.holding(None), Some(Holding::Own));
        assert_eq!(Caller::Anybody.holding(Some("globex")), Some(Holding::Own));
    }
}
