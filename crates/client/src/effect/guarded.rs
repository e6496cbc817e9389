//! Functions that are effects wherever they are called.

use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Effect, Home, Terms};
use crate::client::reckoned;
use crate::context::CURRENT;
use crate::error::Error;
use crate::outcome::Failure;

/// A function as an effect: keyed by its arguments, within the handler or the run that it is called in.
///
/// ```no_run
/// # use driftq_client::{Failure, guarded};
/// # async fn post(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
/// # async fn example() -> Result<(), Failure> {
/// let mail = guarded("mail", |address: String| async move { Ok(post(&address).await?) });
/// // In a handler, or in `client.run(…).scope(…)`:
/// let id: String = mail.call("someone@example.com".to_owned()).await?;
/// # Ok(())
/// # }
/// ```
pub fn guarded<A, T, F, Fut>(scope: impl Into<String>, function: F) -> Guarded<A, F>
where
    A: Serialize,
    T: Serialize + DeserializeOwned,
    F: Fn(A) -> Fut,
    Fut: Future<Output = Result<T, Failure>>,
{
    Guarded { scope: scope.into(), function, terms: Terms::default(), args: PhantomData }
}

/// See [`guarded`].
pub struct Guarded<A, F> {
    scope: String,
    function: F,
    terms: Terms,
    args: PhantomData<fn(A)>,
}

impl<A: Serialize, F> Guarded<A, F> {
    /// It may safely happen twice, so it is simply carried out again.
    #[must_use]
    pub fn retry(mut self) -> Self {
        self.terms.on_lapse = driftq_api::v2::OnLapse::Retry;
        self
    }

    /// How often it may be tried; as often as needed if not given.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.terms.max_attempts = Some(attempts);
        self
    }

    /// How long it is this worker's own between two renewals; 60 s if not given.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = reckoned(lease).max(Duration::from_millis(1));
        self
    }

    /// How long its outcome is remembered; the server's setting if not given.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = Some(ttl);
        self
    }

    /// Its outcome is written down before the handler gets it; see [`Effect::durable`](crate::Effect::durable).
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.terms.is_durable = true;
        self
    }

    /// Carries it out with these arguments, or returns the result of an earlier call.
    ///
    /// # Errors
    /// As [`Effect::run`](crate::Effect::run); and if it is called outside of a handler and of a run, because unguarded
    /// calls are what it exists to prevent.
    pub async fn call<T, Fut>(&self, args: A) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
        F: Fn(A) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let Ok(home) = CURRENT.try_with(Home::clone) else {
            return Err(Error::Invalid(format!(
                "the guarded function {:?} was called outside of a handler and of a run: call it in one, or in `client.run(…).scope(…)`",
                self.scope
            ))
            .into());
        };
        let effect =
            Effect { terms: self.terms.clone(), ..Effect::new(home, self.scope.clone()) }.args(&args);
        effect.run(|| (self.function)(args)).await
    }
}
