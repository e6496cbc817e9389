//! One frame: a header, one batch's bytes, zeros up to the next multiple of eight.

use crate::Lsn;
use crate::checksum::{crc32c, u32_at, u64_at};

/// Bytes before the body of a frame.
pub const FRAME_HEADER_BYTES: u32 = 40;
/// Largest body of one frame.
pub const FRAME_BODY_BYTES_MAX: u32 = 80 << 20;

/// Frames start at multiples of this, which bounds where a search for them has to look.
pub(crate) const FRAME_ALIGN: u32 = 8;
/// First four bytes of every frame.
pub(crate) const FRAME_MAGIC: [u8; 4] = *b"DQfr";

/// What a frame says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) crc: u32,
    pub(crate) body_bytes: u32,
    pub(crate) flags: u32,
    /// Where the frame itself starts.
    pub(crate) lsn: Lsn,
    /// Everything below this had been synced when the frame was written.
    pub(crate) durable: Lsn,
    /// The salt of the segment it was written into.
    pub(crate) salt: u64,
}

/// Bytes that a frame with this body takes on disk.
pub(crate) fn frame_bytes(body_bytes: u32) -> u32 {
    debug_assert!(body_bytes <= FRAME_BODY_BYTES_MAX);
    (FRAME_HEADER_BYTES + body_bytes).next_multiple_of(FRAME_ALIGN)
}

/// Writes a whole frame into `buffer`, replacing what was there.
pub(crate) fn encode(buffer: &mut Vec<u8>, lsn: Lsn, durable: Lsn, salt: u64, body: &[u8]) {
    let body_bytes = u32::try_from(body.len()).expect("callers refuse bodies above the limit");
    buffer.clear();
    buffer.reserve(frame_bytes(body_bytes) as usize);
    buffer.extend_from_slice(&FRAME_MAGIC);
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&body_bytes.to_le_bytes());
    buffer.extend_from_slice(&0u32.to_le_bytes());
    buffer.extend_from_slice(&lsn.0.to_le_bytes());
    buffer.extend_from_slice(&durable.0.to_le_bytes());
    buffer.extend_from_slice(&salt.to_le_bytes());
    buffer.extend_from_slice(body);
    buffer.resize(frame_bytes(body_bytes) as usize, 0);
    let crc = crc32c(&buffer[8..]);
    buffer[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// What the first bytes of a place in a segment amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A header that belongs exactly here; the checksum is still to be tested.
    Frame(FrameHeader),
    /// Enough of a header that a frame was begun here, but not a usable one.
    Broken,
    /// Zeros, or bytes of another life of the file.
    Nothing,
}

/// Judges the header bytes found at `here` in a segment with this salt.
///
/// A frame counts as begun here when its salt fits, or both its magic and position do: one damaged
/// field is then still told apart from bytes that were never a frame of this segment.
pub(crate) fn claim(header: &[u8; FRAME_HEADER_BYTES as usize], here: Lsn, salt: u64) -> Claim {
    let magic = header[..4] == FRAME_MAGIC;
    let found = FrameHeader {
        crc: u32_at(header, 4),
        body_bytes: u32_at(header, 8),
        flags: u32_at(header, 12),
        lsn: Lsn(u64_at(header, 16)),
        durable: Lsn(u64_at(header, 24)),
        salt: u64_at(header, 32),
    };
    if !(found.salt == salt || (magic && found.lsn == here)) {
        return Claim::Nothing;
    }
    let fits = magic
        && found.salt == salt
        && found.lsn == here
        && found.flags == 0
        && found.body_bytes <= FRAME_BODY_BYTES_MAX
        // A frame cannot know that anything at or after itself is synced.
        && found.durable <= here;
    if fits { Claim::Frame(found) } else { Claim::Broken }
}

/// Whether the bytes of a whole frame, padding included, match its checksum.
pub(crate) fn intact(header: &FrameHeader, frame: &[u8]) -> bool {
    crc32c(&frame[8..]) == header.crc
}

#[cfg(test)]
mod tests {
    use super::{Claim, FRAME_HEADER_BYTES, claim, encode, frame_bytes, intact};
    use crate::Lsn;

    fn head(frame: &[u8]) -> &[u8; FRAME_HEADER_BYTES as usize] {
        frame.first_chunk().unwrap()
    }

    #[test]
    fn a_frame_is_valid_only_at_its_own_place_and_salt() {
        let mut frame = Vec::new();
        let here = Lsn::new(3, 64);
        encode(&mut frame, here, Lsn::new(2, 900), 77, b"hello");
        assert_eq!(frame.len(), frame_bytes(5) as usize);
        let Claim::Frame(header) = claim(head(&frame), here, 77) else { panic!("valid") };
        assert!(intact(&header, &frame));
        assert_eq!(claim(head(&frame), Lsn::new(9, 64), 78), Claim::Nothing);
        assert_eq!(claim(head(&frame), Lsn::new(9, 64), 77), Claim::Broken);
        encode(&mut frame, here, Lsn::new(3, 72), 77, b"knows the future");
        assert_eq!(claim(head(&frame), here, 77), Claim::Broken);
    }

    #[test]
    fn every_single_flip_is_noticed_and_leaves_evidence() {
        let mut frame = Vec::new();
        let here = Lsn::new(3, 64);
        encode(&mut frame, here, Lsn::new(2, 900), 77, b"hello");
        for bit in 0..frame.len() * 8 {
            let mut bad = frame.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match claim(head(&bad), here, 77) {
                Claim::Frame(header) => {
                    let whole = frame_bytes(header.body_bytes) as usize;
                    assert!(whole != bad.len() || !intact(&header, &bad), "bit {bit}");
                }
                Claim::Broken => {}
                Claim::Nothing => panic!("bit {bit} hid the frame"),
            }
        }
    }
}
