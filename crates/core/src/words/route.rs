//! Where a message goes: pure functions that run outside the shard, on a shared copy of the catalogue.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use crate::words::action::TopicInfo;
use crate::words::id::{ShardId, TopicId};
use crate::words::message::{Envelope, Message};
use crate::words::reject::Reject;

/// Longest name of a topic, a group or an owner, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest idempotency key or tenant, in bytes.
pub(crate) const IDENTITY_TEXT_BYTES_MAX: usize = 4096;

/// The topics as the edge sees them; a new copy is published whenever a topic becomes durable.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    topics: BTreeMap<Arc<str>, TopicInfo>,
    names: BTreeMap<TopicId, Arc<str>>,
}

impl Catalog {
    /// The topic of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&TopicInfo> {
        self.topics.get(name)
    }

    /// Adds a topic, or replaces what is known of it.
    pub fn insert(&mut self, topic: TopicInfo) {
        self.names.insert(topic.id, Arc::clone(&topic.name));
        self.topics.insert(Arc::clone(&topic.name), topic);
    }

    /// Takes a topic out, unless another one has its name by now.
    pub fn remove(&mut self, topic: &TopicInfo) {
        if self.topics.get(&topic.name).is_some_and(|known| known.id == topic.id) {
            self.topics.remove(&topic.name);
        }
        self.names.remove(&topic.id);
    }

    /// Takes all topics of a shard out.
    pub fn forget(&mut self, shard: ShardId) {
        self.topics.retain(|_, topic| topic.id.shard() != shard);
        self.names.retain(|id, _| id.shard() != shard);
    }

    /// The name of the topic of that number.
    #[must_use]
    pub fn name(&self, id: TopicId) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// All topics, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &TopicInfo> {
        self.topics.values()
    }
}

/// Partition of a key among `partitions`: 32-bit FNV-1a modulo the count, an empty key is 0. Frozen: existing
/// producers rely on it.
#[must_use]
pub fn partition_of_key(key: &[u8], partitions: u32) -> u32 {
    if key.is_empty() || partitions == 0 {
        return 0;
    }
    let hash =
        key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash % partitions
}

/// Where a message without a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keyless {
    /// To the first partition. Frozen: existing producers rely on it.
    #[default]
    First,
    /// To any, so that all partitions get their share.
    Spread,
}

impl Keyless {
    /// The partition of a message without a key; `turn` counts such messages. Neighbouring turns go to partitions
    /// that have nothing to do with each other: a producer that serves several topics in turn, each with the same
    /// number of partitions, would otherwise meet the same ones again and again.
    #[must_use]
    pub fn partition(self, turn: u64, partitions: u32) -> u32 {
        match self {
            Self::First => 0,
            Self::Spread => u32::try_from(scattered(turn) % u64::from(partitions.max(1))).unwrap_or(0),
        }
    }
}

/// The finisher of SplitMix64: every bit of the number counts for every bit of the result.
const fn scattered(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The final topic and partition of a message that was sent to `requested`. `turn` counts messages, for those
/// without a key.
pub fn route<'a>(
    catalog: &'a Catalog,
    requested: &str,
    message: &Message<'_>,
    (keyless, turn): (Keyless, u64),
) -> Result<(&'a TopicInfo, u32), Reject> {
    let envelope = message.envelope.as_deref();
    let topic = catalog.find(named_topic(requested, envelope)).ok_or(Reject::TopicUnknown)?;
    let partition = match envelope.and_then(|envelope| envelope.partition_override) {
        Some(partition) if partition < topic.partitions => partition,
        Some(_) => return Err(Reject::OverrideOutOfRange),
        None if message.key.is_empty() => keyless.partition(turn, topic.partitions),
        None => partition_of_key(&message.key, topic.partitions),
    };
    Ok((topic, partition))
}

/// The topic that the producer of a message named, whatever a router makes of it later.
#[must_use]
pub fn named_topic<'a>(requested: &'a str, envelope: Option<&'a Envelope<'_>>) -> &'a str {
    match envelope {
        Some(envelope) if !envelope.target_topic.is_empty() => &envelope.target_topic,
        _ => requested,
    }
}

/// Whose a message is that a producer sends to the topic of that name: its own tenant, or else the topic's.
#[must_use]
pub fn tenant_of<'a>(catalog: &'a Catalog, named: &str, envelope: Option<&'a Envelope<'_>>) -> &'a str {
    match envelope {
        Some(envelope) if !envelope.tenant_id.is_empty() => &envelope.tenant_id,
        _ => catalog.find(named).and_then(|topic| topic.tenant.as_deref()).unwrap_or(""),
    }
}

impl TopicInfo {
    /// Gives a message that comes to the topic its tenant. In a topic that belongs to a tenant lies nothing of others.
    pub fn adopt(&self, message: &mut Message<'_>) -> Result<(), Reject> {
        let Some(tenant) = &self.tenant else { return Ok(()) };
        let envelope = message.envelope.get_or_insert_default();
        if envelope.tenant_id.is_empty() {
            envelope.tenant_id = Cow::Owned(String::from(&**tenant));
        }
        if *envelope.tenant_id == **tenant { Ok(()) } else { Err(Reject::TenantDiffers(FOREIGN_MESSAGE)) }
    }
}

/// Why a message is refused that belongs to another tenant than its topic.
const FOREIGN_MESSAGE: &str = "the topic belongs to another tenant than the message";

/// Refuses a message that can never be stored, whatever the state is.
pub fn validate(message: &Message<'_>) -> Result<(), Reject> {
    if message.value.is_empty() {
        return Err(Reject::Invalid("topic and value are required"));
    }
    let Some(envelope) = &message.envelope else { return Ok(()) };
    if envelope.idempotency_key.len() > IDENTITY_TEXT_BYTES_MAX {
        return Err(Reject::Invalid("idempotency_key is longer than 4096 bytes"));
    }
    if envelope.tenant_id.len() > IDENTITY_TEXT_BYTES_MAX {
        return Err(Reject::Invalid("tenant_id is longer than 4096 bytes"));
    }
    Ok(())
}

/// Refuses a name that no topic, group or owner can have; `what` is the text of the refusal.
pub(crate) const fn validate_name(name: &str, what: &'static str) -> Result<(), Reject> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX { Err(Reject::Invalid(what)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    #[test]
    fn keys_go_where_existing_producers_expect_them() {
        let cases = [("user:1", 2), ("user:2", 0), ("a", 5), ("b", 6), ("é", 2), ("order-42", 4), ("", 0)];
        for (key, partition) in cases {
            assert_eq!(partition_of_key(key.as_bytes(), 7), partition, "{key}");
        }
    }

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        for (id, name, partitions) in [(0, "a", 1), (1, "b", 3)] {
            catalog.insert(TopicInfo {
                id: TopicId(id),
                name: name.into(),
                partitions,
                scoped: true,
                tenant: None,
            });
        }
        catalog
    }

    #[test]
    fn messages_without_a_key_are_spread_if_they_may_be() {
        for partitions in [1, 2, 3, 7, 64] {
            let mut counts = alloc::vec![0_u32; partitions as usize];
            // Every second turn: as if two topics were served in turn.
            for turn in (0..4_000_u64).step_by(2) {
                counts[Keyless::Spread.partition(turn, partitions) as usize] += 1;
                assert_eq!(Keyless::First.partition(turn, partitions), 0);
            }
            let fair = 2_000 / partitions;
            assert!(counts.iter().all(|count| (fair / 2..=fair * 2).contains(count)), "{counts:?}");
        }
        assert_eq!(Keyless::Spread.partition(5, 0), 0);
        let (catalog, message) = (catalog(), Message { value: b"v"[..].into(), ..Message::default() });
        let turns = (0..20).map(|turn| route(&catalog, "b", &message, (Keyless::Spread, turn)).unwrap().1);
        let met: alloc::collections::BTreeSet<u32> = turns.collect();
        assert_eq!(met.len(), 3);
        assert_eq!(route(&catalog, "b", &message, (Keyless::First, 7)).unwrap().1, 0);
    }

    #[test]
    fn the_producers_controls_win_over_the_hash() {
        let route = |catalog: &Catalog, requested: &str, message: &Message<'_>| {
            let keyless = (Keyless::Spread, 1);
            route(catalog, requested, message, keyless).map(|(topic, partition)| (topic.id, partition))
        };
        let message = |target: &'static str, partition| Message {
            key: b"k"[..].into(),
            value: b"v"[..].into(),
            envelope: Some(Box::new(Envelope {
                target_topic: target.into(),
                partition_override: partition,
                ..Envelope::default()
            })),
            routing: None,
            origin: None,
        };
        let catalog = catalog();
        assert_eq!(route(&catalog, "a", &message("b", Some(2))), Ok((TopicId(1), 2)));
        assert_eq!(route(&catalog, "a", &message("", None)), Ok((TopicId(0), 0)));
        assert_eq!(route(&catalog, "a", &message("b", Some(3))), Err(Reject::OverrideOutOfRange));
        assert_eq!(route(&catalog, "a", &message("none", None)), Err(Reject::TopicUnknown));
        assert_eq!(route(&catalog, "none", &message("", None)), Err(Reject::TopicUnknown));
    }
}
