//! The calls about topics, messages, effects, commits and runs.

use std::time::Duration;

use driftq_api::v2::{
    Commit, Committed, Credential, CredentialRequest, Effect, EffectBegin, EffectDecision, EffectFinish,
    EffectFinished, EffectGet, EffectRelease, EffectReleased, EffectRenew, EffectRenewed, EffectResolve,
    Group, Introspect, Introspected, Outcome, Produced, Topic, TopicPut, TopicSpec,
};
use driftq_http::{Call, Method};

use super::{Client, Patience, escape, render};
use crate::error::Error;
use crate::message::Outgoing;

impl Client {
    /// Creates the topic, or confirms that it exists with exactly these settings.
    ///
    /// # Errors
    /// `SettingsDiffer` if it exists with other settings; as every call.
    pub async fn create_topic(&self, topic: &str, spec: &TopicSpec) -> Result<TopicPut, Error> {
        let path = format!("/v2/topics/{}", escape(topic));
        self.ask(Method::PUT, &path, render(spec)?, Duration::ZERO).await
    }

    /// What there is to know about a topic.
    ///
    /// # Errors
    /// `TopicUnknown`; as every call.
    pub async fn topic(&self, topic: &str) -> Result<Topic, Error> {
        self.get(&format!("/v2/topics/{}", escape(topic))).await
    }

    /// Whether the topic is there, known within `limit`.
    pub(crate) async fn topic_within(&self, topic: &str, limit: Duration) -> Result<Topic, Error> {
        let path = format!("/v2/topics/{}", escape(topic));
        self.repeat(&Call::new(Method::GET, path), limit, Patience::lasting(limit)).await
    }

    /// How far a group has got.
    ///
    /// # Errors
    /// `TopicUnknown`, `GroupUnknown`; as every call.
    pub async fn group(&self, topic: &str, group: &str) -> Result<Group, Error> {
        self.get(&format!("/v2/topics/{}/groups/{}", escape(topic), escape(group))).await
    }

    /// Stores one message. One without an idempotency key gets one, so that a repeat stores nothing.
    ///
    /// # Errors
    /// As every call; nothing was stored if the server said so.
    pub async fn produce(&self, topic: &str, message: Outgoing) -> Result<Produced<'static>, Error> {
        let message = message.safe_to_repeat()?;
        let path = format!("/v2/topics/{}/messages", escape(topic));
        self.ask(Method::POST, &path, render(&message)?, Duration::ZERO).await
    }

    /// Stores many messages in one call; one result for each, in order. A message that is refused does not keep the
    /// others from being stored.
    ///
    /// # Errors
    /// As every call.
    pub async fn produce_all(
        &self,
        topic: &str,
        messages: impl IntoIterator<Item = Outgoing>,
    ) -> Result<Vec<Result<Produced<'static>, Error>>, Error> {
        let messages = messages.into_iter().map(Outgoing::safe_to_repeat).collect::<Result<Vec<_>, _>>()?;
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let path = format!("/v2/topics/{}/messages", escape(topic));
        let outcomes: Vec<Outcome<'static>> =
            self.ask(Method::POST, &path, render(&messages)?, Duration::ZERO).await?;
        Ok(outcomes.into_iter().map(stored).collect())
    }

    /// Asks to carry out an effect. [`Effect`](crate::Effect) does all the steps of it.
    ///
    /// # Errors
    /// As every call.
    pub async fn begin_effect(&self, begin: &EffectBegin<'_>) -> Result<EffectDecision<'static>, Error> {
        let wait = Duration::from_millis(begin.wait_ms);
        self.ask(Method::POST, "/v2/effects/begin", render(begin)?, wait).await
    }

    /// Says how an effect ended.
    ///
    /// # Errors
    /// `StaleLease` if another holder has it now; as every call.
    pub async fn finish_effect(&self, finish: &EffectFinish<'_>) -> Result<EffectFinished, Error> {
        self.post("/v2/effects/finish", finish).await
    }

    /// Renews the lease of an effect, so that its holder can go on.
    ///
    /// # Errors
    /// `StaleLease` if another holder has it now; as every call.
    pub async fn renew_effect(&self, renew: &EffectRenew<'_>) -> Result<EffectRenewed, Error> {
        self.post("/v2/effects/renew", renew).await
    }

    /// Gives up the lease of an effect: nothing was sent, and a caller that waits for it gets it at once. With
    /// `uncertain`, it may have happened, and other callers are told so at once.
    ///
    /// # Errors
    /// `StaleLease` if another holder has it now; as every call.
    pub async fn release_effect(&self, release: &EffectRelease<'_>) -> Result<EffectReleased, Error> {
        self.post("/v2/effects/release", release).await
    }

    /// Records what came of an effect whose outcome was unknown.
    ///
    /// # Errors
    /// `EffectRunning`, `EffectFinished`, `StaleLease`; as every call.
    pub async fn resolve_effect(&self, resolve: &EffectResolve<'_>) -> Result<EffectFinished, Error> {
        self.post("/v2/effects/resolve", resolve).await
    }

    /// The record of an effect.
    ///
    /// # Errors
    /// `EffectUnknown`; as every call.
    pub async fn effect_record(&self, get: &EffectGet<'_>) -> Result<Effect<'static>, Error> {
        self.post("/v2/effects/get", get).await
    }

    /// Several changes, all or none.
    ///
    /// # Errors
    /// `StaleLease` if a lease is lost: nothing of it happened; as every call.
    pub async fn commit(&self, commit: &Commit<'_>) -> Result<Committed<'static>, Error> {
        self.post("/v2/commit", commit).await
    }

    /// A credential of a delivery on loan: a JSON Web Token for the service that it names, which ends with the lease at
    /// the latest.
    ///
    /// # Errors
    /// `StaleLease` if another attempt has begun or the message is settled; as every call.
    pub async fn credential(&self, asked: &CredentialRequest<'_>) -> Result<Credential<'static>, Error> {
        self.post("/v2/leases/credential", asked).await
    }

    /// Whether a credential is still good: its delivery is the newest of its message, and the lease is live.
    ///
    /// # Errors
    /// As every call.
    pub async fn introspect(&self, credential: &str) -> Result<Introspected, Error> {
        self.post("/v2/introspect", &Introspect { token: credential.into() }).await
    }

    /// What happened in a run of messages without a tenant, step by step.
    ///
    /// # Errors
    /// `RunUnknown`; as every call.
    pub async fn describe_run(&self, run_id: &str) -> Result<driftq_api::v2::Run<'static>, Error> {
        self.describe_run_of("", run_id).await
    }

    /// What happened in a run of a tenant's messages, step by step.
    ///
    /// # Errors
    /// `RunUnknown`; as every call.
    pub async fn describe_run_of(
        &self,
        tenant_id: &str,
        run_id: &str,
    ) -> Result<driftq_api::v2::Run<'static>, Error> {
        let query =
            if tenant_id.is_empty() { String::new() } else { format!("?tenant_id={}", escape(tenant_id)) };
        self.get(&format!("/v2/runs/{}{query}", escape(run_id))).await
    }
}

fn stored(outcome: Outcome<'static>) -> Result<Produced<'static>, Error> {
    match outcome {
        Outcome::Stored(produced) => Ok(produced),
        Outcome::Refused(refused) => Err(driftq_http::Refusal::from(refused.error).into()),
    }
}
