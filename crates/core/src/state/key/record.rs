//! What is remembered of keys.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::log::key::{KeyFact, read_scope};
use crate::state::State;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::id::Time;
use crate::words::key::{KEY_DEPTH_MAX, KEYS_MAX, KeyId, KeyScope, KeyView};

/// How long an ended key is remembered at least, so that operators can see what became of it.
pub(crate) const ENDED_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) digest: [u8; 32],
    pub(crate) scope: KeyScope,
    pub(crate) created: Time,
    /// Its own end.
    pub(crate) until: Time,
    pub(crate) parent: Option<KeyId>,
    pub(crate) note: String,
}

/// Keys by their public half.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Keys {
    pub(super) keys: BTreeMap<KeyId, Key>,
}

impl Keys {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn get(&self, key: KeyId) -> Option<&Key> {
        self.keys.get(&key)
    }

    /// A key and those above it. A parent that is forgotten had ended: what hung on it is forgotten with it.
    fn line(&self, key: KeyId) -> impl Iterator<Item = &Key> {
        let above = |key: &&Key| key.parent.and_then(|parent| self.keys.get(&parent));
        // A line that is longer, or a circle, cannot be made; a damaged snapshot could hold one.
        core::iter::successors(self.keys.get(&key), above).take(KEY_DEPTH_MAX + 1)
    }

    /// How many keys there are from this one up.
    pub(crate) fn depth(&self, key: KeyId) -> usize {
        self.line(key).count()
    }

    /// Until when a key opens anything: its own end, or the first of those above it.
    pub(crate) fn until(&self, key: KeyId) -> Option<Time> {
        self.line(key).map(|key| key.until).min()
    }

    /// Whether there is room for one more at that time.
    pub(crate) fn has_room(&self, now: Time) -> bool {
        self.keys.len() < KEYS_MAX || self.keys.keys().any(|key| self.is_over(*key, now))
    }

    fn is_over(&self, key: KeyId, now: Time) -> bool {
        self.until(key).is_none_or(|until| until.0.saturating_add(ENDED_KEPT_MS) < now.0)
    }

    pub(crate) fn views(&self) -> Vec<KeyView> {
        self.keys.iter().map(|(id, key)| self.view(*id, key)).collect()
    }

    pub(crate) fn view(&self, id: KeyId, key: &Key) -> KeyView {
        KeyView {
            id,
            digest: key.digest,
            scope: key.scope.clone(),
            created: key.created,
            until: self.until(id).unwrap_or(key.until),
            parent: key.parent,
            note: key.note.clone(),
        }
    }

    /// Keys that ended long ago make room. What hangs on one of them has ended as long ago and goes with it.
    fn make_room(&mut self, now: Time) {
        if self.keys.len() >= KEYS_MAX {
            let over: Vec<KeyId> = self.keys.keys().copied().filter(|key| self.is_over(*key, now)).collect();
            for key in over {
                self.keys.remove(&key);
            }
        }
    }
}

impl State {
    pub(crate) fn on_key(&mut self, fact: &KeyFact<'_>) -> Result<(), Malformed> {
        match fact {
            KeyFact::Created { key, at, digest, scope, until, parent, replaces, note } => {
                self.keys.make_room(*at);
                let new = Key {
                    digest: *digest,
                    scope: read_scope(scope)?,
                    created: *at,
                    until: *until,
                    parent: *parent,
                    note: (*note).to_string(),
                };
                let keys = &mut self.keys.keys;
                if keys.contains_key(key) || parent.is_some_and(|parent| !keys.contains_key(&parent)) {
                    return Err(CONTRADICTION);
                }
                for other in keys.values_mut().filter(|other| replaces.is_some() && other.parent == *replaces)
                {
                    other.parent = Some(*key);
                }
                keys.insert(*key, new);
            }
            KeyFact::Ended { key, until, .. } => {
                let key = self.keys.keys.get_mut(key).ok_or(CONTRADICTION)?;
                key.until = key.until.min(*until);
            }
        }
        Ok(())
    }
}
