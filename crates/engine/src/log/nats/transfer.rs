//! A log in JetStream, read and written as a whole; see [`crate::transfer`].
//!
//! Every message says where its batch begins and ends, so that a batch is put at any position. That of the first shard
//! says for all streams of a log whether they are one.

use std::ops::ControlFlow;

use driftq_core::{SHARDS_MAX, ShardId};

use super::archive::NatsArchive;
use super::fault::Trouble;
use super::link::{Link, Wanted};
use super::stream::{self, troubled};
use super::{NatsLog, Shared};
use crate::house::HOME;
use crate::locks::lock;
use crate::log::extent::START;
use crate::log::{AppendError, Archive as _, KeepError, Lsn, NatsPlace, Snapshot};
use crate::transfer::{Batch, Each, Filling, Reading, Source, Target, TransferError, check_begun};

/// For the names of segments, which a stream does not keep.
const SEGMENT_BYTES: u32 = 32 << 20;

fn log_of(place: &NatsPlace, shard: ShardId) -> Result<NatsLog, TransferError> {
    Ok(NatsLog::new(place.clone(), shard, SEGMENT_BYTES)?)
}

/// Claims shards, the first one first: of two at once, the one that is later there is later everywhere. `streams` sees
/// to the streams of each.
fn claimed(
    place: &NatsPlace,
    shards: u8,
    mut streams: impl FnMut(&Link, &NatsLog, ShardId) -> Result<(), TransferError>,
) -> Result<Vec<NatsArchive>, TransferError> {
    let claim = |shard| {
        let log = log_of(place, shard)?;
        let link = Link::new(&log.address).map_err(|trouble| troubled(&trouble))?;
        streams(&link, &log, shard)?;
        Ok(NatsArchive { shared: log.attach(link)?.0 })
    };
    (0..shards).map(ShardId).map(claim).collect()
}

fn failed(error: &KeepError) -> TransferError {
    TransferError::Failed(error.to_string())
}

/// A log in JetStream that is taken elsewhere. Whoever was at work on it can append nothing more.
pub(crate) struct NatsSource {
    shards: Vec<NatsArchive>,
}

impl NatsSource {
    /// Claims the log of every shard.
    pub(crate) fn claim(place: &NatsPlace) -> Result<Self, TransferError> {
        let found = log_of(place, HOME)?.shards()?;
        let shards =
            claimed(place, found, |link, log, _| Ok(stream::find(link, &log.names, &place.cluster)?))?;
        Ok(Self { shards })
    }
}

impl Source for NatsSource {
    fn shards(&self) -> u8 {
        u8::try_from(self.shards.len()).unwrap_or(SHARDS_MAX)
    }

    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Reading + '_>, TransferError> {
        Ok(Box::new(StreamReading { archive: &self.shards[usize::from(shard.0)], is_source: true }))
    }

    fn check(&mut self) -> Result<(), TransferError> {
        self.shards.iter().try_for_each(|archive| match archive.check_claim() {
            Err(KeepError::Fenced(_)) => Err(TransferError::deposed()),
            checked => checked.map_err(|error| failed(&error)),
        })
    }
}

/// The streams of one shard.
struct StreamReading<'a> {
    archive: &'a NatsArchive,
    /// Batches must join on to each other. Of what was put here, the digest says more.
    is_source: bool,
}

impl Reading for StreamReading<'_> {
    fn snapshot(&mut self) -> Result<Option<Snapshot>, TransferError> {
        self.archive.snapshot().map_err(|error| failed(&error))
    }

    fn each(&mut self, each: Each<'_>) -> Result<(), TransferError> {
        let (is_source, extent) = (self.is_source, &self.archive.shared.extent);
        let (mut last, upto, mut fault) = (None, extent.snapshot_upto(), None);
        let broken = |at: Lsn| {
            TransferError::Failed(format!(
                "the log in NATS is damaged at {at}: the batch that follows is missing"
            ))
        };
        let read = self.archive.shared.each(Wanted::many(1, None), &mut |batch| {
            // Below the snapshot there may be segments that are no longer needed, and gone.
            let joins = |last: Lsn| {
                batch.previous == last || (batch.frame.segment() != last.segment() && batch.frame <= upto)
            };
            let fed = match last {
                Some(last) if is_source && !joins(last) => Err(broken(last)),
                _ => each(Batch { frame: batch.frame, end: batch.ended, body: &batch.body }),
            };
            last = Some(batch.ended);
            fault = fed.err();
            if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let read = read.map_err(|trouble| TransferError::from(troubled(&trouble)))?;
        read.map_err(|damage| TransferError::Failed(damage.into()))?;
        match (fault, last.unwrap_or(START)) {
            (Some(fault), _) => Err(fault),
            (None, last) if is_source && last != extent.durable() => Err(broken(last)),
            (None, _) => Ok(()),
        }
    }
}

/// Streams that a log is taken to. Until that is done, the first of them says that they are no log yet.
pub(crate) struct NatsTarget {
    shards: Vec<NatsArchive>,
}

impl NatsTarget {
    /// Makes the streams, or goes on with those of an attempt that broke off.
    pub(crate) fn begin(place: &NatsPlace, shards: u8) -> Result<Self, TransferError> {
        let home = log_of(place, HOME)?;
        let provide = |link: &Link, log: &NatsLog, shard| {
            let whose = (&*place.cluster, shard == HOME);
            stream::receive(link, &log.address, &log.names, whose)
        };
        let archives = claimed(place, shards, |link, log, shard| {
            provide(link, log, shard)?;
            if shard == HOME {
                let stream = &log.names.log;
                let remove = format!(
                    "remove what is there, the streams whose names begin with {stream}_ first and {stream} last; or \
                     name another stream at the end of the URL"
                );
                check_begun(&format!("the stream {stream}"), log.shards()?, shards, remove)?;
            }
            Ok(())
        })?;
        // What was being taken here may have become a log before the claim.
        provide(&archives[0].shared.link, &home, HOME)?;
        for archive in &archives {
            let stored = lock(&archive.shared.snapshot).stored;
            archive.clear(stored);
        }
        Ok(Self { shards: archives })
    }

    /// Refuses if anybody but this attempt has put something into one of the streams since it was claimed.
    fn check(&self) -> Result<(), TransferError> {
        for archive in &self.shards {
            let Shared { link, names, tail, .. } = &*archive.shared;
            let own = lock(tail).sequence();
            let last = link.patiently(|link| match stream::info(link, &names.log, None)?.state.last_seq {
                last if last < own => Err(Trouble::Unsure("a leader lags behind".into())),
                last => Ok(last),
            });
            if last.map_err(|trouble| troubled(&trouble))? != own {
                return Err(overtaken());
            }
        }
        Ok(())
    }
}

fn overtaken() -> TransferError {
    TransferError::refused("another `driftq migrate` into this stream has begun since", "let that one end")
}

impl Target for NatsTarget {
    fn shard(&mut self, shard: ShardId) -> Result<Box<dyn Filling + '_>, TransferError> {
        let archive = &self.shards[usize::from(shard.0)];
        Ok(Box::new(StreamFilling { archive, reached: archive.durable() }))
    }

    /// Nothing is purged: who claims a stream looks for its end message by message.
    fn clear(&mut self) -> Result<(), TransferError> {
        self.check()?;
        for archive in self.shards.iter().rev() {
            let Shared { link, names, .. } = &*archive.shared;
            for stream in [&names.snapshots, &names.log] {
                link.patiently(|link| stream::remove(link, stream)).map_err(|trouble| troubled(&trouble))?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TransferError> {
        self.check()?;
        let Shared { link, names, .. } = &*self.shards[0].shared;
        Ok(link.patiently(|link| stream::finish(link, &names.log)).map_err(|trouble| troubled(&trouble))?)
    }
}

/// The streams of one shard, as they are filled.
struct StreamFilling<'a> {
    archive: &'a NatsArchive,
    /// An earlier attempt has come this far.
    reached: Lsn,
}

impl Filling for StreamFilling<'_> {
    fn has(&self, batch: &Batch<'_>) -> Option<bool> {
        batch.is_below(self.reached)
    }

    fn put(&mut self, batch: Batch<'_>, previous: Lsn) -> Result<(), TransferError> {
        let Batch { frame, end, body } = batch;
        self.archive.shared.put_batch((previous, frame, end), body).map_err(|error| match error {
            AppendError::Fenced(_) => overtaken(),
            error => TransferError::Failed(error.to_string()),
        })
    }

    fn put_snapshot(&mut self, snapshot: Option<&Snapshot>) -> Result<(), TransferError> {
        let Some(Snapshot { upto, bytes }) = snapshot else { return Ok(()) };
        match self.archive.put_snapshot(*upto, bytes, &mut |stored| stored == bytes) {
            Err(KeepError::Fenced(_)) => Err(overtaken()),
            // A newer one is there, of another log: that is found when it is read back.
            Err(KeepError::Refused(_)) => Ok(()),
            put => put.map_err(|error| failed(&error)),
        }
    }

    fn read_back(&mut self) -> Result<Box<dyn Reading + '_>, TransferError> {
        Ok(Box::new(StreamReading { archive: self.archive, is_source: false }))
    }
}
