//! What a handler knows about its message, and what it can do besides returning.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use driftq_api::Moment;
use driftq_api::v2::{
    COMMIT_ITEMS_MAX, Commit, CommitMessage, CommitOutput, Committed, Credential, CredentialRequest,
    DatasetVersion, EXPECTED_MAX, EffectFinish, Expected, Item, ItemEnvelope, ItemOrigin,
};

use crate::client::{Client, Patience};
use crate::effect::{Anchor, Effect, Endings, Home, leave_out, send_endings};
use crate::error::Error;
use crate::message::Outgoing;
use crate::outcome::Failure;
use crate::signal::Signal;
use crate::trace::{self, Trace};

tokio::task_local! {
    /// The delivery or the run that the current task works on.
    pub(crate) static CURRENT: Home;
}

/// One delivery, as its handler sees it. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    group: String,
    owner: String,
    item: Item<'static>,
    payload: Bytes,
    trace: Trace,
    signal: Signal,
    collected: Mutex<Collected>,
    /// The outcomes of its effects that the server does not know yet.
    endings: Mutex<Endings>,
}

/// What goes out with the ack.
#[derive(Default)]
struct Collected {
    messages: Vec<CommitMessage<'static>>,
    outputs: Vec<CommitOutput<'static>>,
    reads: Vec<DatasetVersion<'static>>,
    expect: Vec<Expected<'static>>,
    is_committed: bool,
    /// Whether the handler has ended, so that only the server still has to hear of it.
    has_ended: bool,
    /// The outcome of this message of a batch, if the handler set one.
    verdict: Option<Failure>,
}

impl Context {
    pub(crate) fn new(client: Client, group: &str, owner: &str, item: Item<'static>) -> Result<Self, Error> {
        let payload = Bytes::from(item.payload().unwrap_or_default().into_owned());
        let labels = item.envelope.as_ref().map(|envelope| envelope.labels.pairs()).unwrap_or_default();
        let given = labels.iter().find(|(name, _)| name == trace::LABEL).map(|(_, value)| &**value);
        let trace = Trace::of(given)?;
        let shared = Shared {
            client,
            group: group.to_owned(),
            owner: owner.to_owned(),
            payload,
            trace,
            item,
            signal: Signal::new(),
            collected: Mutex::default(),
            endings: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The message as it came.
    #[must_use]
    pub fn message(&self) -> &Item<'static> {
        &self.shared.item
    }

    /// The payload as it came.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.shared.payload
    }

    /// The server.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.shared.item.topic
    }

    /// The group that this worker belongs to.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.shared.group
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> u32 {
        self.shared.item.partition
    }

    /// The offset.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.shared.item.offset
    }

    /// Where the message was born: what it is known by, also after it died and was sent back. If the server does not
    /// say, the place where it lies now.
    #[must_use]
    pub fn origin(&self) -> ItemOrigin<'_> {
        let Item { topic, partition, offset, origin, .. } = &self.shared.item;
        origin.clone().unwrap_or_else(|| ItemOrigin {
            topic: Cow::Borrowed(topic),
            incarnation: 0,
            partition: *partition,
            offset: *offset,
        })
    }

    /// The key; may be empty.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.shared.item.key
    }

    /// Which delivery to this group it is; the first is 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.shared.item.lease.as_ref().map_or(1, |lease| lease.attempt)
    }

    /// Why the attempt before failed; may be empty.
    #[must_use]
    pub fn last_error(&self) -> &str {
        &self.shared.item.last_error
    }

    /// The token of the lease, which is the authority to settle the message.
    #[must_use]
    pub fn token(&self) -> &str {
        self.shared.item.lease.as_ref().map_or("", |lease| &lease.token)
    }

    /// A credential of this attempt for a service: a JSON Web Token that ends with the lease at the latest.
    ///
    /// # Errors
    /// `StaleLease` if another attempt has begun; as every call.
    pub async fn credential(&self, audience: &str) -> Result<Credential<'static>, Error> {
        let (token, audience) = (self.token().into(), audience.into());
        self.client().credential(&CredentialRequest { token, audience, ttl_ms: None }).await
    }

    fn envelope(&self) -> Option<&ItemEnvelope<'static>> {
        self.shared.item.envelope.as_ref()
    }

    /// The run, if it belongs to one.
    #[must_use]
    pub fn run_id(&self) -> Option<&str> {
        given(self.envelope().map(|envelope| &*envelope.run_id))
    }

    /// The step within the run.
    #[must_use]
    pub fn step_id(&self) -> Option<&str> {
        given(self.envelope().map(|envelope| &*envelope.step_id))
    }

    /// The step that caused it.
    #[must_use]
    pub fn parent_step_id(&self) -> Option<&str> {
        given(self.envelope().map(|envelope| &*envelope.parent_step_id))
    }

    /// Whose it is.
    #[must_use]
    pub fn tenant_id(&self) -> Option<&str> {
        given(self.envelope().map(|envelope| &*envelope.tenant_id))
    }

    /// The name of the operation.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&str> {
        given(self.envelope().map(|envelope| &*envelope.idempotency_key))
    }

    /// Free tags, in order of their names.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.envelope().map(|envelope| envelope.labels.pairs()).unwrap_or_default();
        pairs.iter().map(|(name, value)| (&**name, &**value))
    }

    /// After this moment the message is of no use.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.envelope().and_then(|envelope| envelope.deadline)
    }

    /// Where the handler stands in its trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.shared.trace
    }

    /// Fires when the handler may stop.
    #[must_use]
    pub fn signal(&self) -> &Signal {
        &self.shared.signal
    }

    /// An effect of this scope, tied to this delivery. Without a key it gets one from what is asked for.
    pub fn effect(&self, scope: impl Into<String>) -> Effect {
        Effect::new(self.home(), scope.into())
    }

    pub(crate) fn home(&self) -> Home {
        let ItemOrigin { topic, incarnation, partition, offset } = self.origin();
        let (topic, run_id) = (topic.into_owned(), self.run_id().map(str::to_owned));
        let anchor = match (run_id, self.idempotency_key()) {
            (Some(run_id), _) => {
                Anchor::Run { run_id, step_id: self.step_id().unwrap_or_default().to_owned() }
            }
            (None, Some(key)) => Anchor::Keyed { topic, incarnation, key: key.to_owned() },
            (None, None) => Anchor::Place { topic, incarnation, partition, offset },
        };
        Home {
            client: self.shared.client.clone(),
            owner: self.shared.owner.clone(),
            tenant_id: self.tenant_id().unwrap_or_default().to_owned(),
            lease_token: Some(self.token().to_owned()),
            anchor: Some(anchor),
            context: Some(self.clone()),
        }
    }

    /// Sends a message when the handler returns, together with the ack: both or none. What is not given is taken from
    /// this message: run, tenant, trace, and this step as the one that caused it.
    ///
    /// # Errors
    /// If it cannot be sent, or too much was collected.
    pub fn send(&self, topic: impl Into<String>, message: Outgoing) -> Result<(), Error> {
        let topic = topic.into();
        let message = self.follow_up(&topic, message).into_message()?;
        let mut collected = self.collected();
        room_for_one_more(collected.messages.len(), "messages")?;
        collected.messages.push(CommitMessage { topic: Cow::Owned(topic), message });
        Ok(())
    }

    fn follow_up(&self, topic: &str, mut message: Outgoing) -> Outgoing {
        let inherit = |own: &mut Cow<'static, str>, value: Option<&str>| {
            if let Some(value) = value.filter(|_| own.is_empty()) {
                *own = Cow::Owned(value.to_owned());
            }
        };
        let envelope = message.envelope();
        inherit(&mut envelope.run_id, self.run_id());
        inherit(&mut envelope.tenant_id, self.tenant_id());
        inherit(&mut envelope.parent_step_id, self.step_id());
        inherit(&mut envelope.step_id, Some(topic));
        if message.has_label(trace::LABEL) {
            return message;
        }
        message.label(trace::LABEL, self.shared.trace.traceparent())
    }

    /// Registers an output when the handler returns, together with the ack: both or none.
    ///
    /// # Errors
    /// If too much was collected.
    pub fn output(&self, output: CommitOutput<'static>) -> Result<(), Error> {
        let mut collected = self.collected();
        room_for_one_more(collected.outputs.len(), "outputs")?;
        collected.outputs.push(output);
        Ok(())
    }

    /// Notes, together with the ack, which version of a dataset this work has read: the run shows it.
    ///
    /// # Errors
    /// If too much was collected.
    pub fn read_version(&self, dataset: impl Into<String>, version: impl Into<String>) -> Result<(), Error> {
        let mut collected = self.collected();
        room_for_one_more(collected.reads.len(), "versions read")?;
        let (dataset, version) = (Cow::Owned(dataset.into()), Cow::Owned(version.into()));
        collected.reads.push(DatasetVersion { dataset, version });
        Ok(())
    }

    /// The handler's commit is done only if the entity, of the message's tenant, has this version: otherwise nothing of
    /// it happens, and it is refused with `PreconditionFailed`. It is raised by one together with the ack.
    ///
    /// # Errors
    /// If too much was collected, or the entity is there already.
    pub fn expect(&self, entity: impl Into<String>, version: u64) -> Result<(), Error> {
        let entity = entity.into();
        let mut collected = self.collected();
        if collected.expect.iter().any(|expected| *expected.entity == *entity) {
            return Err(Error::Invalid(format!("a version of entity {entity:?} is expected already")));
        }
        if collected.expect.len() >= EXPECTED_MAX {
            return Err(Error::Invalid(format!(
                "one commit expects something of at most {EXPECTED_MAX} entities"
            )));
        }
        collected.expect.push(Expected { entity: Cow::Owned(entity), version });
        Ok(())
    }

    /// How an effect of this delivery ended that was begun with [`Client::begin_effect`]: it is written down with the ack
    /// if the handler ends promptly, and in any case before the message can come again.
    pub fn finish_effect(&self, finish: EffectFinish<'static>) {
        self.endings().add(finish, self);
    }

    /// Acks the message now, with all that was collected: all or none. The handler's return then settles nothing more.
    ///
    /// # Errors
    /// `LeaseLost` if the message is no longer this worker's: nothing of it happened. As every call.
    pub async fn commit(&self) -> Result<Committed<'static>, Error> {
        self.commit_within(self.shared.client.usual_patience()).await
    }

    async fn commit_within(&self, patience: Patience) -> Result<Committed<'static>, Error> {
        self.committed(|commit| {
            let (client, patience) = (self.shared.client.clone(), patience.clone());
            async move {
                let answer = client.post_with("/v2/commit", &commit, Duration::ZERO, patience).await;
                (commit, answer)
            }
        })
        .await
    }

    /// The commit at the handler's end: together with those of other handlers, for as long as it takes.
    pub(crate) async fn commit_at_end(&self) -> Result<Committed<'static>, Error> {
        self.committed(|commit| {
            let client = self.shared.client.clone();
            async move {
                let answer = client.commit_collected(&commit).await;
                (commit, answer)
            }
        })
        .await
    }

    /// Acks with all that was collected, and with the endings of its effects that were not sent separately.
    async fn committed<F, Fut>(&self, send: F) -> Result<Committed<'static>, Error>
    where
        F: Fn(Commit<'static>) -> Fut,
        Fut: Future<Output = (Commit<'static>, Result<Committed<'static>, Error>)>,
    {
        let mut commit = {
            let collected = self.collected();
            if collected.is_committed {
                return Err(Error::Invalid(
                    "the message is committed already; collect everything before the one commit".to_owned(),
                ));
            }
            // Whose entities and datasets these are; for anything else it does not matter.
            let named = collected.outputs.len() + collected.reads.len() + collected.expect.len();
            let tenant_id = self.tenant_id().filter(|_| named > 0);
            // It stays collected until it is committed: a handler that goes on after an error must not ack without it.
            Commit {
                ack: vec![Cow::Owned(self.token().to_owned())],
                produce: collected.messages.clone(),
                outputs: collected.outputs.clone(),
                reads: collected.reads.clone(),
                expect: collected.expect.clone(),
                tenant_id: Cow::Owned(tenant_id.unwrap_or_default().to_owned()),
                ..Commit::default()
            }
        };
        commit.effects = self.endings().take_waiting();
        if let Err(error) = self.heard().await {
            self.endings().put_back(commit.effects);
            return Err(error);
        }
        let (mut commit, mut answer) = send(commit).await;
        if let Err(error) = &answer
            && leave_out(&mut commit.effects, error)
        {
            (commit, answer) = send(commit).await;
        }
        match answer {
            Ok(committed) => {
                self.collected().is_committed = true;
                Ok(committed)
            }
            Err(error) => {
                self.endings().put_back(commit.effects);
                Err(error.of_delivery())
            }
        }
    }

    /// Waits until the server has answered the endings that were sent separately.
    async fn heard(&self) -> Result<(), Error> {
        let sent = self.endings().take_sent();
        let mut heard = Ok(());
        for sent in sent {
            let told = sent.await.unwrap_or(Ok(()));
            heard = heard.and(told);
        }
        heard
    }

    /// Writes down how its effects ended, without the ack: before another worker can get the message.
    pub(crate) async fn send_endings(&self) {
        let waiting = self.endings().take_waiting();
        let told = send_endings(&self.shared.client, waiting).await;
        if let Err(error) = self.heard().await.and(told) {
            tracing::warn!(%error, "how an effect ended could not be recorded");
        }
    }

    pub(crate) fn endings(&self) -> MutexGuard<'_, Endings> {
        // The lists are consistent at every point, so a panic elsewhere does not invalidate them.
        self.shared.endings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome of this message alone, for a handler of batches: whatever the handler returns, this one failed in
    /// this way.
    pub fn fail(&self, failure: impl Into<Failure>) {
        self.collected().verdict = Some(failure.into());
    }

    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.collected().verdict.take()
    }

    /// The handler has ended.
    pub(crate) fn end(&self) {
        self.collected().has_ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.collected().has_ended
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.collected().is_committed
    }

    /// Whether anything was collected for the commit.
    pub(crate) fn has_collected(&self) -> bool {
        let collected = self.collected();
        let waits = collected.messages.len() + collected.outputs.len() + collected.reads.len();
        waits > 0 || !collected.expect.is_empty() || !self.endings().is_empty()
    }

    fn collected(&self) -> MutexGuard<'_, Collected> {
        // The lists are consistent at every point, so a panic elsewhere does not invalidate them.
        self.shared.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}

fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn room_for_one_more(count: usize, what: &str) -> Result<(), Error> {
    if count < COMMIT_ITEMS_MAX {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "one commit takes at most {COMMIT_ITEMS_MAX} {what}; let a step of its own send the rest"
    )))
}
