//! Keys: who a client is, and what it may do.

use alloc::string::String;
use alloc::vec::Vec;

use crate::words::id::Time;

/// Keys that are remembered, ended ones included.
pub const KEYS_MAX: usize = 10_000;
/// Keys above a key: its parent, the parent of that, and so on.
pub const KEY_DEPTH_MAX: usize = 8;
/// Topics that one key names.
pub const KEY_TOPICS_MAX: usize = 100;
/// Tenants that one key names.
pub const KEY_TENANTS_MAX: usize = 100;
/// Bytes of the note on a key.
pub const KEY_NOTE_BYTES_MAX: usize = 255;

/// The public half of a key: it names the key and opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

/// One kind of thing that a key may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Permission {
    /// Store messages.
    Produce,
    /// Lease messages and settle them.
    Consume,
    /// Begin effects and end them.
    Effects,
    /// Move pointers of datasets.
    Outputs,
    /// See what there is, without payloads.
    Read,
    /// See payloads, too.
    ReadPayload,
    /// Change and remove what there is.
    Manage,
    /// Make keys and end them.
    Admin,
}

/// A set of [`Permission`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Permissions(u16);

impl Permission {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Produce,
        Self::Consume,
        Self::Effects,
        Self::Outputs,
        Self::Read,
        Self::ReadPayload,
        Self::Manage,
        Self::Admin,
    ];
}

impl Permissions {
    /// Every permission.
    pub const ALL: Self = Self((1 << Permission::ALL.len()) - 1);

    /// With one more.
    #[must_use]
    pub const fn with(self, permission: Permission) -> Self {
        Self(self.0 | 1 << permission as u8)
    }

    /// Whether it has this one.
    #[must_use]
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    /// Whether it has all of the others.
    #[must_use]
    pub const fn covers(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u16) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }
}

/// What a key allows.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeyScope {
    /// What may be done.
    pub permissions: Permissions,
    /// With which topics: their names, or what their names begin with and a star. `None`: with all of them.
    pub topics: Option<Vec<String>>,
    /// As which tenants. `None`: as all of them, and as none in particular.
    pub tenants: Option<Vec<String>>,
    /// How much of it.
    pub limits: KeyLimits,
}

/// How much a key may take, and with it all that hang on it; zero stands for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyLimits {
    /// Calls in a second.
    pub requests_per_second: u32,
    /// Bytes of bodies in a second.
    pub bytes_per_second: u32,
    /// Streams that are open and calls that wait, at a time.
    pub waits: u32,
}

impl KeyLimits {
    /// No limit.
    pub const NONE: Self = Self { requests_per_second: 0, bytes_per_second: 0, waits: 0 };

    /// Whether something is limited.
    #[must_use]
    pub const fn any(self) -> bool {
        self.requests_per_second > 0 || self.bytes_per_second > 0 || self.waits > 0
    }
}

impl KeyScope {
    /// Everything there is.
    pub const EVERYTHING: Self =
        Self { permissions: Permissions::ALL, topics: None, tenants: None, limits: KeyLimits::NONE };

    /// Whether a tenant is in it. What belongs to no tenant is only in one that names none.
    #[must_use]
    pub fn has_tenant(&self, tenant: &str) -> bool {
        self.tenants.as_ref().is_none_or(|tenants| tenants.iter().any(|own| own == tenant))
    }

    /// Whether a topic is in it.
    #[must_use]
    pub fn has_topic(&self, topic: &str) -> bool {
        let Some(patterns) = &self.topics else { return true };
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => topic.starts_with(beginning),
            None => pattern == topic,
        })
    }

    /// Whether nothing is in `other` that is not in this one. Limits are no part of it: what a key takes counts for those
    /// above it, too. A pattern counts as its beginning: what begins with it
    /// begins with anything that it begins with.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let topics = match (&self.topics, &other.topics) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => others.iter().all(|pattern| match pattern.strip_suffix('*') {
                None => self.has_topic(pattern),
                Some(beginning) => own
                    .iter()
                    .filter_map(|own| own.strip_suffix('*'))
                    .any(|wider| beginning.starts_with(wider)),
            }),
        };
        let tenants = match &other.tenants {
            None => self.tenants.is_none(),
            Some(others) => others.iter().all(|tenant| self.has_tenant(tenant)),
        };
        topics && tenants && self.permissions.covers(other.permissions)
    }
}

/// A key to be made. Its secret stays with the asker: only a digest of it comes here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Its public half, drawn by the shell.
    pub id: KeyId,
    /// The digest of its secret.
    pub digest: [u8; 32],
    /// What it allows.
    pub scope: KeyScope,
    /// Until when; [`Time::NEVER`] if it has no end.
    pub until: Time,
    /// The key that it hangs on: it never allows more, and ends with it.
    pub parent: Option<KeyId>,
    /// What people wrote on it.
    pub note: String,
}

/// A key, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyView {
    /// Its public half.
    pub id: KeyId,
    /// The digest of its secret.
    pub digest: [u8; 32],
    /// What it allows.
    pub scope: KeyScope,
    /// When it was made.
    pub created: Time,
    /// Until when it opens anything, by its own end and the ends of the keys above it.
    pub until: Time,
    /// The key that it hangs on.
    pub parent: Option<KeyId>,
    /// What people wrote on it.
    pub note: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn topics(patterns: &[&str]) -> KeyScope {
        KeyScope {
            topics: Some(patterns.iter().map(|pattern| String::from(*pattern)).collect()),
            ..KeyScope::EVERYTHING
        }
    }

    #[test]
    fn a_topic_is_in_a_scope_by_its_name_or_by_its_beginning() {
        let scope = topics(&["orders", "mail.*"]);
        for (topic, is_in) in [
            ("orders", true),
            ("orders2", false),
            ("mail.", true),
            ("mail.out", true),
            ("mail", false),
            ("", false),
        ] {
            assert_eq!(scope.has_topic(topic), is_in, "{topic}");
        }
        assert!(KeyScope::EVERYTHING.has_topic("anything") && !topics(&[]).has_topic("orders"));
        assert!(topics(&["*"]).has_topic("anything"));
    }

    #[test]
    fn a_scope_covers_what_is_no_wider() {
        let parent = topics(&["orders", "mail.*"]);
        for (child, covered) in [
            (vec!["orders"], true),
            (vec!["mail.*"], true),
            (vec!["mail.out*", "mail.in", "orders"], true),
            (vec![], true),
            (vec!["orders*"], false),
            (vec!["mail*"], false),
            (vec!["*"], false),
            (vec!["orders", "parcels"], false),
        ] {
            assert_eq!(parent.covers(&topics(&child)), covered, "{child:?}");
        }
        assert!(!parent.covers(&KeyScope::EVERYTHING) && KeyScope::EVERYTHING.covers(&parent));
        let reader =
            KeyScope { permissions: Permissions::default().with(Permission::Read), ..KeyScope::EVERYTHING };
        assert!(KeyScope::EVERYTHING.covers(&reader) && !reader.covers(&KeyScope::EVERYTHING));
    }

    fn tenants(names: &[&str]) -> KeyScope {
        KeyScope {
            tenants: Some(names.iter().map(|name| String::from(*name)).collect()),
            ..KeyScope::EVERYTHING
        }
    }

    #[test]
    fn a_scope_of_tenants_covers_no_others() {
        let parent = tenants(&["acme", "globex"]);
        for (child, covered) in [
            (tenants(&["acme"]), true),
            (tenants(&["globex", "acme"]), true),
            (tenants(&["acme", "initech"]), false),
            (tenants(&["acm"]), false),
            (tenants(&[""]), false),
            (topics(&["orders"]), false),
            (KeyScope::EVERYTHING, false),
        ] {
            assert_eq!(parent.covers(&child), covered, "{child:?}");
        }
        assert!(KeyScope::EVERYTHING.covers(&parent));
        assert!(parent.has_tenant("acme") && !parent.has_tenant("initech") && !parent.has_tenant(""));
        assert!(KeyScope::EVERYTHING.has_tenant("initech") && KeyScope::EVERYTHING.has_tenant(""));
    }
}
