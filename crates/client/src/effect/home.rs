//! Where an effect belongs: to a delivery, to a run, or to neither.

use std::future::Future;

use crate::canonical::sha256_hex;
use crate::client::Client;
use crate::context::{CURRENT, Context};
use crate::effect::Effect;

/// Where an effect belongs.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) client: Client,
    pub(crate) owner: String,
    pub(crate) tenant_id: String,
    /// Ties the effect to a delivery.
    pub(crate) lease_token: Option<String>,
    pub(crate) anchor: Option<Anchor>,
    pub(crate) context: Option<Context>,
}

impl Home {
    pub(crate) fn alone(client: Client) -> Self {
        let owner = format!("client-{}", std::process::id());
        Self { client, owner, tenant_id: String::new(), lease_token: None, anchor: None, context: None }
    }

    /// The run and its step, if no delivery says so itself.
    pub(crate) fn run(&self) -> Option<(&str, &str)> {
        match (&self.lease_token, &self.anchor) {
            (None, Some(Anchor::Run { run_id, step_id })) => Some((run_id, step_id)),
            _ => None,
        }
    }
}

/// What a derived key hangs on. It must be the same in every attempt: also after the message died and was sent back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Run { run_id: String, step_id: String },
    Keyed { topic: String, incarnation: u32, key: String },
    Place { topic: String, incarnation: u32, partition: u32, offset: u64 },
}

impl Anchor {
    /// The key of what is asked for here; `args` in canonical form.
    pub(crate) fn key(&self, args: &str) -> String {
        let text = |text: &str| driftq_api::canonical::of_text(text);
        let anchor = match self {
            Self::Run { run_id, step_id } => format!(r#"["run",{},{}]"#, text(run_id), text(step_id)),
            Self::Keyed { topic, incarnation, key } => {
                format!(r#"["message",{},{incarnation},{}]"#, text(topic), text(key))
            }
            Self::Place { topic, incarnation, partition, offset } => {
                format!(r#"["message",{},{incarnation},{partition},{offset}]"#, text(topic))
            }
        };
        format!("auto-{}", sha256_hex(&format!("[{anchor},{args}]")))
    }
}

/// A run that was named: effects in it get their keys from the run, the step and what is asked for.
#[derive(Clone, Debug)]
pub struct Run {
    home: Home,
}

impl Run {
    pub(crate) fn new(client: Client, run_id: String, step_id: String) -> Self {
        Self { home: Home { anchor: Some(Anchor::Run { run_id, step_id }), ..Home::alone(client) } }
    }

    /// Whose its effects are.
    #[must_use]
    pub fn tenant(mut self, tenant_id: impl Into<String>) -> Self {
        self.home.tenant_id = tenant_id.into();
        self
    }

    /// An effect of this scope. Without a key it gets one from what is asked for.
    pub fn effect(&self, scope: impl Into<String>) -> Effect {
        Effect::new(self.home.clone(), scope.into())
    }

    /// Runs a future in which [`guarded`](crate::guarded) functions belong to this run.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.home.clone(), future).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn anchor(more: &Value) -> Option<Anchor> {
        let mut item = json!({"topic": "orders", "partition": 1, "offset": 40, "value": "v", "priority": 0,
            "produced_at": "2030-01-01T00:00:00Z",
            "lease": {"token": "t", "attempt": 1, "expires_at": "2030-01-01T00:00:00Z"}});
        let more = more.as_object().unwrap().clone();
        item.as_object_mut().unwrap().extend(more);
        let item = serde_json::from_value(item).unwrap();
        let client = Client::new("http://127.0.0.1:1").unwrap();
        Context::new(client, "billing", "worker", item).unwrap().home().anchor
    }

    #[test]
    fn a_derived_key_hangs_on_where_the_message_was_born() {
        let origin = json!({"topic": "inbox", "incarnation": 7, "partition": 0, "offset": 12});
        let (topic, incarnation) = ("inbox".to_owned(), 7);
        let redriven = anchor(&json!({ "origin": origin }));
        let place = Anchor::Place { topic: topic.clone(), incarnation, partition: 0, offset: 12 };
        assert_eq!(redriven, Some(place));
        let keyed = anchor(&json!({"origin": origin, "envelope": {"idempotency_key": "k"}}));
        assert_eq!(keyed, Some(Anchor::Keyed { topic, incarnation, key: "k".to_owned() }));
        let run = anchor(&json!({"origin": origin, "envelope": {"run_id": "r", "idempotency_key": "k"}}));
        assert_eq!(run, Some(Anchor::Run { run_id: "r".to_owned(), step_id: String::new() }));
        // A server that does not say where the message was born.
        let old = Anchor::Place { topic: "orders".to_owned(), incarnation: 0, partition: 1, offset: 40 };
        assert_eq!(anchor(&json!({})), Some(old));
    }
}
