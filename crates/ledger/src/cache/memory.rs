//! Copies in the memory of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Cache, Entry, Fetching};
use crate::Identity;

/// Most copies, unless told otherwise.
pub const ENTRIES_DEFAULT: usize = 10_000;
/// Most bytes of copies, unless told otherwise.
pub const BYTES_DEFAULT: usize = 32 << 20;

/// Copies in the memory of this process, bounded in number and in bytes.
///
/// There are two generations. What is new or asked for is in the young one; when that has half of what is allowed it
/// becomes the old one, and the old one is dropped. So what was not asked for since is forgotten first, without a list
/// to keep in order.
pub struct MemoryCache {
    entries_max: usize,
    bytes_max: usize,
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    entries: HashMap<Identity, Arc<Entry>>,
    bytes: usize,
}

impl Default for MemoryCache {
    fn default() -> Self {
        Self::new(ENTRIES_DEFAULT, BYTES_DEFAULT)
    }
}

impl MemoryCache {
    /// With room for this many copies, and for this many bytes of them. A copy that takes more than half of the bytes
    /// is not kept.
    #[must_use]
    pub fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { entries_max, bytes_max, generations: Mutex::default() }
    }

    /// How many copies there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.look(|generations| generations.young.entries.len() + generations.old.entries.len())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.look(|generations| generations.young.bytes + generations.old.bytes)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.look(|generations| *generations = Generations::default());
    }

    fn look<T>(&self, look: impl FnOnce(&mut Generations) -> T) -> T {
        look(&mut self.generations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn find(&self, identity: &Identity) -> Option<Arc<Entry>> {
        let (found, dropped) = self.look(|generations| {
            if let Some(entry) = generations.young.entries.get(identity) {
                return (Some(Arc::clone(entry)), None);
            }
            let Some(entry) = generations.old.take(identity) else { return (None, None) };
            (Some(Arc::clone(&entry)), self.insert(generations, entry))
        });
        drop(dropped);
        found
    }

    fn keep(&self, entry: Arc<Entry>) {
        let dropped = self.look(|generations| {
            drop(generations.old.take(&entry.identity));
            self.insert(generations, entry)
        });
        // Freeing many copies takes a while, and is done outside the lock, where no other caller waits for it.
        drop(dropped);
    }

    /// Puts a copy into the young generation, and gives back what was dropped for it.
    fn insert(&self, generations: &mut Generations, entry: Arc<Entry>) -> Option<Generation> {
        let bytes = entry.bytes();
        drop(generations.young.take(&entry.identity));
        if bytes > self.bytes_max / 2 || self.entries_max < 2 {
            return None;
        }
        let is_full = generations.young.entries.len() >= self.entries_max / 2
            || generations.young.bytes + bytes > self.bytes_max / 2;
        let dropped = is_full.then(|| {
            let grown = std::mem::take(&mut generations.young);
            std::mem::replace(&mut generations.old, grown)
        });
        generations.young.bytes += bytes;
        generations.young.entries.insert(entry.identity.clone(), entry);
        dropped
    }
}

impl Generation {
    fn take(&mut self, identity: &Identity) -> Option<Arc<Entry>> {
        let entry = self.entries.remove(identity)?;
        self.bytes -= entry.bytes();
        Some(entry)
    }
}

impl Cache for MemoryCache {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn get<'a>(&'a self, identity: &'a Identity) -> Fetching<'a, Option<Arc<Entry>>> {
        Box::pin(std::future::ready(Ok(self.find(identity))))
    }

    fn put<'a>(&'a self, entry: &'a Arc<Entry>) -> Fetching<'a, ()> {
        self.keep(Arc::clone(entry));
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::entry::tests::entry;

    #[test]
    fn there_are_never_more_copies_than_allowed() {
        let cache = MemoryCache::new(10, usize::MAX);
        for n in 0..100 {
            cache.keep(Arc::new(entry(&format!("k{n}"), 10)));
            assert!(cache.len() <= 10, "{} after {n}", cache.len());
        }
        assert!(cache.len() >= 5);
    }

    #[test]
    fn there_are_never_more_bytes_than_allowed_and_their_count_is_right() {
        let one = entry("k10", 1000).bytes();
        let cache = MemoryCache::new(usize::MAX, 10 * one);
        for n in 10..99 {
            cache.keep(Arc::new(entry(&format!("k{n}"), 1000)));
            cache.keep(Arc::new(entry(&format!("k{n}"), 1000)));
            assert!(cache.bytes() <= 10 * one, "{} after {n}", cache.bytes());
            assert_eq!(cache.bytes(), cache.len() * one, "what was replaced is not counted twice");
        }
        cache.keep(Arc::new(entry("huge", 6 * one)));
        assert!(cache.find(&entry("huge", 0).identity).is_none(), "more than half of all");
        cache.clear();
        assert_eq!((cache.len(), cache.bytes()), (0, 0));
    }

    #[test]
    fn what_is_asked_for_again_and_again_stays() {
        let cache = MemoryCache::new(10, usize::MAX);
        let wanted = Arc::new(entry("wanted", 10));
        cache.keep(Arc::clone(&wanted));
        for n in 0..100 {
            cache.keep(Arc::new(entry(&format!("k{n}"), 10)));
            assert_eq!(cache.find(&wanted.identity).as_deref(), Some(&*wanted), "after {n}");
        }
        assert!(cache.find(&entry("k1", 0).identity).is_none());
    }
}
