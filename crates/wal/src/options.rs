//! How a log is laid out on disk.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::frame::{FRAME_ALIGN, FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES};

/// Smallest accepted [`Options::segment_bytes`].
pub const SEGMENT_BYTES_MIN: u32 = 4096;
/// Largest accepted [`Options::segment_bytes`]; keeps every offset of an overlong last frame in 32 bits.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

const _: () =
    assert!(SEGMENT_BYTES_MIN <= SEGMENT_BYTES_MAX && SEGMENT_BYTES_MIN.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(
    SEGMENT_BYTES_MAX as u64 + FRAME_HEADER_BYTES as u64 + FRAME_BODY_BYTES_MAX as u64 + FRAME_ALIGN as u64
        <= u32::MAX as u64
);

/// Layout of a log. Each segment remembers its own, so these may differ from one start to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size to which segment files are filled with zeros before use.
    pub segment_bytes: u32,
    /// How many unused segment files are kept for recycling; at least those that are always prepared.
    pub spares_max: usize,
    /// Spares that are prepared ahead of their use, at least one.
    pub spares_ahead: usize,
    /// Spares that are prepared for acks alone, besides those. Three let acks go on for ever on a full disk: while
    /// one is filled a snapshot frees another, and the first may hold messages of a batch that was decided before the
    /// disk was known to be full.
    pub spares_for_acks: usize,
    /// Smallest size of the file that is given up when a snapshot finds the disk full. It grows with the snapshots.
    pub reserve_bytes: u64,
    /// Seed of the salts in segment headers. It must not be guessable by a producer that writes payloads, or a payload
    /// could imitate a frame; tests fix it to get the same bytes every time.
    pub salt: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 32 << 20,
            spares_max: 4,
            spares_ahead: 1,
            spares_for_acks: 3,
            reserve_bytes: 16 << 20,
            // The standard library's only door to the system's randomness.
            salt: RandomState::new().build_hasher().finish(),
        }
    }
}

impl Options {
    /// A frame that ends at or past this offset is the last of its segment.
    ///
    /// The eighth above it is room for that last frame, so that only a batch larger than an eighth
    /// of a segment has to grow the file.
    pub(crate) fn roll_at(&self) -> u32 {
        self.segment_bytes - self.segment_bytes / 8
    }

    /// How many spares are made ahead; more come only from recycling.
    pub(crate) fn spares_made(&self) -> usize {
        self.spares_ahead.max(1) + self.spares_for_acks
    }

    /// How many spares are kept at most.
    pub(crate) fn spares_kept_max(&self) -> usize {
        self.spares_max.max(self.spares_made())
    }

    /// How large the reserve must be for a successor of a snapshot of this size: somewhat larger than it.
    pub(crate) fn reserve_bytes_for(&self, snapshot_bytes: u64) -> u64 {
        match self.reserve_bytes {
            0 => 0,
            smallest => smallest.max(snapshot_bytes.saturating_add(snapshot_bytes / 4)),
        }
    }

    /// A salt that differs for every segment (the finalizer of splitmix64).
    pub(crate) fn salt_of(&self, segment: u32) -> u64 {
        let mut z = self.salt ^ u64::from(segment).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
