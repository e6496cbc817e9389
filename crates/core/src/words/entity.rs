//! Requests and answers about entities.

use crate::words::id::Time;
use alloc::string::String;
use alloc::sync::Arc;

/// Entities of which one begin or one commit may expect something.
pub const EXPECTED_MAX: usize = 100;

/// An entity, and the version that a caller expects it to have.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Expected {
    /// Its name.
    pub entity: String,
    /// Its version; 0 if it was never raised.
    pub version: u64,
}

/// Which entities are wanted, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityList {
    /// Whose; may be empty.
    pub tenant: String,
    /// Only those with a greater name.
    pub after: Option<String>,
    /// How many at most.
    pub limit: u32,
}

/// An entity, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityView {
    /// Its name.
    pub entity: Arc<str>,
    /// Its version; 0 if it was never raised, or forgotten since.
    pub version: u64,
    /// When it was raised last.
    pub raised: Option<Time>,
}
