//! What the messages of the stream say.
//!
//! A batch is one message, or several if it is larger than a message may be; each has all that is known of the batch in
//! front of its part of the bytes. A mark is a claim, or the name of the snapshot that counts. What follows from them
//! is decided in [`driftq_wal::claim`], where the simulator attacks it.

use bytes::Bytes;
use driftq_wal::FRAME_BODY_BYTES_MAX;
use driftq_wal::claim::{self, Head, Joined};
use serde::{Deserialize, Serialize};

use super::link::Stored as Message;
use crate::log::Lsn;
use crate::log::extent::Stored;
use crate::payload_store::check_of;

/// What a part begins with.
const MAGIC: [u8; 4] = *b"DQB1";
/// Bytes in front of those of the batch.
pub(super) const HEAD_BYTES: usize = 4 + 4 + 4 * 8 + 2 * 4;

/// One part of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) head: Head,
    pub(super) body: Bytes,
}

impl Part {
    pub(super) fn encoded(&self) -> Bytes {
        let Head { epoch, frame, previous, ended, part, parts } = self.head;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        for number in [epoch, frame.0, previous.0, ended.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&part.to_le_bytes());
        bytes.extend_from_slice(&parts.to_le_bytes());
        bytes.extend_from_slice(&self.body);
        let check = check_of(&bytes[8..]);
        bytes[4..8].copy_from_slice(&check.to_le_bytes());
        bytes.into()
    }

    /// `None` if it is damaged.
    pub(super) fn decoded(bytes: &Bytes) -> Option<Self> {
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let short = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if bytes.len() < HEAD_BYTES || bytes[..4] != MAGIC || short(4)? != check_of(&bytes[8..]) {
            return None;
        }
        let head = Head {
            epoch: long(8)?,
            frame: Lsn(long(16)?),
            previous: Lsn(long(24)?),
            ended: Lsn(long(32)?),
            part: short(40)?,
            parts: short(44)?,
        };
        Some(Self { head, body: bytes.slice(HEAD_BYTES..) })
    }
}

/// What is said between the batches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) epoch: u64,
    /// Tells claims of one process from those of others.
    pub(super) holder: String,
    /// The snapshot that counts from here on; a mark without one is a claim.
    pub(super) snapshot: Option<Named>,
}

/// A snapshot, as it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    number: i64,
    upto: u64,
    bytes: i64,
    crc: i64,
}

impl From<Stored> for Named {
    fn from(Stored { number, upto, bytes, crc }: Stored) -> Self {
        Self { number, upto: upto.0, bytes, crc }
    }
}

impl From<Named> for Stored {
    fn from(Named { number, upto, bytes, crc }: Named) -> Self {
        Self { number, upto: Lsn(upto), bytes, crc }
    }
}

impl Mark {
    pub(super) fn encoded(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// `None` if it is damaged.
    pub(super) fn decoded(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The marks of a log, in order.
#[derive(Debug, Default)]
pub(super) struct Marks {
    last: Option<Mark>,
    /// What follows from them.
    pub(super) rules: claim::Marks<Stored>,
}

impl Marks {
    pub(super) fn push(&mut self, sequence: u64, mark: Mark) {
        self.rules.push(sequence, mark.epoch, mark.snapshot.map(Stored::from));
        self.last = Some(mark);
    }

    pub(super) fn last(&self) -> Option<&Mark> {
        self.last.as_ref()
    }
}

/// A whole batch.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) frame: Lsn,
    pub(super) previous: Lsn,
    pub(super) ended: Lsn,
    pub(super) body: Bytes,
}

/// Puts parts together. What was left unfinished never happened.
#[derive(Default)]
pub(super) struct Joiner {
    parts: claim::Joiner,
}

impl Joiner {
    /// Takes the next message; the batch that it completes, or the words for a damaged one.
    pub(super) fn take(&mut self, message: &Message, marks: &Marks) -> Result<Option<Batch>, &'static str> {
        let part = Part::decoded(&message.payload).ok_or("a batch does not match its checksum")?;
        let Part { head, body } = part;
        let bytes_max = FRAME_BODY_BYTES_MAX as usize;
        let body = match self.parts.take(message.sequence, &head, &body, &marks.rules, bytes_max)? {
            None => return Ok(None),
            Some(Joined::Alone) => body,
            Some(Joined::Parts(bytes)) => bytes.into(),
        };
        let Head { frame, previous, ended, .. } = head;
        Ok(Some(Batch { frame, previous, ended, body }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use driftq_wal::claim::Head;

    use super::Part;
    use crate::log::Lsn;

    #[test]
    fn a_part_comes_back_and_a_damaged_one_does_not() {
        let at = |offset| Lsn::new(1, offset);
        let head = Head { epoch: 7, frame: at(64), previous: at(32), ended: at(164), part: 1, parts: 3 };
        let whole = Part { head, body: Bytes::from_static(b"abc") };
        let bytes = whole.encoded();
        assert_eq!(Part::decoded(&bytes), Some(whole));
        for at in 0..bytes.len() {
            let mut harmed = bytes.to_vec();
            harmed[at] ^= 4;
            assert_eq!(Part::decoded(&harmed.into()), None, "{at}");
            assert_eq!(Part::decoded(&bytes.slice(..at)), None, "{at}");
        }
    }
}
