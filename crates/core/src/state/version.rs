//! Versions of snapshots: each is written as the oldest one that holds all there is, so that a server that knows no more
//! than that can read it.

use crate::state::State;

/// First field of every snapshot.
pub(super) const VERSION: u32 = 9;
/// The version of a snapshot of the first shard if it has neither sent anything to another one nor received anything: a
/// server that does not know of several shards yet can read it.
pub(super) const VERSION_WITHOUT_SHARDS: u32 = 8;
/// The version of a snapshot without definitions, either.
pub(super) const VERSION_WITHOUT_DEFINITIONS: u32 = 7;
/// The version of a snapshot without limits of tenants, either.
pub(super) const VERSION_WITHOUT_LIMITS: u32 = 6;
/// The version of a snapshot without an audit, either.
pub(super) const VERSION_WITHOUT_AUDIT: u32 = 5;
/// The version of a snapshot without keys and without topics of tenants, either.
pub(super) const VERSION_WITHOUT_KEYS: u32 = 4;
/// The oldest version that can be read: before topics had settings and messages had keys, priorities and due times.
pub(super) const VERSION_LEAST: u32 = 1;

impl State {
    /// Whether it is the first shard, and has had nothing to do with another one.
    pub(super) fn is_alone(&self) -> bool {
        self.shard.0 == 0 && self.outbox.is_untouched()
    }

    /// The oldest version that holds all there is.
    pub(super) fn version(&self) -> u32 {
        let is_guarded = !self.keys.is_empty() || self.each_topic().any(|topic| topic.tenant.is_some());
        match (self.audit.is_untouched(), is_guarded) {
            _ if !self.is_alone() => VERSION,
            _ if !self.definitions.are_untouched() => VERSION_WITHOUT_SHARDS,
            _ if !self.tenants.are_free() => VERSION_WITHOUT_DEFINITIONS,
            (false, _) => VERSION_WITHOUT_LIMITS,
            (true, true) => VERSION_WITHOUT_AUDIT,
            (true, false) => VERSION_WITHOUT_KEYS,
        }
    }
}
