//! Opinions that hold for more than one message, under keys that the next message can be asked for.
//!
//! The router names the parts that its opinion depends on (see [`CacheHint`]). The cache remembers the few sets of
//! parts that were ever named; for a new message it digests those parts and looks each digest up. Two generations bound
//! it: when the young one is full it becomes the old one, and what was not asked for meanwhile is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use driftq_core::Message;
use tokio::time::Instant;

use super::opinion::{CacheHint, Decision, Opinion, Part};
use crate::locks::{lock, read, write};

/// Different sets of parts that a router may name; each costs every lookup a digest. Hints with further sets are
/// not remembered.
pub const BASES_MAX: usize = 8;
/// Bytes of opinions that are remembered.
pub const CACHE_BYTES_MAX: usize = 16 << 20;
/// No promise is believed for longer than this.
pub const CACHE_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// A part larger than this is not digested: the router is asked.
pub const DIGESTED_BYTES_MAX: usize = 64 << 10;

/// What an entry costs besides its texts, roughly.
const ENTRY_BYTES: usize = 160;

type Digest = [u8; 32];

#[derive(Debug)]
pub(super) struct Cache {
    entries_max: usize,
    /// Sets of parts, each sorted.
    bases: RwLock<Arc<Vec<Vec<Part>>>>,
    store: Mutex<Store>,
}

#[derive(Debug, Default)]
struct Store {
    young: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    entries: HashMap<Digest, Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    decision: Option<Decision>,
    until: Instant,
}

impl Cache {
    /// Room for this many opinions; none turns it off.
    pub(super) fn new(entries_max: usize) -> Self {
        Self { entries_max, bases: RwLock::default(), store: Mutex::default() }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.entries_max > 0
    }

    /// What the router would say, if it promised to. The inner none is an opinion, too: that it has none.
    pub(super) fn find(&self, topic: &str, message: &Message<'_>, now: Instant) -> Option<Option<Decision>> {
        let bases = Arc::clone(&read(&self.bases));
        bases.iter().find_map(|basis| {
            let digest = digest(topic, basis, message)?;
            lock(&self.store).find(&digest, now, self.entries_max)
        })
    }

    /// Remembers an opinion that came with a promise.
    pub(super) fn remember(&self, topic: &str, message: &Message<'_>, opinion: &Opinion, now: Instant) {
        let Some(CacheHint { on, ttl }) = opinion.cache.as_ref().filter(|hint| !hint.ttl.is_zero()) else {
            return;
        };
        let mut basis = on.clone();
        basis.sort_unstable();
        basis.dedup();
        let Some(digest) = digest(topic, &basis, message) else { return };
        if !self.is_on() || !self.knows(basis) {
            return;
        }
        let until = now + (*ttl).min(CACHE_TTL_MAX);
        let entry = Entry { decision: opinion.decision.clone(), until };
        lock(&self.store).insert(digest, entry, self.entries_max);
    }

    /// Opinions held, stale ones included.
    pub(super) fn len(&self) -> usize {
        let store = lock(&self.store);
        store.young.entries.len() + store.old.entries.len()
    }

    /// Whether this set of parts is looked up, now that it was named.
    fn knows(&self, basis: Vec<Part>) -> bool {
        if read(&self.bases).contains(&basis) {
            return true;
        }
        let mut bases = write(&self.bases);
        if !bases.contains(&basis) {
            if bases.len() >= BASES_MAX {
                return false;
            }
            Arc::make_mut(&mut bases).push(basis);
        }
        true
    }
}

impl Store {
    fn find(&mut self, digest: &Digest, now: Instant, entries_max: usize) -> Option<Option<Decision>> {
        if let Some(entry) = self.young.entries.get(digest) {
            return (entry.until > now).then(|| entry.decision.clone());
        }
        let entry = self.old.remove(digest).filter(|entry| entry.until > now)?;
        let decision = entry.decision.clone();
        self.insert(*digest, entry, entries_max);
        Some(decision)
    }

    fn insert(&mut self, digest: Digest, entry: Entry, entries_max: usize) {
        self.young.remove(&digest);
        self.old.remove(&digest);
        let half = (entries_max / 2).max(1);
        let is_full = self.young.entries.len() >= half
            || self.young.bytes.saturating_add(entry.bytes()) > CACHE_BYTES_MAX / 2;
        if is_full {
            let full = std::mem::take(&mut self.young);
            // With room for one only, there is no room for a second generation.
            self.old = if entries_max > 1 { full } else { Generation::default() };
        }
        self.young.bytes += entry.bytes();
        self.young.entries.insert(digest, entry);
    }
}

impl Generation {
    fn remove(&mut self, digest: &Digest) -> Option<Entry> {
        let entry = self.entries.remove(digest)?;
        self.bytes -= entry.bytes();
        Some(entry)
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        let texts = self.decision.as_ref().map_or(0, |decision| {
            let meta: usize = decision.meta.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
            decision.label.len() + decision.target_topic.as_ref().map_or(0, String::len) + meta
        });
        ENTRY_BYTES + texts
    }
}

/// One number for the topic and these parts of the message. Producers choose the bytes, so it must be one for which no
/// producer can find a second message.
fn digest(topic: &str, basis: &[Part], message: &Message<'_>) -> Option<Digest> {
    let mut hasher = blake3::Hasher::new();
    let mut put = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    put(topic.as_bytes());
    let envelope = message.envelope.as_deref();
    for part in basis {
        let (name, bytes): (&str, Option<&[u8]>) = match part {
            Part::Key => ("key", Some(&*message.key)),
            Part::Value => ("value", Some(&*message.value)),
            Part::Tenant => ("tenant", envelope.map(|envelope| envelope.tenant_id.as_bytes())),
            Part::Label(name) => {
                let label = envelope
                    .and_then(|envelope| envelope.labels.iter().find(|(known, _)| known == name))
                    .map(|(_, value)| value.as_bytes());
                put(b"label");
                (name, label)
            }
        };
        if bytes.is_some_and(|bytes| bytes.len() > DIGESTED_BYTES_MAX) {
            return None;
        }
        put(name.as_bytes());
        // A label that is absent is not a label that is empty; a tenant that is absent is.
        let is_present = bytes.is_some() || *part == Part::Tenant;
        put(&[u8::from(is_present)]);
        put(bytes.unwrap_or_default());
    }
    Some(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests;
