//! How much can still be appended without asking the disk for space.

/// What the space at hand allows. Half a segment and the spares kept for acks are for acks alone: they shrink what must
/// be stored, so refusing them on a full disk would make it stay full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// More spares are ready than acks may need, or these and half of the segment in use; and there is a reserve.
    Plenty,
    /// What is left is for acks: refuse new messages.
    Scarce,
    /// No next segment, and this one is full: appending answers [`crate::WriteError::NoSpace`].
    None,
}

impl Room {
    /// Judges an active segment in which `used` bytes are taken and which ends at `roll_at`, with `spares` ready, of
    /// which `kept` are for acks alone.
    pub fn of(used: u32, roll_at: u32, spares: usize, kept: usize) -> Self {
        if spares > kept || (spares == kept && used < roll_at / 2) {
            Self::Plenty
        } else if spares > 0 || used < roll_at {
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
    fn half_a_segment_and_some_spares_are_kept_for_acks() {
        for (used, spares, kept, room) in [
            (64, 0, 0, Room::Plenty),
            (499, 0, 0, Room::Plenty),
            (500, 0, 0, Room::Scarce),
            (999, 0, 0, Room::Scarce),
            (1000, 0, 0, Room::None),
            (1000, 1, 0, Room::Plenty),
            (1000, 3, 2, Room::Plenty),
            (499, 2, 2, Room::Plenty),
            (500, 2, 2, Room::Scarce),
            (64, 1, 2, Room::Scarce),
            (999, 0, 2, Room::Scarce),
            (1000, 1, 2, Room::Scarce),
            (1000, 0, 2, Room::None),
        ] {
            assert_eq!(Room::of(used, 1000, spares, kept), room, "{used} {spares} {kept}");
        }
    }
}
