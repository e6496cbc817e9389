//! Carries all shards of a log from one place to another, and compares.

use driftq_core::ShardId;
use driftq_wal::{FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES};

use super::{Batch, Filling, Reading, Source, Target, TransferError};
use crate::log::{Lsn, Snapshot};

/// What was taken: every shard, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Each shard.
    pub shards: Vec<MovedShard>,
}

/// What was taken of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedShard {
    /// How many batches.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them were there already, from an attempt that broke off.
    pub resumed: u64,
    /// Where its log ends.
    pub end: String,
    /// BLAKE3 over every batch with its position, and the snapshot; the same on both sides.
    pub digest: String,
}

impl Moved {
    /// How many batches.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.shards.iter().map(|shard| shard.batches).sum()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// How many of them were there already.
    #[must_use]
    pub fn resumed(&self) -> u64 {
        self.shards.iter().map(|shard| shard.resumed).sum()
    }

    /// Where the log ends; if there are several shards, where that of each does, with commas in between.
    #[must_use]
    pub fn end(&self) -> String {
        self.shards.iter().map(|shard| &*shard.end).collect::<Vec<_>>().join(", ")
    }

    /// The digest of the log; if there are several shards, BLAKE3 over the digests of all of them, as they are written.
    #[must_use]
    pub fn digest(&self) -> String {
        match &self.shards[..] {
            [only] => only.digest.clone(),
            shards => {
                let digests: String = shards.iter().map(|shard| &*shard.digest).collect();
                blake3::hash(digests.as_bytes()).to_hex().to_string()
            }
        }
    }
}

pub(super) fn carry(source: &mut dyn Source, mut target: Box<dyn Target>) -> Result<Moved, TransferError> {
    let mut shards = Vec::new();
    for shard in (0..source.shards()).map(ShardId) {
        let carried = carry_shard(&mut *source.shard(shard)?, &mut *target.shard(shard)?)?;
        let Some(moved) = carried else {
            target.clear()?;
            return Err(TransferError::refused(
                "what was read back is not what the log holds: it has changed since an earlier attempt, or was damaged \
                 on the way. What was there has been thrown away",
                "run the same command again",
            ));
        };
        shards.push(moved);
    }
    source.check()?;
    target.finish()?;
    Ok(Moved { shards })
}

/// Carries one shard; `None` if what is there then is not what the source has.
fn carry_shard(
    source: &mut dyn Reading,
    target: &mut dyn Filling,
) -> Result<Option<MovedShard>, TransferError> {
    let snapshot = source.snapshot()?;
    let upto = snapshot.as_ref().map(|snapshot| snapshot.upto);
    let (mut sum, mut resumed, mut previous) = (Sum::default(), 0, Lsn::new(1, SEGMENT_HEADER_BYTES));
    let mut is_other = false;
    source.each(&mut |batch| {
        sum.add(batch);
        match target.has(&batch) {
            Some(true) => resumed += 1,
            // A replay begins at the snapshot's position, which may be the start of a segment.
            Some(false) if !is_other => {
                target.put(batch, if upto == Some(batch.frame) { batch.frame } else { previous })?;
            }
            _ => is_other = true,
        }
        previous = batch.end;
        Ok(())
    })?;
    if is_other {
        return Ok(None);
    }
    if let Some(upto) = upto.filter(|upto| *upto > previous) {
        // The log ends with a segment that holds nothing yet. An empty batch says where, in a place that knows no
        // segments but by what is in them.
        let end = Lsn::new(upto.segment(), upto.offset() + FRAME_HEADER_BYTES);
        let batch = Batch { frame: upto, end, body: &[] };
        sum.add(batch);
        match target.has(&batch) {
            Some(true) => {}
            Some(false) => target.put(batch, upto)?,
            None => return Ok(None),
        }
        previous = end;
    }
    target.put_snapshot(snapshot.as_ref())?;
    sum.close(snapshot.as_ref());
    let there = Sum::of(&mut *target.read_back()?)?;
    let (digest, end) = (sum.digest(), previous.to_string());
    let is_same = there.digest() == digest;
    Ok(is_same.then_some(MovedShard { batches: sum.batches, bytes: sum.bytes, resumed, end, digest }))
}

/// What a log amounts to.
#[derive(Default)]
struct Sum {
    hasher: blake3::Hasher,
    batches: u64,
    bytes: u64,
}

impl Sum {
    fn of(log: &mut dyn Reading) -> Result<Self, TransferError> {
        let (mut sum, snapshot) = (Self::default(), log.snapshot()?);
        log.each(&mut |batch| {
            sum.add(batch);
            Ok(())
        })?;
        sum.close(snapshot.as_ref());
        Ok(sum)
    }

    fn add(&mut self, batch: Batch<'_>) {
        self.batches += 1;
        self.bytes += batch.body.len() as u64;
        for number in [batch.frame.0, batch.end.0, batch.body.len() as u64] {
            self.hasher.update(&number.to_le_bytes());
        }
        self.hasher.update(batch.body);
    }

    fn close(&mut self, snapshot: Option<&Snapshot>) {
        // No batch begins at zero.
        let (upto, bytes) = snapshot.map_or((0, &[][..]), |snapshot| (snapshot.upto.0, &snapshot.bytes));
        for number in [0, upto, bytes.len() as u64] {
            self.hasher.update(&number.to_le_bytes());
        }
        self.hasher.update(bytes);
    }

    fn digest(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}
