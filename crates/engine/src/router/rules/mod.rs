//! A router made of rules in a TOML file: the first rule that matches decides.
//!
//! ```toml
//! [[rule]]
//! name = "large refunds"
//! when.topic = "orders.*"
//! when.json = [
//!     { pointer = "/kind", equals = "refund" },
//!     { pointer = "/amount", at_least = 1000 },
//! ]
//! then.label = "finance:refund"
//! then.target_topic = "tasks.finance"
//! then.meta = { tenant = "${tenant}", amount = "${json:/amount}" }
//! ```
//!
//! Under `when`, everything that is named must hold; a rule without it matches always. Conditions: `topic` (a name,
//! or a beginning with a star after it), `key`, `key_prefix`, `key_regex`, `tenant`, `labels` (a table),
//! `value_regex`, and `json`, a list of places in the value, each with a `pointer` (RFC 6901) and one or more of
//! `equals`, `regex` (texts only), `exists`, `above`, `below`, `at_least`, `at_most` (numbers only).
//!
//! Under `then`: `label`, `target_topic`, `partition` and `meta`, or `pass = true` for no opinion. Label, target and
//! meta may contain `${topic}`, `${key}`, `${tenant}`, `${label:NAME}` and `${json:POINTER}`; what is not there is
//! empty, and what grows too long is cut. A target that comes out empty is no target.
//!
//! Regular expressions match anywhere unless they are anchored. A value is read as JSON once at most, and only if a
//! rule that got that far asks for it. Of values larger than [`VALUE_BYTES_MAX`] nothing is known: no condition on
//! the value holds.

mod condition;
mod raw;
mod template;

use driftq_core::Message;
use serde_json::Value;

use super::opinion::{Decision, Opinion};
use super::{AskError, Asked, Router};
use condition::Condition;
use template::Outcome;

/// Most rules in a file.
pub const RULES_MAX: usize = 1_000;
/// Values larger than this are not looked into.
pub const VALUE_BYTES_MAX: usize = 256 << 10;
/// Messages that are decided about in one go.
const BATCH_MAX: usize = 64;

/// What is wrong with a file of rules; the text names the rule and the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RulesError(pub(super) String);

/// A router made of rules.
#[derive(Debug)]
pub struct RulesRouter {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    when: Vec<Condition>,
    then: Outcome,
}

impl RulesRouter {
    /// Reads the text of a TOML file.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        raw::read(text).map(|rules| Self { rules })
    }

    /// How many rules there are.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// What the rules say about a message.
    #[must_use]
    pub fn decide(&self, topic: &str, message: &Message<'_>) -> Option<Decision> {
        let mut view = View::new(topic, message);
        let rule =
            self.rules.iter().find(|rule| rule.when.iter().all(|condition| condition.holds(&mut view)))?;
        rule.then.decision(&mut view)
    }
}

impl Router for RulesRouter {
    fn ask<'a>(&'a self, topic: &'a str, messages: &'a [&'a Message<'a>]) -> Asked<'a> {
        Box::pin(async move {
            let mut opinions = Vec::with_capacity(messages.len());
            for message in messages {
                opinions.push(Opinion { decision: self.decide(topic, message), cache: None });
                // Large values and many rules take a moment; others have work on this thread, too.
                tokio::task::yield_now().await;
            }
            Ok::<_, AskError>(opinions)
        })
    }

    fn batch_max(&self) -> usize {
        BATCH_MAX
    }
}

/// A message as the rules see it.
struct View<'a> {
    topic: &'a str,
    message: &'a Message<'a>,
    /// The value as JSON, once a condition or a template has asked for it; the inner none if it is not JSON.
    json: Option<Option<Value>>,
}

impl<'a> View<'a> {
    const fn new(topic: &'a str, message: &'a Message<'a>) -> Self {
        Self { topic, message, json: None }
    }

    /// The value, unless it is too large to be looked into.
    fn value(&self) -> Option<&'a [u8]> {
        Some(&*self.message.value).filter(|value| value.len() <= VALUE_BYTES_MAX)
    }

    fn json(&mut self, pointer: &str) -> Option<&Value> {
        let value = self.value();
        let parse = || value.and_then(|value| serde_json::from_slice(value).ok());
        self.json.get_or_insert_with(parse).as_ref()?.pointer(pointer)
    }

    fn tenant(&self) -> &'a str {
        self.message.envelope.as_deref().map_or("", |envelope| &*envelope.tenant_id)
    }

    fn label(&self, name: &str) -> Option<&'a str> {
        let labels = &self.message.envelope.as_deref()?.labels;
        labels.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

#[cfg(test)]
mod tests;
