//! A table of millions of records that grows a little at a time.
//!
//! A table that doubles holds one input up for as long as it takes to move everything: a tenth of a second in the middle
//! of a few million. This one consists of parts. Whenever they hold more than they should, one of them is split in two, and
//! no other is touched (linear hashing).

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash, Hasher};
use core::mem;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Records per part, on average, above which a part is split. Those that wait for their turn have up to twice as many;
/// both fit well into what a table allots, which is seven eighths of a power of two.
const PART_RECORDS: usize = 400;

/// Values by key. Never listed: the order would be that of a hash.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    hash: SeededHash,
    /// There is one at least. Those before `split`, and as many at the end, have been split in this round.
    parts: Vec<HashTable<(K, V)>>,
    split: usize,
    len: usize,
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    pub(crate) fn new(hash: SeededHash) -> Self {
        Self { hash, parts: Vec::from([HashTable::new()]), split: 0, len: 0 }
    }

    pub(crate) const fn hash(&self) -> SeededHash {
        self.hash
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let hash = self.hash.hash_one(key);
        let found = self.parts[self.part_of(hash)].find(hash, |(known, _)| known == key);
        found.map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hash.hash_one(key);
        let part = self.part_of(hash);
        let found = self.parts[part].find_mut(hash, |(known, _)| known == key);
        found.map(|(_, value)| value)
    }

    /// Puts a value in the place of whatever was there, and gives that back.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.len >= self.parts.len() * PART_RECORDS {
            self.split_one();
        }
        let hash = self.hash.hash_one(key);
        let (part, hasher) = (self.part_of(hash), self.hash);
        let same = |(known, _): &(K, V)| *known == key;
        match self.parts[part].entry(hash, same, |(known, _)| hasher.hash_one(known)) {
            Entry::Occupied(mut known) => Some(mem::replace(&mut known.get_mut().1, value)),
            Entry::Vacant(place) => {
                place.insert((key, value));
                self.len += 1;
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.hash.hash_one(key);
        let part = self.part_of(hash);
        let found = self.parts[part].find_entry(hash, |(known, _)| known == key).ok()?;
        self.len -= 1;
        Some(found.remove().0.1)
    }

    fn part_of(&self, hash: u64) -> usize {
        let round = self.round();
        // Not the lowest bits and not the seven highest ones: by these goes the table within a part.
        let bits = (hash >> 24) as usize;
        let part = bits & (round - 1);
        if part < self.split { bits & (2 * round - 1) } else { part }
    }

    /// How many parts there were when this round of splitting began: a power of two.
    const fn round(&self) -> usize {
        self.parts.len() - self.split
    }

    fn split_one(&mut self) {
        let (part, round, hasher) = (self.split, self.round(), self.hash);
        let whole = mem::replace(&mut self.parts[part], HashTable::with_capacity(PART_RECORDS));
        self.parts.push(HashTable::with_capacity(PART_RECORDS));
        self.split = if part + 1 == round { 0 } else { part + 1 };
        for (key, value) in whole {
            let hash = hasher.hash_one(key);
            let to = self.part_of(hash);
            self.parts[to].insert_unique(hash, (key, value), |(known, _)| hasher.hash_one(known));
        }
    }
}

/// A fixed hash whose seed is an input: the same run gives the same table, and no producer can aim at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededHash(pub(crate) u64);

impl BuildHasher for SeededHash {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(self.0 ^ 0x9e37_79b9_7f4a_7c15)
    }
}

/// Folds words by multiplication; the keys are digests already, so little mixing is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    fn write_usize(&mut self, length: usize) {
        self.write_u64(length as u64);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::words::id::Identity;

    fn id(n: u32) -> Identity {
        Identity(digest(n))
    }

    /// Identities are digests.
    fn digest(n: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        let hash = |seed: u64| SeededHash(seed).hash_one(u64::from(n));
        bytes[..8].copy_from_slice(&hash(1).to_le_bytes());
        bytes[8..].copy_from_slice(&hash(2).to_le_bytes());
        bytes
    }

    #[test]
    fn it_knows_what_a_map_knows_however_large_it_is() {
        let mut table = Table::new(SeededHash(7));
        let mut map = BTreeMap::new();
        for n in 0..40_000_u32 {
            table.insert(id(n), n);
            map.insert(n, n);
            if n % 3 == 0 {
                let gone = n / 2;
                assert_eq!(table.remove(&id(gone)), map.remove(&gone), "{n}");
            }
            if n % 5 == 0 {
                table.insert(id(n / 3), n);
                map.insert(n / 3, n);
            }
        }
        assert_eq!(table.len(), map.len());
        for n in 0..41_000 {
            assert_eq!(table.get(&id(n)), map.get(&n), "{n}");
        }
        *table.get_mut(&id(39_999)).unwrap() = 5;
        assert_eq!(table.get(&id(39_999)), Some(&5));
    }

    /// What one insertion may have to move is bounded, whatever the number of records.
    #[test]
    fn parts_stay_small_and_none_is_left_behind() {
        let mut table = Table::new(SeededHash(7));
        for n in 0..200_000 {
            table.insert(id(n), ());
        }
        let sizes = || table.parts.iter().map(HashTable::len);
        assert_eq!(sizes().sum::<usize>(), 200_000);
        assert_eq!(table.parts.len(), 200_000_usize.div_ceil(PART_RECORDS));
        assert!(sizes().max().unwrap() < 3 * PART_RECORDS, "{:?}", sizes().max());
        assert!(sizes().min().unwrap() > PART_RECORDS / 4, "{:?}", sizes().min());
    }
}
