//! Brings parcels from one shard to another, off the decide thread.
//!
//! A parcel is in the log of its sender before it comes here, and stays there until the sender is told that it has
//! arrived: whatever happens on the way, it is sent again, and the receiver knows it again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use driftq_core::{Answer, Input, OutboxInput, Parcel, ShardId, Stored};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::inbox::{Reply, Request};
use crate::shared::Shared;

/// Parcels that go to a shard in one input.
const TOGETHER_MAX: usize = 1_000;
/// Bytes of messages that go to a shard in one input; more only if they are one message.
const TOGETHER_BYTES_MAX: usize = 1 << 20;
/// How soon a shard that could not take its parcels is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// A parcel to be brought to a shard.
pub(crate) struct Posting {
    pub(crate) to: ShardId,
    pub(crate) parcel: Parcel,
    /// The sender keeps nothing below this number any more, and that is durable.
    pub(crate) settled: u64,
}

/// What waits. How many parcels there may be is the sender's to say: it keeps each of them until it has arrived, and takes
/// no more than `outbox_bytes_max` of them.
#[derive(Default)]
struct Waiting {
    /// By the shard that they are for.
    parcels: BTreeMap<ShardId, VecDeque<Parcel>>,
    settled: u64,
}

impl Waiting {
    fn add(&mut self, Posting { to, parcel, settled }: Posting) {
        self.parcels.entry(to).or_default().push_back(parcel);
        self.settled = self.settled.max(settled);
    }
}

/// The thread of the forwarder: as many parcels as are there, to all shards at once, until no sender of parcels is left.
pub(crate) fn forward_all(shared: &Shared, postings: &Receiver<Posting>) {
    let mut waiting = Waiting::default();
    let mut is_stuck = false;
    while take(postings, &mut waiting, is_stuck) {
        let ask = |(to, parcels): (&ShardId, &VecDeque<Parcel>)| {
            let parcels = together(parcels);
            (*to, parcels.len(), ask(shared, *to, waiting.settled, parcels))
        };
        // All of them before the first answer is waited for.
        let asked: Vec<_> = waiting.parcels.iter().map(ask).collect();
        is_stuck = false;
        for (to, count, asked) in asked {
            match asked.and_then(|answer| heard(answer.blocking_recv())) {
                Ok(stored) => {
                    let Some(parcels) = waiting.parcels.get_mut(&to) else { continue };
                    let arrived = parcels.drain(..count).map(|parcel| parcel.number).zip(stored).collect();
                    shared.inbox.input(Input::Outbox(OutboxInput::Posted { stored: arrived }));
                }
                Err(failure) => {
                    tracing::debug!(%failure, to = to.0, "parcels wait for another shard");
                    is_stuck = true;
                }
            }
        }
        waiting.parcels.retain(|_, parcels| !parcels.is_empty());
    }
}

/// Takes what is there; waits if there is nothing to do. False if nothing more will come.
fn take(postings: &Receiver<Posting>, waiting: &mut Waiting, is_stuck: bool) -> bool {
    if waiting.parcels.is_empty() {
        let Ok(posting) = postings.recv() else { return false };
        waiting.add(posting);
    } else if is_stuck {
        match postings.recv_timeout(PAUSE) {
            Ok(posting) => waiting.add(posting),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    loop {
        match postings.try_recv() {
            Ok(posting) => waiting.add(posting),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// The first of the parcels, as many as go in one input.
fn together(parcels: &VecDeque<Parcel>) -> Vec<Parcel> {
    let mut bytes = 0;
    let fit = parcels.iter().take(TOGETHER_MAX).take_while(|parcel| {
        let is_first = bytes == 0;
        bytes += parcel.message.payload.bytes.len();
        is_first || bytes <= TOGETHER_BYTES_MAX
    });
    fit.cloned().collect()
}

fn ask(
    shared: &Shared,
    to: ShardId,
    settled: u64,
    parcels: Vec<Parcel>,
) -> Result<oneshot::Receiver<Reply>, Failure> {
    let unknown = || Failure::Unavailable(format!("there is no shard {} any more", to.0));
    let receiver = shared.house.shard(to).ok_or_else(unknown)?;
    let bytes = parcels.iter().map(|parcel| parcel.message.payload.bytes.len()).sum();
    let (ticket, (reply, answer)) = (receiver.ticket(), oneshot::channel());
    let input = Input::Outbox(OutboxInput::Receive { ticket, from: shared.id, settled, parcels });
    receiver.inbox.ask(Request { ticket, input, reply, bytes, writes: true, stream: None })?;
    Ok(answer)
}

fn heard(reply: Result<Reply, oneshot::error::RecvError>) -> Result<Vec<Stored>, Failure> {
    match reply {
        Ok(Ok(Answer::Received(stored))) => Ok(stored),
        Ok(Ok(Answer::Rejected(reject))) => Err(Failure::Reject(reject)),
        Ok(Ok(other)) => Err(crate::broker::unexpected(&other)),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::Unavailable(crate::broker::INTERRUPTED.into())),
    }
}
