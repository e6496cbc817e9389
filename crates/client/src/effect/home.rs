//! In what an effect is carried out: a delivery, a run, or nothing.

use std::future::Future;

use crate::canonical::sha256_hex;
use crate::client::Client;
use crate::context::{CURRENT, Context};
use crate::effect::Effect;

/// In what an effect is carried out.
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

/// What a derived key hangs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Run { run_id: String, step_id: String },
    Keyed { topic: String, key: String },
    Place { topic: String, partition: u32, offset: u64 },
}

impl Anchor {
    /// The key of what is asked for here; `args` in canonical form.
    pub(crate) fn key(&self, args: &str) -> String {
        let text = |text: &str| crate::canonical::canonical_text(text);
        let anchor = match self {
            Self::Run { run_id, step_id } => format!(r#"["run",{},{}]"#, text(run_id), text(step_id)),
            Self::Keyed { topic, key } => format!(r#"["message",{},{}]"#, text(topic), text(key)),
            Self::Place { topic, partition, offset } => {
                format!(r#"["message",{},{partition},{offset}]"#, text(topic))
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
