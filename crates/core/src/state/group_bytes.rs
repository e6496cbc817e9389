//! What groups have done, as bytes, and back.

use alloc::vec::Vec;

use crate::state::gate::{Gate, put_gate, take_gate};
use crate::state::group::{Group, HISTORY_MAX, Pending, Progress};
use crate::state::partition::Partition;
use crate::state::snapshot::SEQUENCE_MAX;
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{GroupId, Time, Token};
use crate::words::letter::{AttemptDescription, put_attempts, take_attempts};

pub(super) fn put_moment(out: &mut Vec<u8>, moment: Option<Time>) {
    out.put_u8(u8::from(moment.is_some()));
    out.put_u64(moment.unwrap_or_default().0);
}

pub(super) fn take_moment(take: &mut Take<'_>) -> Result<Option<Time>, Malformed> {
    let given = take.u8()? != 0;
    let moment = Time(take.u64()?);
    Ok(given.then_some(moment))
}

pub(super) fn put_group(out: &mut Vec<u8>, group: &Group) {
    out.put_u32(group.id.0);
    out.put_text(&group.name);
    out.put_u64(group.created.0);
    put_moment(out, group.paused);
    for progress in &group.progress {
        put_progress(out, progress);
    }
    put_gate(out, &group.done, |_, ()| ());
}

pub(super) fn take_group(
    take: &mut Take<'_>,
    partitions: &[Partition],
    seed: u64,
    version: u32,
) -> Result<Group, Malformed> {
    let id = GroupId(take.u32()?);
    let name = take.shared()?;
    let created = Time(take.u64()?);
    let paused = if version > 1 { take_moment(take)? } else { None };
    let mut progress = Vec::new();
    for partition in partitions {
        progress.push(take_progress(take, partition.slots.next(), version)?);
    }
    let mut done = Gate::new(seed);
    take_gate(take, &mut done, |_| Ok(()))?;
    Ok(Group { id, name, created, paused, progress, done })
}

fn put_progress(out: &mut Vec<u8>, progress: &Progress) {
    out.put_u64(progress.floor);
    out.put_u64(progress.backlog.cast_unsigned());
    out.put_u64(progress.settled_count);
    let ranges = progress.settled.iter();
    out.put_length(ranges.len());
    for (start, end) in ranges {
        out.put_u64(start);
        out.put_u64(end);
    }
    out.put_length(progress.pending.len());
    for (&sequence, pending) in &progress.pending {
        out.put_u64(sequence);
        out.put_u32(pending.attempts);
        out.put_text(&pending.last_error);
        out.put_text(&pending.owner);
        out.put_u64(pending.retry_at.0);
        let (lent, waits) = (pending.lease.is_some(), pending.waits_for > 0);
        let flags = [lent, pending.cancelled, pending.nacked, pending.dead, pending.is_pushed, waits];
        out.put_u8(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
        out.put_u64(pending.token.epoch);
        out.put_u64(pending.token.n);
        out.put_u64(pending.lease.unwrap_or_default().0);
        out.put_u64(pending.leased_at.0);
        out.put_u64(pending.ended_at.0);
        out.put_u64(pending.lent_ms);
        let history: Vec<_> = pending.history.iter().map(AttemptDescription::borrowed).collect();
        put_attempts(out, &history);
        if pending.waits_for > 0 {
            out.put_u64(pending.waits_for);
        }
    }
}

/// Reads what a group has done with a partition whose next sequence number is `next`.
fn take_progress(take: &mut Take<'_>, next: u64, version: u32) -> Result<Progress, Malformed> {
    let mut progress = Progress {
        floor: take.u64()?,
        backlog: take.u64()?.cast_signed(),
        settled_count: take.u64()?,
        ..Progress::default()
    };
    let counted = progress.backlog.unsigned_abs() <= SEQUENCE_MAX && progress.settled_count <= SEQUENCE_MAX;
    if !counted || progress.floor > next {
        return Err(take.malformed());
    }
    for _ in 0..take.count(16)? {
        let (start, end) = (take.u64()?, take.u64()?);
        if start <= progress.floor || end > next || !progress.settled.push_back(start, end) {
            return Err(take.malformed());
        }
    }
    for _ in 0..take.count(29)? {
        let sequence = take.u64()?;
        let rises = progress.pending.last_key_value().is_none_or(|(last, _)| *last < sequence);
        if !rises || sequence >= next || progress.is_settled(sequence) {
            return Err(take.malformed());
        }
        let pending = take_pending(take, version)?;
        progress.leased += u32::from(pending.lease.is_some());
        progress.pushed += u32::from(pending.lease.is_some() && pending.is_pushed);
        progress.pending.insert(sequence, pending);
    }
    Ok(progress)
}

fn take_pending(take: &mut Take<'_>, version: u32) -> Result<Pending, Malformed> {
    let mut pending = Pending {
        attempts: take.u32()?,
        last_error: take.shared()?,
        owner: take.shared()?,
        retry_at: Time(take.u64()?),
        ..Pending::default()
    };
    let given = take.u8()?;
    if version > 1 || given & 1 != 0 {
        pending.token = Token { epoch: take.u64()?, n: take.u64()? };
        let expires = Time(take.u64()?);
        pending.lease = (given & 1 != 0).then_some(expires);
    }
    pending.is_pushed = version > 3 && given & 16 != 0;
    if version > 1 {
        pending.cancelled = given & 2 != 0;
        pending.leased_at = Time(take.u64()?);
        pending.ended_at = Time(take.u64()?);
        if version > 3 {
            pending.lent_ms = take.u64()?;
            pending.nacked = given & 4 != 0;
            pending.dead = given & 8 != 0;
        }
        let history = take_attempts(take)?;
        if history.len() > HISTORY_MAX {
            return Err(take.malformed());
        }
        pending.history = history.iter().map(AttemptDescription::owned).collect();
    }
    if version > 3 && given & 32 != 0 {
        pending.waits_for = take.u64()?;
    }
    Ok(pending)
}
