//! How much can still be appended without asking the disk for space.

/// What the space at hand allows. The unwritten half of the active segment is kept for acks: they
/// shrink what must be stored, so refusing them on a full disk would make it stay full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A next segment is ready, or less than half of this one is used.
    Plenty,
    /// No next segment, and this one is past half: refuse new messages.
    Scarce,
    /// No next segment, and this one is full: appending answers [`crate::WriteError::NoSpace`].
    None,
}

impl Room {
    /// Judges an active segment in which `used` bytes are taken and which ends at `roll_at`.
    pub fn of(used: u32, roll_at: u32, spare_ready: bool) -> Self {
        if spare_ready || used < roll_at / 2 {
            Self::Plenty
        } else if used < roll_at {
            Self::Scarce
        } else {
            Self::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn half_a_segment_is_kept_for_acks() {
        for (used, spare, room) in [
            (64, false, Room::Plenty),
            (499, false, Room::Plenty),
            (500, false, Room::Scarce),
            (999, false, Room::Scarce),
            (1000, false, Room::None),
            (1000, true, Room::Plenty),
        ] {
            assert_eq!(Room::of(used, 1000, spare), room, "{used} {spare}");
        }
    }
}
