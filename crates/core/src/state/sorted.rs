//! A sorted set for millions of small keys.
//!
//! Keys lie in arrays of at most [`BLOCK_MAX`], found by a small tree of their first keys. A plain tree takes twice the
//! room if keys come in order, as times and numbers do: it leaves every node half empty. No table that doubles either:
//! no input is held up in the middle of a million.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

/// Keys of one array: few enough that making room in the middle is one short copy.
const BLOCK_MAX: usize = 128;
/// An array with fewer keys than this is joined with a neighbour, if both fit.
const BLOCK_LEAST: usize = BLOCK_MAX / 4;
/// An array grows by this many keys at a time, so that little of it is empty.
const GROWTH: usize = 8;

/// A set of keys in their order.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<K> {
    /// By a bound that none of the array's keys is below; none is empty, and they do not overlap.
    blocks: BTreeMap<K, Vec<K>>,
    len: usize,
}

impl<K> Default for Sorted<K> {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), len: 0 }
    }
}

impl<K: Copy + Ord> Sorted<K> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<K> {
        self.blocks.first_key_value()?.1.first().copied()
    }

    /// Where the array begins in which a key lies, or would.
    fn block_of(&self, key: &K) -> Option<K> {
        let below = self.blocks.range(..=*key).next_back();
        below.or_else(|| self.blocks.first_key_value()).map(|(start, _)| *start)
    }

    /// Adds a key; false if it was there.
    pub(crate) fn insert(&mut self, key: K) -> bool {
        let Some(start) = self.block_of(&key) else {
            self.blocks.insert(key, Vec::from([key]));
            self.len = 1;
            return true;
        };
        let is_last = self.blocks.last_key_value().is_some_and(|(last, _)| *last == start);
        let Some(block) = self.blocks.get_mut(&start) else { return false };
        let Err(place) = block.binary_search(&key) else { return false };
        self.len += 1;
        if block.len() >= BLOCK_MAX {
            // What comes in order fills its arrays; what comes anywhere splits them in the middle.
            let split = if is_last && place == block.len() { place } else { block.len() / 2 };
            let mut upper = Vec::with_capacity(block.len() - split + GROWTH);
            upper.extend(block.drain(split..));
            block.shrink_to_fit();
            if place > split || split == BLOCK_MAX {
                upper.insert(place - split, key);
            } else {
                add(block, place, key);
            }
            let lower = block.first().copied();
            if let Some(first) = upper.first().copied() {
                self.blocks.insert(first, upper);
            }
            self.rename(start, lower);
            return true;
        }
        add(block, place, key);
        let first = block.first().copied();
        self.rename(start, first);
        true
    }

    /// Files an array under its first key, if a smaller one has come.
    fn rename(&mut self, start: K, first: Option<K>) {
        if let Some(first) = first.filter(|first| *first < start)
            && let Some(block) = self.blocks.remove(&start)
        {
            self.blocks.insert(first, block);
        }
    }

    /// Takes a key out; false if it was not there.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        let Some(start) = self.block_of(key) else { return false };
        let Some(block) = self.blocks.get_mut(&start) else { return false };
        let Ok(place) = block.binary_search(key) else { return false };
        block.remove(place);
        self.len -= 1;
        if block.is_empty() {
            self.blocks.remove(&start);
        } else if block.len() < BLOCK_LEAST {
            block.shrink_to(block.len() + GROWTH);
            self.join_next(start);
            if let Some(before) = self.blocks.range(..start).next_back().map(|(before, _)| *before) {
                self.join_next(before);
            }
        }
        true
    }

    /// Joins a short array with the one behind it, so that a set that has shrunk does not keep many of them.
    fn join_next(&mut self, start: K) {
        let behind = (Bound::Excluded(start), Bound::Unbounded);
        let Some((&next, other)) = self.blocks.range(behind).next() else { return };
        let length = self.blocks.get(&start).map_or(0, Vec::len) + other.len();
        if length > BLOCK_MAX / 2 {
            return;
        }
        if let Some(other) = self.blocks.remove(&next)
            && let Some(block) = self.blocks.get_mut(&start)
        {
            block.reserve_exact(other.len());
            block.extend(other);
        }
    }

    /// Keys at or above one, in their order.
    pub(crate) fn from(&self, least: K) -> impl Iterator<Item = K> {
        let start = self.block_of(&least).unwrap_or(least);
        let mut blocks = self.blocks.range(start..).map(|(_, block)| block.as_slice());
        // Only the first one has keys below.
        let first = blocks.next().unwrap_or_default();
        let first = &first[first.partition_point(|key| *key < least)..];
        first.iter().chain(blocks.flatten()).copied()
    }
}

fn add<K>(block: &mut Vec<K>, place: usize, key: K) {
    if block.len() == block.capacity() {
        block.reserve_exact(GROWTH);
    }
    block.insert(place, key);
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn it_holds_what_a_tree_would_hold() {
        let mut seed = 7;
        for range in [40, 3_000, 1 << 30] {
            let (mut sorted, mut tree) = (Sorted::default(), BTreeSet::new());
            for step in 0..20_000 {
                let key = next(&mut seed) % range;
                // More comes than goes, then more goes than comes.
                if next(&mut seed) % 10 < if step < 12_000 { 7 } else { 2 } {
                    assert_eq!(sorted.insert(key), tree.insert(key));
                } else {
                    let key = if step % 2 == 0 { tree.first().copied().unwrap_or(key) } else { key };
                    assert_eq!(sorted.remove(&key), tree.remove(&key));
                }
                assert_eq!((sorted.len(), sorted.first()), (tree.len(), tree.first().copied()));
                if step % 500 == 0 {
                    assert!(
                        sorted.blocks.values().flatten().copied().eq(tree.iter().copied()),
                        "after {step}"
                    );
                    let from = next(&mut seed) % range;
                    assert!(sorted.from(from).eq(tree.range(from..).copied()), "from {from}");
                }
            }
            for key in tree {
                assert!(sorted.remove(&key));
            }
            assert_eq!((sorted.len(), sorted.blocks.len()), (0, 0));
        }
    }

    #[test]
    fn what_comes_in_order_leaves_no_room() {
        let mut sorted = Sorted::default();
        for key in 0..100_000_u64 {
            assert!(sorted.insert(key));
        }
        let room: usize = sorted.blocks.values().map(Vec::capacity).sum();
        assert!(room < 101_000 && sorted.blocks.len() < 800, "{room} in {}", sorted.blocks.len());
        // And what is left of many does not keep their arrays.
        for key in (0..100_000).filter(|key| key % 100 != 0) {
            assert!(sorted.remove(&key));
        }
        assert!(sorted.blocks.len() < 60, "{}", sorted.blocks.len());
    }
}
