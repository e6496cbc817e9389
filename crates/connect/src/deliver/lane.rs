//! What one endpoint has at work: its way out, its breaker, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use driftq_client::Client;
use tokio::sync::watch;
use tokio::time::timeout;

use super::breaker::{Breaker, Change, Permit};
use super::connect::Connections;
use super::counts::Counts;
use super::email;
use super::endpoint::{Endpoint, Kind};
use super::event::{self, Event, EventKind};
use super::request::{Keys, Parcel, request};
use super::send::{self, Sent};
use super::source::Endpoints;
use super::standing::Standing;
use super::target::Target;
use crate::secret::{SealingKey, SecretError, SigningKey};

/// How long a delivery waits for the version of its endpoint that there was when it was taken. One whose label names a
/// version that never comes, because it was written by hand, is sent then.
const NEWER_WITHIN: Duration = Duration::from_secs(30);

/// What all lanes of a connector have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) client: Client,
    pub(super) endpoints: Endpoints,
    pub(super) connections: Connections,
    pub(super) key: Option<SealingKey>,
    pub(super) owner: String,
    pub(super) lease: Duration,
    pub(super) counts: Counts,
    /// What the breakers count from.
    pub(super) since: Instant,
}

/// One endpoint at work.
pub(super) struct Lane {
    pub(super) endpoint: Endpoint,
    pub(super) common: Arc<Common>,
    breaker: Mutex<Breaker>,
    standing: Standing,
    is_disabled: AtomicBool,
    /// What is wanted of the endpoint now, which may be newer than what this lane works with.
    wanted: watch::Receiver<Option<Endpoint>>,
}

/// A message that can never be sent, and why.
pub(super) struct Unsendable(pub(super) String);

/// The right to send one delivery. A probe that is dropped without a send is given back.
pub(super) struct Turn<'a> {
    lane: &'a Lane,
    is_unused_probe: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_unused_probe {
            self.lane.with_breaker(|breaker, now| breaker.give_back(now));
        }
    }
}

impl Turn<'_> {
    /// How the send ended. Tells of what that changed, and disables an endpoint that has failed for too long.
    pub(super) async fn used(mut self, has_failed: bool, reason: &str) {
        self.is_unused_probe = false;
        let lane = self.lane;
        let (change, failing_for) =
            lane.with_breaker(|breaker, now| (breaker.record(now, has_failed), breaker.failing_for(now)));
        match change {
            Some(Change::Opened) => lane.tell(EventKind::BreakerOpened, None, reason).await,
            Some(Change::Closed) => lane.tell(EventKind::BreakerClosed, None, "a delivery arrived").await,
            None => {}
        }
        let client = &lane.common.client;
        if !has_failed {
            return lane.standing.succeeded(client, &lane.endpoint).await;
        }
        let failing_for = lane.standing.failed(client, &lane.endpoint, failing_for).await;
        if failing_for >= lane.endpoint.disable_after() {
            let hours = failing_for.as_secs() / 3600;
            lane.disable(&format!("every send has failed for {hours} h; the last: {reason}")).await;
        }
    }
}

impl Lane {
    pub(super) fn new(
        common: &Arc<Common>,
        endpoint: Endpoint,
        wanted: watch::Receiver<Option<Endpoint>>,
    ) -> Self {
        let (common, is_disabled) = (Arc::clone(common), AtomicBool::new(false));
        let (breaker, standing) = (Mutex::default(), Standing::default());
        let lane = Self { endpoint, common, breaker, standing, is_disabled, wanted };
        // One that another breaker was open for begins anew.
        lane.with_breaker(|_, _| ());
        lane
    }

    /// Asks or tells the breaker, with the present, and lets watchers know where it stands then.
    fn with_breaker<T>(&self, act: impl FnOnce(&mut Breaker, Duration) -> T) -> T {
        // It is consistent at every point, so a panic elsewhere does not invalidate it.
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let done = act(&mut breaker, self.common.since.elapsed());
        self.common.counts.stands(&self.endpoint.name, breaker.position());
        done
    }

    /// Whether it was disabled since it began to work.
    pub(super) fn is_disabled(&self) -> bool {
        self.is_disabled.load(Ordering::Relaxed)
    }

    /// Whether it may send what was taken when the endpoint had this version. One that is older waits until it has been
    /// told of the change: its successor sends it, to where the operator says now.
    pub(super) async fn may_send(&self, version: u64) -> bool {
        if version <= self.endpoint.version {
            return true;
        }
        let mut wanted = self.wanted.clone();
        let newer = wanted.wait_for(|endpoint| endpoint.as_ref().is_none_or(|it| it.version >= version));
        let has_come = timeout(NEWER_WITHIN, newer).await.is_ok();
        if !has_come {
            tracing::warn!(
                endpoint = self.endpoint.name,
                version,
                "a delivery names a version that is unknown"
            );
        }
        !has_come
    }

    /// The right to send one delivery, or how long to wait for it.
    pub(super) fn turn(&self) -> Result<Turn<'_>, Duration> {
        match self.with_breaker(Breaker::permit) {
            Permit::Send => Ok(Turn { lane: self, is_unused_probe: false }),
            Permit::Probe => Ok(Turn { lane: self, is_unused_probe: true }),
            Permit::Wait(wait) => Err(wait),
        }
    }

    /// Stops deliveries, here at once and everywhere as soon as it is known.
    pub(super) async fn disable(&self, reason: &str) {
        if self.is_disabled.swap(true, Ordering::Relaxed) {
            return;
        }
        let Common { client, endpoints, owner, counts, .. } = &*self.common;
        counts.disabled(&self.endpoint.name);
        tracing::warn!(endpoint = self.endpoint.name, reason, "the endpoint is disabled");
        if let Err(error) = endpoints.disable(client, &self.endpoint, reason, owner).await {
            tracing::error!(endpoint = self.endpoint.name, %error, "it is disabled in this process only");
        }
        self.tell(EventKind::Disabled, None, reason).await;
    }

    pub(super) async fn tell(&self, kind: EventKind, delivery_id: Option<&str>, reason: &str) {
        let (endpoint, at) = (&*self.endpoint.name, event::now());
        event::tell(&self.common.client, &Event { kind, endpoint, delivery_id, reason, at }).await;
    }

    /// Sends it once.
    pub(super) async fn send(&self, parcel: &Parcel) -> Result<Sent, Unsendable> {
        let target = match self.endpoint.target() {
            Ok(target) => target,
            Err(error) => return Ok(Sent::failed(error.to_string())),
        };
        let keys = match self.keys().await {
            Ok(keys) => keys,
            Err(error) => return Ok(Sent::failed(error.to_string())),
        };
        match self.endpoint.kind {
            Kind::Webhook | Kind::Http => self.call(&target, parcel, &keys).await,
            Kind::Email => self.mail(&target, parcel, &keys).await,
        }
    }

    async fn call(&self, target: &Target, parcel: &Parcel, keys: &Keys) -> Result<Sent, Unsendable> {
        let now = i64::try_from(event::since_epoch().as_secs()).unwrap_or(i64::MAX);
        match request(&self.endpoint, target, parcel, keys, now) {
            Ok(request) => {
                Ok(send::send(&self.common.connections, target, request, self.endpoint.timeout()).await)
            }
            Err(error) if error.is_of_message() => Err(Unsendable(error.to_string())),
            Err(error) => Ok(Sent::failed(error.to_string())),
        }
    }

    async fn mail(&self, target: &Target, parcel: &Parcel, keys: &Keys) -> Result<Sent, Unsendable> {
        let limit = self.endpoint.timeout();
        match email::mail(&self.endpoint, parcel) {
            Ok(mail) => Ok(email::send(&self.common.connections, target, &mail, keys, limit).await),
            Err(error) if error.is_of_message() => Err(Unsendable(error.to_string())),
            Err(error) => Ok(Sent::failed(error.to_string())),
        }
    }

    /// What the endpoint's secrets are now. Files may be on a slow disk, which other deliveries do not wait for.
    async fn keys(&self) -> Result<Keys, SecretError> {
        let Endpoint { name, secrets, credential, .. } = self.endpoint.clone();
        if secrets.is_empty() && credential.is_none() {
            return Ok(Keys::default());
        }
        let key = self.common.key.clone();
        let read = move || {
            let read = |secret: &crate::secret::Secret| secret.read(&name, key.as_ref());
            let signing: Result<_, _> =
                secrets.iter().map(|secret| SigningKey::parse(&read(secret)?)).collect();
            Ok(Keys { signing: signing?, credential: credential.as_ref().map(read).transpose()? })
        };
        tokio::task::spawn_blocking(read).await.unwrap_or(Err(SecretError::Interrupted))
    }
}
