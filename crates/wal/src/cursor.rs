//! Where the next batch will lie.

use crate::Lsn;
use crate::frame::{FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES, frame_bytes};
use crate::segment::SEGMENT_HEADER_BYTES;

/// Computes positions without touching the disk.
///
/// The rule for starting a new segment looks only at frames already placed, never at the next one,
/// so the thread that fills a batch knows the address of its first byte while the batch before it
/// is still being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// End of the last frame.
    end: Lsn,
    /// Roll mark of the segment `end` is in.
    roll_at: u32,
    /// Roll mark of every later segment.
    roll_at_next: u32,
}

impl Cursor {
    /// A log that ends at `end`. A batch that reaches `roll_at` is the last of its segment; later segments have
    /// `roll_at_next`.
    pub fn new(end: Lsn, roll_at: u32, roll_at_next: u32) -> Self {
        Self { end, roll_at, roll_at_next }
    }

    /// End of the last frame placed: everything placed so far lies below it.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Whether the next frame starts a new segment.
    pub fn rolls(&self) -> bool {
        self.end.offset() >= self.roll_at
    }

    /// Where the next frame starts.
    pub fn next_frame(&self) -> Lsn {
        if self.rolls() { first_frame(self.end.segment() + 1) } else { self.end }
    }

    /// Where the first byte of the next body will lie.
    pub fn next_body(&self) -> Lsn {
        let frame = self.next_frame();
        Lsn::new(frame.segment(), frame.offset() + FRAME_HEADER_BYTES)
    }

    /// Places a body of this length and returns the new [`Cursor::end`].
    ///
    /// # Panics
    /// When `body_bytes` is above [`FRAME_BODY_BYTES_MAX`].
    pub fn advance(&mut self, body_bytes: usize) -> Lsn {
        assert!(body_bytes <= FRAME_BODY_BYTES_MAX as usize, "a batch is bounded by its frame");
        let frame = self.next_frame();
        if frame.segment() != self.end.segment() {
            self.roll_at = self.roll_at_next;
        }
        self.end = Lsn::new(frame.segment(), frame.offset() + frame_bytes(body_bytes as u32));
        self.end
    }
}

/// Where the first frame of a segment starts.
pub(crate) fn first_frame(segment: u32) -> Lsn {
    Lsn::new(segment, SEGMENT_HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::Cursor;
    use crate::Lsn;

    #[test]
    fn rolls_after_the_frame_that_reaches_the_mark() {
        let mut cursor = Cursor::new(Lsn::new(1, 64), 200, 300);
        assert_eq!(cursor.next_body(), Lsn::new(1, 104));
        assert_eq!(cursor.advance(5), Lsn::new(1, 112));
        assert!(!cursor.rolls());
        assert_eq!(cursor.advance(48), Lsn::new(1, 200));
        assert!(cursor.rolls());
        assert_eq!(cursor.next_body(), Lsn::new(2, 104));
        // A frame may be longer than its segment.
        assert_eq!(cursor.advance(1000), Lsn::new(2, 64 + 40 + 1000));
        assert_eq!(cursor.next_body(), Lsn::new(3, 104));
    }
}
