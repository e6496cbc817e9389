//! What the messages of the stream say.
//!
//! A batch is one message, or several if it is larger than a message may be; each has all that is known of the batch in
//! front of its part of the bytes. A mark is a claim, or the name of the snapshot that counts.

use bytes::Bytes;
use driftq_wal::FRAME_BODY_BYTES_MAX;
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
    /// The claim that it was written under.
    pub(super) epoch: u64,
    /// Where the batch begins.
    pub(super) frame: Lsn,
    /// Where the one before it ended.
    pub(super) previous: Lsn,
    pub(super) ended: Lsn,
    /// Which part of how many.
    pub(super) part: u32,
    pub(super) parts: u32,
    pub(super) body: Bytes,
}

impl Part {
    pub(super) fn encoded(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        for number in [self.epoch, self.frame.0, self.previous.0, self.ended.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.part.to_le_bytes());
        bytes.extend_from_slice(&self.parts.to_le_bytes());
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
        Some(Self {
            epoch: long(8)?,
            frame: Lsn(long(16)?),
            previous: Lsn(long(24)?),
            ended: Lsn(long(32)?),
            part: short(40)?,
            parts: short(44)?,
            body: bytes.slice(HEAD_BYTES..),
        })
    }

    pub(super) const fn is_last(&self) -> bool {
        self.part.saturating_add(1) == self.parts
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

/// The marks of a log, in order, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Marks {
    all: Vec<(u64, Mark)>,
}

impl Marks {
    pub(super) fn push(&mut self, sequence: u64, mark: Mark) {
        self.all.push((sequence, mark));
    }

    /// The sequence of the newest.
    pub(super) fn reached(&self) -> u64 {
        self.all.last().map_or(0, |(sequence, _)| *sequence)
    }

    pub(super) fn last(&self) -> Option<&Mark> {
        self.all.last().map(|(_, mark)| mark)
    }

    /// The snapshot that counts. One that was named under a claim that was over by then does not.
    pub(super) fn snapshot(&self) -> Option<Stored> {
        let named = self
            .all
            .iter()
            .rev()
            .find(|(sequence, mark)| mark.snapshot.is_some() && self.is_held(*sequence, mark.epoch));
        named.and_then(|(_, mark)| mark.snapshot).map(Stored::from)
    }

    /// Whether what stands at this sequence was written under the claim that held there. A deposed server may have had
    /// it on the way when the next one claimed the log: then it never happened.
    pub(super) fn is_held(&self, sequence: u64, epoch: u64) -> bool {
        self.newest_before(sequence).is_none_or(|newest| newest == epoch)
    }

    /// The newest claim in front of this sequence.
    pub(super) fn newest_before(&self, sequence: u64) -> Option<u64> {
        let claims = self.all[..self.all.partition_point(|(at, _)| *at < sequence)].iter();
        claims.filter(|(_, mark)| mark.snapshot.is_none()).map(|(_, mark)| mark.epoch).max()
    }

    /// Marks below this sequence say nothing more about a log that begins at `first`.
    pub(super) fn needed_from(&self, first: u64) -> u64 {
        let claim = self.all.iter().rev().find(|(at, mark)| *at < first && mark.snapshot.is_none());
        let named = self.all.iter().rev().find(|(_, mark)| mark.snapshot.is_some());
        let least = |one: Option<&(u64, Mark)>| one.map_or(0, |(at, _)| *at);
        match named {
            Some(_) => least(claim).min(least(named)),
            None => least(claim),
        }
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
    /// Of the batch that is under way: its claim, where it begins, how many parts are there, and their bytes.
    under_way: Option<(u64, Lsn, u32)>,
    bytes: Vec<u8>,
}

impl Joiner {
    /// Takes the next message; the batch that it completes, or the words for a damaged one.
    pub(super) fn take(&mut self, message: &Message, marks: &Marks) -> Result<Option<Batch>, &'static str> {
        let part = Part::decoded(&message.payload).ok_or("a batch does not match its checksum")?;
        if !marks.is_held(message.sequence, part.epoch) {
            return Ok(None);
        }
        let Part { epoch, frame, previous, ended, part: number, parts, body } = part;
        if number == 0 {
            self.bytes.clear();
        }
        if number >= parts || self.bytes.len() + body.len() > FRAME_BODY_BYTES_MAX as usize {
            return Err("a batch has more parts than it may");
        }
        if parts == 1 {
            self.under_way = None;
            return Ok(Some(Batch { frame, previous, ended, body }));
        }
        if number > 0 && self.under_way != Some((epoch, frame, number)) {
            // Who begins to read in the middle of a batch does not want it.
            self.under_way = None;
            return Ok(None);
        }
        self.bytes.extend_from_slice(&body);
        self.under_way = Some((epoch, frame, number + 1));
        if number + 1 < parts {
            return Ok(None);
        }
        self.under_way = None;
        Ok(Some(Batch { frame, previous, ended, body: std::mem::take(&mut self.bytes).into() }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Joiner, Mark, Marks, Message, Part};
    use crate::log::Lsn;

    fn claim(epoch: u64) -> Mark {
        Mark { epoch, holder: "me".into(), snapshot: None }
    }

    fn part(epoch: u64, frame: u32, (part, parts): (u32, u32), body: &'static [u8]) -> Part {
        let at = |offset| Lsn::new(1, offset);
        let (frame, previous, ended) = (at(frame), at(frame), at(frame + 100));
        Part { epoch, frame, previous, ended, part, parts, body: Bytes::from_static(body) }
    }

    fn message(sequence: u64, part: &Part) -> Message {
        Message { sequence, subject: String::new(), time: String::new(), payload: part.encoded() }
    }

    #[test]
    fn a_part_comes_back_and_a_damaged_one_does_not() {
        let whole = part(7, 64, (1, 3), b"abc");
        let bytes = whole.encoded();
        assert_eq!(Part::decoded(&bytes), Some(whole));
        for at in 0..bytes.len() {
            let mut harmed = bytes.to_vec();
            harmed[at] ^= 4;
            assert_eq!(Part::decoded(&harmed.into()), None, "{at}");
            assert_eq!(Part::decoded(&bytes.slice(..at)), None, "{at}");
        }
    }

    /// The tale of a stream: an unfinished batch, a claim, a batch of the deposed server that came late, and the new
    /// server's at the same place.
    #[test]
    fn what_was_late_or_left_unfinished_never_happened() {
        let mut marks = Marks::default();
        for (sequence, epoch) in [(1, 1), (5, 2)] {
            marks.push(sequence, claim(epoch));
        }
        let tale = [
            (2, part(1, 64, (0, 1), b"one")),
            (3, part(1, 200, (0, 3), b"tor")),
            (4, part(1, 200, (1, 3), b"n")),
            (6, part(1, 200, (2, 3), b"!")),
            (7, part(1, 200, (0, 1), b"late")),
            (8, part(2, 200, (0, 2), b"tw")),
            (9, part(2, 200, (1, 2), b"o")),
        ];
        let mut joiner = Joiner::default();
        let mut whole = Vec::new();
        for (sequence, part) in &tale {
            whole.extend(joiner.take(&message(*sequence, part), &marks).unwrap());
        }
        let told: Vec<_> = whole.iter().map(|batch| &batch.body[..]).collect();
        assert_eq!(told, [&b"one"[..], b"two"]);
    }

    #[test]
    fn a_mark_is_needed_as_long_as_it_speaks_of_what_is_there() {
        let mut marks = Marks::default();
        let named = |epoch| Mark {
            snapshot: Some(super::Named { number: 1, upto: 2, bytes: 3, crc: 4 }),
            ..claim(epoch)
        };
        for (sequence, mark) in [(1, claim(1)), (10, claim(2)), (15, named(2)), (20, claim(3))] {
            marks.push(sequence, mark);
        }
        assert_eq!(marks.needed_from(8), 1);
        assert_eq!(marks.needed_from(12), 10);
        assert_eq!(marks.needed_from(30), 15, "the snapshot that counts is named there");
        assert!(marks.snapshot().is_some());
        marks.push(21, named(2));
        assert_eq!(marks.snapshot().map(|stored| stored.number), Some(1), "a late one does not count");
    }
}
