//! Files full of zeros: spares, first segments, the reserve.

use std::io;

use crate::disk::{Disk, DiskFile, write_all};
use crate::error::FileError;
use crate::names;

/// How much is written at once.
const CHUNK_BYTES: u64 = 1 << 20;
/// How much is written between two syncs: one huge sync would stall the log's own small ones.
const SYNC_BYTES: u64 = 8 << 20;

/// Writes zeros over `[from, to)`. Real zeros, not a hole: a hole would need space later.
pub(crate) fn zero<F: DiskFile>(file: &F, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK_BYTES.min(to.saturating_sub(from)) as usize];
    let mut at = from;
    while at < to {
        let now = CHUNK_BYTES.min(to - at);
        write_all(file, &zeros[..now as usize], at)?;
        at += now;
    }
    Ok(())
}

/// Makes a file of zeros longer, or leaves it as long as it was.
pub(crate) fn extended<D: Disk>(disk: &D, name: &str, from: u64, to: u64) -> Result<(), FileError> {
    let file = disk.open(name).map_err(|error| FileError::new("open", name, error))?;
    let grown = zero(&file, from, to).and_then(|()| file.sync_data());
    grown.map_err(|error| {
        // Best effort: a length between the two does no harm.
        let _ = file.set_bytes(from);
        FileError::new("grow", name, error)
    })
}

/// Makes a file of zeros with `head` at its start, complete and durable under `name` or not there at all.
pub(crate) fn zeroed<D: Disk>(disk: &D, name: &str, head: &[u8], bytes: u64) -> Result<D::File, FileError> {
    let temp = names::temp(name);
    let made = (|| {
        let file = disk.create(&temp)?;
        let mut at = 0;
        while at < bytes {
            let to = bytes.min(at + SYNC_BYTES);
            zero(&file, at, to)?;
            file.sync_data()?;
            at = to;
        }
        if !head.is_empty() {
            write_all(&file, head, 0)?;
            file.sync_data()?;
        }
        disk.rename(&temp, name)?;
        disk.sync_dir()?;
        Ok(file)
    })();
    made.map_err(|error| {
        // Best effort: a leftover is removed at the next start anyway.
        let _ = disk.remove(&temp);
        FileError::new("create", name, error)
    })
}
