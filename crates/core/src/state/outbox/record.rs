//! What is remembered of what goes between shards.

use alloc::collections::BTreeMap;

use crate::log::outbox::OutboxFact;
use crate::state::State;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::draft::NewMessage;
use crate::words::id::{SHARDS_MAX, ShardId};
use crate::words::outbox::Parcel;
use crate::words::receipt::Stored;

/// What a parcel costs beside its texts, as the limit counts it.
const PARCEL_BYTES: u64 = 256;
/// No parcel has a higher number: far enough below the end to count on from there.
pub(crate) const NUMBER_MAX: u64 = u64::MAX / 2;

/// What this shard has sent and what it has been sent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Outbox {
    /// The newest number that a parcel was given.
    pub(super) last: u64,
    /// Parcels that have not arrived yet, as far as is known.
    pub(super) waiting: BTreeMap<u64, Parcel>,
    /// What they cost, as the limit counts it.
    pub(super) bytes: u64,
    /// What has come from each of the other shards.
    pub(super) arrivals: BTreeMap<ShardId, Arrivals>,
}

/// What has come from one shard.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Arrivals {
    /// The sender knows where everything below lies.
    pub(super) below: u64,
    /// Where the messages lie that came under a number which is not below that.
    pub(super) places: BTreeMap<u64, Stored>,
}

/// What is known of a parcel of another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It has not come before.
    New,
    /// Its message lies there.
    Known(Stored),
    /// It has come, and its sender was told where its message lies.
    Forgotten,
}

/// What a message costs while it waits to be sent, as the limit counts it.
pub(crate) fn parcel_bytes(message: &NewMessage) -> u64 {
    let texts = message.lineage.as_deref().map_or(0, |lineage| {
        lineage.tenant.len() + lineage.run.len() + lineage.step.len() + lineage.parent.len()
    });
    PARCEL_BYTES + (texts + message.payload.bytes.len()) as u64
}

impl Outbox {
    /// The number of the next parcel but `skip`, if there is one. Each run begins above what a run of the same log with
    /// the number before could have given: a shard that goes on from an older copy of its log takes up none of the
    /// numbers that were given after the copy was made.
    pub(crate) fn number(&self, epoch: u64, skip: u64) -> Option<u64> {
        let before = self.last.max(epoch.checked_mul(1 << 32)?);
        before.checked_add(1)?.checked_add(skip).filter(|number| *number <= NUMBER_MAX)
    }

    /// Parcels that have not arrived yet, in the order of their numbers.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Parcel> {
        self.waiting.values()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Parcel> {
        self.waiting.get(&number)
    }

    /// What waits costs this much, as the limit counts it.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// No parcel below this number is kept any more, nor will be.
    pub(crate) fn first_kept(&self) -> u64 {
        self.waiting.first_key_value().map_or(self.last + 1, |(number, _)| *number)
    }

    /// What is known of a parcel of another shard.
    pub(crate) fn arrival(&self, from: ShardId, number: u64) -> Arrival {
        let Some(arrivals) = self.arrivals.get(&from) else { return Arrival::New };
        match arrivals.places.get(&number) {
            Some(stored) => Arrival::Known(*stored),
            None if number < arrivals.below => Arrival::Forgotten,
            None => Arrival::New,
        }
    }

    /// Whether a place is remembered of which the sender says that it need not be.
    pub(crate) fn remembers_below(&self, from: ShardId, below: u64) -> bool {
        let first = self.arrivals.get(&from).and_then(|arrivals| arrivals.places.first_key_value());
        first.is_some_and(|(number, _)| *number < below)
    }

    fn send(&mut self, parcel: Parcel) -> Result<(), Malformed> {
        if parcel.number <= self.last || parcel.number > NUMBER_MAX {
            return Err(CONTRADICTION);
        }
        self.last = parcel.number;
        self.bytes += parcel_bytes(&parcel.message);
        self.waiting.insert(parcel.number, parcel);
        Ok(())
    }

    fn post(&mut self, number: u64) -> Result<(), Malformed> {
        let parcel = self.waiting.remove(&number).ok_or(CONTRADICTION)?;
        self.bytes -= parcel_bytes(&parcel.message);
        Ok(())
    }

    fn receive(&mut self, from: ShardId, number: u64, stored: Stored) -> Result<(), Malformed> {
        if self.arrival(from, number) != Arrival::New {
            return Err(CONTRADICTION);
        }
        self.arrivals.entry(from).or_default().places.insert(number, stored);
        Ok(())
    }

    fn settle(&mut self, from: ShardId, below: u64) -> Result<(), Malformed> {
        let arrivals = self.arrivals.get_mut(&from).filter(|arrivals| below > arrivals.below);
        let arrivals = arrivals.ok_or(CONTRADICTION)?;
        arrivals.below = below;
        arrivals.places = arrivals.places.split_off(&below);
        Ok(())
    }
}

impl State {
    pub(crate) fn on_outbox(&mut self, fact: &OutboxFact<'_>) -> Result<(), Malformed> {
        match *fact {
            OutboxFact::Housed { shard } => self.on_housed(shard),
            OutboxFact::Sent { number, native, reserved, ref message } => {
                if !self.is_other(message.topic.shard()) {
                    return Err(CONTRADICTION);
                }
                self.outbox.send(Parcel::of(number, native, reserved, message))
            }
            OutboxFact::Posted { number, stored } => {
                self.outbox.post(number)?;
                self.commits.arrive(number, stored);
                Ok(())
            }
            OutboxFact::Received { from, number, stored } if self.is_other(from) => {
                self.outbox.receive(from, number, stored)
            }
            OutboxFact::Settled { from, below } if self.is_other(from) => self.outbox.settle(from, below),
            OutboxFact::Received { .. } | OutboxFact::Settled { .. } => Err(CONTRADICTION),
        }
    }

    /// Whether there can be such a shard, and it is not this one.
    pub(crate) fn is_other(&self, shard: ShardId) -> bool {
        shard != self.shard && shard.0 < SHARDS_MAX
    }

    /// The highest of the other shards that this one knows to be there: one that has sent it something, or for which it
    /// has something. It may not know of all.
    #[must_use]
    pub fn farthest(&self) -> Option<ShardId> {
        let sent = self.outbox.waiting().map(|parcel| parcel.message.topic.shard());
        self.outbox.arrivals.keys().copied().chain(sent).max()
    }

    /// The log says whose it is before it says anything of topics.
    fn on_housed(&mut self, shard: ShardId) -> Result<(), Malformed> {
        let is_new = self.topics.is_empty() && self.outbox == Outbox::default();
        if shard.0 == 0 || shard.0 >= SHARDS_MAX || self.shard.0 != 0 || !is_new {
            return Err(CONTRADICTION);
        }
        self.shard = shard;
        Ok(())
    }
}
