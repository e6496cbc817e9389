//! What a router says about a message.

use std::borrow::Cow;
use std::time::Duration;

use driftq_core::{Message, Routing};

/// Most parts of a message that one cached opinion may depend on.
pub const PARTS_MAX: usize = 4;

/// Everything that a router says about one message.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Opinion {
    /// What to do with it; none if the router has no opinion, and the message goes where its producer sent it.
    pub decision: Option<Decision>,
    /// Which other messages the same holds for, without asking again.
    pub cache: Option<CacheHint>,
}

/// What a message is and where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Decision {
    /// What the message is.
    pub label: String,
    /// Goes there instead of the topic that the producer named.
    pub target_topic: Option<String>,
    /// Goes there instead of the partition that the producer named or the key chose.
    pub partition_override: Option<u32>,
    /// More about it, sorted by name; each name once.
    pub meta: Vec<(String, String)>,
}

/// A promise of the router: until `ttl` is over, every message to the same requested topic whose parts `on` are the
/// same bytes would get the same opinion.
///
/// An answer cannot be found by a key that only the answer contains, so the router does not invent keys: it names
/// what it looked at, and the broker makes the key from the next message before it asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheHint {
    /// What the opinion depends on, besides the topic; at most [`PARTS_MAX`]. None at all: on the topic alone.
    pub on: Vec<Part>,
    /// How long the promise holds.
    pub ttl: Duration,
}

/// A part of a message that an opinion can depend on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The key.
    Key,
    /// The whole value.
    Value,
    /// The envelope's tenant.
    Tenant,
    /// The envelope's label of this name, present or not.
    Label(String),
}

impl Part {
    /// Reads `key`, `value`, `tenant` or `label:NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "key" => Some(Self::Key),
            "value" => Some(Self::Value),
            "tenant" => Some(Self::Tenant),
            _ => match text.strip_prefix("label:") {
                Some(name) if !name.is_empty() => Some(Self::Label(name.to_owned())),
                _ => None,
            },
        }
    }
}

impl From<Decision> for Opinion {
    fn from(decision: Decision) -> Self {
        Self { decision: Some(decision), cache: None }
    }
}

impl Decision {
    /// Writes the decision into the message: label and meta for its readers, topic and partition over those of its
    /// producer. What the decision leaves open stays as the producer had it.
    pub fn apply(self, message: &mut Message<'_>) {
        if self.target_topic.is_some() || self.partition_override.is_some() {
            let envelope = message.envelope.get_or_insert_default();
            if let Some(topic) = self.target_topic {
                envelope.target_topic = Cow::Owned(topic);
            }
            if let Some(partition) = self.partition_override {
                envelope.partition_override = Some(partition);
            }
        }
        let meta = self.meta.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        message.routing = Some(Routing { label: self.label.into(), meta });
    }
}

#[cfg(test)]
mod tests {
    use driftq_core::Envelope;

    use super::*;

    #[test]
    fn the_router_wins_where_it_speaks_and_the_producer_where_it_is_silent() {
        let envelope = Envelope {
            target_topic: "theirs".into(),
            partition_override: Some(3),
            tenant_id: "acme".into(),
            ..Envelope::default()
        };
        let sent =
            Message { value: b"v"[..].into(), envelope: Some(Box::new(envelope)), ..Message::default() };
        let decided = |target: Option<&str>, partition_override| {
            let mut message = sent.clone();
            let target_topic = target.map(str::to_owned);
            let meta = vec![("score".to_owned(), "0.9".to_owned())];
            Decision { label: "x".to_owned(), target_topic, partition_override, meta }.apply(&mut message);
            let routing = message.routing.unwrap();
            assert_eq!((&*routing.label, &*routing.meta[0].1), ("x", "0.9"));
            let envelope = message.envelope.unwrap();
            assert_eq!(envelope.tenant_id, "acme");
            (envelope.target_topic.into_owned(), envelope.partition_override)
        };
        assert_eq!(decided(Some("ours"), Some(0)), ("ours".to_owned(), Some(0)));
        assert_eq!(decided(Some("ours"), None), ("ours".to_owned(), Some(3)));
        assert_eq!(decided(None, None), ("theirs".to_owned(), Some(3)));
    }

    #[test]
    fn a_label_alone_makes_no_envelope() {
        let mut message = Message { value: b"v"[..].into(), ..Message::default() };
        Decision { label: "x".to_owned(), ..Decision::default() }.apply(&mut message);
        assert_eq!(message.envelope, None);
    }

    #[test]
    fn parts_have_names() {
        assert_eq!(Part::parse("key"), Some(Part::Key));
        assert_eq!(Part::parse("label:model"), Some(Part::Label("model".to_owned())));
        for text in ["", "Key", "label:", "label", "topic"] {
            assert_eq!(Part::parse(text), None, "{text}");
        }
    }
}
