//! Walks the frames of one segment through large reads.

use crate::Lsn;
use crate::checksum::u64_at;
use crate::frame::{
    Claim, FRAME_ALIGN, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, claim, frame_bytes, intact,
};
use crate::segment::SegmentHeader;

/// How much is read at once.
const CHUNK_BYTES: u32 = 1 << 20;

/// What lies at one place in a segment.
pub(crate) enum Slot<'a> {
    /// A valid frame.
    Frame {
        header: FrameHeader,
        body: &'a [u8],
        /// Offset right after it.
        end: u32,
    },
    /// A frame was begun here and is not whole. `end` is where it would have ended, as far as known.
    Torn { end: u32 },
    /// No frame of this segment.
    Nothing,
}

/// Reads frames by offset. `read` fills a buffer from an offset; it is never asked to go past `limit`.
pub(crate) struct Scanner<R> {
    read: R,
    segment: SegmentHeader,
    limit: u32,
    buffer: Vec<u8>,
    /// Range of the file that `buffer` holds.
    start: u32,
    filled: u32,
}

impl<E, R: FnMut(&mut [u8], u64) -> Result<(), E>> Scanner<R> {
    /// A scanner over the first `bytes` of a segment.
    pub(crate) fn new(segment: SegmentHeader, bytes: u64, read: R) -> Self {
        let limit = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { read, segment, limit, buffer: Vec::new(), start: 0, filled: 0 }
    }

    /// Makes `[at, at + need)` available; the caller has checked that it ends inside `limit`.
    fn fill(&mut self, at: u32, need: u32) -> Result<&[u8], E> {
        let held =
            at >= self.start && at - self.start <= self.filled && { self.filled - (at - self.start) >= need };
        if !held {
            let want = need.max(CHUNK_BYTES).min(self.limit - at);
            if self.buffer.len() < want as usize {
                self.buffer.resize(want as usize, 0);
            }
            self.filled = 0;
            (self.read)(&mut self.buffer[..want as usize], u64::from(at))?;
            self.start = at;
            self.filled = want;
        }
        let from = (at - self.start) as usize;
        Ok(&self.buffer[from..from + need as usize])
    }

    /// Judges the place at `at`.
    pub(crate) fn slot(&mut self, at: u32) -> Result<Slot<'_>, E> {
        let (limit, segment) = (self.limit, self.segment);
        if limit < FRAME_HEADER_BYTES || at > limit - FRAME_HEADER_BYTES {
            return Ok(Slot::Nothing);
        }
        let here = Lsn::new(segment.number, at);
        let head = self.fill(at, FRAME_HEADER_BYTES)?;
        let head = head.first_chunk().expect("a whole header was asked for");
        let header = match claim(head, here, segment.salt) {
            Claim::Nothing => return Ok(Slot::Nothing),
            Claim::Broken => return Ok(Slot::Torn { end: at + FRAME_HEADER_BYTES }),
            Claim::Frame(header) => header,
        };
        let whole = frame_bytes(header.body_bytes);
        // Checked against the file before anything of that size is allocated.
        if whole > limit - at {
            return Ok(Slot::Torn { end: limit });
        }
        let end = at + whole;
        let frame = self.fill(at, whole)?;
        if !intact(&header, frame) {
            return Ok(Slot::Torn { end });
        }
        let body = FRAME_HEADER_BYTES as usize..(FRAME_HEADER_BYTES + header.body_bytes) as usize;
        Ok(Slot::Frame { header, body: &frame[body], end })
    }

    /// The next place after `after` where a frame of this segment was at least begun.
    ///
    /// Only complete headers count: a frame without one cannot be told from bytes of an earlier
    /// life of the file, and can never become valid either.
    pub(crate) fn search(&mut self, after: u32) -> Result<Option<u32>, E> {
        let (number, salt) = (self.segment.number, self.segment.salt);
        let mut at = after.saturating_add(FRAME_ALIGN);
        while self.limit >= FRAME_HEADER_BYTES && at <= self.limit - FRAME_HEADER_BYTES {
            let window = CHUNK_BYTES.min(self.limit - at);
            let bytes = self.fill(at, window)?;
            let last = bytes.len() - FRAME_HEADER_BYTES as usize;
            let found = (0..=last).step_by(FRAME_ALIGN as usize).find(|&from| {
                bytes[from..from + 4] == FRAME_MAGIC
                    && u64_at(bytes, from + 32) == salt
                    && u64_at(bytes, from + 16) == Lsn::new(number, at + from as u32).0
            });
            match found {
                Some(from) => return Ok(Some(at + from as u32)),
                // The next window starts at the first place whose header this one did not hold.
                None => at += last as u32 / FRAME_ALIGN * FRAME_ALIGN + FRAME_ALIGN,
            }
        }
        Ok(None)
    }
}
