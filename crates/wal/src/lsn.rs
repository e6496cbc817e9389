//! The address of a byte in the log.

use std::fmt;

/// A log position: segment number in the upper half, byte offset in that segment's file in the lower.
///
/// It is physical, so a payload inside a frame can be fetched with one read and no index, and it is
/// ordered the way the log is, so "durable up to" is one comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Below every position in any log.
    pub const ZERO: Self = Self(0);

    /// The byte at `offset` of segment `segment`.
    pub const fn new(segment: u32, offset: u32) -> Self {
        Self((segment as u64) << 32 | offset as u64)
    }

    /// Number of the segment this position is in.
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Byte offset inside the segment's file.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lsn({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::Lsn;

    #[test]
    fn halves_round_trip_and_order_follows_the_log() {
        let lsn = Lsn::new(7, 4096);
        assert_eq!((lsn.segment(), lsn.offset()), (7, 4096));
        assert!(Lsn::new(7, u32::MAX) < Lsn::new(8, 0));
        assert_eq!(lsn.to_string(), "7:4096");
    }
}
