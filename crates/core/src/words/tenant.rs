//! Tenants: how much each may have, and how much it has.

use alloc::string::String;

use crate::words::key::KeyLimits;

/// Tenants that have limits.
pub const LIMITED_TENANTS_MAX: usize = 10_000;

/// How much a tenant may have; zero stands for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TenantLimits {
    /// What all keys that are bound to the tenant may take together.
    pub pace: KeyLimits,
    /// Topics that belong to it.
    pub topics: u32,
    /// Messages in them.
    pub messages: u64,
    /// Key and value bytes of those.
    pub bytes: u64,
    /// Effects that are remembered for it.
    pub effects: u64,
}

impl TenantLimits {
    /// No limit.
    pub const NONE: Self = Self { pace: KeyLimits::NONE, topics: 0, messages: 0, bytes: 0, effects: 0 };

    /// Whether something is limited.
    #[must_use]
    pub const fn any(self) -> bool {
        self.pace.any() || self.topics > 0 || self.messages > 0 || self.bytes > 0 || self.effects > 0
    }
}

/// What a tenant may have, and has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantView {
    /// Its name.
    pub tenant: String,
    /// How much it may have.
    pub limits: TenantLimits,
    /// Topics that belong to it.
    pub topics: u64,
    /// Messages in them, those included that every group is done with.
    pub messages: u64,
    /// Key and value bytes of those.
    pub bytes: u64,
    /// Effects that are remembered for it.
    pub effects: u64,
}

/// Something of which a tenant has as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Topics that belong to it.
    Topics,
    /// Messages in them.
    Messages,
    /// Key and value bytes of those.
    Bytes,
    /// Effects that are remembered for it.
    Effects,
}

/// A name as the records of effects keep it: short, and hardly ever shared with another (CRC-32C).
#[must_use]
pub fn short_hash(text: &str) -> u32 {
    /// The polynomial, its lowest bit first.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |hash: u32, _: u32| (hash >> 1) ^ (POLYNOMIAL & (hash & 1).wrapping_neg());
    !text.bytes().fold(u32::MAX, |hash, byte| (0..8).fold(hash ^ u32::from(byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_hashes_are_those_of_the_standard() {
        assert_eq!(short_hash(""), 0);
        assert_eq!(short_hash("123456789"), 0xe306_9283);
    }
}
