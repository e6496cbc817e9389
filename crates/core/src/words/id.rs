//! The small numbers that name things.

/// Milliseconds since the Unix epoch, as the shell's clamped clock tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// A time that is never reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// This time, `ms` milliseconds later; saturates instead of wrapping.
    #[must_use]
    pub const fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this time; zero if it is not earlier.
    #[must_use]
    pub const fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A place in the log. Rises with every fact; opaque but for its order and for [`Position::segment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The unit in which the log gives space back. All bytes of one fact lie in one segment.
    #[must_use]
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Its byte within the segment.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The place `bytes` further on in the same segment.
    #[must_use]
    pub const fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// A topic, numbered in the order of creation; never used twice. The first bits tell in which shard it lives, so that
/// no two topics of a broker have the same number, and whoever holds one knows whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TopicId(pub u32);

/// One of the shards of a broker, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShardId(pub u8);

impl ShardId {
    /// The shard that has what belongs to no topic.
    pub const HOME: Self = Self(0);
}

/// Shards that a broker may have.
pub const SHARDS_MAX: u8 = 64;
/// Bits of a topic's number that count topics within its shard.
const TOPIC_INDEX_BITS: u32 = 24;
/// Topics that can ever be created in one shard.
pub(crate) const TOPICS_EVER_MAX: usize = 1 << TOPIC_INDEX_BITS;
// What stands for "no topic" is no topic of any shard.
const _: () = assert!((NO_TOPIC.0 >> TOPIC_INDEX_BITS) as u8 >= SHARDS_MAX);

impl TopicId {
    /// The `index`th topic of a shard; `None` if there can be no such topic.
    #[must_use]
    pub const fn new(shard: ShardId, index: usize) -> Option<Self> {
        if index < TOPICS_EVER_MAX && shard.0 < SHARDS_MAX {
            Some(Self((shard.0 as u32) << TOPIC_INDEX_BITS | index as u32))
        } else {
            None
        }
    }

    /// The shard that it lives in.
    #[must_use]
    pub const fn shard(self) -> ShardId {
        ShardId((self.0 >> TOPIC_INDEX_BITS) as u8)
    }

    /// How many topics were created in its shard before it.
    pub(crate) const fn index(self) -> usize {
        (self.0 & (TOPICS_EVER_MAX as u32 - 1)) as usize
    }
}

/// Stands for "not known" in a record of the produce gate.
pub(crate) const NO_TOPIC: TopicId = TopicId(u32::MAX);

/// A consumer group, numbered in the order of creation over the whole shard; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub u32);

/// Opaque number by which the shell finds who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// One subscription of one reader, numbered by the shell; never used twice in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConsumerId(pub u64);

/// Fencing token of one delivery: the run of the shard that handed it out, and a counter within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token {
    /// The run of the shard; rises with every start.
    pub epoch: u64,
    /// Counts deliveries within the run.
    pub n: u64,
}

/// The identity of an idempotent operation: a digest of tenant, scope and key.
///
/// 128 bits of BLAKE3: two different keys meet by accident with a chance far below that of a broken disk, and no caller
/// can make two meet on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Identity(pub [u8; 16]);

impl Identity {
    /// The identity of `key` within `scope` for `tenant`. An empty tenant is a tenant like any other.
    #[must_use]
    pub fn of(tenant: &str, scope: &str, key: &str) -> Self {
        Self::of_parts(&[tenant.as_bytes(), scope.as_bytes(), key.as_bytes()])
    }

    /// The identity of `key` for `tenant` within one topic: a topic that is deleted and created again under the same
    /// name starts over.
    #[must_use]
    pub fn in_topic(tenant: &str, topic: &str, incarnation: Option<TopicId>, key: &str) -> Self {
        match incarnation {
            None => Self::of(tenant, topic, key),
            Some(TopicId(id)) => {
                Self::of_parts(&[tenant.as_bytes(), topic.as_bytes(), key.as_bytes(), &id.to_le_bytes()])
            }
        }
    }

    /// A digest of several parts, each told apart from its neighbours.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        // Lengths first, so that ("ab", "c") and ("a", "bc") differ.
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(digest)
    }
}

/// A message's key, as dispatch sees it: two keys that meet by accident only wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Stands for "no key": messages without a key never wait for each other.
    pub const NONE: Self = Self(0);

    /// The hash of a key (64-bit FNV-1a, never [`KeyHash::NONE`] for a key that has bytes).
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        if key.is_empty() {
            return Self::NONE;
        }
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(key.iter().fold(0xcbf2_9ce4_8422_2325, fold).max(1))
    }
}

/// What a request asks for, so that a key that is used for another request is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RequestHash(pub u64);

impl RequestHash {
    /// Stands for "not told": it agrees with everything.
    pub const NONE: Self = Self(0);

    /// The hash of whatever the caller says its request is.
    #[must_use]
    pub fn of(request: &[u8]) -> Self {
        let Identity(digest) = Identity::of_parts(&[request]);
        let mut head = [0; 8];
        head.copy_from_slice(&digest[..8]);
        Self(u64::from_le_bytes(head).max(1))
    }

    /// Whether both can be the same request.
    #[must_use]
    pub fn agrees(self, other: Self) -> bool {
        self == Self::NONE || other == Self::NONE || self == other
    }
}

/// One message of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spotted {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_keep_their_parts_apart() {
        let parts =
            [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("", "ab", "cd"), ("abcd", "", "")];
        for (i, a) in parts.iter().enumerate() {
            for (j, b) in parts.iter().enumerate() {
                assert_eq!(Identity::of(a.0, a.1, a.2) == Identity::of(b.0, b.1, b.2), i == j);
            }
        }
    }

    #[test]
    fn times_saturate() {
        assert_eq!(Time::NEVER.after_ms(5), Time::NEVER);
        assert_eq!(Time(3).since_ms(Time(10)), 0);
    }
}
