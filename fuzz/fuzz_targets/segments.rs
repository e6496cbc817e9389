//! Segments and snapshots as files: inspected, whatever is in them.
#![no_main]

use std::io;
use std::sync::Arc;

use driftq_wal::{Disk, DiskFile, Entry, LockError, inspect, segment_file};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    inspect_all(bytes);
});

/// A directory with one file, which is never written.
#[derive(Clone)]
struct OneFile(Arc<[u8]>);

struct Contents(Arc<[u8]>);

fn inspect_all(bytes: &[u8]) {
    // What is wrong with it is an answer.
    let _ = inspect(&OneFile(bytes.into()), &mut |_| ());
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Disk for OneFile {
    type File = Contents;
    type Lock = ();

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        Ok(vec![Entry { name: segment_file(1), bytes: self.0.len() as u64 }])
    }

    fn open(&self, _: &str) -> io::Result<Contents> {
        Ok(Contents(Arc::clone(&self.0)))
    }

    fn create(&self, _: &str) -> io::Result<Contents> {
        refused()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn lock(&self) -> Result<(), LockError> {
        Ok(())
    }
}

impl DiskFile for Contents {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        refused()
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_bytes(&self, _: u64) -> io::Result<()> {
        refused()
    }
}
