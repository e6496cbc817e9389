//! Messages on their way to the server.

use std::borrow::Cow;
use std::time::Duration;

use driftq_api::Moment;
use driftq_api::v2::{Due, Envelope, Labels, Message, RetryPolicy};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::client::whole_ms;
use crate::error::Error;
use crate::random;

/// What the idempotency keys that this SDK makes up begin with.
const KEY_PREFIX: &str = "sdk-";

/// A message to send.
///
/// ```
/// use std::time::Duration;
/// use driftq_client::json;
///
/// let message = json(&serde_json::json!({"order": 17}))
///     .key("customer-4")
///     .idempotency_key("order-17")
///     .delay(Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is sent by `produce`, `send` or a producer"]
pub struct Outgoing {
    message: Message<'static>,
    labels: Vec<(String, String)>,
    /// Why it cannot be sent. Kept until it is sent, so that it can be put together in one expression.
    flaw: Option<String>,
}

/// A message whose payload is this value as JSON.
pub fn json(payload: &(impl Serialize + ?Sized)) -> Outgoing {
    match serde_json::to_vec(payload) {
        Ok(value) => raw(value),
        Err(error) => {
            let flaw = Some(format!("the payload has no JSON form: {error}"));
            Outgoing { flaw, ..raw(Vec::new()) }
        }
    }
}

/// A message whose payload is these bytes.
pub fn raw(payload: impl Into<Vec<u8>>) -> Outgoing {
    let message = Message { value: Cow::Owned(payload.into()), ..Message::default() };
    Outgoing { message, labels: Vec::new(), flaw: None }
}

impl Outgoing {
    /// Chooses the partition, and is the unit of order in topics with `key` order.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.message.key = Cow::Owned(key.into().into_bytes());
        self
    }

    /// As [`Outgoing::key`], for a key that need not be text.
    pub fn key_bytes(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.message.key = Cow::Owned(key.into());
        self
    }

    /// 0 to 9; higher is sooner.
    pub fn priority(mut self, priority: u8) -> Self {
        self.message.priority = priority;
        self
    }

    /// Not delivered before this much time has passed.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.message.due = Some(Due::AfterMs(whole_ms(delay)));
        self
    }

    /// Not delivered before this.
    pub fn deliver_at(mut self, at: Moment) -> Self {
        self.message.due = Some(Due::At(at));
        self
    }

    /// Names the operation: the same key again is a duplicate and stores nothing.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.envelope().idempotency_key = Cow::Owned(key.into());
        self
    }

    /// A hash of what the idempotency key stands for.
    pub fn request_hash(mut self, hash: impl Into<String>) -> Self {
        self.envelope().request_hash = Cow::Owned(hash.into());
        self
    }

    /// The run that it belongs to.
    pub fn run_id(mut self, run_id: impl Into<String>) -> Self {
        self.envelope().run_id = Cow::Owned(run_id.into());
        self
    }

    /// The step within the run.
    pub fn step_id(mut self, step_id: impl Into<String>) -> Self {
        self.envelope().step_id = Cow::Owned(step_id.into());
        self
    }

    /// The step that caused it.
    pub fn parent_step_id(mut self, step_id: impl Into<String>) -> Self {
        self.envelope().parent_step_id = Cow::Owned(step_id.into());
        self
    }

    /// Whose it is.
    pub fn tenant_id(mut self, tenant_id: impl Into<String>) -> Self {
        self.envelope().tenant_id = Cow::Owned(tenant_id.into());
        self
    }

    /// A free tag. The same name again replaces it.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.labels.retain(|(given, _)| *given != name);
        self.labels.push((name, value));
        self
    }

    /// After this moment the message is of no use.
    pub fn deadline(mut self, deadline: Moment) -> Self {
        self.envelope().deadline = Some(deadline);
        self
    }

    /// How often and when it is tried again.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.envelope().retry_policy = Some(policy);
        self
    }

    /// Goes to this partition instead of the key's.
    pub fn partition(mut self, partition: u32) -> Self {
        self.envelope().partition_override = Some(partition);
        self
    }

    pub(crate) fn envelope(&mut self) -> &mut Envelope<'static> {
        self.message.envelope.get_or_insert_default()
    }

    pub(crate) fn has_label(&self, name: &str) -> bool {
        self.labels.iter().any(|(given, _)| given == name)
    }

    /// Bytes of its payload and of its key: what counts for the size of a batch.
    pub(crate) fn bytes(&self) -> usize {
        self.message.value.len() + self.message.key.len()
    }

    /// As the wire takes it.
    pub(crate) fn into_message(mut self) -> Result<Message<'static>, Error> {
        if let Some(flaw) = self.flaw {
            return Err(Error::Invalid(flaw));
        }
        let value = &self.message.value;
        if let Some(envelope) = &mut self.message.envelope
            && !envelope.idempotency_key.is_empty()
            && envelope.request_hash.is_empty()
        {
            // A key that the caller chose stands for one payload: with another one it is an error, not a duplicate.
            envelope.request_hash = format!("sha256:{}", random::hex(&Sha256::digest(value))).into();
        }
        if !self.labels.is_empty() {
            let pairs = self.labels.drain(..).map(|(name, value)| (name.into(), value.into())).collect();
            let labels = Labels::new(pairs).map_err(Error::Invalid)?;
            self.message.envelope.get_or_insert_default().labels = labels;
        }
        Ok(self.message)
    }

    /// As the wire takes it, and always with an idempotency key: a call whose answer got lost is made again.
    pub(crate) fn safe_to_repeat(self) -> Result<Message<'static>, Error> {
        let mut message = self.into_message()?;
        let envelope = message.envelope.get_or_insert_default();
        if envelope.idempotency_key.is_empty() {
            envelope.idempotency_key = Cow::Owned(format!("{KEY_PREFIX}{}", random::name(16)?));
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_a_key_of_its_own_gets_one_that_nobody_else_has() {
        let key = |message: Outgoing| {
            message.safe_to_repeat().unwrap().envelope.unwrap().idempotency_key.into_owned()
        };
        let (one, other) = (key(json(&1)), key(json(&1)));
        assert!(one.starts_with("sdk-") && one.len() == 4 + 32 && one != other, "{one} {other}");
        assert_eq!(key(json(&1).idempotency_key("mine")), "mine");
    }

    #[test]
    fn a_key_that_the_caller_chose_stands_for_one_payload() {
        let hash =
            |message: Outgoing| message.into_message().unwrap().envelope.unwrap().request_hash.into_owned();
        // SHA-256 of `{"n":1}`.
        let digest = "sha256:2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd";
        let own = serde_json::json!({"n": 1});
        assert_eq!(hash(json(&own).idempotency_key("mine")), digest);
        assert_eq!(hash(json(&own).idempotency_key("mine").request_hash("given")), "given");
        assert_eq!(hash(json(&own).run_id("run")), "");
        let generated = json(&own).safe_to_repeat().unwrap().envelope.unwrap().request_hash;
        assert_eq!(generated, "", "a key of its own is used for nothing else");
    }

    #[test]
    fn what_cannot_be_sent_says_why_when_it_is_sent() {
        let odd = std::collections::BTreeMap::from([(vec![1], 2)]);
        let error = json(&odd).into_message().unwrap_err().to_string();
        assert!(error.contains("no JSON form"), "{error}");
        let label = raw("x").label("a", "1").label("a", "2").into_message().unwrap();
        assert_eq!(label.envelope.unwrap().labels.pairs().len(), 1);
    }
}
