//! Copies messages out of segments that only a few of them keep.

use std::collections::VecDeque;

use driftq_core::{EffectInput, Input, NewBlob, Payload, Pinned, PinnedEffect};

use crate::inbox::Notice;
use crate::keeper_signal::KeeperSignal;
use crate::payload_store::{Extent, Lost};
use crate::shared::Shared;

/// Something that keeps a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Message(Pinned),
    Effect(PinnedEffect),
}

impl Kept {
    const fn extent(&self) -> Extent {
        match self {
            Self::Message(Pinned { position, length, check, .. }) => {
                Extent { position: *position, length: *length, check: *check }
            }
            Self::Effect(PinnedEffect { blob, .. }) => {
                Extent { position: blob.position, length: blob.length, check: blob.check }
            }
        }
    }

    /// What the shard is told once the bytes were read.
    fn copied(self, bytes: Vec<u8>) -> Input {
        match self {
            Self::Message(Pinned { topic, partition, offset, position: from, check, size, .. }) => {
                let payload = Payload { bytes, check, size };
                Input::Relocate { topic, partition, offset, from, payload }
            }
            Self::Effect(PinnedEffect { number, part, blob }) => {
                let copy = NewBlob { bytes, check: blob.check };
                Input::Effect(EffectInput::Relocate { number, part, from: blob.position, copy })
            }
        }
    }
}

/// Copies that may wait for the decide thread at once.
const WINDOW_MESSAGES_MAX: usize = 64;
/// Their bytes; one message may exceed it.
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// Reads the next few messages and has the shard store them again. The signal rings when it has, and then the next few
/// may follow: the keeper never waits here, because the log may be waiting for the keeper.
pub(crate) fn copy_window(shared: &Shared, signal: &KeeperSignal, pinned: &mut VecDeque<Kept>) {
    signal.begin_copies();
    let (mut messages, mut bytes) = (0, 0);
    while messages < WINDOW_MESSAGES_MAX && bytes < WINDOW_BYTES_MAX {
        let Some(kept) = pinned.pop_front() else { break };
        let payload = match shared.payload_store.read(kept.extent()) {
            Ok(payload) => payload,
            // It was moved or dropped since.
            Err(Lost::Gone) => continue,
            Err(lost @ (Lost::Unreadable | Lost::Damaged)) => {
                tracing::error!(?kept, %lost, "something could not be copied; its segment stays");
                continue;
            }
        };
        messages += 1;
        bytes += payload.len();
        shared.meters.relocated.one();
        shared.inbox.input(kept.copied(payload.into()));
    }
    shared.inbox.notify(Notice::CopiesEnd);
}
