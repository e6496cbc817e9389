//! Effects: what happens outside the broker and must not happen twice.

mod endings;
mod guarded;
mod home;
mod reconcile;
mod record;
mod run;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use driftq_api::v2::{EffectBegin, EffectResult, Expected, OnLapse};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use endings::Endings;
pub(crate) use endings::{leave_out, send as send_endings};
pub use guarded::{Guarded, guarded};
pub use home::Run;
pub(crate) use home::{Anchor, Home};
pub use reconcile::Found;
use reconcile::Reconciler;

use crate::canonical::{canonical, sha256_hex};
use crate::client::{Client, reckoned, whole_ms};
use crate::error::{EffectName, Error};
use crate::outcome::Failure;
use crate::random;

/// How long an effect is its holder's own, unless it is renewed.
pub const EFFECT_LEASE: Duration = Duration::from_secs(60);
/// How long a caller waits for an effect that another holder is carrying out.
pub const EFFECT_WAIT: Duration = Duration::from_secs(30);

/// An effect that is about to be carried out, or replayed.
///
/// ```no_run
/// # use driftq_client::{Context, Failure};
/// # async fn charge_card(_: &str, _: u64) -> Result<String, std::io::Error> { Ok(String::new()) }
/// # async fn handler(context: Context) -> Result<(), Failure> {
/// let charge: String = context
///     .effect("charge")
///     .key("order-17")
///     .args(&("card-4", 500))
///     .run(|| async { Ok(charge_card("card-4", 500).await?) })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens until it is run"]
pub struct Effect {
    home: Home,
    scope: String,
    key: Option<String>,
    /// The canonical form of what is asked for.
    args: Option<Result<String, Error>>,
    terms: Terms,
    expect: Vec<Expected<'static>>,
    reconciler: Option<Reconciler>,
}

/// On what terms an effect is carried out.
#[derive(Clone, Debug)]
struct Terms {
    on_lapse: OnLapse,
    lease: Duration,
    ttl: Option<Duration>,
    max_attempts: Option<u32>,
    wait: Duration,
    is_durable: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            on_lapse: OnLapse::Hold,
            lease: EFFECT_LEASE,
            ttl: None,
            max_attempts: None,
            wait: EFFECT_WAIT,
            is_durable: false,
        }
    }
}

impl Effect {
    pub(crate) fn new(home: Home, scope: String) -> Self {
        let terms = Terms::default();
        Self { home, scope, key: None, args: None, terms, expect: Vec::new(), reconciler: None }
    }

    pub(crate) fn alone(client: Client, scope: String) -> Self {
        Self::new(Home::alone(client), scope)
    }

    /// Which one it is. Without it the key comes from the run or the message, and from [`args`](Self::args).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What is asked for. The same key with other arguments is refused with `KeyReused`.
    pub fn args(mut self, args: &(impl Serialize + ?Sized)) -> Self {
        self.args = Some(canonical(args));
        self
    }

    /// Whose it is; the message's tenant if not given.
    pub fn tenant(mut self, tenant_id: impl Into<String>) -> Self {
        self.home.tenant_id = tenant_id.into();
        self
    }

    /// Only if the entity has this version: otherwise it is refused with `PreconditionFailed`, and [`Refusal::version`]
    /// says which one it has. Compared and raised by one when the effect is begun, once for each effect: not for a
    /// replay, and not when it is taken on again after a failure.
    ///
    /// [`Refusal::version`]: crate::Refusal::version
    pub fn expect(mut self, entity: impl Into<String>, version: u64) -> Self {
        self.expect.push(Expected { entity: entity.into().into(), version });
        self
    }

    /// What may have happened is never repeated blindly: an operator or the reconciler must find out. This is the
    /// default.
    pub fn hold(mut self) -> Self {
        self.terms.on_lapse = OnLapse::Hold;
        self
    }

    /// It may safely happen twice, so it is simply carried out again.
    pub fn retry(mut self) -> Self {
        self.terms.on_lapse = OnLapse::Retry;
        self
    }

    /// How often it may be tried; as often as needed if not given.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.terms.max_attempts = Some(attempts);
        self
    }

    /// How long it is this worker's own between two renewals; 60 s if not given.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = reckoned(lease).max(Duration::from_millis(1));
        self
    }

    /// How long its outcome is remembered; the server's setting if not given.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = Some(ttl);
        self
    }

    /// How long to wait while another holder is carrying it out; 30 s if not given. The server is asked to wait for at
    /// most 60 s at a time.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = wait;
        self
    }

    /// Its outcome is written down before the handler gets it. Otherwise it is written down with the ack of the message
    /// if the handler ends promptly, else a few milliseconds later: a worker that dies in between leaves it as one that
    /// dies between the function and its record does, unknown under [`hold`](Self::hold), and carried out again under
    /// [`retry`](Self::retry).
    pub fn durable(mut self) -> Self {
        self.terms.is_durable = true;
        self
    }

    /// Finds out whether it happened, when the server does not know: it is called with the effect's record.
    pub fn reconcile<F, Fut>(mut self, reconciler: F) -> Self
    where
        F: Fn(driftq_api::v2::Effect<'static>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Found, Failure>> + Send + 'static,
    {
        self.reconciler = Some(Arc::new(move |record| Box::pin(reconciler(record))));
        self
    }

    /// Carries it out, or returns the result of an earlier call.
    ///
    /// By its error, the function says what is known: [`NotSent`](crate::NotSent) that nothing was sent,
    /// [`NotDone`](crate::NotDone), [`Retry`](crate::Retry) or [`Snooze`](crate::Snooze) that it did not happen,
    /// [`Final`](crate::Final) or [`Dead`](crate::Dead) that it never will. Anything else leaves it open under
    /// [`hold`](Self::hold), and means another try under [`retry`](Self::retry).
    ///
    /// # Errors
    /// The function's own, the errors of effects, and as every call. [`Failure::error`] tells them apart.
    pub async fn run<T, F, Fut>(self, function: F) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let name = self.name()?;
        run::run(&self, &name, function).await
    }

    /// The same for a function that wants to know what its effect is called: its key is what to pass to a provider that
    /// takes idempotency keys itself.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_named<T, F, Fut>(self, function: F) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(EffectName) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let name = self.name()?;
        run::run(&self, &name, || function(name.clone())).await
    }

    fn name(&self) -> Result<EffectName, Error> {
        let key = match (&self.key, &self.home.anchor) {
            (Some(key), _) => key.clone(),
            (None, Some(anchor)) => anchor.key(self.asked_for()?.unwrap_or("null")),
            (None, None) => {
                return Err(Error::Invalid(format!(
                    "effect {:?} has no key and no message or run to get one from: give it a key",
                    self.scope
                )));
            }
        };
        Ok(EffectName { tenant_id: self.home.tenant_id.clone(), scope: self.scope.clone(), key })
    }

    fn asked_for(&self) -> Result<Option<&str>, Error> {
        match &self.args {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(error)) => Err(error.clone()),
        }
    }

    /// The question to the server. It has its own request id, so that a repeat gets the same answer.
    fn begin<'a>(&'a self, name: &'a EffectName) -> Result<EffectBegin<'a>, Error> {
        let hash = self.asked_for()?.map(|args| format!("sha256:{}", sha256_hex(args)).into());
        let run = self.home.run();
        Ok(EffectBegin {
            tenant_id: (&*self.home.tenant_id).into(),
            scope: (&*name.scope).into(),
            key: (&*name.key).into(),
            request_hash: hash,
            lease_ms: Some(whole_ms(self.terms.lease)),
            ttl_ms: self.terms.ttl.map(whole_ms),
            on_lapse: self.terms.on_lapse,
            max_attempts: self.terms.max_attempts,
            reacquire: true,
            wait_ms: 0,
            lease_token: self.home.lease_token.as_deref().map(Into::into),
            run_id: run.map(|(run_id, _)| run_id.into()),
            step_id: run.and_then(|(_, step_id)| (!step_id.is_empty()).then(|| step_id.into())),
            request_id: Some(random::name(16)?.into()),
            owner: (&*self.home.owner).into(),
            expect: self.expect.clone(),
        })
    }
}

tokio::task_local! {
    /// The effect whose function runs.
    static RUNNING: EffectName;
}

/// What the effect is called whose function this is called in: for a [`guarded`] function, and for whatever it calls.
/// Its key is what to pass to a provider that takes idempotency keys itself.
#[must_use]
pub fn current_effect() -> Option<EffectName> {
    RUNNING.try_with(Clone::clone).ok()
}

/// A result without a payload: this status, for this reason.
fn failed(status: driftq_api::v2::EffectStatus, reason: &str) -> EffectResult<'_> {
    EffectResult { error: crate::text::cut(reason).into(), ..EffectResult::new(status) }
}
