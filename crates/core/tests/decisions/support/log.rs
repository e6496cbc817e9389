//! A log of vectors, laid out as files would be: frames with headers and padding, in segments.

use driftq_core::{Fact, Position};

/// A segment is left once this much is in it; small, so that every test crosses some borders.
const SEGMENT_BYTES: u64 = 1024;
const SEGMENT_HEADER_BYTES: u64 = 64;
const FRAME_HEADER_BYTES: u64 = 40;

/// Facts that are written together, and where they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) base: Position,
    pub(crate) bytes: Vec<u8>,
}

impl Batch {
    /// End of its frame.
    pub(crate) fn end(&self) -> Position {
        Position((self.base.0 + self.bytes.len() as u64).next_multiple_of(8))
    }

    pub(crate) fn facts(&self) -> Vec<Fact<'_>> {
        let mut facts = Vec::new();
        Fact::each(self.base, &self.bytes, |_, fact| {
            facts.push(fact);
            Ok(())
        })
        .expect("a shard writes readable facts");
        facts
    }
}

/// What is written, and how much of it is synced.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) batches: Vec<Batch>,
    pub(crate) synced: usize,
    /// Where the body of the next batch will lie.
    pub(crate) base: Position,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { batches: Vec::new(), synced: 0, base: first_body(1) }
    }

    /// Writes a batch where it was announced.
    pub(crate) fn write(&mut self, bytes: Vec<u8>) {
        let batch = Batch { base: self.base, bytes };
        let end = batch.end();
        let rolls = end.0 & 0xffff_ffff >= SEGMENT_BYTES;
        self.base = if rolls { first_body(end.segment() + 1) } else { Position(end.0 + FRAME_HEADER_BYTES) };
        self.batches.push(batch);
    }

    /// Loses everything but the first `kept` batches; the next one lies in a segment of its own.
    pub(crate) fn lose(&mut self, kept: usize) {
        self.batches.truncate(kept);
        self.synced = kept;
        self.base = first_body(self.base.segment() + 1);
    }

    /// The end of what is synced.
    pub(crate) fn durable(&self) -> Position {
        self.synced.checked_sub(1).map_or(Position(0), |last| self.batches[last].end())
    }

    /// The bytes at a position, if they are written.
    pub(crate) fn read(&self, position: Position, length: u32) -> Option<&[u8]> {
        let batch = self.batches.iter().rfind(|batch| batch.base <= position)?;
        let start = usize::try_from(position.0 - batch.base.0).ok()?;
        batch.bytes.get(start..start + length as usize)
    }
}

fn first_body(segment: u32) -> Position {
    Position((u64::from(segment) << 32) + SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES)
}
