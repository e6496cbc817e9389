//! The contents of one file: what reads see, and what a power cut would leave.

use std::collections::BTreeMap;

use super::SECTOR_BYTES;
use crate::rng::Rng;

/// How many versions of one unsynced sector are remembered.
const VERSIONS_MAX: usize = 4;

#[derive(Clone, Default)]
pub(super) struct Inode {
    /// What reads see.
    seen: Vec<u8>,
    /// What survives for certain.
    durable: Vec<u8>,
    /// Versions of sectors written since the last sync, oldest first; any may be on disk.
    dirty: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Inode {
    /// A file whose contents are durable.
    pub(super) fn durable(contents: &[u8]) -> Self {
        Self { seen: contents.to_vec(), durable: contents.to_vec(), dirty: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    pub(super) fn contents(&self) -> &[u8] {
        &self.seen
    }

    pub(super) fn read(&self, buffer: &mut [u8], at: usize) -> usize {
        let from = at.min(self.seen.len());
        let to = (at + buffer.len()).min(self.seen.len()).max(from);
        buffer[..to - from].copy_from_slice(&self.seen[from..to]);
        to - from
    }

    pub(super) fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        if end > self.seen.len() {
            self.seen.resize(end, 0);
        }
        self.seen[at..end].copy_from_slice(bytes);
        for sector in at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let now = self.sector(sector);
            let versions = self.dirty.entry(sector).or_default();
            if versions.len() == VERSIONS_MAX {
                versions.remove(0);
            }
            versions.push(now);
        }
    }

    fn sector(&self, sector: usize) -> Vec<u8> {
        let from = sector * SECTOR_BYTES;
        self.seen[from..self.seen.len().min(from + SECTOR_BYTES)].to_vec()
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.seen.resize(len, 0);
        self.dirty.retain(|sector, _| sector * SECTOR_BYTES < len);
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.seen.len(), 0);
        for (sector, versions) in std::mem::take(&mut self.dirty) {
            if let Some(last) = versions.last() {
                overlay(&mut self.durable, sector, last);
            }
        }
    }

    /// A sync that failed: some sectors got through; the others are no longer dirty, although reads
    /// still show them, so that a later sync will not save them either.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        for (sector, versions) in std::mem::take(&mut self.dirty) {
            if let Some(last) = versions.last().filter(|_| rng.chance(1, 2)) {
                if self.durable.len() < sector * SECTOR_BYTES + last.len() {
                    self.durable.resize(sector * SECTOR_BYTES + last.len(), 0);
                }
                overlay(&mut self.durable, sector, last);
            }
        }
    }

    /// A power cut: every dirty sector chooses for itself.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        // All, nothing, or anything in between: the extremes would be too rare by chance alone.
        let mood = rng.below(4);
        if mood == 0 || (mood > 1 && rng.chance(1, 2)) {
            self.durable.resize(self.seen.len(), 0);
        }
        for (sector, versions) in std::mem::take(&mut self.dirty) {
            let pick = match mood {
                0 => versions.len(),
                1 => 0,
                _ => rng.below(versions.len() as u64 + 1) as usize,
            };
            if pick > 0 {
                overlay(&mut self.durable, sector, &versions[pick - 1]);
            }
        }
        self.seen = self.durable.clone();
    }

    pub(super) fn flip(&mut self, byte: usize, bit: u8) {
        self.seen[byte] ^= 1 << bit;
        if let Some(durable) = self.durable.get_mut(byte) {
            *durable ^= 1 << bit;
        }
    }
}

/// Puts a sector into place as far as the file reaches.
fn overlay(contents: &mut [u8], sector: usize, bytes: &[u8]) {
    let from = (sector * SECTOR_BYTES).min(contents.len());
    let to = contents.len().min(from + bytes.len());
    contents[from..to].copy_from_slice(&bytes[..to - from]);
}
