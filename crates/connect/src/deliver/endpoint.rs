//! What is known of an endpoint: where it is, what it wants, and how patiently it is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use driftq_client::Moment;
use serde::{Deserialize, Serialize};

use super::target::{Target, TargetError};
use crate::secret::Secret;

/// Waits after the first send, the second, and so on, unless the endpoint has its own.
const SCHEDULE_MS: [u64; 9] =
    [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 50_400_000, 72_000_000, 86_400_000];
const CONCURRENCY_DEFAULT: u32 = 8;
const CONCURRENCY_MAX: u32 = 64;
const TIMEOUT_MS_DEFAULT: u64 = 20_000;
const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1000..=60_000;
const DISABLE_AFTER_MS_DEFAULT: u64 = 5 * 86_400_000;

/// How deliveries are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A signed POST, as Standard Webhooks has it.
    Webhook,
    /// Any HTTP call, with an idempotency key.
    Http,
    /// A mail.
    Email,
}

/// What becomes of a delivery that may have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// It is sent again: its receiver knows it by its id.
    Resend,
    /// It waits until a person, or a program, has found out.
    Hold,
}

/// Whether deliveries are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// They are.
    #[default]
    Enabled,
    /// They wait.
    Disabled,
}

/// Why an endpoint is disabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    /// Why.
    pub reason: String,
    /// Who said so.
    pub by: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
}

/// An endpoint, as `GET /v2/endpoints` returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// Which version of it this is: it grows with every change.
    #[serde(default)]
    pub version: u64,
    /// Whether deliveries are made.
    #[serde(default)]
    pub state: State,
    /// Why they are not, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
    /// How deliveries are made.
    pub kind: Kind,
    /// Where they go.
    pub url: String,
    /// The method of an HTTP call; `POST` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers of every webhook or HTTP call.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What webhooks are signed with, the newest first: each of them signs.
    #[serde(default)]
    pub secrets: Vec<Secret>,
    /// The value of `Authorization` of an HTTP call, or the password of a mail server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Secret>,
    /// Whom mails are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whom mails are for.
    #[serde(default)]
    pub to: Vec<String>,
    /// What mails are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Topics whose messages are delivered, besides its own.
    #[serde(default)]
    pub topics: Vec<String>,
    /// What becomes of a delivery that may have arrived; depends on the kind if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknown>,
    /// Whether the receiver of an HTTP call honours `Idempotency-Key`.
    #[serde(default)]
    pub honours_key: bool,
    /// One at a time, in order.
    #[serde(default)]
    pub ordered: bool,
    /// Most sends at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How long one send may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Waits after the first send, the second, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_schedule_ms: Option<Vec<u64>>,
    /// An endpoint on which every send has failed for so long is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_after_ms: Option<u64>,
}

impl Endpoint {
    /// An endpoint with the usual settings.
    pub fn new(name: impl Into<String>, kind: Kind, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: 1,
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
        format!("deliveries.{}", self.name)
    }

    /// The group on its topics.
    #[must_use]
    pub fn group(&self) -> String {
        format!("endpoint.{}", self.name)
    }

    /// The scope of its effects.
    #[must_use]
    pub fn scope(&self) -> String {
        format!("delivery:{}", self.name)
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

    /// What becomes of a delivery that may have arrived. A receiver of webhooks knows them by their id; of others, only
    /// one that honours keys does.
    #[must_use]
    pub fn on_unknown(&self) -> OnUnknown {
        self.on_unknown.unwrap_or(match self.kind {
            Kind::Webhook => OnUnknown::Resend,
            Kind::Http if self.honours_key => OnUnknown::Resend,
            Kind::Http | Kind::Email => OnUnknown::Hold,
        })
    }

    /// Most sends at a time.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        let most = self.concurrency.unwrap_or(CONCURRENCY_DEFAULT).clamp(1, CONCURRENCY_MAX);
        if self.ordered { 1 } else { most as usize }
    }

    /// How long one send may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        let limit = self.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
        Duration::from_millis(limit.clamp(*TIMEOUT_MS.start(), *TIMEOUT_MS.end()))
    }

    /// Waits after the first send, the second, and so on.
    #[must_use]
    pub fn schedule(&self) -> &[u64] {
        self.retry_schedule_ms.as_deref().unwrap_or(&SCHEDULE_MS)
    }

    /// An endpoint on which every send has failed for so long is disabled.
    #[must_use]
    pub fn disable_after(&self) -> Duration {
        Duration::from_millis(self.disable_after_ms.unwrap_or(DISABLE_AFTER_MS_DEFAULT))
    }

    /// Whether deliveries are made.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.state == State::Enabled
    }
}
