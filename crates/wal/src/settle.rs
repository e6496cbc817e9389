//! Makes the end of an examined log safe to append to.

use std::io;

use crate::disk::{DiskFile, read_all, write_all};
use crate::examine::Tail;
use crate::fill::zero;

/// How much is copied at once.
const CHUNK_BYTES: u32 = 1 << 20;

/// Settles the last segment: what is kept becomes durable, what is not can never come back.
///
/// Kept frames above the confirmed mark are written again, not only synced: after a failed sync the
/// system may count them as clean although they never reached the disk, and would not write them.
/// Remains beyond the end are zeroed, because an old whole frame could otherwise continue a new one
/// that happens to end where it starts. A crash in between leaves the same log to be settled again.
pub(crate) fn settle<F: DiskFile>(file: &F, tail: &Tail) -> io::Result<()> {
    let end = tail.end.offset();
    let mut at = if tail.confirmed.segment() == tail.end.segment() { tail.confirmed.offset() } else { end };
    let mut buffer = vec![0; CHUNK_BYTES.min(end.saturating_sub(at)) as usize];
    while at < end {
        let now = CHUNK_BYTES.min(end - at);
        let chunk = &mut buffer[..now as usize];
        read_all(file, chunk, u64::from(at))?;
        write_all(file, chunk, u64::from(at))?;
        at += now;
    }
    if let Some(torn_end) = tail.torn_end {
        let torn_end = u64::from(torn_end).min(file.bytes()?);
        zero(file, u64::from(end), torn_end)?;
    }
    file.sync_data()
}
