//! Appending and syncing.

use std::io;
use std::sync::Arc;

use crate::Lsn;
use crate::cursor::Cursor;
use crate::disk::{Disk, DiskFile, write_all};
use crate::error::{FileError, WriteError};
use crate::fill::zero;
use crate::frame::{FRAME_BODY_BYTES_MAX, encode};
use crate::names;
use crate::newest;
use crate::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentError, SegmentHeader};
use crate::shared::{Shared, Spare};

/// A frame buffer larger than this is given back after use.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

/// The only handle that appends. Not shared: one thread owns it.
pub struct Writer<D: Disk> {
    shared: Arc<Shared<D>>,
    segment: Arc<Segment<D>>,
    cursor: Cursor,
    /// Length of the active file.
    file_bytes: u32,
    buffer: Vec<u8>,
    poisoned: bool,
}

impl<D: Disk> Writer<D> {
    pub(crate) fn new(
        shared: Arc<Shared<D>>,
        segment: Arc<Segment<D>>,
        cursor: Cursor,
        file_bytes: u32,
    ) -> Self {
        Self { shared, segment, cursor, file_bytes, buffer: Vec::new(), poisoned: false }
    }

    /// Where the next frames will lie.
    pub fn cursor(&self) -> Cursor {
        self.cursor.clone()
    }

    /// Everything below is durable.
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Whether an earlier call failed for good.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Writes one frame and returns its end. It is durable once [`Writer::sync`] returned that end
    /// or a later one.
    pub fn append(&mut self, body: &[u8]) -> Result<Lsn, WriteError> {
        if self.poisoned {
            return Err(WriteError::Poisoned);
        }
        if body.len() > FRAME_BODY_BYTES_MAX as usize {
            return Err(WriteError::TooLarge { bytes: body.len() });
        }
        if self.cursor.rolls() {
            self.roll()?;
        }
        let mut next = self.cursor.clone();
        let (frame, end) = (next.next_frame(), next.advance(body.len()));
        self.grow(end.offset())?;
        encode(&mut self.buffer, frame, self.shared.durable(), self.segment.header.salt, body);
        let buffer = &self.buffer;
        let write = |file: &D::File| write_all(file, buffer, u64::from(frame.offset()));
        let written = self.segment.with_file(&self.shared.disk, "append to", write);
        self.poison(written)?;
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        self.cursor = next;
        self.segment.set_end(end.offset());
        self.shared.set_appended(end);
        Ok(end)
    }

    /// Makes every appended frame durable and returns the end of the last one.
    pub fn sync(&mut self) -> Result<Lsn, WriteError> {
        if self.poisoned {
            return Err(WriteError::Poisoned);
        }
        let end = self.cursor.end();
        if self.shared.durable() < end {
            let synced = self.segment.with_file(&self.shared.disk, "sync", DiskFile::sync_data);
            self.poison(synced)?;
            self.shared.set_durable(end);
        }
        Ok(end)
    }

    /// Starts the next segment in a spare.
    fn roll(&mut self) -> Result<(), WriteError> {
        if self.shared.spares_ready() == 0 {
            return Err(WriteError::NoSpace);
        }
        // The next segment's existence will prove that this one is durable to its end.
        self.sync()?;
        let Some(spare) = self.shared.take_spare() else {
            return Err(WriteError::NoSpace);
        };
        let number = self.cursor.next_frame().segment();
        let options = &self.shared.options;
        let header = SegmentHeader { number, roll_at: options.roll_at(), salt: options.salt_of(number) };
        let file_bytes = options.segment_bytes;
        let taken = self.take(spare, &header).map_err(SegmentError::Io);
        let Some(file) = self.poison(taken)? else {
            return Err(WriteError::NoSpace);
        };
        let segment = Arc::new(Segment::new(header, SEGMENT_HEADER_BYTES, Some(file)));
        // Best effort: without it only less is checked at the next start.
        let _ = newest::note(&self.shared.disk, number);
        self.shared.add_segment(Arc::clone(&segment));
        self.segment = segment;
        self.file_bytes = file_bytes;
        self.cursor = Cursor::new(self.cursor.next_frame(), header.roll_at, header.roll_at);
        self.shared.set_appended(self.cursor.end());
        self.shared.set_durable(self.cursor.end());
        self.shared.count_spares();
        Ok(())
    }

    /// Turns a spare into a segment: first its header, then its name, each durable before the next
    /// step. `None` when even the name finds no space; the spare is then back among the others.
    fn take(&self, spare: Spare<D>, header: &SegmentHeader) -> Result<Option<D::File>, FileError> {
        let disk = &self.shared.disk;
        let name = names::segment(header.number);
        let headed = write_all(&spare.file, &header.encode(), 0).and_then(|()| spare.file.sync_data());
        headed.map_err(|error| FileError::new("write the header of", &spare.name, error))?;
        match disk.rename(&spare.name, &name).map_err(|error| FileError::new("name", &name, error)) {
            Ok(()) => {}
            Err(error) if error.is_full() => {
                self.shared.add_spare(spare);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        disk.sync_dir().map_err(|error| FileError::new("sync the name of", name, error))?;
        Ok(Some(spare.file))
    }

    /// Makes the active file reach `end`, for a frame larger than what is left of it.
    ///
    /// Space is claimed with zeros before the frame is written, so that a full disk refuses the
    /// frame instead of tearing it.
    fn grow(&mut self, end: u32) -> Result<(), WriteError> {
        let old = self.file_bytes;
        if end <= old {
            return Ok(());
        }
        let extend = |file: &D::File| -> io::Result<bool> {
            match zero(file, u64::from(old), u64::from(end)) {
                Ok(()) => Ok(true),
                Err(error) if FileError::new("grow", "", io::Error::from(error.kind())).is_full() => {
                    file.set_bytes(u64::from(old))?;
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        };
        let grown = self.segment.with_file(&self.shared.disk, "grow", extend);
        if !self.poison(grown)? {
            return Err(WriteError::NoSpace);
        }
        self.file_bytes = end;
        Ok(())
    }

    /// Remembers that the disk failed: what it holds now is unknown, so nothing more is built on it.
    fn poison<R>(&mut self, outcome: Result<R, SegmentError>) -> Result<R, WriteError> {
        outcome.map_err(|error| {
            self.poisoned = true;
            match error {
                SegmentError::Io(error) => WriteError::Io(error),
                SegmentError::Gone => unreachable!("the active segment is never dropped"),
            }
        })
    }
}
