//! Reading what was appended.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::Lsn;
use crate::cursor::first_frame;
use crate::disk::{Disk, read_all};
use crate::error::{ReadError, ReplayError};
use crate::examine::damage;
use crate::frame::{FRAME_ALIGN, FRAME_HEADER_BYTES};
use crate::scan::{Scanner, Slot};
use crate::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentError};
use crate::shared::Shared;

/// Reads bytes and frames of an open log, from any thread, while the writer appends.
pub struct Reader<D: Disk> {
    shared: Arc<Shared<D>>,
}

impl<D: Disk> Clone for Reader<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Disk> Reader<D> {
    pub(crate) fn new(shared: Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// End of the last frame appended so far.
    pub fn end(&self) -> Lsn {
        self.shared.appended()
    }

    /// Where a segment ends; `None` if there is none of this number.
    pub fn segment_end(&self, number: u32) -> Option<u64> {
        self.shared.segment(number).map(|segment| segment.end().into())
    }

    /// Reads `bytes` bytes from `at`, which lie in one body. They are not checked: a caller that reads parts of a body
    /// keeps a checksum of them.
    pub fn read_at(&self, at: Lsn, bytes: u32) -> Result<Vec<u8>, ReadError> {
        let Some(segment) = self.shared.segment(at.segment()) else {
            let reached = at.segment() <= self.shared.appended().segment();
            return Err(if reached { ReadError::Gone } else { ReadError::OutOfRange });
        };
        let end = at.offset().checked_add(bytes).ok_or(ReadError::OutOfRange)?;
        // Checked before anything is allocated: a wrong length must not cost memory.
        if at.offset() < SEGMENT_HEADER_BYTES || end > segment.end() {
            return Err(ReadError::OutOfRange);
        }
        let read = |file: &D::File| -> io::Result<Vec<u8>> {
            let mut buffer = vec![0; bytes as usize];
            read_all(file, &mut buffer, u64::from(at.offset()))?;
            Ok(buffer)
        };
        segment.with_file(&self.shared.disk, "read", read).map_err(|error| match error {
            SegmentError::Gone => ReadError::Gone,
            SegmentError::Io(error) => ReadError::Io(error),
        })
    }

    /// Feeds every frame in `[from, to)`, in order: the position of the body's first byte, the body.
    ///
    /// `from` is the edge of a frame: a start, an end, or a snapshot's position. Without `to`, it
    /// goes to the last frame appended when it starts. Returns where it stopped: `to`, or, after
    /// `each` broke off, the end of the frame it broke off at.
    pub fn replay(
        &self,
        from: Lsn,
        to: Option<Lsn>,
        each: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
    ) -> Result<Lsn, ReplayError> {
        let appended = self.shared.appended();
        let to = to.unwrap_or(appended);
        let sane = from.offset() >= SEGMENT_HEADER_BYTES && from.offset().is_multiple_of(FRAME_ALIGN);
        if !sane || from > appended {
            return Err(ReplayError::OutOfRange(from));
        }
        if to > appended {
            return Err(ReplayError::OutOfRange(to));
        }
        let mut at = from;
        while at < to {
            let segment = self.shared.segment(at.segment()).ok_or(ReplayError::Gone)?;
            if at.offset() < segment.header.roll_at {
                let stop = if to.segment() == at.segment() { to.offset() } else { segment.end() };
                let (reached, flow) = self.replay_segment(&segment, at.offset(), stop, each)?;
                at = Lsn::new(at.segment(), reached);
                if flow.is_break() {
                    return Ok(at);
                }
            }
            if at < to {
                at = first_frame(at.segment() + 1);
            }
        }
        Ok(at)
    }

    /// Feeds the frames of one segment from `at` to `stop`.
    fn replay_segment(
        &self,
        segment: &Arc<Segment<D>>,
        mut at: u32,
        stop: u32,
        each: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
    ) -> Result<(u32, ControlFlow<()>), ReplayError> {
        // The file is held only during each read: a slow `each` must not delay the keeper when it drops segments.
        let read = |buffer: &mut [u8], at| {
            let read = |file: &D::File| read_all(file, buffer, at);
            segment.with_file(&self.shared.disk, "read", read)
        };
        let mut scanner = Scanner::new(segment.header, u64::from(segment.end()), read);
        let number = segment.header.number;
        while at < stop {
            match scanner.slot(at) {
                Ok(Slot::Frame { body, end, .. }) => {
                    let flow = each(Lsn::new(number, at + FRAME_HEADER_BYTES), body);
                    at = end;
                    if flow.is_break() {
                        return Ok((at, flow));
                    }
                }
                Ok(Slot::Torn { .. } | Slot::Nothing) => {
                    let what = "a frame that was valid is not any more";
                    return Err(damage(&self.shared.disk, number, at, what).into());
                }
                Err(SegmentError::Gone) => return Err(ReplayError::Gone),
                Err(SegmentError::Io(error)) => return Err(error.into()),
            }
        }
        Ok((at, ControlFlow::Continue(())))
    }
}
