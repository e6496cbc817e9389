//! Brings parcels from one shard to another, off the decide thread.
//!
//! A parcel is in the log of its sender before it comes here, and stays there until the sender is told that it has
//! arrived: whatever happens on the way, it is sent again, and the receiver knows it again.

use std::collections::BTreeMap;
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

/// Parcels that wait, by the shard that they are for. How many there may be is the sender's to say: it keeps each of them
/// until it has arrived, and takes no more than `outbox_bytes_max` of them.
type Waiting = BTreeMap<ShardId, Vec<Parcel>>;

/// The thread of the forwarder: as many parcels as are there, to all shards at once, until no sender of parcels is left.
pub(crate) fn forward_all(shared: &Shared, parcels: &Receiver<(ShardId, Parcel)>) {
    let mut waiting = Waiting::new();
    let mut is_stuck = false;
    while take(parcels, &mut waiting, is_stuck) {
        let asked: Vec<_> =
            waiting.iter().map(|(to, parcels)| (*to, together(parcels), ask(shared, *to, parcels))).collect();
        is_stuck = false;
        for (to, count, asked) in asked {
            match asked.and_then(|answer| heard(answer.blocking_recv())) {
                Ok(stored) => {
                    let Some(parcels) = waiting.get_mut(&to) else { continue };
                    let arrived = parcels.drain(..count).map(|parcel| parcel.number).zip(stored).collect();
                    shared.inbox.input(Input::Outbox(OutboxInput::Posted { stored: arrived }));
                }
                Err(failure) => {
                    tracing::debug!(%failure, to = to.0, "parcels wait for another shard");
                    is_stuck = true;
                }
            }
        }
        waiting.retain(|_, parcels| !parcels.is_empty());
    }
}

/// Takes what is there; waits if there is nothing to do. False if nothing more will come.
fn take(parcels: &Receiver<(ShardId, Parcel)>, waiting: &mut Waiting, is_stuck: bool) -> bool {
    if waiting.is_empty() {
        let Ok((to, parcel)) = parcels.recv() else { return false };
        waiting.entry(to).or_default().push(parcel);
    } else if is_stuck {
        match parcels.recv_timeout(PAUSE) {
            Ok((to, parcel)) => waiting.entry(to).or_default().push(parcel),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    loop {
        match parcels.try_recv() {
            Ok((to, parcel)) => waiting.entry(to).or_default().push(parcel),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// How many of the parcels go in one input.
fn together(parcels: &[Parcel]) -> usize {
    let mut bytes = 0;
    let fit = parcels.iter().take(TOGETHER_MAX).take_while(|parcel| {
        bytes += parcel.message.payload.bytes.len();
        bytes <= TOGETHER_BYTES_MAX
    });
    fit.count().max(1)
}

fn ask(shared: &Shared, to: ShardId, parcels: &[Parcel]) -> Result<oneshot::Receiver<Reply>, Failure> {
    let unknown = || Failure::Unavailable(format!("there is no shard {} any more", to.0));
    let receiver = shared.house.shard(to).ok_or_else(unknown)?;
    let parcels = parcels[..together(parcels)].to_vec();
    let settled = 0;
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
