//! A disk in memory: the same log, gone with the process.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use driftq_wal::{Disk, DiskFile, Entry, LockError};

use crate::locks::{lock, read, write};

/// Bytes that are kept or left out together.
const PAGE_BYTES: usize = 64 << 10;

/// A directory that lives in memory. Pages that hold only zeros take no space, so that segments can be filled with
/// zeros ahead of their use as on a real disk without costing anything.
#[derive(Clone, Default)]
pub(crate) struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, MemoryFile>>>,
    locked: Arc<AtomicBool>,
}

#[derive(Clone, Default)]
pub(crate) struct MemoryFile(Arc<RwLock<Pages>>);

#[derive(Default)]
struct Pages {
    bytes: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

/// Lets go of the directory when dropped.
pub(crate) struct MemoryLock(Arc<AtomicBool>);

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;
    type Lock = MemoryLock;

    fn name(&self) -> String {
        "memory".into()
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let files = lock(&self.files);
        Ok(files
            .iter()
            .map(|(name, file)| Entry { name: name.clone(), bytes: read(&file.0).bytes })
            .collect())
    }

    fn open(&self, file: &str) -> io::Result<MemoryFile> {
        lock(&self.files).get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&self, file: &str) -> io::Result<MemoryFile> {
        let created = MemoryFile::default();
        lock(&self.files).insert(file.to_owned(), created.clone());
        Ok(created)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = lock(&self.files);
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        lock(&self.files).remove(file).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn lock(&self) -> Result<MemoryLock, LockError> {
        if self.locked.swap(true, Ordering::AcqRel) {
            return Err(LockError::Busy);
        }
        Ok(MemoryLock(Arc::clone(&self.locked)))
    }
}

/// The page in which `at` lies, where in it, and how much of `left` bytes fit into it from there.
fn spot(at: u64, left: usize) -> (u64, usize, usize) {
    let page = at / PAGE_BYTES as u64;
    let start = usize::try_from(at % PAGE_BYTES as u64).expect("a remainder below 64 Ki fits");
    (page, start, left.min(PAGE_BYTES - start))
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let file = read(&self.0);
        let left = usize::try_from(file.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let (page, start, count) = spot(at, buffer.len().min(left));
        match file.pages.get(&page) {
            Some(bytes) => buffer[..count].copy_from_slice(&bytes[start..start + count]),
            None => buffer[..count].fill(0),
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut file = write(&self.0);
        let (page, start, count) = spot(at, bytes.len());
        let bytes = &bytes[..count];
        // All bytes of a chunk at once: the compiler turns this into wide instructions, and an early exit would not.
        let zeros = bytes.chunks(1024).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0);
        if !zeros || file.pages.contains_key(&page) {
            let kept = file.pages.entry(page).or_insert_with(|| vec![0; PAGE_BYTES].into_boxed_slice());
            kept[start..start + count].copy_from_slice(bytes);
        }
        file.bytes = file.bytes.max(at + count as u64);
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(read(&self.0).bytes)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        let mut file = write(&self.0);
        let (page, start, _) = spot(bytes, 0);
        // What is cut off must read as zeros if the file grows again.
        file.pages.split_off(&(page + 1));
        if let Some(kept) = file.pages.get_mut(&page) {
            kept[start..].fill(0);
        }
        file.bytes = bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(file: &MemoryFile) -> Vec<u8> {
        let mut bytes = vec![9; usize::try_from(file.bytes().unwrap()).unwrap()];
        let mut at = 0;
        while at < bytes.len() {
            at += file.read_at(&mut bytes[at..], at as u64).unwrap();
        }
        bytes
    }

    #[test]
    fn zeros_cost_nothing_and_bytes_come_back() {
        let disk = MemoryDisk::default();
        let file = disk.create("a").unwrap();
        let mut at = 0;
        while at < 1 << 20 {
            at += file.write_at(&vec![0; 1 << 20], at).unwrap() as u64;
        }
        assert_eq!((file.bytes().unwrap(), read(&file.0).pages.len()), (1 << 20, 0));
        assert_eq!(file.write_at(&[7; 10], PAGE_BYTES as u64 - 3).unwrap(), 3, "a write ends with its page");
        assert_eq!(file.write_at(&[7; 7], PAGE_BYTES as u64).unwrap(), 7);
        let bytes = all(&file);
        assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), 10);
        file.set_bytes(PAGE_BYTES as u64 - 1).unwrap();
        file.set_bytes(1 << 20).unwrap();
        assert_eq!(all(&file).iter().filter(|byte| **byte == 7).count(), 2);
    }

    #[test]
    fn names_move_and_the_lock_is_exclusive() {
        let disk = MemoryDisk::default();
        disk.create("a").unwrap().write_at(b"x", 0).unwrap();
        disk.rename("a", "b").unwrap();
        assert!(disk.open("a").is_err() && disk.open("b").is_ok());
        let held = disk.lock().unwrap();
        assert!(matches!(disk.lock(), Err(LockError::Busy)));
        drop(held);
        assert!(disk.lock().is_ok());
    }
}
