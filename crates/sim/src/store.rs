//! Where a server keeps its log: a directory of its own, or a log that several servers reach.

use std::ops::ControlFlow;

use driftq_wal::{Cursor, Keeper, Lsn, ReadError, Reader, Room, SegmentInfo, Snapshot, WriteError, Writer};

use crate::disk::SimDisk;
use crate::seat::Seat;
use crate::server::{Broken, NoStart};

/// The log of one life of a server.
pub(crate) enum Store {
    /// Files on a simulated disk.
    Files { writer: Writer<SimDisk>, reader: Reader<SimDisk>, keeper: Keeper<SimDisk> },
    /// A claim on a shared log.
    Shared(Box<Seat>),
}

/// How far a batch has got.
pub(crate) enum Progress {
    /// It has to be tried again: there is no space, or no answer yet.
    Waits,
    /// It is written; it is durable up to here, if it was to be.
    Written(Option<Lsn>),
}

impl Store {
    pub(crate) fn cursor(&self) -> Cursor {
        match self {
            Self::Files { writer, .. } => writer.cursor(),
            Self::Shared(seat) => seat.cursor(),
        }
    }

    /// The log thread's turn: write a batch, and sync it if it is urgent.
    pub(crate) fn write(&mut self, body: &[u8], urgent: bool) -> Result<Progress, Broken> {
        match self {
            Self::Files { writer, .. } => {
                match writer.append(body) {
                    Ok(_) => {}
                    Err(WriteError::NoSpace) => return Ok(Progress::Waits),
                    Err(_) => return Err(Broken::Failed),
                }
                let sync = || writer.sync().map_err(|_| Broken::Failed);
                Ok(Progress::Written(urgent.then(sync).transpose()?))
            }
            Self::Shared(seat) => Ok(match seat.append(body)? {
                None => Progress::Waits,
                Some(end) => Progress::Written(urgent.then_some(end)),
            }),
        }
    }

    /// Housekeeping: the reserve and spare segments; whether there is room.
    pub(crate) fn provide(&self) -> Result<bool, Broken> {
        match self {
            Self::Files { keeper, .. } => {
                keeper.restore_reserve().map_err(|_| Broken::Failed)?;
                keeper.prepare_spare().map_err(|_| Broken::Failed)?;
                Ok(keeper.room() == Room::Plenty)
            }
            Self::Shared(_) => Ok(true),
        }
    }

    pub(crate) fn replay(
        &self,
        from: Lsn,
        to: Option<Lsn>,
        each: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), NoStart> {
        match self {
            Self::Files { reader, .. } => {
                let replayed = reader.replay(from, to, each);
                replayed.map(drop).map_err(|error| NoStart(format!("replay: {error}")))
            }
            Self::Shared(seat) => seat.replay(from, to, each).map_err(NoStart),
        }
    }

    pub(crate) fn read_at(&self, at: Lsn, bytes: u32) -> Result<Vec<u8>, ReadError> {
        match self {
            Self::Files { reader, .. } => reader.read_at(at, bytes),
            Self::Shared(seat) => seat.read_at(at, bytes),
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        match self {
            Self::Files { keeper, .. } => keeper.durable(),
            Self::Shared(seat) => seat.durable(),
        }
    }

    pub(crate) fn segments(&self) -> Vec<SegmentInfo> {
        match self {
            Self::Files { keeper, .. } => keeper.segments(),
            Self::Shared(seat) => seat.segments(),
        }
    }

    pub(crate) fn snapshot(&self) -> Result<Option<Snapshot>, NoStart> {
        match self {
            Self::Files { keeper, .. } => keeper.snapshot().map_err(|error| NoStart(error.to_string())),
            Self::Shared(seat) => Ok(seat.snapshot()),
        }
    }

    /// False if it was not put.
    pub(crate) fn put_snapshot(&mut self, upto: Lsn, bytes: &[u8]) -> bool {
        match self {
            Self::Files { keeper, .. } => keeper.put_snapshot(upto, bytes).is_ok(),
            Self::Shared(seat) => seat.put_snapshot(upto, bytes),
        }
    }

    /// False if they are still there.
    pub(crate) fn drop_segments(&mut self, numbers: &[u32]) -> bool {
        match self {
            Self::Files { keeper, .. } => keeper.drop_segments(numbers).is_ok(),
            Self::Shared(seat) => seat.drop_segments(numbers),
        }
    }

    /// The claim on a shared log.
    pub(crate) fn seat(&mut self) -> Option<&mut Seat> {
        match self {
            Self::Files { .. } => None,
            Self::Shared(seat) => Some(seat),
        }
    }
}
