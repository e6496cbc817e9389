//! Bytes on disk: DriftQ's log, its snapshots, and the directory they live in.
//!
//! The log is a chain of segment files. One *frame* carries one batch: it is whole or it never
//! happened. Nothing here knows topics, clocks, threads or the network; a body is opaque bytes.
//!
//! Four handles come out of [`open`]:
//!
//! - [`Writer`] appends and syncs. One thread owns it.
//! - [`Reader`] reads payload bytes by address and replays frames, at any time, from any thread.
//! - [`Keeper`] does what takes long: pre-zeroed spares, snapshots, dropping old segments.
//! - [`Opened::snapshot`] and [`RecoveryReport`] say what was found.
//!
//! [`claim`] has the rules of a log that is kept elsewhere and that several servers reach; it touches nothing.
//!
//! Invariants, each asserted or tested:
//!
//! 1. A frame is valid only where it says it is: its own [`Lsn`], its segment's salt and its
//!    checksum must all agree, so bytes of an earlier life of a recycled file never parse.
//! 2. Segment `n + 1` exists only after every byte of segment `n` was synced. A torn tail can
//!    therefore only be in the last segment; a bad frame anywhere else is damage.
//! 3. A frame repeats how far the log was synced when it was written. A bad frame below any such
//!    mark was synced once, so it is damage and the log refuses to open.
//! 4. After the first I/O error the writer no longer touches the disk ([`WriteError::Poisoned`]).
//! 5. Where the next body will lie is known before its length is ([`Cursor`]).
//! 6. No length read from disk is trusted before it is checked against the file's size.

mod carry;
mod checksum;
pub mod claim;
mod cursor;
mod disk;
mod error;
mod examine;
mod fill;
mod frame;
mod inspect;
mod keeper;
mod lsn;
mod names;
mod newest;
mod open;
mod options;
mod reader;
mod real;
mod rebuild;
mod repair;
mod room;
mod scan;
mod segment;
mod settle;
mod shared;
mod snapshot;
mod writer;

pub use carry::{Carried, Holding, Making, Run, carry, head, holding, put_snapshot, run, snapshot_file};
pub use cursor::Cursor;
pub use disk::{Disk, DiskFile, Entry, LockError};
pub use error::{Damage, FileError, KeepError, OpenError, ReadError, ReplayError, WriteError};
pub use frame::{FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES};
pub use inspect::{Finding, Inspection, Verdict, inspect};
pub use keeper::{Keeper, Prepared, SegmentInfo};
pub use lsn::Lsn;
pub use names::segment as segment_file;
pub use open::{Opened, RecoveryReport, Truncated, open};
pub use options::{Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
pub use reader::Reader;
pub use real::RealDisk;
pub use repair::{Cut, RepairError, RepairPlan, repair};
pub use room::Room;
pub use segment::SEGMENT_HEADER_BYTES;
pub use snapshot::{SNAPSHOT_HEADER_BYTES, Snapshot, load as load_snapshot};
pub use writer::Writer;

/// Version of every file this crate writes. A file of a newer version is refused.
pub const FORMAT_VERSION: u32 = 1;
