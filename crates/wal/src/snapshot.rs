//! A snapshot: everything the log said below one position, folded into one file.

use std::io;

use crate::checksum::{crc32c, u32_at, u64_at};
use crate::disk::{Disk, read_all, write_all};
use crate::error::{Damage, FileError, OpenError};
use crate::frame::FRAME_ALIGN;
use crate::names;
use crate::segment::{BadHeader, SEGMENT_HEADER_BYTES, check_preamble};
use crate::{DiskFile, FORMAT_VERSION, Lsn};

/// Bytes before a snapshot's body.
pub const SNAPSHOT_HEADER_BYTES: u32 = 64;
/// How much of a snapshot is read back at once.
const COMPARED_BYTES: usize = 1 << 20;
/// First eight bytes of every snapshot.
const SNAPSHOT_MAGIC: [u8; 8] = *b"DriftQsn";

/// The newest snapshot of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// It stands for every frame below this position; replay starts here.
    pub upto: Lsn,
    /// What was put.
    pub bytes: Vec<u8>,
}

/// The header of a snapshot with this body.
pub(crate) fn encode_header(upto: Lsn, body: &[u8]) -> [u8; SNAPSHOT_HEADER_BYTES as usize] {
    let mut bytes = [0; SNAPSHOT_HEADER_BYTES as usize];
    bytes[..8].copy_from_slice(&SNAPSHOT_MAGIC);
    bytes[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&upto.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&(body.len() as u64).to_le_bytes());
    bytes[32..36].copy_from_slice(&crc32c(body).to_le_bytes());
    let crc = crc32c(&bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whether a later reader of a body can make sense of it.
pub(crate) type Readable<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// Writes a snapshot under a temporary name, reads it back, gives it its own name, and makes all of that durable. Until
/// it has its name nothing else is touched: the one before it counts.
pub(crate) fn write<D: Disk>(
    disk: &D,
    upto: Lsn,
    body: &[u8],
    readable: Readable<'_>,
) -> Result<(), FileError> {
    let name = names::snapshot(upto);
    let temp = names::temp(&name);
    let written = (|| {
        let file = disk.create(&temp)?;
        let header = encode_header(upto, body);
        write_all(&file, &header, 0)?;
        write_all(&file, body, u64::from(SNAPSHOT_HEADER_BYTES))?;
        file.sync_data()?;
        compare(&disk.open(&temp)?, &header, body)?;
        if !readable(body) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it would not be understood"));
        }
        disk.rename(&temp, &name)?;
        disk.sync_dir()
    })();
    written.map_err(|error| {
        // Best effort: a leftover is removed at the next start anyway.
        let _ = disk.remove(&temp);
        FileError::new("write", name, error)
    })
}

/// Reads a file back that was just written, a piece at a time.
fn compare<F: DiskFile>(file: &F, header: &[u8], body: &[u8]) -> io::Result<()> {
    let whole = (header.len() + body.len()) as u64;
    let mut same = file.bytes()? == whole;
    let mut buffer = vec![0; COMPARED_BYTES.min(body.len()).max(header.len())];
    let mut at = 0;
    for piece in std::iter::once(header).chain(body.chunks(COMPARED_BYTES)) {
        let read = &mut buffer[..piece.len()];
        read_all(file, read, at)?;
        same &= read == piece;
        at += piece.len() as u64;
    }
    if same {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "it reads back as something else"))
    }
}

/// Reads and checks one snapshot file of `file_bytes` length.
pub fn load<D: Disk>(disk: &D, upto: Lsn, file_bytes: u64) -> Result<Snapshot, OpenError> {
    let name = names::snapshot(upto);
    let failed = |error| FileError::new("read", name.clone(), error);
    let damaged = |byte, what| Damage { dir: disk.name(), file: name.clone(), byte, what };
    let file = disk.open(&name).map_err(failed)?;
    let Some(body_bytes) = file_bytes.checked_sub(u64::from(SNAPSHOT_HEADER_BYTES)) else {
        return Err(damaged(0, "the file is shorter than its header").into());
    };
    let mut header = [0; SNAPSHOT_HEADER_BYTES as usize];
    read_all(&file, &mut header, 0).map_err(failed)?;
    match check_preamble(&header, &SNAPSHOT_MAGIC) {
        Ok(()) => {}
        Err(BadHeader::Damaged(what)) => return Err(damaged(0, what).into()),
        Err(BadHeader::Newer(found)) => {
            return Err(OpenError::NewerVersion {
                dir: disk.name(),
                file: name.clone(),
                found,
                known: FORMAT_VERSION,
            });
        }
    }
    if u64_at(&header, 16) != upto.0 {
        return Err(damaged(16, "the header names another position than the file does").into());
    }
    if upto.segment() == 0
        || upto.offset() < SEGMENT_HEADER_BYTES
        || !upto.offset().is_multiple_of(FRAME_ALIGN)
    {
        return Err(damaged(16, "the position cannot be the edge of a frame").into());
    }
    if u64_at(&header, 24) != body_bytes {
        return Err(damaged(24, "the file is not as long as its header says").into());
    }
    let Ok(len) = usize::try_from(body_bytes) else {
        return Err(damaged(24, "the snapshot is larger than this machine can address").into());
    };
    // As long as the file, which exists: not a length that bytes on disk merely claim.
    let mut bytes = vec![0; len];
    read_all(&file, &mut bytes, u64::from(SNAPSHOT_HEADER_BYTES)).map_err(failed)?;
    if crc32c(&bytes) != u32_at(&header, 32) {
        return Err(damaged(u64::from(SNAPSHOT_HEADER_BYTES), "the body does not match its checksum").into());
    }
    Ok(Snapshot { upto, bytes })
}
