//! A segment: its header on disk, and its file while the log is open.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::checksum::{crc32c, u32_at, u64_at};
use crate::disk::Disk;
use crate::error::FileError;
use crate::{FORMAT_VERSION, names};

/// Bytes before the first frame of a segment.
pub const SEGMENT_HEADER_BYTES: u32 = 64;
/// First eight bytes of every segment.
const SEGMENT_MAGIC: [u8; 8] = *b"DriftQsg";
/// No real log gets here; refusing more leaves every later number representable.
const SEGMENT_NUMBER_MAX: u32 = u32::MAX / 2;

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u32,
    /// A frame that ends at or past this offset is the last one.
    pub(crate) roll_at: u32,
    /// Repeated by every frame of this segment and by no other bytes.
    pub(crate) salt: u64,
}

/// Why header bytes are unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// Written by a newer driftq.
    Newer(u32),
    /// Anything else, in words.
    Damaged(&'static str),
}

impl SegmentHeader {
    /// Bytes of the file when it became a segment; it may have grown since, and never gets shorter.
    pub(crate) fn file_bytes(&self) -> u32 {
        self.roll_at + self.roll_at / 7
    }

    /// The bytes of the header.
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.roll_at.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        let crc = crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of the segment that a file name promises.
    pub(crate) fn decode(
        bytes: &[u8; SEGMENT_HEADER_BYTES as usize],
        number: u32,
    ) -> Result<Self, BadHeader> {
        check_preamble(bytes, &SEGMENT_MAGIC)?;
        let header = Self { number: u32_at(bytes, 16), roll_at: u32_at(bytes, 20), salt: u64_at(bytes, 24) };
        if header.number != number {
            return Err(BadHeader::Damaged("the header names another segment than the file does"));
        }
        if header.number == 0 || header.number > SEGMENT_NUMBER_MAX {
            return Err(BadHeader::Damaged("the segment number is out of range"));
        }
        if header.roll_at <= SEGMENT_HEADER_BYTES || header.roll_at > crate::SEGMENT_BYTES_MAX {
            return Err(BadHeader::Damaged("the roll mark is out of range"));
        }
        Ok(header)
    }
}

/// Magic, checksum and version, which lie at the same place in every file of every version.
///
/// The checksum goes first: a flipped bit in the version must not be reported as a newer driftq.
pub(crate) fn check_preamble(bytes: &[u8; 64], magic: &[u8; 8]) -> Result<(), BadHeader> {
    if bytes[..8] != *magic {
        return Err(BadHeader::Damaged("the file does not start with its magic bytes"));
    }
    if crc32c(&bytes[12..]) != u32_at(bytes, 8) {
        return Err(BadHeader::Damaged("the header does not match its checksum"));
    }
    match u32_at(bytes, 12) {
        FORMAT_VERSION => Ok(()),
        0 => Err(BadHeader::Damaged("format version 0 does not exist")),
        newer => Err(BadHeader::Newer(newer)),
    }
}

/// A segment of an open log.
///
/// Reads hold the file's lock shared, dropping holds it exclusively: once a segment is dropped its
/// file may become another segment, and no read can be on the way into the wrong one.
pub(crate) struct Segment<D: Disk> {
    pub(crate) header: SegmentHeader,
    /// End of the last frame; bytes past it are not handed out.
    end: AtomicU32,
    handle: RwLock<Handle<D::File>>,
}

enum Handle<F> {
    Open(F),
    /// Files are opened when needed: a log may have more segments than a process may have files.
    Closed,
    Gone,
}

/// Why a segment's file could not be used.
pub(crate) enum SegmentError {
    Gone,
    Io(FileError),
}

impl<D: Disk> Segment<D> {
    pub(crate) fn new(header: SegmentHeader, end: u32, file: Option<D::File>) -> Self {
        let handle = file.map_or(Handle::Closed, Handle::Open);
        Self { header, end: AtomicU32::new(end), handle: RwLock::new(handle) }
    }

    pub(crate) fn name(&self) -> String {
        names::segment(self.header.number)
    }

    pub(crate) fn end(&self) -> u32 {
        self.end.load(Ordering::Acquire)
    }

    /// Makes everything below `end` readable; it has been written.
    pub(crate) fn set_end(&self, end: u32) {
        self.end.store(end, Ordering::Release);
    }

    /// Runs `work` on the file while it cannot be dropped.
    pub(crate) fn with_file<R>(
        &self,
        disk: &D,
        action: &'static str,
        work: impl FnOnce(&D::File) -> io::Result<R>,
    ) -> Result<R, SegmentError> {
        let failed = |error| SegmentError::Io(FileError::new(action, self.name(), error));
        {
            let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
            match &*handle {
                Handle::Open(file) => return work(file).map_err(failed),
                Handle::Gone => return Err(SegmentError::Gone),
                Handle::Closed => {}
            }
        }
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        if let Handle::Closed = *handle {
            let opened = disk.open(&self.name());
            *handle = Handle::Open(
                opened.map_err(|error| SegmentError::Io(FileError::new("open", self.name(), error)))?,
            );
        }
        match &*handle {
            Handle::Open(file) => work(file).map_err(failed),
            Handle::Gone | Handle::Closed => Err(SegmentError::Gone),
        }
    }

    /// Whether the file is open now.
    pub(crate) fn is_open(&self) -> bool {
        self.handle.try_read().is_ok_and(|handle| matches!(*handle, Handle::Open(_)))
    }

    /// Closes the file unless it is being used.
    pub(crate) fn close(&self) {
        if let Ok(mut handle) = self.handle.try_write()
            && let Handle::Open(_) = *handle
        {
            *handle = Handle::Closed;
        }
    }

    /// Waits for running reads and refuses all later ones.
    pub(crate) fn forget(&self) {
        *self.handle.write().unwrap_or_else(PoisonError::into_inner) = Handle::Gone;
    }
}

#[cfg(test)]
mod tests {
    use super::{BadHeader, SegmentHeader, crc32c};

    #[test]
    fn header_round_trips_and_refuses_what_it_must() {
        let header = SegmentHeader { number: 9, roll_at: 4000, salt: 5 };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes, 9), Ok(header));
        assert!(matches!(SegmentHeader::decode(&bytes, 8), Err(BadHeader::Damaged(_))));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(SegmentHeader::decode(&bad, 9), Err(BadHeader::Damaged(_))), "bit {bit}");
        }
        let mut newer = bytes;
        newer[12] = 2;
        let crc = crc32c(&newer[12..]);
        newer[8..12].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&newer, 9), Err(BadHeader::Newer(2)));
    }
}
