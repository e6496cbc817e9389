//! Finds out what a lost segment header said.

use std::io;

use crate::checksum::u64_at;
use crate::disk::{DiskFile, read_all};
use crate::frame::{FRAME_ALIGN, FRAME_HEADER_BYTES};
use crate::scan::{Scanner, Slot};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

/// The header of segment `number`, from what its first frame repeats; `None` if that one is lost, too.
///
/// The roll mark is not repeated, but any value serves that the last frame reaches exactly when
/// there is a next segment.
pub(crate) fn rebuild<F: DiskFile>(
    file: &F,
    number: u32,
    bytes: u64,
    has_next: bool,
) -> io::Result<Option<SegmentHeader>> {
    if bytes < u64::from(SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES) {
        return Ok(None);
    }
    let mut first = [0; FRAME_HEADER_BYTES as usize];
    read_all(file, &mut first, u64::from(SEGMENT_HEADER_BYTES))?;
    let mut header = SegmentHeader { number, roll_at: SEGMENT_BYTES_MAX, salt: u64_at(&first, 32) };
    let mut scanner = Scanner::new(header, bytes, |buffer: &mut [u8], at| read_all(file, buffer, at));
    if !matches!(scanner.slot(SEGMENT_HEADER_BYTES)?, Slot::Frame { .. }) {
        return Ok(None);
    }
    // Not only the unbroken run: a frame after a broken one must still show that something is missing.
    let mut end = SEGMENT_HEADER_BYTES;
    let mut after = SEGMENT_HEADER_BYTES - FRAME_ALIGN;
    while let Some(at) = scanner.search(after)? {
        after = at;
        if let Slot::Frame { end: frame_end, .. } = scanner.slot(at)? {
            end = frame_end;
            after = frame_end - FRAME_ALIGN;
        }
    }
    let usual = u32::try_from(bytes - bytes / 8).unwrap_or(SEGMENT_BYTES_MAX);
    header.roll_at = if has_next { end } else { usual.max(SEGMENT_BYTES_MIN / 2) }.min(SEGMENT_BYTES_MAX);
    Ok(Some(header))
}
