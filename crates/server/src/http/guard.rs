//! Who asks, and what their key allows.
//!
//! A request shows a key; the guard looks it up on the ring and compares its digest. A request that shows none is that of
//! the key for which the certificate of its connection stands, if it does for any. What a key allows is the core's to
//! say; what a call needs stands in the table of operations. A key that ends while a call waits or streams ends it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_api::v2::{KeyAction, NeededTenants, NeededTopics, Needs, Operation};
use driftq_api::{Code, Fault};
use driftq_engine::core::{KeyId, KeyScope, Permission, Time};
use driftq_engine::key_text::{self, ShownId};
use driftq_engine::{Broker, HeldKey, KeyRing, Meter, OpenWait, UsedUp};
use hyper::header::AUTHORIZATION;
use hyper::http::HeaderMap;
use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::peer::{Certificate, CertificateKeys, check_site};
use super::session::Sessions;
use super::turns::LaneName;

/// Resolves when a key has ended.
pub(crate) type Gone = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long is slept at most for the end of a key: a clock that is set forward is noticed by then.
const END_LOOK_MAX: Duration = Duration::from_secs(60);

/// When a client should come back that has too many streams and waits open.
const WAITS_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Lets callers in, or not.
pub(crate) struct Guard {
    is_required: bool,
    /// The digest of the root key.
    root: Option<[u8; 32]>,
    ring: watch::Receiver<Arc<KeyRing>>,
    pub(super) sessions: Sessions,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Anybody, on a server that asks for no keys.
    Anybody,
    /// The root key.
    Root,
    /// A key.
    Key { id: KeyId, scope: Arc<KeyScope>, until: Time, head: KeyId, meters: Arc<[Arc<Meter>]> },
}

impl Guard {
    pub(crate) fn new(broker: &Broker, is_required: bool, root: Option<[u8; 32]>) -> Self {
        Self { is_required, root, ring: broker.key_ring(), sessions: Sessions::default() }
    }

    /// Who a request comes from. Why a key opens nothing is not told: whether it ever existed is not for a stranger to
    /// know.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        certificate: Option<&Certificate>,
        broker: &Broker,
    ) -> Result<Caller, Fault> {
        if !self.is_required {
            return Ok(Caller::Anybody);
        }
        let Some(key) = shown_key(headers)? else {
            if let Some(id) = self.sessions.find(headers, Instant::now()) {
                check_site(headers, "session")?;
                return self.signed_in(id, broker).ok_or_else(ended);
            }
            let Some(certificate) = certificate else {
                return Err(Fault::new(Code::Unauthenticated, "the request shows no key"));
            };
            // The handshake has proved whose it is; there is no secret to compare.
            let id = certificate.key(headers)?;
            return self.held(id, broker, |_| true).ok_or_else(|| certificate.ended());
        };
        self.recognise(key, broker).map(|(_, caller)| caller)
    }

    /// Whose a key is.
    pub(super) fn recognise(&self, key: &str, broker: &Broker) -> Result<(ShownId, Caller), Fault> {
        let Some(id) = key_text::shown_id(key) else {
            return Err(Fault::new(Code::Unauthenticated, "what the request shows is no key of DriftQ"));
        };
        let caller = match id {
            ShownId::Root => self.root.filter(|root| key_text::fits(key, root)).map(|_| Caller::Root),
            ShownId::Key(id) => self.held(id, broker, |held| key_text::fits(key, &held.digest)),
        };
        caller.map(|caller| (id, caller)).ok_or_else(ended)
    }

    /// The caller of a session: its key was compared when the session began.
    fn signed_in(&self, id: ShownId, broker: &Broker) -> Option<Caller> {
        match id {
            ShownId::Root => self.root.map(|_| Caller::Root),
            ShownId::Key(id) => self.held(id, broker, |_| true),
        }
    }

    /// Whether callers have to show keys.
    pub(crate) const fn asks_for_keys(&self) -> bool {
        self.is_required
    }

    /// The caller who has a key, if it is live and `fits` what was shown.
    fn held(&self, id: KeyId, broker: &Broker, fits: impl FnOnce(&HeldKey) -> bool) -> Option<Caller> {
        let ring = self.ring.borrow();
        let held = ring.get(id).filter(|held| fits(held) && held.is_live(|| broker.now()))?;
        Some(Caller::Key {
            id,
            scope: Arc::clone(&held.scope),
            until: held.until,
            head: held.head,
            meters: Arc::clone(&held.meters),
        })
    }

    /// Warns of certificates that open nothing yet, or nothing any more.
    pub(crate) fn warn_of_idle(&self, keys: &CertificateKeys, broker: &Broker) {
        for (name, id) in keys.iter().filter(|(_, id)| self.held(**id, broker, |_| true).is_none()) {
            let key = key_text::written_id(*id);
            tracing::warn!(
                certificate = name,
                key,
                "a certificate is mapped to a key that is not known, or has ended; `driftq key list` shows those that are"
            );
        }
    }

    /// Whether a caller that was let in still may: a key can end while the body of its request is on its way.
    pub(crate) fn check_live(&self, caller: &Caller, broker: &Broker) -> Result<(), Fault> {
        let Caller::Key { id, .. } = caller else { return Ok(()) };
        let is_live = self.ring.borrow().get(*id).is_some_and(|held| held.is_live(|| broker.now()));
        if is_live { Ok(()) } else { Err(ended()) }
    }

    /// What people wrote on a key.
    pub(crate) fn note(&self, id: KeyId) -> String {
        self.ring.borrow().get(id).map_or_else(String::new, |held| held.note.to_string())
    }

    /// Resolves when the key of a caller has ended; `None` if it cannot.
    pub(crate) fn gone(&self, caller: &Caller, broker: &Broker) -> Option<Gone> {
        let Caller::Key { id, .. } = *caller else { return None };
        let (mut ring, broker) = (self.ring.clone(), broker.clone());
        Some(Box::pin(async move {
            loop {
                let until = ring.borrow_and_update().get(id).map(|held| held.until);
                let left = until.map_or(0, |until| until.0.saturating_sub(broker.now().0));
                if left == 0 {
                    return;
                }
                tokio::select! {
                    changed = ring.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(Duration::from_millis(left).min(END_LOOK_MAX)) => {}
                }
            }
        }))
    }
}

/// Said to a key whose quota is used up.
fn used_up(UsedUp { quota, limit, wait }: UsedUp) -> Fault {
    let text = match wait {
        Some(_) => {
            format!("the key, one that it hangs on, or its tenant has used up its quota {quota}: {limit}")
        }
        None => {
            format!(
                "the key, one that it hangs on, or its tenant has as many streams and waits open as it may: {limit}"
            )
        }
    };
    let wait = wait.unwrap_or(WAITS_RETRY_AFTER);
    let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    Fault {
        reason: Some(quota),
        retry_after_ms: Some(retry_after_ms),
        ..Fault::new(Code::QuotaExceeded, text)
    }
}

/// Said to a key that opens nothing, or nothing any more.
pub(crate) fn ended() -> Fault {
    Fault::new(Code::Unauthenticated, "the key is not known, or has ended")
}

/// The key in the headers. The scheme's name may be written in any case.
pub(crate) fn shown_key(headers: &HeaderMap) -> Result<Option<&str>, Fault> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Fault::new(Code::Unauthenticated, "Authorization: is given twice"));
    }
    let shown = value.to_str().ok().and_then(|value| value.split_once(' '));
    match shown {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(key.trim())),
        _ => Err(Fault::new(Code::Unauthenticated, "Authorization: is not `Bearer` and a key")),
    }
}

impl Caller {
    /// Whether the caller may make a call at all; `topic` is the first name in its path, decoded.
    pub(crate) fn check(&self, needs: Needs, topic: &str, broker: &Broker) -> Result<(), Fault> {
        self.check_scope(needs, topic)?;
        self.check_tenants(needs, topic, broker)
    }

    fn check_scope(&self, needs: Needs, topic: &str) -> Result<(), Fault> {
        let Needs { action: Some(action), topics, .. } = needs else { return Ok(()) };
        self.may(action)?;
        match topics {
            NeededTopics::InPath => self.may_use(topic),
            NeededTopics::All => self.may_use_all(),
            NeededTopics::Asked | NeededTopics::Filtered | NeededTopics::None => Ok(()),
        }
    }

    pub(super) fn scope(&self) -> Option<&KeyScope> {
        match self {
            Self::Anybody | Self::Root => None,
            Self::Key { scope, .. } => Some(scope),
        }
    }

    /// Whether the caller may do something of a kind.
    pub(crate) fn may(&self, action: KeyAction) -> Result<(), Fault> {
        match self.scope() {
            Some(scope) if !scope.permissions.has(permission(action)) => Err(Fault::new(
                Code::Forbidden,
                format!("the key does not have the action `{}`", action.name()),
            )),
            _ => Ok(()),
        }
    }

    /// Whether the caller may see values, results and headers. Everything else that is kept about a message or an effect
    /// is there for whoever may read.
    pub(crate) fn sees_payloads(&self) -> bool {
        self.may(KeyAction::ReadPayload).is_ok()
    }

    /// Whether a topic's name is one of the caller's.
    pub(crate) fn sees(&self, topic: &str) -> bool {
        self.scope().is_none_or(|scope| scope.has_topic(topic))
    }

    /// Whether the caller may do something with a topic. Whether there is such a topic does not matter and is not told.
    pub(crate) fn may_use(&self, topic: &str) -> Result<(), Fault> {
        if self.sees(topic) {
            return Ok(());
        }
        Err(Fault::new(Code::Forbidden, format!("the key is not for the topic `{topic}`")))
    }

    fn may_use_all(&self) -> Result<(), Fault> {
        match self.scope() {
            Some(scope) if scope.topics.is_some() => Err(Fault::new(
                Code::Forbidden,
                "the key is bound to topics, and this call is about more than them",
            )),
            _ => Ok(()),
        }
    }

    /// Takes one request from the quotas of the caller's key and of those that it hangs on.
    pub(crate) fn take_request(&self) -> Result<(), Fault> {
        self.take(Meter::take_request)
    }

    /// The same for the bytes of a body.
    pub(crate) fn take_bytes(&self, bytes: usize) -> Result<(), Fault> {
        self.take(|meter, now| meter.take_bytes(bytes, now))
    }

    fn take(&self, take: impl Fn(&Meter, Instant) -> Result<(), UsedUp>) -> Result<(), Fault> {
        let meters = self.meters();
        if meters.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        meters.iter().try_for_each(|meter| take(meter, now)).map_err(used_up)
    }

    /// Counts a stream, or a call that waits, for as long as what is returned lives.
    pub(crate) fn open_wait(&self) -> Result<OpenWait, Fault> {
        OpenWait::open(self.meters()).map_err(used_up)
    }

    fn meters(&self) -> &[Arc<Meter>] {
        match self {
            Self::Anybody | Self::Root => &[],
            Self::Key { meters, .. } => meters,
        }
    }

    /// In which lane the caller's requests take turns; none on a server that asks for no keys.
    pub(crate) const fn lane(&self, waits: bool) -> Option<LaneName> {
        match self {
            Self::Anybody => None,
            Self::Root => Some(LaneName { head: None, waits }),
            Self::Key { head, .. } => Some(LaneName { head: Some(*head), waits }),
        }
    }

    /// When the caller's key ends.
    pub(crate) const fn until(&self) -> Time {
        match self {
            Self::Anybody | Self::Root => Time::NEVER,
            Self::Key { until, .. } => *until,
        }
    }

    /// The key on which keys hang that the caller makes.
    pub(crate) fn key(&self) -> Option<KeyId> {
        match self {
            Self::Anybody | Self::Root => None,
            Self::Key { id, .. } => Some(*id),
        }
    }
}

/// The core's word for an action of the API.
pub(crate) const fn permission(action: KeyAction) -> Permission {
    match action {
        KeyAction::Produce => Permission::Produce,
        KeyAction::Consume => Permission::Consume,
        KeyAction::Effects => Permission::Effects,
        KeyAction::Outputs => Permission::Outputs,
        KeyAction::Read => Permission::Read,
        KeyAction::ReadPayload => Permission::ReadPayload,
        KeyAction::Manage => Permission::Manage,
        KeyAction::Admin => Permission::Admin,
    }
}

impl Endpoint {
    /// What a key must allow for it.
    pub(crate) const fn needs(self, is_post: bool) -> Needs {
        use NeededTenants as Of;
        let (action, topics, tenants) = match self {
            Self::V2(operation) => return operation.needs(),
            Self::Healthz
            | Self::Version
            | Self::Ui
            | Self::UnknownV1
            | Self::UnknownV2
            | Self::Unversioned => {
                return Operation::Healthz.needs();
            }
            Self::Topics if is_post => (KeyAction::Manage, NeededTopics::Asked, Of::Asked),
            Self::Topics => (KeyAction::Read, NeededTopics::Filtered, Of::Filtered),
            Self::Produce => (KeyAction::Produce, NeededTopics::Asked, Of::Asked),
            Self::Consume | Self::Ack | Self::Nack => (KeyAction::Consume, NeededTopics::Asked, Of::Asked),
            Self::Metrics => (KeyAction::Read, NeededTopics::All, Of::All),
        };
        Needs { action: Some(action), topics, tenants }
    }

    /// Whether its answer can take long, or goes on: a key that ends meanwhile ends it.
    pub(crate) const fn waits(self) -> bool {
        matches!(
            self,
            Self::Consume
                | Self::V2(
                    Operation::Stream
                        | Operation::StreamEvents
                        | Operation::Lease
                        | Operation::BeginEffect
                        | Operation::ListAudit
                )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn a_key_is_shown_by_one_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(shown_key(&headers).unwrap(), None);
        for (value, key) in [
            ("Bearer dq_x", Some("dq_x")),
            ("bearer  dq_x ", Some("dq_x")),
            ("Basic eDp5", None),
            ("dq_x", None),
        ] {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(shown_key(&headers).ok().flatten(), key, "{value}");
        }
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer dq_y"));
        assert_eq!(shown_key(&headers).unwrap_err().code, Code::Unauthenticated);
    }

    #[test]
    fn what_a_key_does_not_allow_is_refused() {
        let scope = KeyScope {
            permissions: driftq_engine::core::Permissions::default().with(Permission::Consume),
            topics: Some(vec!["orders".to_owned()]),
            ..KeyScope::default()
        };
        let (id, meters) = (KeyId(1), Arc::new([]));
        let caller = Caller::Key { id, scope: Arc::new(scope), until: Time::NEVER, head: id, meters };
        for (operation, topic, is_let_in) in [
            (Operation::Lease, "orders", true),
            (Operation::Lease, "mail", false),
            (Operation::Ack, "", true),
            (Operation::Produce, "orders", false),
            (Operation::GetJob, "", false),
            (Operation::Readyz, "", true),
        ] {
            assert_eq!(
                caller.check_scope(operation.needs(), topic).is_ok(),
                is_let_in,
                "{operation:?} {topic}"
            );
            assert!(Caller::Root.check_scope(operation.needs(), topic).is_ok());
        }
    }
}
