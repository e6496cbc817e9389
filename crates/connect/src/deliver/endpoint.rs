//! What is known of an endpoint: where it is, what it wants, and how patiently it is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use driftq_client::Moment;
use driftq_client::wire::{
    self, DELIVERIES_PREFIX, DELIVERY_SCOPE_PREFIX, DELIVERY_TIMEOUT_MS, DELIVERY_TIMEOUT_MS_MAX,
    DELIVERY_TIMEOUT_MS_MIN, DISABLE_AFTER_MS, ENDPOINT_CONCURRENCY, ENDPOINT_CONCURRENCY_MAX,
    ENDPOINT_GROUP_PREFIX, EndpointMethod, RETRY_SCHEDULE_MS,
};
pub use driftq_client::wire::{Disabled, EndpointKind as Kind, EndpointState as State, OnUnknown};

use super::target::{Target, TargetError};
use crate::secret::Secret;

/// An endpoint as it is served: the words of the server, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Which version of it this is: it grows with every change.
    pub version: u64,
    /// When it was changed last, if that is known.
    pub changed_at: Option<Moment>,
    /// Whether deliveries are made.
    pub state: State,
    /// Why they are not, if so.
    pub disabled: Option<Disabled>,
    /// How deliveries are made.
    pub kind: Kind,
    /// Where they go.
    pub url: String,
    /// The method of an HTTP call; `POST` if not given.
    pub method: Option<EndpointMethod>,
    /// Headers of every webhook or HTTP call.
    pub headers: BTreeMap<String, String>,
    /// What webhooks are signed with, the newest first: each of them signs.
    pub secrets: Vec<Secret>,
    /// The value of `Authorization` of an HTTP call, or the password of a mail server.
    pub credential: Option<Secret>,
    /// Whom mails are from.
    pub from: Option<String>,
    /// Whom mails are for.
    pub to: Vec<String>,
    /// What mails are about.
    pub subject: Option<String>,
    /// Topics whose messages are delivered, besides its own.
    pub topics: Vec<String>,
    /// What becomes of a delivery that may have arrived; depends on the kind if not given.
    pub on_unknown: Option<OnUnknown>,
    /// Whether the receiver of an HTTP call honours `Idempotency-Key`.
    pub honours_key: bool,
    /// One at a time, in order.
    pub ordered: bool,
    /// Most sends at a time.
    pub concurrency: Option<u32>,
    /// How long one send may take.
    pub timeout_ms: Option<u64>,
    /// Waits after the first send, the second, and so on.
    pub retry_schedule_ms: Option<Vec<u64>>,
    /// An endpoint on which every send has failed for so long is disabled.
    pub disable_after_ms: Option<u64>,
}

impl Endpoint {
    /// An endpoint with the usual settings.
    pub fn new(name: impl Into<String>, kind: Kind, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: 1,
            changed_at: None,
            state: State::Enabled,
            disabled: None,
            kind,
            url: url.into(),
            method: None,
            headers: BTreeMap::new(),
            secrets: Vec::new(),
            credential: None,
            from: None,
            to: Vec::new(),
            subject: None,
            topics: Vec::new(),
            on_unknown: None,
            honours_key: false,
            ordered: false,
            concurrency: None,
            timeout_ms: None,
            retry_schedule_ms: None,
            disable_after_ms: None,
        }
    }

    /// The topic of its own.
    #[must_use]
    pub fn topic(&self) -> String {
        format!("{DELIVERIES_PREFIX}{}", self.name)
    }

    /// The group on its topics.
    #[must_use]
    pub fn group(&self) -> String {
        format!("{ENDPOINT_GROUP_PREFIX}{}", self.name)
    }

    /// The scope of its effects.
    #[must_use]
    pub fn scope(&self) -> String {
        format!("{DELIVERY_SCOPE_PREFIX}{}", self.name)
    }

    /// Where its URL leads.
    ///
    /// # Errors
    /// If it leads nowhere.
    pub fn target(&self) -> Result<Target, TargetError> {
        match self.kind {
            Kind::Webhook | Kind::Http => Target::http(&self.url),
            Kind::Email => Target::smtp(&self.url),
        }
    }

    /// What becomes of a delivery that may have arrived.
    #[must_use]
    pub fn on_unknown(&self) -> OnUnknown {
        wire::fate_of_unknown(self.kind, self.on_unknown, self.honours_key)
    }

    /// Most sends at a time.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        let most =
            u64::from(self.concurrency.unwrap_or(ENDPOINT_CONCURRENCY)).clamp(1, ENDPOINT_CONCURRENCY_MAX);
        if self.ordered { 1 } else { usize::try_from(most).unwrap_or(usize::MAX) }
    }

    /// How long one send may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let limit = self.timeout_ms.unwrap_or(DELIVERY_TIMEOUT_MS);
        Duration::from_millis(limit.clamp(DELIVERY_TIMEOUT_MS_MIN, DELIVERY_TIMEOUT_MS_MAX))
    }

    /// Waits after the first send, the second, and so on.
    #[must_use]
    pub fn schedule(&self) -> &[u64] {
        self.retry_schedule_ms.as_deref().unwrap_or(&RETRY_SCHEDULE_MS)
    }

    /// An endpoint on which every send has failed for so long is disabled.
    #[must_use]
    pub fn disable_after(&self) -> Duration {
        Duration::from_millis(self.disable_after_ms.unwrap_or(DISABLE_AFTER_MS))
    }

    /// Whether deliveries are made.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.state == State::Enabled
    }
}

impl From<wire::Endpoint> for Endpoint {
    fn from(listed: wire::Endpoint) -> Self {
        let wire::Endpoint { name, version, spec, state, disabled, updated_at, .. } = listed;
        let owned = |(name, value): &(std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
            (name.to_string(), value.to_string())
        };
        Self {
            name,
            version,
            changed_at: Some(updated_at),
            state,
            disabled,
            kind: spec.kind,
            url: spec.url,
            method: spec.method,
            headers: spec.headers.pairs().iter().map(owned).collect(),
            secrets: spec.secrets.iter().filter_map(Secret::named).collect(),
            credential: spec.credential.as_ref().and_then(Secret::named),
            from: spec.from,
            to: spec.to,
            subject: spec.subject,
            topics: spec.topics,
            on_unknown: spec.on_unknown,
            honours_key: spec.honours_key,
            ordered: spec.ordered,
            concurrency: spec.concurrency,
            timeout_ms: spec.timeout_ms,
            retry_schedule_ms: spec.retry_schedule_ms,
            disable_after_ms: spec.disable_after_ms,
        }
    }
}
