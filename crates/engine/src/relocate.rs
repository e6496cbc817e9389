//! Copies messages out of segments that only a few of them keep.

use std::collections::VecDeque;

use driftq_core::{Input, Payload, Pinned};

use crate::bell::Bell;
use crate::depot::{Lost, Place};
use crate::inbox::Notice;
use crate::shared::Shared;

/// Copies that may wait for the decide thread at once.
const WINDOW_MESSAGES_MAX: usize = 64;
/// Their bytes; one message may exceed it.
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// Reads the next few messages and has the shard store them anew. The bell rings when it has, and then the next
/// few may follow: the keeper never waits here, because the log may be waiting for the keeper.
pub(crate) fn copy_window(shared: &Shared, bell: &Bell, pinned: &mut VecDeque<Pinned>) {
    bell.begin_copies();
    let (mut messages, mut bytes) = (0, 0);
    while messages < WINDOW_MESSAGES_MAX && bytes < WINDOW_BYTES_MAX {
        let Some(message) = pinned.pop_front() else { break };
        let place = Place { position: message.position, length: message.length, check: message.check };
        let payload = match shared.depot.read(place) {
            Ok(payload) => payload,
            // It was moved or dropped since.
            Err(Lost::Gone) => continue,
            Err(lost @ (Lost::Unreadable | Lost::Damaged)) => {
                tracing::error!(offset = message.offset, %lost, "a message could not be copied; its segment stays");
                continue;
            }
        };
        messages += 1;
        bytes += payload.len();
        shared.meters.relocated.one();
        shared.inbox.input(Input::Relocate {
            topic: message.topic,
            partition: message.partition,
            offset: message.offset,
            from: message.position,
            payload: Payload { bytes: payload.into(), check: message.check, size: message.size },
        });
    }
    shared.inbox.notify(Notice::CopiesEnd);
}
